"""Streams and tables of the benchmarks, as plain arrays.

Everything but River's and scikit-learn's own sets is read from the folder named by the
environment variable `STREAMLVQ_DATA`.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import Label, Sample


class MissingData(RuntimeError):
    """A data set that was not found; the message says what to do."""


@dataclass(frozen=True)
class Stream:
    """Samples in the order they arrive."""

    name: str
    X: NDArray[np.float64]
    y: list[Label]
    features: list[str]

    def __post_init__(self) -> None:
        if self.X.shape != (len(self.y), len(self.features)):
            shape = (len(self.y), len(self.features))
            raise ValueError(f"{self.name}: expected values of shape {shape}, got {self.X.shape}")

    def __len__(self) -> int:
        return len(self.y)

    def head(self, n: int | None) -> Stream:
        return self if n is None else replace(self, X=self.X[:n], y=self.y[:n])

    @property
    def digest(self) -> str:
        """Return a check sum: a stored result is one of these samples and of no others."""
        values = zlib.crc32(self.X.astype(np.float32).tobytes())
        return f"{zlib.crc32(repr(self.y).encode(), values):08x}"

    def samples(self) -> Iterator[Sample]:
        """Yield River's view: a dict of Python floats and a label."""
        for row, label in zip(self.X, self.y, strict=True):
            yield dict(zip(self.features, row.tolist(), strict=True)), label


# --- reading ----------------------------------------------------------------------------------


def data_file(relative: str) -> Path:
    folder = os.environ.get("STREAMLVQ_DATA")
    if not folder:
        raise MissingData(
            f"{relative} is needed: set STREAMLVQ_DATA to the folder that holds the data sets"
        )
    path = Path(folder) / relative
    if not path.is_file():
        raise MissingData(f"{path} is missing: set STREAMLVQ_DATA to a folder that has {relative}")
    return path


def read_npz(relative: str) -> dict[str, NDArray[Any]]:
    with np.load(data_file(relative), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def read_csv(
    name: str, relative: str, label: str, skip: Sequence[str] = (), limit: int | None = None
) -> Stream:
    with gzip.open(data_file(relative), "rt", newline="") as lines:
        rows = list(islice(csv.DictReader(lines), limit))
    features = [column for column in rows[0] if column != label and column not in skip]
    X = np.array([[float(row[f]) for f in features] for row in rows])
    return Stream(name, X, [row[label] for row in rows], features)


def from_arrays(
    name: str, X: NDArray[Any], y: NDArray[Any], features: Sequence[str] | None = None
) -> Stream:
    names = unique_names(features if features is not None else [f"x{i}" for i in range(X.shape[1])])
    # Python labels, not numpy scalars: that is what a River user passes.
    return Stream(name, np.ascontiguousarray(X, dtype=np.float64), y.tolist(), names)


def unique_names(names: Sequence[str]) -> list[str]:
    """Make feature names unique: UCI HAR uses some of them three times."""
    seen: Counter[str] = Counter()
    result = []
    for name in map(str, names):
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result


# --- sets -------------------------------------------------------------------------------------


def image_segments() -> Stream:
    return bundled("ImageSegments")()


def random_rbf_drift(n: int = 20_000) -> Stream:
    from river.datasets.synth import RandomRBFDrift

    drift = RandomRBFDrift(
        seed_model=42,
        seed_sample=42,
        n_classes=5,
        n_features=10,
        n_centroids=50,
        change_speed=0.001,
        n_drift_centroids=50,
    )
    return _from_river("RandomRBFDrift", drift.take(n))


def _from_river(name: str, samples: Iterable[Sample]) -> Stream:
    xs, ys = zip(*samples, strict=True)
    features = list(xs[0])
    X = np.array([[float(x[f]) for f in features] for x in xs])
    return Stream(name, X, list(ys), [str(f) for f in features])


def digits() -> Stream:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise MissingData("digits comes with scikit-learn: pip install scikit-learn") from error
    bunch = load_digits()
    return from_arrays("digits", bunch.data, bunch.target, bunch.feature_names)


def gaussians(d: int, classes: int, n: int = 2000, seed: int = 42) -> Stream:
    """Simulate one ball per class, with enough overlap that models keep learning."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    centres = rng.normal(scale=2 / np.sqrt(d), size=(classes, d))
    return from_arrays(f"gaussians d={d}", centres[y] + rng.normal(size=(n, d)), y)


def five_gaussians(
    n: int = 1500, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Simulate five overlapping clouds in the plane, with true class probabilities."""
    centres = np.array([(2, 3), (5, 1), (1, 0), (-1, 3), (4.5, 3)])
    angles = np.array([np.pi / 4, np.pi / 4, np.nan, np.pi / 8, np.pi / 4])
    rng = np.random.default_rng(seed)
    covariances = [_rotated(angle) for angle in angles]
    X = np.concatenate(
        [rng.multivariate_normal(m, c, n) for m, c in zip(centres, covariances, strict=True)]
    )
    scores = np.empty((len(X), len(centres)))
    for k, (centre, covariance) in enumerate(zip(centres, covariances, strict=True)):
        z = X - centre
        inside = np.einsum("ni,ij,nj->n", z, np.linalg.inv(covariance), z)
        scores[:, k] = -0.5 * (inside + np.log(np.linalg.det(covariance)))
    density = np.exp(scores - scores.max(axis=1, keepdims=True))
    return X, np.repeat(np.arange(len(centres)), n), density / density.sum(axis=1, keepdims=True)


def _rotated(angle: float) -> NDArray[np.float64]:
    """Return a rotated covariance with variances 1 and .28; round without an angle."""
    if np.isnan(angle):
        return np.eye(2)
    turn = np.array([(np.cos(angle), -np.sin(angle)), (np.sin(angle), np.cos(angle))])
    return np.asarray(turn @ np.diag([1.0, 0.28]) @ turn.T)


def letter(limit: int | None = None) -> Stream:
    return read_csv("Letter", "letter/letter.csv.gz", "lettr", limit=limit)


def uci_har(chronological: bool = True) -> Stream:
    """Load UCI HAR without the features that could not be recomputed, in time or in file order."""
    data = read_npz("uci_har/har561_recomputed.npz")
    keep = data["feature_status"] != "not reproduced"
    order = data["chron"] if chronological else slice(None)
    features = data["feature_names"][keep].tolist()
    return from_arrays("UCI HAR", data["X"][order][:, keep], data["y"][order], features)


def har_subjects() -> tuple[NDArray[np.float64], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Load UCI HAR in file order: readings, labels, subjects, and the rows in time order."""
    data = read_npz("uci_har/har561_recomputed.npz")
    keep = data["feature_status"] != "not reproduced"
    X = np.ascontiguousarray(data["X"][:, keep], dtype=np.float64)
    return X, data["y"], data["subject"], data["chron"]


def segment() -> Stream:
    return read_csv("segment", "segment/segmentation.csv.gz", "class", skip=["split"])


def elec2() -> Stream:
    return read_csv("elec2", "elec2/elec2_norm.csv.gz", "class")


def shuttle() -> Stream:
    return read_csv("shuttle", "shuttle/shuttle.csv.gz", "Class")


def occupancy() -> Stream:
    """Load the readings of a room in date order, which the file has."""
    return read_csv("occupancy", "occupancy/occupancy.csv.gz", "Occupancy", skip=["file", "date"])


TEP_FAULT_START = 160  # row of a test file from which its fault is present


def tep(seed: int = 42) -> Stream:
    """Load the plant's test files while their faults are present, as 22 plants seen at once.

    The next reading is that of a plant drawn at random: each plant keeps its order in time, and
    the label does not repeat.
    """
    data = read_npz("tep/tep.npz")
    tests = np.flatnonzero(~data["is_train"])
    faults = data["fault_file"][tests]
    rows = np.array([tests[faults == fault][TEP_FAULT_START:] for fault in np.unique(faults)])
    # A shuffled multiset of plants, each as often as it has readings, draws from those left.
    turns = np.repeat(np.arange(len(rows)), rows.shape[1])
    np.random.default_rng(seed).shuffle(turns)
    order = np.empty(len(turns), dtype=np.intp)
    for plant, readings in enumerate(rows):
        order[turns == plant] = readings
    return from_arrays("tep", data["X"][order], data["fault_file"][order])


def hydraulic(condition: str, column: str) -> Stream:
    """Load one condition of the test rig: a row is a cycle, described channel by channel."""
    data = read_npz("hydraulic_1hz/hydraulic_1hz.npz")
    cycles = data["X"].astype(np.float64)
    summaries = {"mean": np.mean, "deviation": np.std, "min": np.min, "max": np.max}
    X = np.hstack([summary(cycles, axis=2) for summary in summaries.values()])
    features = [f"{sensor} {summary}" for summary in summaries for sensor in data["sensors"]]
    y = data["profile"][:, data["profile_columns"].tolist().index(column)]
    return from_arrays(f"hydraulic {condition}", X, y, features)


def uma_enose(every: int = 8, seed: int = 42) -> Stream:
    """Load one exposure of the gas sensors after the other, every eighth step of each.

    The file has the exposures sorted by gas, so their order is drawn at random. All 69 exposures
    are whole (onset, plateau and decay, 131 steps each) and make 9039 rows.
    """
    data = read_npz("uma_enose/uma_enose.npz")
    order = np.random.default_rng(seed).permutation(len(data["y"]))
    X = data["X"][order, ::every]
    steps = X.shape[1]
    return from_arrays(
        "uma_enose", X.reshape(-1, X.shape[2]), np.repeat(data["y"][order], steps), data["sensors"]
    )


def npz_set(name: str, relative: str) -> Callable[[], Stream]:
    def load() -> Stream:
        data = read_npz(relative)
        return from_arrays(name, data["X"], data["y"])

    return load


# --- simulated streams ------------------------------------------------------------------------

Concept = Iterable[Sample]
Change = tuple[int, int]  # sample at its middle, and samples that most of it takes


def drifting(
    concepts: Sequence[Concept], changes: Sequence[Change], n: int, seed: int = 42
) -> Iterator[Sample]:
    """Yield `n` samples of concepts that follow each other, each change along a sigmoid.

    The mixing is that of River's `ConceptDriftStream`, whose exponential overflows where a change
    is as short as one sample.
    """
    rng = random.Random(seed)
    sources = [iter(concept) for concept in concepts]
    for i in range(n):
        current = 0
        for following, (position, width) in enumerate(changes, start=1):
            if rng.random() < 0.5 + 0.5 * math.tanh(2 * (i - position) / width):
                current = following
        yield next(sources[current])


def agrawal_drift(n: int = 10_000) -> Stream:
    """Simulate loans decided by rule 1, by rule 4 from 3333 on, gradually by rule 7 from 6666 on.

    River counts the rules from 0, the literature from 1. Values are perturbed by 5 %.
    """
    from river.datasets.synth import Agrawal

    rules = [Agrawal(rule - 1, seed=rule, perturbation=0.05) for rule in (1, 4, 7)]
    return _from_river("Agrawal drift", drifting(rules, [(3333, 1), (6666, 500)], n))


def led_drift(n: int = 10_000) -> Stream:
    """Simulate a digit's seven segments among 24 bits, seven in other places, 10 % inverted."""
    from river.datasets.synth import LEDDrift

    # River inverts one bit in a hundred fewer than it is asked to.
    leds = LEDDrift(seed=42, noise_percentage=0.11, irrelevant_features=True, n_drift_features=7)
    return _from_river("LED drift", leds.take(n))


def sea_drift(n: int = 10_000) -> Stream:
    """Simulate a threshold on the sum of two of three values, changed three times, 10 % noise."""
    from river.datasets.synth import SEA

    variants = [SEA(variant, noise=0.1, seed=variant) for variant in range(4)]
    changes = [(n // 4, 1), (n // 2, 1), (3 * n // 4, 1)]
    return _from_river("SEA drift", drifting(variants, changes, n))


def hyperplane(n: int = 10_000) -> Stream:
    """Simulate a half space of ten dimensions that turns all the time, 5 % noise."""
    from river.datasets.synth import Hyperplane

    turning = Hyperplane(seed=42, n_features=10, n_drift_features=5, mag_change=0.001)
    return _from_river("Hyperplane", turning.take(n))


def waveform(n: int = 10_000) -> Stream:
    """Simulate three noisy mixtures of waves, 21 values and 19 of noise."""
    from river.datasets.synth import Waveform

    return _from_river("Waveform", Waveform(seed=42, has_noise=True).take(n))


def sine_drift(n: int = 10_000) -> Stream:
    """Simulate points under a sine, whose labels are exchanged at the half."""
    from river.datasets.synth import Sine

    halves = [Sine(function, seed=42 + function) for function in (0, 1)]
    return _from_river("Sine drift", drifting(halves, [(n // 2, 1)], n))


def mixed_drift(n: int = 10_000) -> Stream:
    """Simulate a rule on two switches and a curve, whose labels are exchanged slowly."""
    from river.datasets.synth import Mixed

    halves = [Mixed(function, seed=42 + function) for function in (0, 1)]
    return _from_river("Mixed drift", drifting(halves, [(n // 2, 500)], n))


def bundled(name: str) -> Callable[[], Stream]:
    """Return the loader of a set that River brings along."""

    def load() -> Stream:
        from river import datasets

        return _from_river(name, getattr(datasets, name)())

    return load


STREAMS: dict[str, Callable[[], Stream]] = {
    "ImageSegments": image_segments,
    "digits": digits,
    "RandomRBFDrift": random_rbf_drift,
    "Letter": lambda: letter(limit=10_000),
    "UCI HAR": uci_har,
    "gas_drift": npz_set("gas_drift", "gas_drift/gas_drift_raw_b1-6_8_9.npz"),
    "keystroke": npz_set("keystroke", "keystroke/keystroke.npz"),
    "noaa_weather": npz_set("noaa_weather", "noaa_weather/noaa_weather.npz"),
    "elec2": elec2,
    "shuttle": shuttle,
    "tep": tep,
    "hydraulic valve": lambda: hydraulic("valve", "valve_pct"),
    "hydraulic accumulator": lambda: hydraulic("accumulator", "accumulator_bar"),
    "occupancy": occupancy,
    "uma_enose": uma_enose,
    "optdigits": npz_set("optdigits", "optdigits/optdigits.npz"),
    "usps": npz_set("usps", "usps/usps.npz"),
    "Agrawal drift": agrawal_drift,
    "LED drift": led_drift,
    "SEA drift": sea_drift,
    "Hyperplane": hyperplane,
    "Waveform": waveform,
    "Sine drift": sine_drift,
    "Mixed drift": mixed_drift,
    "Phishing": bundled("Phishing"),
    "Bananas": bundled("Bananas"),
}

# Rows are readings in the order in which they were taken, so labels come in runs and what the
# last label was is worth knowing. The other measured sets are in file order (gas_drift in order of
# its batches, but by gas within them; keystroke by session), the simulated ones are independent
# draws, and tep has its plants' readings mixed.
IN_TIME_ORDER = (
    "UCI HAR",
    "noaa_weather",
    "elec2",
    "hydraulic valve",
    "hydraulic accumulator",
    "occupancy",
    "uma_enose",
)

# Streams that ranks are taken over: digits is a part of optdigits.
COMPARED = tuple(name for name in STREAMS if name != "digits")

TABLE_SETS: dict[str, Callable[[], Stream]] = {
    "segment": segment,
    "optdigits": npz_set("optdigits", "optdigits/optdigits.npz"),
    "letter": letter,
    "usps": npz_set("usps", "usps/usps.npz"),
    "uci_har": lambda: uci_har(chronological=False),
}


def stream(name: str) -> Stream:
    """Return one of the benchmark streams, in time order."""
    return _load(STREAMS, name)


def table_set(name: str) -> Stream:
    """Return one of the thesis's sets, whole and in file order (for cross-validation)."""
    return _load(TABLE_SETS, name)


def _load(registry: dict[str, Callable[[], Stream]], name: str) -> Stream:
    if name not in registry:
        raise KeyError(f"expected one of {', '.join(registry)}, got {name!r}")
    return registry[name]()
