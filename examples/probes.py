"""Three nodes with three kinds of models that teach each other through probes.

A node with prototypes, one with a decision tree and one with naive Bayes watch machines of the same
kind with sensors that disagree. Their models have no form in common that could be averaged. So each
shares counts, means and spreads of its classes, all answer the same simulated readings, and a copy
of each learns what the others say. A pool of both decides: it is careful with states that no
reading of its own can confirm. Every node has a state that it has never seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from river import naive_bayes, tree

import streamlvq
from streamlvq.fusion import (
    ClassMoments,
    ProbeAnswers,
    ProbeSet,
    learn_from_probes,
    pool_taught,
)

STATES = ("idle", "running", "overheated", "worn bearing")
SENSORS = ("temperature", "vibration", "current", "pressure")  # degrees, mm/s, A, bar
TYPICAL = np.array([[40, 1.0, 2, 5.0], [55, 3.0, 9, 6.0], [75, 3.5, 10, 6.3], [60, 6.5, 10, 5.9]])
NOISE = np.array([4, 0.6, 1.2, 0.3])
MODELS: dict[str, Any] = {
    "north": streamlvq.LGMLVQ,
    "south": tree.HoeffdingTreeClassifier,
    "west": naive_bayes.GaussianNB,
}
OFFSETS = {
    "north": np.array([0.0, 0.0, 0.0, 0.0]),
    "south": np.array([14.0, -1.5, 2.0, 0.8]),
    "west": np.array([-12.0, 2.0, -3.0, 0.0]),
}
NEVER_SEEN = {"north": "overheated", "south": "worn bearing", "west": "running"}
Sample = tuple[dict[str, float], str]


def samples(node: str, count: int, seed: int, without: str | None = None) -> list[Sample]:
    """Simulate labelled readings of all states, or of all but one."""
    random = np.random.default_rng(seed)
    states = random.choice([k for k, state in enumerate(STATES) if state != without], count)
    rows = TYPICAL[states] + NOISE * random.normal(size=(count, len(SENSORS))) + OFFSETS[node]
    return [
        (dict(zip(SENSORS, row, strict=True)), STATES[k])
        for row, k in zip(rows.tolist(), states, strict=True)
    ]


def accuracy(model: Any, node: str) -> float:
    """Return the accuracy on new readings of a node."""
    tests = samples(node, 1000, seed=99)
    return sum(model.predict_one(x) == y for x, y in tests) / len(tests)


def main() -> None:
    models, statistics = {}, []
    for seed, node in enumerate(MODELS):
        models[node], moments = MODELS[node](), ClassMoments(node)
        for x, y in samples(node, 400, seed, NEVER_SEEN[node]):
            models[node].learn_one(x, y)
            moments.learn_one(x, y)
        statistics.append(moments)

    probes = ProbeSet.of(statistics)
    sizes = [len(moments.to_bytes()) for moments in statistics]
    print(f"{probes}; each node sent {max(sizes)} bytes of statistics")
    answers = [ProbeAnswers.of(model, node, probes) for node, model in models.items()]
    print(f"and then {max(len(each.to_bytes()) for each in answers)} bytes of answers\n")

    print("accuracy  alone  taught  pooled  by the others")
    for seed, (node, model) in enumerate(models.items()):
        taught = learn_from_probes(model, node, probes, answers)
        later = samples(node, 100, 50 + seed, NEVER_SEEN[node])  # that neither has learnt
        pool = pool_taught(model, taught, later, node=node)
        scores = "   ".join(f"{accuracy(each, node):.3f}" for each in (model, taught, pool))
        print(f"{node:<8} {scores}  what {NEVER_SEEN[node]} is")


if __name__ == "__main__":
    main()
