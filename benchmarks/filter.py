"""Windows over time: none, a fixed one, the adaptive one, and the adaptive one two readings late.

python benchmarks/filter.py                              # about two minutes
python benchmarks/filter.py --models LGMLVQ --late 50    # labels come 50 readings late

Each stream is in true time order and one device. Every model predicts each reading once, before it
learns it; all windows work on those probabilities. Rows 200 and on count. The constants of the
filter were chosen on UCI HAR, elec2 and uma_enose (and on gas_drift, tep, keystroke, ImageSegments
and RandomRBFDrift, with labels at once, 50 late, and one in ten), not on the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

import streamlvq
from common import Figure, Table, figure_table, our_model, progress, show
from datasets import IN_TIME_ORDER, Stream, stream
from progressive import CLIP
from streamlvq import metrics

MODELS = ("LVQCommittee", "LGMLVQ")
CHOSEN_ON = ("UCI HAR", "elec2", "uma_enose")
SCORED_FROM = 200
NO_WORSE = 0.005  # accuracy and log loss may lose this much to no window
WINDOWS: dict[str, dict[str, Any]] = {
    "none": {"window": 1},
    "window 5": {"window": 5},
    "adaptive": {},
    "adaptive, delay 2": {"delay": 2},
}
Probabilities = dict[Any, float]
Scores = tuple[float, float, float]  # accuracy, log loss, area under the accuracy-reject curve


class Recorded(base.Classifier):  # type: ignore[misc]
    """Recorded answers of a model, so that all windows can share them."""

    def __init__(self, answers: list[Probabilities]) -> None:
        self.answers = answers

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any) -> None: ...

    def predict_proba_one(self, x: dict[str, int]) -> Probabilities:
        return self.answers[x["row"]]


def record(model: str, data: Stream, late: int) -> list[Probabilities]:
    """Return what a model says of each reading before it learns it, `late` readings later."""
    classifier, answers, waiting = our_model(model)(), [], []
    for x, y in progress(data.samples(), f"{model}, {data.name}", len(data)):
        answers.append(classifier.predict_proba_one(x))
        waiting.append((x, y))
        if len(waiting) > late:
            classifier.learn_one(*waiting.pop(0))
    return answers


def integrate(answers: list[Probabilities], y: list[Any], late: int, **window: Any) -> Scores:
    """Return the scores of an integrator around recorded answers."""
    model, row = streamlvq.TimeIntegrator(Recorded(answers), **window), 0
    decided: list[Probabilities] = []
    evidence = []
    for row in range(len(y)):
        p = model.predict_proba_one({"row": row})
        if row >= model.delay:
            decided.append(p)
        if late:
            evidence.append(model.last_evidence())
            model.observe_one({"row": row})
            if row >= late:
                model.record_label(evidence[row - late], y[row - late])
        else:
            model.learn_one({"row": row}, y[row])
    decided += [answer.probabilities for answer in model.finish()]
    return scores(decided[SCORED_FROM:], y[SCORED_FROM:])


def scores(decided: list[Probabilities], y: list[Any]) -> Scores:
    labels = [max(p, key=p.__getitem__, default=None) for p in decided]
    right = np.array([label == truth for label, truth in zip(labels, y, strict=True)])
    certainty = np.array([max(p.values(), default=0.0) for p in decided])
    # A class that nobody could know yet is an error, but has no probability to take the loss of.
    known = [p[truth] for p, truth in zip(decided, y, strict=True) if truth in p]
    loss: NDArray[np.float64] = -np.log(np.maximum(known, CLIP))
    curve = metrics.AccuracyRejectCurve()
    curve.update_many(right, np.ones_like(right), certainty)
    return float(right.mean()), float(loss.mean()), curve.area


def compare(model: str, names: list[str], late: int) -> Iterator[Table]:
    columns = ["stream", "window", "accuracy", "log loss", "ARC area", "constants"]
    table, figures = Table(f"{model}, labels {late or 'not'} late", columns), []
    for name in names:
        data = stream(name)
        answers = record(model, data, late)
        found = {}
        for title, window in WINDOWS.items():
            found[title] = integrate(answers, data.y, late, **window)
            chosen = "chosen here" if name in CHOSEN_ON else ""
            table.add(name, title, *(f"{value:.4f}" for value in found[title]), chosen)
        (accuracy, loss, _), (before, loss_before, _) = found["adaptive"], found["none"]
        figures += [
            Figure(f"{name}: accuracy", accuracy, before - NO_WORSE, at_least=True),
            Figure(f"{name}: log loss", loss, loss_before + NO_WORSE),
        ]
    yield table
    yield figure_table(figures, f"{model}: adaptive against none")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--streams", nargs="+", default=list(IN_TIME_ORDER))
    parser.add_argument("--late", type=int, default=0, help="readings until a label comes")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    for model in options.models:
        show(compare(model, options.streams, options.late), options.markdown)


if __name__ == "__main__":
    main()
