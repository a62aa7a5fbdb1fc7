"""Rejecting classes that were never learnt: how well, at what rate of false alarms, at what cost.

python benchmarks/novelty.py                              # everything, about ten minutes
python benchmarks/novelty.py --parts rates cost --models LGMLVQ

One class is left out of a stream of labelled readings, which a model learns in one pass. Then
readings of the known classes and of the one left out are scored; AUROC is the chance that a reading
of the unknown class looks newer than one of the known ones. The way to combine the scores was
chosen on segment and letter; the other sets were only measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamlvq
from common import Figure, Table, best_us, figure_table, progress, show
from datasets import STREAMS, Stream, gaussians, stream, table_set

Floats = NDArray[np.float64]
Part = Callable[[list[str]], Iterator[Table]]

MODELS: dict[str, Callable[[], Any]] = {
    "LGMLVQ": streamlvq.LGMLVQ,
    "GMLVQ": streamlvq.GMLVQ,
    "GLVQ": streamlvq.GLVQ,
    "LVQCommittee": streamlvq.LVQCommittee,
    "PairwiseLVQ": streamlvq.PairwiseLVQ,
}
MAIN = "LGMLVQ"  # the figures are about it

# --- one class left out ---------------------------------------------------------------------------

LEARNT, SCORED = 2000, 1000
LETTERS = 10
GAIN = 0.05  # of the mean area over that of RelSim


def shuffled(name: str) -> Stream:
    """Return a set in random order; Letter has only its first ten classes."""
    found = stream("gas_drift") if name == "gas_drift" else table_set(name)
    rows = np.random.default_rng(0).permutation(len(found))
    if name == "letter":
        classes = sorted(set(found.y))[:LETTERS]
        rows = rows[[found.y[k] in classes for k in rows]]
    return picked(found, rows)


def in_order(name: str) -> Stream:
    return stream({"uci_har": "UCI HAR"}.get(name, name))


def picked(found: Stream, rows: NDArray[np.intp]) -> Stream:
    X = np.ascontiguousarray(found.X[rows])
    return Stream(found.name, X, [found.y[k] for k in rows], found.features)


SETS = ("segment", "optdigits", "letter", "uci_har", "gas_drift")
TIMED_SETS = ("uci_har", "gas_drift")


def rejecting(model: Any, **options: Any) -> Any:
    """Wrap a model so that nothing but novelty rejects."""
    relsim = getattr(model, "has_relsim", False)
    kind = streamlvq.RelSimRejector if relsim else streamlvq.ProbabilityRejector
    return kind(model, threshold=0.0, **options)


def scores(rejector: Any, found: Stream) -> Floats:
    """Return novelty and 1 - certainty of each reading, and whether it would be rejected as new."""
    decisions = [rejector.decide_one(x) for x, _ in found.samples()]
    return np.array(
        [
            [each.novelty for each in decisions],
            [1 - each.certainty for each in decisions],
            [each.outlier_by == "novelty" for each in decisions],
        ],
        np.float64,
    )


def area(known: Floats, unknown: Floats) -> float:
    """Return the area under the ROC curve; ties count half."""
    order = np.sort(known)
    below, upto = (np.searchsorted(order, unknown, side) for side in ("left", "right"))
    return float(np.mean(below + upto) / (2 * len(known)))


def left_out(make: Callable[[], Any], found: Stream, label: Any) -> list[float]:
    """Return both areas and the shares rejected as new, of known readings and of unknown ones."""
    known = np.array([y != label for y in found.y])
    rows, others = np.flatnonzero(known), np.flatnonzero(~known)
    count = min(LEARNT, len(rows) // 2)
    rejector = rejecting(make())
    for x, y in picked(found, rows[:count]).samples():
        rejector.learn_one(x, y)
    old = scores(rejector, picked(found, rows[count : count + SCORED]))
    new = scores(rejector, picked(found, others[:SCORED]))
    areas = [area(old[k], new[k]) for k in (0, 1)]
    return [*areas, float(old[2].mean()), float(new[2].mean())]


def areas_of(make: Callable[[], Any], found: Stream) -> Floats:
    classes = list(dict.fromkeys(found.y))
    return np.array([left_out(make, found, label) for label in classes]).mean(axis=0)


def unseen(names: dict[str, Callable[[str], Stream]], models: list[str]) -> Iterator[Table]:
    columns = ["data", "model", "certainty", "novelty", "known rejected", "unknown rejected"]
    found, table = [], Table("Area under the ROC curve, one class left out, mean", columns)
    for name, load in names.items():
        data = load(name.removesuffix(", in time"))
        for model in progress(models, name):
            novelty, certainty, known, unknown = areas_of(MODELS[model], data)
            found.append((model, certainty, novelty))
            cells = (certainty, novelty, known, unknown)
            table.add(name, model, *(f"{value:.3f}" for value in cells))
    for model in models:
        mean = np.mean([row[1:] for row in found if row[0] == model], axis=0)
        table.add("mean", model, *(f"{value:.3f}" for value in mean), "", "")
    yield table
    if set(names) == set(SETS) and MAIN in models:
        mean = np.mean([row[1:] for row in found if row[0] == MAIN], axis=0)
        gain = float(mean[1] - mean[0])
        yield figure_table([Figure(f"{MAIN}: gain over RelSim", gain, GAIN, at_least=True)])


def unseen_classes(models: list[str]) -> Iterator[Table]:
    yield from unseen(dict.fromkeys(SETS, shuffled), models)


def unseen_in_time(models: list[str]) -> Iterator[Table]:
    yield from unseen({f"{name}, in time": in_order for name in TIMED_SETS}, models)


# --- false alarms --------------------------------------------------------------------------------

RATES = (0.01, 0.05)
WARM_UP, ROWS = 500, 5000
TOLERANCE = 0.5  # of the rate, both ways
MEAN_TOLERANCE = 0.1  # of the mean over the streams
LEFT_OUT_STREAMS = ("UCI HAR",)  # 549 features: minutes


def alarms(make: Callable[[], Any], found: Stream) -> list[float]:
    """Return the share of readings of known classes whose novelty is 1 - rate, for each rate."""
    rejector, novelties, known = rejecting(make()), [], set()
    for k, (x, y) in enumerate(found.samples()):
        decision = rejector.decide_one(x)
        if k >= WARM_UP and y in known:
            novelties.append(decision.novelty)
        rejector.learn_one(x, y)
        known.add(y)
    return [float(np.mean(np.array(novelties) >= 1 - rate)) for rate in RATES]


def rates(models: list[str]) -> Iterator[Table]:
    make = MODELS[models[0]]
    names = [name for name in STREAMS if name not in LEFT_OUT_STREAMS]
    table = Table(
        f"{models[0]}: known readings taken for new after {WARM_UP}, in one pass, in time order",
        ["stream", *(f"asked {rate}" for rate in RATES)],
    )
    found = []
    for name in progress(names, "streams"):
        found.append(alarms(make, stream(name).head(ROWS)))
        table.add(name, *(f"{share:.4f}" for share in found[-1]))
    yield table
    means, worst = np.mean(found, axis=0), np.abs(np.array(found) / RATES - 1).max(axis=0)
    yield figure_table(
        [
            *(
                Figure(
                    f"asked {rate}: mean off by, relative",
                    abs(mean / rate - 1),
                    MEAN_TOLERANCE,
                )
                for rate, mean in zip(RATES, means, strict=True)
            ),
            *(
                Figure(f"asked {rate}: worst stream off by, relative", off, TOLERANCE)
                for rate, off in zip(RATES, worst, strict=True)
            ),
        ]
    )


# --- cost ----------------------------------------------------------------------------------------

CALLS, REPEATS = 500, 20


def repeated(call: Callable[..., Any], readings: list[Any]) -> None:
    for x in readings:
        call(x)


def learnt_again(rejector: Any, samples: list[Any]) -> None:
    for x, y in samples:
        rejector.learn_one(x, y)


def cost(models: list[str]) -> Iterator[Table]:
    table = Table(
        "CPU time that novelty adds, us", ["model", "features", "predict_one", "learn_one"]
    )
    for name in models:
        for features in (4, 18, 64):
            samples = list(gaussians(features, 7, 3000).samples())
            pair = [rejecting(MODELS[name](), novelty_rate=rate) for rate in (None, 0.01)]
            for rejector in pair:
                learnt_again(rejector, samples)
            some = samples[:CALLS]
            readings = [x for x, _ in some]
            runs = {
                ("predict", "learn")[k % 2] + str(k // 2): run
                for k, run in enumerate(
                    each
                    for rejector in pair
                    for each in (
                        partial(repeated, rejector.predict_one, readings),
                        partial(learnt_again, rejector, some),
                    )
                )
            }
            us = best_us(runs, CALLS, REPEATS)
            added = (us[f"{kind}1"] - us[f"{kind}0"] for kind in ("predict", "learn"))
            table.add(name, features, *(f"{value:.1f}" for value in added))
    yield table


PARTS: dict[str, Part] = {
    "unseen": unseen_classes,
    "in-time": unseen_in_time,
    "rates": rates,
    "cost": cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    for part in options.parts:
        show(PARTS[part](options.models), options.markdown)


if __name__ == "__main__":
    main()
