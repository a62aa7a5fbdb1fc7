"""Figures of sound learning: sensors that do not move, on/off sensors, prototypes among their data.

python benchmarks/sound.py                             # everything, about ten minutes
python benchmarks/sound.py --parts still --seeds 2     # a part, quickly
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Figure, figure_table, our_model, progress, show

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RELEVANCE_MODELS = [
    "GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ", "MRSLVQ", "LMRSLVQ", "PairwiseLVQ",
]  # fmt: skip


def hits(model: Any, X: Floats, y: Ints) -> NDArray[np.bool_]:
    """Return which readings were predicted right before they were learnt."""
    right = np.zeros(len(y), np.bool_)
    for k, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row))
        right[k] = model.predict_one(x) == label
        model.learn_one(x, label)
    return right


# --- sensors that do not move ---------------------------------------------------------------------

STILL_SIZES = (200, 2000, 20_000)
MOVES_AT, SCORED_AFTER_MOVE = 2000, 1000
CONSTANT = 2  # column of the sensor that does not move


def still_stream(n: int, seed: int, moves_at: int | None = None) -> tuple[Floats, Ints]:
    """Return a signal, a noise and a constant sensor, which may start to make noise."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    X = np.column_stack([(2 * y - 1) * 1.55, np.zeros(n), np.full(n, 20.0)])
    X[:, :CONSTANT] += random.normal(size=(n, CONSTANT))
    if moves_at is not None:
        X[moves_at:, CONSTANT] += 3.0 * random.normal(size=n - moves_at)
    return X, y


def constant_relevance(name: str, seeds: Sequence[int], sizes: Sequence[int]) -> float:
    """Return the largest relevance of the constant sensor at any of these sizes."""
    found = []
    for seed in seeds:
        model: Any = our_model(name)()
        X, y = still_stream(max(sizes), seed)
        for start, end in zip([0, *sizes], sizes, strict=False):
            model.learn_array(X[start:end], y[start:end])
            found.append(model.relevances()[CONSTANT])
    return max(found)


def loss_by_move(name: str, seeds: Sequence[int]) -> float:
    """Return the mean accuracy lost after the constant sensor moves, against never having it."""
    lost = []
    for seed in seeds:
        X, y = still_stream(MOVES_AT + SCORED_AFTER_MOVE, seed, MOVES_AT)
        without = hits(our_model(name)(), X[:, :CONSTANT], y)[MOVES_AT:]
        lost.append(without.mean() - hits(our_model(name)(), X, y)[MOVES_AT:].mean())
    return float(np.mean(lost))


def still(seeds: Sequence[int], quick: bool) -> Iterator[Figure]:
    sizes = STILL_SIZES[:-1] if quick else STILL_SIZES
    for name in progress(RELEVANCE_MODELS, "relevance of a constant sensor"):
        yield Figure(f"{name}: relevance", constant_relevance(name, seeds[:3], sizes), 0.01)
    for name in progress(["GLVQ", *RELEVANCE_MODELS, "LVQCommittee"], "it moves"):
        yield Figure(f"{name}: accuracy lost when it moves", loss_by_move(name, seeds), 0.01)


# --- on/off sensors -------------------------------------------------------------------------------

BINARY_MODELS = ["GLVQ", "GMLVQ", "LGMLVQ", "PairwiseLVQ", "LVQCommittee"]
BINARY_READINGS, BINARY_SCORED_FROM = 2000, 500


def binary_stream(sensors: int, seed: int) -> tuple[Floats, Ints]:
    """Return on/off sensors, the first of which is the label but for 2 % of the readings."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 2, (BINARY_READINGS, sensors)).astype(float)
    return X, X[:, 0].astype(np.int64) ^ (random.random(BINARY_READINGS) < 0.02)


def loss_on_switches(name: str, sensors: int, seed: int) -> float:
    """Return how much less accurate a model is than the rule itself, on the same readings."""
    X, y = binary_stream(sensors, seed)
    rule = X[:, 0] == y
    scored = slice(BINARY_SCORED_FROM, None)
    return float(rule[scored].mean() - hits(our_model(name)(), X, y)[scored].mean())


def binary(seeds: Sequence[int], quick: bool) -> Iterator[Figure]:
    for name in progress(BINARY_MODELS, "on/off sensors"):
        for sensors in (1, 2, 4, 8) if quick else range(1, 9):
            worst = max(loss_on_switches(name, sensors, seed) for seed in seeds)
            yield Figure(f"{name}: largest loss, {sensors} sensors", worst, 0.01)


# --- main -----------------------------------------------------------------------------------------

Part = Callable[[Sequence[int], bool], Iterator[Figure]]
PARTS: dict[str, tuple[str, Part]] = {
    "still": ("Sensors that do not move", still),
    "binary": ("On/off sensors", binary),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=20, help="runs of each figure")
    parser.add_argument("--quick", action="store_true", help="short streams and few sets")
    options = parser.parse_args()
    for name in options.parts:
        title, part = PARTS[name]
        show([figure_table(part(range(options.seeds), options.quick), title)])


if __name__ == "__main__":
    main()
