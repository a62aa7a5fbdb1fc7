"""Figures of sound learning: still and on/off sensors, rare classes, ranges, the README's monitor.

python benchmarks/sound.py                             # everything, about ten minutes
python benchmarks/sound.py --parts still --seeds 2     # a part, quickly
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Figure, figure_table, our_model, progress, show
from datasets import Stream, stream
from streamlvq.config import Config, IntegratorSection, ModelSection, RejectorSection
from streamlvq.events import Readings
from streamlvq.monitor import Monitor

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


# --- rare classes ---------------------------------------------------------------------------------

RARE_SHARE, RARE_READINGS, RARE_SCORED_FROM = 0.02, 8000, 1000
DEFAULT_MODELS = ["LGMLVQ", "LVQCommittee"]  # of the daemon, and for streams that change


def shifted(y: Ints, random: np.random.Generator) -> Floats:
    """Four of eight sensors read a little more."""
    X = random.normal(size=(len(y), 8))
    X[:, :4] += 1.3 * y[:, None]
    return X


def either_side(y: Ints, random: np.random.Generator) -> Floats:
    """Two clouds, one on either side of the others."""
    X = random.normal(size=(len(y), 6))
    side = random.integers(0, 2, len(y)) * 2 - 1
    X[:, 0] += 2.5 * side * y
    X[:, 1] -= 2.5 * side * y
    return X


def clusters(y: Ints, random: np.random.Generator) -> Floats:
    """Three clouds of other readings and one of these."""
    centres = 1.5 * random.normal(size=(4, 8))
    which = np.where(y == 1, 3, random.integers(0, 3, len(y)))
    return centres[which] + random.normal(size=(len(y), 8))


RARE_STREAMS = {"shifted": shifted, "either side": either_side, "clusters": clusters}


def rare_f1(name: str, kind: str, seed: int) -> float:
    """Return the F1 of 2 % positives, predicted before they are learnt."""
    random = np.random.default_rng(seed)
    y = (random.random(RARE_READINGS) < RARE_SHARE).astype(np.int64)
    X = RARE_STREAMS[kind](y, random)
    found = (y == 1) == hits(our_model(name)(), X, y)
    found, true = found[RARE_SCORED_FROM:], y[RARE_SCORED_FROM:] == 1
    return 2.0 * (found & true).sum() / max(1, found.sum() + true.sum())


def rare(seeds: Sequence[int], quick: bool) -> Iterator[Figure]:
    for kind in progress(RARE_STREAMS, "rare classes"):
        peer = float(np.mean([rare_f1("PairwiseLVQ", kind, seed) for seed in seeds]))
        for name in DEFAULT_MODELS:
            f1 = float(np.mean([rare_f1(name, kind, seed) for seed in seeds]))
            yield Figure(f"{name}: F1, {kind}, PairwiseLVQ {peer:.3f}", f1, peer - 0.05, True)
        plain = "LGMLVQ(class_weight=None)"
        f1 = float(np.mean([rare_f1(plain, kind, seed) for seed in seeds]))
        yield Figure(f"{plain}, for comparison", f1, 0.0, True)


# --- prototypes among their data ------------------------------------------------------------------

RANGED_MODELS = ["GRLVQ", "LGRLVQ", "GMLVQ", "LGMLVQ"]
RANGE_STREAMS = [
    "ImageSegments", "digits", "Letter", "gas_drift",
    "keystroke", "noaa_weather", "elec2", "shuttle",
]  # fmt: skip


def outside_share(name: str, data: Stream) -> float:
    """Return the share of prototype coordinates outside the readings of their class."""
    model: Any = our_model(name)()
    model.learn_array(data.X, data.y)
    labels, outside, count = np.array(data.y), 0, 0
    for prototype in model.prototypes():
        rows = data.X[labels == prototype.label]
        w = np.array(list(prototype.values.values()))
        outside += int(((w < rows.min(axis=0)) | (w > rows.max(axis=0))).sum())
        count += len(w)
    return outside / count


def ranges(seeds: Sequence[int], quick: bool) -> Iterator[Figure]:
    for name in progress(RANGED_MODELS, "prototypes among their data"):
        streams = [stream(each).head(4000) for each in RANGE_STREAMS[: 2 if quick else None]]
        worst = max(outside_share(name, data) for data in streams)
        yield Figure(f"{name}: coordinates outside, worst of {len(streams)} streams", worst, 0.0)


# --- the README's monitor -------------------------------------------------------------------------

README_RATE, README_BATCH = 0.05, 50
README_MODELS = ["LGMLVQ", "GMLVQ", "GLVQ"]
LEARNT_SHARE = 2 / 3  # of a stream; the rest comes without labels


@dataclass
class Verdicts:
    """What a monitor said of many readings."""

    certainties: list[float] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)

    def add(self, monitor: Monitor, readings: Readings) -> None:
        decisions = monitor.step(readings).decisions
        assert decisions is not None
        self.certainties += decisions.certainties.tolist()
        self.accepted += decisions.accepted.tolist()

    @property
    def accepted_without_certainty(self) -> int:
        return sum(a for a, c in zip(self.accepted, self.certainties, strict=True) if c == 0.0)

    @property
    def rate(self) -> float:
        return self.accepted.count(False) / len(self.accepted)

    @property
    def none_share(self) -> float:
        return self.certainties.count(0.0) / len(self.certainties)


def readme_monitor(model: str) -> Monitor:
    window, rejector = IntegratorSection(window=5), RejectorSection(target_rate=README_RATE)
    return Monitor(Config(model=ModelSection(type=model), integrator=window, rejector=rejector))


def in_batches(data: Stream, first: int, last: int, labelled: bool) -> Iterator[Readings]:
    for start in range(first, last, README_BATCH):
        rows = slice(start, min(last, start + README_BATCH))
        labels = [str(y) if labelled else None for y in data.y[rows]]
        yield Readings.of([str(f) for f in data.features], data.X[rows], labels=labels)


def in_runs(data: Stream, length: int = 200) -> Stream:
    """Return a stream whose classes last for a while, as states of machines do."""
    labels = np.array(data.y)
    random, pieces = np.random.default_rng(0), []
    for label in dict.fromkeys(data.y):
        rows = np.flatnonzero(labels == label)
        pieces += [rows[k : k + length] for k in range(0, len(rows), length)]
    order = np.concatenate([pieces[k] for k in random.permutation(len(pieces))])
    return Stream(f"{data.name} in runs", data.X[order], labels[order].tolist(), data.features)


def judged_by_readme(name: str, data: Stream) -> tuple[Verdicts, Verdicts]:
    """Return what a monitor says of unseen and of foreign readings when it has learnt a stream."""
    monitor, known = readme_monitor(name), int(LEARNT_SHARE * len(data))
    for readings in in_batches(data, 0, known, True):
        monitor.step(readings)
    unseen, foreign = Verdicts(), Verdicts()
    for readings in in_batches(data, known, len(data), False):
        unseen.add(monitor, readings)
    rows = data.X[-README_BATCH:]
    foreign.add(monitor, Readings.of([f"foreign {k}" for k in range(rows.shape[1])], rows))
    foreign.add(monitor, Readings.of([str(f) for f in data.features], np.nan * rows))
    return unseen, foreign


def rate_figure(about: str, unseen: Verdicts) -> Figure:
    """Compare the share of rejections with what was asked for.

    If more than that have no certainty, these are rejected, and now and then others: where fewer
    had none among the last readings that the threshold remembers.
    """
    if unseen.none_share <= README_RATE:
        off = abs(unseen.rate - README_RATE)
        return Figure(f"{about}: rate {unseen.rate:.4f}, off by", off, README_RATE / 5)
    more = unseen.rate - unseen.none_share
    return Figure(f"{about}: {unseen.none_share:.3f} have none, rejected beyond", more, README_RATE)


def readme(seeds: Sequence[int], quick: bool) -> Iterator[Figure]:
    for name in progress(README_MODELS[: 1 if quick else None], "the README's monitor"):
        without_certainty, accepted, count, figures = 0, 0, 0, []
        for each in RANGE_STREAMS[: 2 if quick else None]:
            data = stream(each).head(12_000)
            for arranged in (data, in_runs(data)):
                unseen, foreign = judged_by_readme(name, arranged)
                without_certainty += unseen.accepted_without_certainty
                accepted += sum(foreign.accepted)
                count += len(foreign.accepted)
                figures.append(rate_figure(f"{name}, {arranged.name}", unseen))
        yield Figure(f"{name}: accepted with certainty 0", without_certainty, 0)
        yield Figure(f"{name}: accepted of {count} foreign or empty readings", accepted, 0)
        yield from figures


# --- main -----------------------------------------------------------------------------------------

Part = Callable[[Sequence[int], bool], Iterator[Figure]]
PARTS: dict[str, tuple[str, Part]] = {
    "still": ("Sensors that do not move", still),
    "binary": ("On/off sensors", binary),
    "rare": ("Classes with 2 % of the readings", rare),
    "ranges": ("Prototypes among their data", ranges),
    "readme": ("The README's monitor on unseen and foreign readings", readme),
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
