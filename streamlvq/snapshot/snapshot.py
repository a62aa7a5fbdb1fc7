"""Snapshot."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.models import LVQCommittee
from streamlvq.models.array_classifier import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.records import Prototype
from streamlvq.snapshot.classifiers import Arrays, Meta, check, describe, rebuild
from streamlvq.snapshot.container import LIMIT, decode, encode
from streamlvq.snapshot.errors import SnapshotError
from streamlvq.snapshot.files import read, write_atomically
from streamlvq.snapshot.verify import MOST_ROOM
from streamlvq.state import State
from streamlvq.vectorize import name_order
from streamlvq.wrappers import FeatureTransform
from streamlvq.wrappers.chain import links

LONGEST_NODE = 200
ByFeature = dict[Hashable, float]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a snapshot."""

    node: str
    created: float | None
    readings: bool
    classifier: Meta


class Snapshot:
    """All that a classifier has learnt at one moment, in the units of the sensors.

    Where the classifier is a `FeatureTransform`, numbers are those that the model inside sees, such
    as logarithms; `transform` says so, and `in_sensor_units` gives them back.

    It is complete enough to go on learning: what is rebuilt from it decides and learns exactly as
    the original would have. It stays as it is while the original goes on.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq.snapshot import Snapshot

    >>> model = streamlvq.LGMLVQ()
    >>> for x, y in datasets.ImageSegments().take(500):
    ...     model.learn_one(x, y)
    >>> snapshot = Snapshot.of(model, node="camera 1")
    >>> data = snapshot.to_bytes()

    Later, or elsewhere:

    >>> snapshot = Snapshot.from_bytes(data)
    >>> snapshot
    Snapshot(LGMLVQ of node 'camera 1': 500 samples, 18 features, 7 classes)
    >>> snapshot.counts["sky"], snapshot.means["sky"]["intensity-mean"]
    (67, 118.1)
    >>> snapshot.classifier().predict_proba_one(x) == model.predict_proba_one(x)
    True

    To share what was learnt, but no reading:

    >>> shared = Snapshot.of(model, node="camera 1", readings=False)
    >>> len(shared.to_bytes()) < len(data)
    True

    """

    def __init__(self, arrays: Arrays, file: _File) -> None:
        self._arrays = arrays
        self._file = file

    # --- to and from classifiers, bytes, files ---------------------------------------------------

    @classmethod
    def of(
        cls,
        classifier: Any,
        node: str = "n1",
        *,
        readings: bool = True,
        created: float | datetime | None = None,
    ) -> Self:
        """A snapshot of a classifier as it is now.

        Parameters
        ----------
        classifier
            A model of streamlvq, or one in wrappers of streamlvq.
        node
            Who learnt it.
        readings
            Whether to include the readings that are rehearsed and the windows of devices. Without
            them a snapshot is small and can be shared: what is left are prototypes, metrics,
            counts, means and spreads. Note that a prototype is born on a reading, and one that has
            learnt little since is still close to it.
        created
            The time to write into it, in seconds since 1970 or as a datetime; none by default, so
            that the same knowledge gives the same bytes.

        """
        arrays, meta = describe(classifier, readings=readings)
        when = created.timestamp() if isinstance(created, datetime) else created
        return cls(arrays, _checked(_File(_named(node), when, readings, meta)))

    def classifier(self) -> Any:
        """A classifier that goes on from here; a new and independent one each time."""
        return rebuild(self._arrays, self._file.classifier)

    def to_bytes(self, *, limit: int = LIMIT) -> bytes:
        """As the bytes of a safetensors file; raises `SnapshotError` if it would be too large."""
        return encode(self._arrays, msgspec.structs.asdict(self._file), limit=limit)

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int = LIMIT, room: int = MOST_ROOM) -> Self:
        """The opposite of `to_bytes`; raises `SnapshotError` for what is damaged or cannot be.

        Parameters
        ----------
        data
            The bytes of a file.
        limit
            The most bytes that are looked at.
        room
            The most numbers that its classifier may ask memory for: a short snapshot from a
            stranger can describe a large one.

        """
        arrays, metadata = decode(data, limit=limit)
        try:
            file = msgspec.convert(metadata, _File)
        except (msgspec.ValidationError, OverflowError) as error:
            raise SnapshotError(f"metadata: {error}") from error
        _named(file.node)
        snapshot = cls(arrays, _checked(file))
        built = check(arrays, file.classifier, room=room)  # what cannot be rebuilt is no snapshot
        if built is not None:
            snapshot._built = built
        return snapshot

    def save(self, path: str | Path, *, limit: int = LIMIT) -> None:
        """Write a file that is there as a whole or not at all, also after a loss of power."""
        write_atomically(path, self.to_bytes(limit=limit))

    @classmethod
    def load(cls, path: str | Path, *, limit: int = LIMIT) -> Self:
        """Read a file; raises `SnapshotError` if it is none, damaged, or larger than `limit`."""
        try:
            return cls.from_bytes(read(path, limit), limit=limit)
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}") from error

    # --- what it says ----------------------------------------------------------------------------

    @functools.cached_property
    def _built(self) -> Any:
        """A classifier to look at, never handed out."""
        return self.classifier()

    @property
    def node(self) -> str:
        """Who learnt it."""
        return self._file.node

    @property
    def created(self) -> datetime | None:
        """When, if somebody wrote that down."""
        when = self._file.created
        return None if when is None else datetime.fromtimestamp(when, UTC)

    @property
    def has_readings(self) -> bool:
        """Whether readings were included."""
        return self._file.readings

    @property
    def type_name(self) -> str:
        """The classifier's type, such as LGMLVQ or RelSimRejector(TimeIntegrator(LGMLVQ))."""
        names = [type(link).__name__ for link in links(self._built)]
        return "(".join(names) + ")" * (len(names) - 1)

    @property
    def transform(self) -> tuple[str, tuple[Hashable, ...] | None] | None:
        """The function that readings go through first, and of which features (None: of all).

        None if they do not go through any. The features are in an order that does not depend on
        the one in which they were given.
        """
        wrapper = self._built
        if not isinstance(wrapper, FeatureTransform):
            return None
        features = wrapper.features
        return wrapper.transform, None if features is None else tuple(name_order(features))

    def in_sensor_units(self, values: ByFeature) -> ByFeature:
        """What the sensors would have to read for the model to see these values."""
        wrapper = self._built
        return wrapper.inverse_one(values) if isinstance(wrapper, FeatureTransform) else {**values}

    @property
    def members(self) -> dict[str, LVQClassifier]:
        """The models that learnt: one named "", or the learner and the follower of a committee.

        They are there to look at; what they learn is lost.
        """
        *_, model = links(self._built)
        if isinstance(model, LVQCommittee):
            return dict(zip(("learner", "follower"), model.members, strict=True))
        return {"": model}

    @property
    def weights(self) -> dict[str, float]:
        """How much each of the `members` has to say."""
        *_, model = links(self._built)
        return model.weights if isinstance(model, LVQCommittee) else {"": 1.0}

    @property
    def _first(self) -> LVQClassifier:
        """Of a committee the learner: it forgets nothing."""
        return next(iter(self.members.values()))

    @property
    def _state(self) -> State | None:
        engine = self._first._engine
        return None if engine is None else engine.state

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Their names, in the order in which they came."""
        return self._first.features

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, in the order in which they came."""
        return self._first.classes

    @property
    def samples(self) -> int:
        """How many labelled samples were learnt."""
        return 0 if self._state is None else self._state.size(at.SAMPLES)

    @property
    def counts(self) -> dict[Label, int]:
        """Samples of each class."""
        state = self._state
        found = [] if state is None else state["class_count"].tolist()
        return {label: int(found[code]) for code, label in enumerate(self.labels)}

    @property
    def means(self) -> dict[Label, ByFeature]:
        """The mean of every feature in each class; NaN where it never had one."""
        return self._statistics(lambda state: state["class_mean"])

    @property
    def spreads(self) -> dict[Label, ByFeature]:
        """The standard deviation of every feature in each class; NaN where it never had one."""
        return self._statistics(lambda state: np.sqrt(state["class_variance"]))

    @property
    def seen(self) -> dict[Label, ByFeature]:
        """How many readings each of `means` and `spreads` stands for.

        What is missing does not count, and with a half-life the past counts less.
        """
        return self._statistics(lambda state: state["class_weight"], absent=0.0)

    def _statistics(
        self, table: Callable[[State], Any], absent: float = float("nan")
    ) -> dict[Label, ByFeature]:
        state = self._state
        if state is None:
            return {}
        values = np.where(state["class_weight"] > 0.0, table(state), absent)
        return {
            label: dict(zip(self.features, values[code].tolist(), strict=True))
            for code, label in enumerate(self.labels)
        }

    @property
    def prototypes(self) -> list[Prototype]:
        """Typical readings; of a committee those of the learner, see `members` for the others."""
        return self._first.prototypes()

    @property
    def relevances(self) -> ByFeature:
        """How much each feature counts; nothing before the first sample was learnt."""
        return self._first.relevances() if self.labels else {}

    def __repr__(self) -> str:
        return (
            f"Snapshot({self.type_name} of node {self.node!r}: {self.samples} samples, "
            f"{len(self.features)} features, {len(self.labels)} classes)"
        )


def _named(node: str) -> str:
    if not isinstance(node, str) or not 1 <= len(node) <= LONGEST_NODE or not node.isprintable():
        raise SnapshotError(
            f"node: expected 1 to {LONGEST_NODE} printable characters, got {str(node)[:80]!r}"
        )
    return node


def _checked(file: _File) -> _File:
    """The time must be one that can be shown."""
    try:
        if file.created is not None:
            datetime.fromtimestamp(file.created, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise SnapshotError(
            f"created: expected seconds since 1970, got {file.created!r}"
        ) from error
    return file
