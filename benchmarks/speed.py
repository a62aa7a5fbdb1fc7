"""CPU cost of a call: ours against the dict-to-vector floor, a bare compiled loop and River.

python benchmarks/speed.py --skip growth
"""

from __future__ import annotations

import argparse
import math
import struct
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from bare import BareGLVQ
from common import (
    Classifier,
    Factory,
    Figure,
    Sample,
    Table,
    best_us,
    cpu_seconds,
    figure_table,
    our_model,
    progress,
    show,
)
from datasets import Stream, gaussians
from peers import OVR_LR, RIVER

# Growth and rehearsal off: the bare step is what the floor and the loop are compared with.
PLAIN: dict[str, Any] = {"prototypes_per_class": 1, "max_prototypes_per_class": 1, "rehearsal": 0}
OURS = ["GLVQ", "GMLVQ", "LGMLVQ(rank=8)"]
SHAPES = [(18, 7), (64, 10)]
PEER_SAMPLES = 300

# A value of what is varied, the data and the parameters that go with it.
Case = tuple[int, Stream, dict[str, Any]]


@dataclass(frozen=True)
class Cost:
    """Microseconds per call."""

    predict: float
    learn: float

    @property
    def both(self) -> float:
        return self.predict + self.learn

    def __str__(self) -> str:
        return f"{self.predict:.2f} / {self.learn:.2f}"


# --- measuring --------------------------------------------------------------------------------


Runs = dict[str, Callable[[], object]]


def call_runs(models: dict[str, Classifier], data: Stream) -> Runs:
    """Return a predicting and a learning pass for each model, all trained on `data`."""
    samples = list(data.samples())
    runs: Runs = {}
    for name, model in models.items():
        learn_all(model, samples)
        runs[f"predict {name}"] = partial(predict_all, model, samples)
        runs[f"learn {name}"] = partial(learn_all, model, samples)
    return runs


def call_costs(models: dict[str, Classifier], data: Stream, repeats: int) -> dict[str, Cost]:
    return as_costs(models, best_us(call_runs(models, data), len(data), repeats))


def as_costs(names: Iterable[str], best: dict[str, float]) -> dict[str, Cost]:
    return {name: Cost(best[f"predict {name}"], best[f"learn {name}"]) for name in names}


def predict_all(model: Classifier, samples: Iterable[Sample]) -> None:
    predict = model.predict_proba_one
    for x, _ in samples:
        predict(x)


def learn_all(model: Classifier, samples: Iterable[Sample]) -> None:
    learn = model.learn_one
    for x, y in samples:
        learn(x, y)


def floor_run(data: Stream) -> Callable[[], object]:
    """Return a run of the least work on a dict: packing its values into a buffer."""
    samples = list(data.samples())
    buffer = bytearray(8 * len(data.features))
    pack_into = struct.Struct(f"{len(data.features)}d").pack_into
    values = itemgetter(*data.features)

    def run() -> None:
        for x, _ in samples:
            pack_into(buffer, 0, *values(x))

    return run


def array_costs(d: int, classes: int, repeats: int, n: int = 50_000) -> dict[str, float]:
    """Return the cost per sample of the bare loop and of our models over arrays."""
    data = gaussians(d, classes, n)
    y = np.asarray(data.y, dtype=np.int64)
    learners: dict[str, Any] = {"bare": BareGLVQ(d, classes)}
    learners |= {spec: our_model(spec, **PLAIN)() for spec in OURS}
    for learner in learners.values():
        learner.learn_array(data.X[:100], y[:100])  # compile
    runs = {name: partial(m.learn_array, data.X, y) for name, m in learners.items()}
    runs |= kernel_runs(learners["GLVQ"], data.X, y)
    return best_us(runs, n, repeats)


def kernel_runs(model: Any, X: Any, y: Any) -> Runs:
    """Return runs of the bare GLVQ kernel: in a compiled loop, and called from Python."""
    engine, codes = model._engine, np.array([model.class_number(label) for label in y.tolist()])
    learn, memory = engine.learn_kernel, engine.memory

    def calls() -> None:
        for code in range(len(y)):
            learn(*memory, code % 2)

    return {"kernel loop": partial(engine.learn_rows, X, codes), "kernel call": calls}


# --- the figures ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Measurements at one shape."""

    d: int
    classes: int
    floor: float
    ours: dict[str, Cost]
    arrays: dict[str, float]
    peers: dict[str, Cost]


def measure(d: int, classes: int, repeats: int, peers: Sequence[str]) -> Measured:
    data = gaussians(d, classes)
    ours = {spec: our_model(spec, **PLAIN)() for spec in OURS}
    best = best_us({"floor": floor_run(data), **call_runs(ours, data)}, len(data), repeats)
    return Measured(
        d=d,
        classes=classes,
        floor=best["floor"],
        ours=as_costs(ours, best),
        arrays=array_costs(d, classes, repeats),
        peers=peer_costs(data.head(PEER_SAMPLES), peers, repeats),
    )


def peer_costs(data: Stream, peers: Sequence[str], repeats: int) -> dict[str, Cost]:
    """The peer of the figures as carefully as ours (noise would flatter us), the rest roughly."""
    careful = call_costs({OVR_LR: RIVER[OVR_LR]()}, data, repeats)
    others = {name: RIVER[name]() for name in peers if name != OVR_LR}
    return careful | call_costs(others, data, min(repeats, 3))


def cost_table(m: Measured) -> Table:
    title = f"Microseconds of CPU per call, d={m.d}, {m.classes} classes"
    columns = ["model", "predict_proba_one", "learn_one", "/ floor", "/ floor", "learn_array"]
    table = Table(title, columns)
    table.add("dict-to-vector floor", f"{m.floor:.2f}", f"{m.floor:.2f}", "1.0", "1.0", "-")
    for name in ("bare", "kernel loop", "kernel call"):
        table.add(f"GLVQ, {name}", "-", "-", "-", "-", f"{m.arrays[name]:.3f}")
    for name, cost in (m.ours | m.peers).items():
        array = f"{m.arrays[name]:.3f}" if name in m.arrays else "-"
        times = f"{cost.predict:.2f}", f"{cost.learn:.2f}"
        ratios = f"{cost.predict / m.floor:.1f}", f"{cost.learn / m.floor:.1f}"
        table.add(name, *times, *ratios, array)
    return table


def figures(m: Measured) -> list[Figure]:
    glvq, at = m.ours["GLVQ"], f"d={m.d}"
    peer = m.peers[OVR_LR].both / glvq.both
    found = [
        Figure(f"GLVQ predict_proba_one / floor, {at}", glvq.predict / m.floor, 4, unit="x"),
        Figure(f"GLVQ learn_one / floor, {at}", glvq.learn / m.floor, 5, unit="x"),
        Figure(f"{OVR_LR} / GLVQ, predict + learn, {at}", peer, 8, at_least=True, unit="x"),
    ]
    # The kernel also keeps scales, class statistics, adaptive steps and calibrated probabilities;
    # the bare loop does a plain GLVQ step and nothing else.
    for name, floor in (("its own kernel in a loop", "kernel loop"), ("a plain GLVQ loop", "bare")):
        ratio = m.arrays["GLVQ"] / m.arrays[floor]
        found.append(Figure(f"GLVQ learn_array / {name}, {at}", ratio, 1.5, unit="x"))
    if m.d == 64:
        local = m.ours["LGMLVQ(rank=8)"].learn
        for name, floor in (("GLVQ kernel call", "kernel call"), ("plain GLVQ step", "bare")):
            ratio = local / m.arrays[floor]
            found.append(Figure(f"LGMLVQ rank 8 learn_one / {name}, {at}", ratio, 12, unit="x"))
    return found


# --- how cost grows ---------------------------------------------------------------------------


def growth_table(
    title: str,
    column: str,
    cases: Sequence[Case],
    specs: Sequence[str],
    repeats: int,
) -> Table:
    """Tabulate the cost of each model, one row for every value of a quantity."""
    table = Table(f"{title} (us per predict_proba_one / learn_one)", [column, *specs])
    for value, data, params in progress(cases, title):
        models = {spec: our_model(spec, **{**PLAIN, **params})() for spec in specs}
        costs = call_costs(models, data, repeats)
        table.add(value, *(costs[spec] for spec in specs))
    return table


def growth_tables(repeats: int) -> list[Table]:
    base = gaussians(64, 10)
    dims: list[Case] = [(d, gaussians(d, 10), {}) for d in (4, 16, 64, 256)]
    classes: list[Case] = [(c, gaussians(64, c), {}) for c in (2, 5, 10, 20, 50)]
    per_class: list[Case] = [
        (k, base, {"prototypes_per_class": k, "max_prototypes_per_class": k})
        for k in (1, 2, 4, 8, 16)
    ]
    ranks: list[Case] = [(r, base, {"rank": r}) for r in (1, 2, 4, 8, 16, 32)]
    return [
        growth_table("Features, 10 classes", "d", dims, OURS, repeats),
        growth_table("Classes, d=64", "classes", classes, OURS, repeats),
        growth_table("Prototypes, d=64, 10 classes", "per class", per_class, OURS, repeats),
        growth_table("Rank, d=64, 10 classes", "rank", ranks, ["LGMLVQ"], repeats),
        length_table(repeats),
    ]


def length_table(repeats: int, marks: Sequence[int] = (1, 10, 100, 1000)) -> Table:
    """Tabulate the cost of early and late samples: a long stream must not get slower."""
    table = Table(
        "Stream length, d=18, 7 classes, default parameters (us per learn_one)",
        ["model", *(f"thousand {mark}" for mark in marks)],
    )
    for spec in progress(["LGMLVQ", "GLVQ"], "Stream length"):
        table.add(spec, *(f"{us:.2f}" for us in thousands_us(our_model(spec), marks, repeats)))
    return table


def thousands_us(factory: Factory, marks: Sequence[int], repeats: int) -> list[float]:
    """Return the cost of a sample in the thousands `marks`, measured in turns at the end."""
    samples = list(gaussians(18, 7, 10_000).samples())
    twins = models_before(factory, samples, marks)
    best = [math.inf] * len(marks)
    for _ in range(repeats):
        for i, twin in enumerate(map(deepcopy, twins)):
            seconds = cpu_seconds(partial(learn_all, twin, samples[:1000]))
            best[i] = min(best[i], seconds / 1000 * 1e6)
    return best


def models_before(
    factory: Factory, samples: Sequence[Sample], marks: Sequence[int]
) -> list[Classifier]:
    """Return copies of one model as it was before each of the thousands `marks`."""
    model, twins = factory(), []
    for thousand in range(1, max(marks) + 1):
        if thousand in marks:
            twins.append(deepcopy(model))
        start = thousand * 1000 % len(samples)
        learn_all(model, samples[start : start + 1000])
    return twins


# --- command line -----------------------------------------------------------------------------


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--repeats", type=int, default=25, help="of each measurement; the best counts")
    add(
        "--skip",
        nargs="+",
        choices=["growth", "peers"],
        default=[],
        help="growth: no growth tables; peers: only the one the figures need",
    )
    add("--markdown", action="store_true", help="print the tables as Markdown")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    peers = [OVR_LR] if "peers" in args.skip else list(RIVER)
    measured = [measure(d, classes, args.repeats, peers) for d, classes in SHAPES]
    show(map(cost_table, measured), args.markdown)
    if "growth" not in args.skip:
        show(growth_tables(args.repeats), args.markdown)
    show([figure_table(f for m in measured for f in figures(m))], args.markdown)


if __name__ == "__main__":
    main()
