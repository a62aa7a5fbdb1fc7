"""`ClassMoments`: statistics of classes, collected beside a model of any kind."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from streamlvq.arrays import Array, Floats, Label, Reading
from streamlvq.errors import SnapshotError
from streamlvq.estimator import EstimatorState
from streamlvq.fusion.node_models import FusionError, Model, NodeModel, unpack
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.models.validation import BOUNDS, MAX_SAMPLES
from streamlvq.models.vectorizer import EXPECTED_NUMBER, to_number
from streamlvq.snapshot import Snapshot, decode, encode
from streamlvq.snapshot.snapshot import MAX_NODE_LENGTH
from streamlvq.snapshot.state import decode_names, encode_name

S = TypeVar("S", bound=msgspec.Struct)

MAX_MOMENTS = 2**20  # classes x features of one node
MAX_MOMENTS_BYTES = 2**25  # of a file: the above in three arrays, and names
MOMENT_ARRAYS = ("class_weight", "class_mean", "class_variance")  # classes x features


class _MomentsFile(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a file with class moments."""

    node: str
    created: float | None
    features: list[Any]
    labels: list[Any]


class ClassMoments:
    """Counts, means and variances of the features of each class, whatever the node's model is.

    Feed it the labelled readings that the model learns. A node with prototypes needs none: its
    snapshot has them. Missing values (absent, None, NaN) are left out.

    Parameters
    ----------
    node
        Name of the node.
    created
        When they were published, in seconds since 1970: of a node's several only the newest count.

    Examples
    --------

    >>> from streamlvq.fusion import ClassMoments

    >>> moments = ClassMoments("york")
    >>> for x, y in [({"heat": 40.0}, "idle"), ({"heat": 44.0}, "idle"), ({"heat": 60.0}, "worn")]:
    ...     moments.learn_one(x, y)
    >>> moments.counts
    {'idle': 2, 'worn': 1}
    >>> moments.means["idle"], moments.spreads["idle"]
    ({'heat': 42.0}, {'heat': 2.0})
    >>> ClassMoments.from_bytes(moments.to_bytes()).means == moments.means
    True

    """

    def __init__(self, node: str = "n1", *, created: float | None = None) -> None:
        _check_identity(node, created)
        self.node, self.created = node, created
        self._columns: dict[Hashable, int] = {}
        self._codes: dict[Label, int] = {}
        self._samples = np.zeros(0)
        self._count, self._mean, self._variance = (np.zeros((0, 0)) for _ in MOMENT_ARRAYS)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Take the class statistics out of a node's snapshot."""
        (node,) = unpack([snapshot])
        model = node.first
        if node.transform is not None:
            raise FusionError(
                f"node {node.node!r}: expected class statistics in the units of the sensors, got "
                "those of transformed features: collect ClassMoments beside the model"
            )
        if model.labels and "class_mean" not in model.arrays:
            raise FusionError(
                f"node {node.node!r}: expected a model with class statistics, got a {node.kind}: "
                "collect ClassMoments beside the model"
            )
        moments = cls(node.node, created=snapshot.created_seconds)
        if model.labels:
            moments._take(model.features, model.labels, model.arrays)
        return moments

    def _take(
        self, features: Iterable[Hashable], labels: Iterable[Label], arrays: Mapping[str, Array]
    ) -> None:
        self._columns = {name: k for k, name in enumerate(features)}
        self._codes = {label: k for k, label in enumerate(labels)}
        rows = slice(0, len(self._codes))  # a model has room for more classes
        self._samples = np.array(arrays["class_count"][rows], np.float64)
        self._count, self._mean, self._variance = (
            np.array(arrays[name][rows], np.float64) for name in MOMENT_ARRAYS
        )

    # --- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Reading, y: Label) -> None:
        """Count a labelled reading; raises before anything has changed."""
        values = {name: to_number(name, value) for name, value in x.items()}
        for name, value in values.items():
            if abs(value) > LARGEST_VALUE:
                raise ValueError(f"feature {name!r}: {EXPECTED_NUMBER}, got {value!r}")
        code = self._admit(values, y)
        row = np.full(len(self._columns), np.nan)
        row[[self._columns[name] for name in values]] = list(values.values())
        self._samples[code] += 1.0
        self._update(code, row)

    def _update(self, code: int, row: Floats) -> None:
        """Welford's step: a variance from sums of squares would lose all digits of large means."""
        known = np.isfinite(row)
        self._count[code, known] += 1.0
        count, mean, value = self._count[code, known], self._mean[code, known], row[known]
        moved = mean + (value - mean) / count
        variance = self._variance[code, known]
        self._variance[code, known] += ((value - mean) * (value - moved) - variance) / count
        self._mean[code, known] = moved

    def _admit(self, values: Mapping[Hashable, float], y: Label) -> int:
        """Make room for new features and a new class; return the number of the class."""
        new = [name for name in values if name not in self._columns]
        classes = len(self._codes) + (y not in self._codes)
        if not new and classes == len(self._codes):
            return self._codes[y]
        if classes * max(len(self._columns) + len(new), 1) > MAX_MOMENTS:
            raise FusionError(
                f"expected at most {MAX_MOMENTS} features of classes, got {classes} classes of "
                f"{len(self._columns) + len(new)} features"
            )
        for name in new:
            self._columns[name] = len(self._columns)
        code = self._codes.setdefault(y, len(self._codes))
        room = [(0, classes - len(self._samples)), (0, len(new))]
        self._samples = np.pad(self._samples, room[0])
        self._count, self._mean, self._variance = (
            np.pad(each, room) for each in (self._count, self._mean, self._variance)
        )
        return code

    # --- what it says ----------------------------------------------------------------------------

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Feature names, in the order of their appearance."""
        return tuple(self._columns)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Class labels, in the order of their appearance."""
        return tuple(self._codes)

    @property
    def samples(self) -> int:
        """Number of labelled readings."""
        return int(self._samples.sum())

    @property
    def counts(self) -> dict[Label, int]:
        """Number of readings of each class."""
        return dict(zip(self._codes, self._samples.astype(int).tolist(), strict=True))

    @property
    def means(self) -> dict[Label, dict[Hashable, float]]:
        """Mean of every feature in each class; NaN where the class has no value of it."""
        return self._by_name(self._mean)

    @property
    def spreads(self) -> dict[Label, dict[Hashable, float]]:
        """Standard deviation of every feature in each class; NaN where the class has none."""
        return self._by_name(np.sqrt(self._variance))

    def _by_name(self, table: Floats) -> dict[Label, dict[Hashable, float]]:
        values = np.where(self._count > 0, table, np.nan).tolist()
        return {
            label: dict(zip(self._columns, row, strict=True))
            for label, row in zip(self._codes, values, strict=True)
        }

    def arrays(self) -> dict[str, Floats]:
        """Return the tables under the names that a model's state gives to them."""
        tables = (self._count, self._mean, self._variance)
        return {"class_count": self._samples} | dict(zip(MOMENT_ARRAYS, tables, strict=True))

    def node_model(self) -> NodeModel:
        """Return them as fusion sees a node: statistics of classes, and no prototypes."""
        extra = {"features": [*self._columns], "classes": [*self._codes], "sizes": None}
        state = EstimatorState(type(self).__name__, {}, self.arrays(), extra)
        model = Model(state, state.arrays, extra["features"] or [], extra["classes"] or [])
        return NodeModel(self.node, {"": model}, None, None, None)

    # --- bytes -----------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Encode as a file like that of a snapshot, with a checksum and nothing executable."""
        file = _MomentsFile(
            self.node,
            self.created,
            [encode_name(name, "feature") for name in self._columns],
            [encode_name(label, "label") for label in self._codes],
        )
        meta = msgspec.structs.asdict(file)
        return encode(dict(self.arrays()), meta, kind="moments", limit=MAX_MOMENTS_BYTES)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode what `to_bytes` returned; raises `SnapshotError` for what cannot be."""
        arrays, meta = decode(data, kind="moments", limit=MAX_MOMENTS_BYTES)
        file = convert_file(meta, _MomentsFile)
        _check_identity(file.node, file.created)
        features = decode_names(file.features, "feature")
        labels = decode_names(file.labels, "label")
        shape = len(labels), len(features)
        check_arrays(arrays, {"class_count": shape[:1]} | dict.fromkeys(MOMENT_ARRAYS, shape))
        for name, array in arrays.items():
            check_inside(name, array, *BOUNDS[name])
        check_inside("class_count", arrays["class_count"], 0.0, MAX_SAMPLES)
        moments = cls(file.node, created=file.created)
        moments._take(features, labels, arrays)
        return moments

    def __repr__(self) -> str:
        return (
            f"ClassMoments(node {self.node!r}: {self.samples} samples, {len(self._columns)} "
            f"features, {len(self._codes)} classes)"
        )


def newest_moments(statistics: Iterable[Snapshot | ClassMoments]) -> list[ClassMoments]:
    """Return the newest class statistics of each node, in the order of their names."""
    by_node: dict[str, ClassMoments] = {}
    for each in statistics:
        if not isinstance(each, (Snapshot, ClassMoments)):
            raise FusionError(f"expected snapshots or ClassMoments, got {each!r}")
        moments = ClassMoments.of(each) if isinstance(each, Snapshot) else each
        other = by_node.get(moments.node)
        if other is None or _age(moments) > _age(other):
            by_node[moments.node] = moments
    return [by_node[node] for node in sorted(by_node)]


def _age(moments: ClassMoments) -> tuple[float, int, bytes]:
    """Return a sort key, larger for later ones; bytes break ties, so that all nodes agree."""
    when = -math.inf if moments.created is None else moments.created
    return when, moments.samples, hashlib.sha256(moments.to_bytes()).digest()


# --- checks of what comes from elsewhere ---------------------------------------------------------


def convert_file(meta: dict[str, Any], shape: type[S]) -> S:
    """Return checked metadata; raises `SnapshotError` for any other."""
    try:
        return msgspec.convert(meta, shape)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise SnapshotError(f"metadata: {error}") from error


def check_arrays(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise `SnapshotError` unless there are exactly these arrays of numbers."""
    if arrays.keys() != shapes.keys():
        raise SnapshotError(f"expected the arrays {sorted(shapes)}, got {sorted(arrays)[:9]}")
    for name, shape in shapes.items():
        if arrays[name].shape != shape or arrays[name].dtype != np.float64:
            raise SnapshotError(
                f"array {name!r}: expected float64 of shape {shape}, got "
                f"{arrays[name].dtype} of shape {arrays[name].shape}"
            )


def check_inside(name: str, array: Array, low: float, high: float) -> None:
    """Raise `SnapshotError` unless all numbers are from low to high; NaN is not."""
    if not ((array >= low) & (array <= high)).all():
        raise SnapshotError(f"array {name!r}: expected numbers from {low:g} to {high:g}")


def check_node(node: Any) -> None:
    """Raise `SnapshotError` unless a node can have this name."""
    if not (isinstance(node, str) and 1 <= len(node) <= MAX_NODE_LENGTH and node.isprintable()):
        raise SnapshotError(
            f"node: expected 1 to {MAX_NODE_LENGTH} printable characters, got {str(node)[:80]!r}"
        )


def _check_identity(node: Any, created: Any) -> None:
    check_node(node)
    if created is not None and not math.isfinite(created):
        raise SnapshotError(f"created: expected seconds since 1970, got {created!r}")
