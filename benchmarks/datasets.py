"""Streams and tables of the benchmarks, as plain arrays.

Everything but River's and scikit-learn's own sets is read from the folder named by the
environment variable `STREAMLVQ_DATA`.
"""

from __future__ import annotations

import csv
import gzip
import os
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
    from river.datasets import ImageSegments

    return _from_river("ImageSegments", ImageSegments())  # type: ignore[no-untyped-call]


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


def npz_set(name: str, relative: str) -> Callable[[], Stream]:
    def load() -> Stream:
        data = read_npz(relative)
        return from_arrays(name, data["X"], data["y"])

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
}

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
