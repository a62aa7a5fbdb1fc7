"""`Snapshot`: the complete state of a classifier, with its statistics in sensor units."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from streamlvq.arrays import Array, Label
from streamlvq.errors import SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    StateLimits,
    build_estimator,
    estimator_class,
)
from streamlvq.models.base import CompiledClassifier, LVQClassifier
from streamlvq.models.committee import speaker_name
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.models.vectorizer import name_order
from streamlvq.records import Prototype
from streamlvq.snapshot.container import MAX_SNAPSHOT_BYTES, decode, encode
from streamlvq.snapshot.files import read, write_atomically
from streamlvq.snapshot.state import COMMITTEE, Meta, capture, check, from_arrays, to_arrays
from streamlvq.snapshot.statement import PrivacyStatement
from streamlvq.wrappers import FeatureTransform
from streamlvq.wrappers.base import innermost_model

MAX_NODE_LENGTH = 200
ByFeature = dict[Hashable, float]


# Defaults are omitted: most nodes have no pool.
class _SnapshotFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Metadata of a snapshot file."""

    node: str
    created: float | None
    readings: bool
    classifier: Meta
    weights: dict[str, float] | None = None
    privacy: PrivacyStatement | None = None


class Snapshot:
    """Everything that a classifier has learnt up to one moment, in sensor units.

    If the classifier is a `FeatureTransform`, statistics are in the units of the model inside, such
    as logarithms; `transform` tells which, and `in_sensor_units` converts them.

    A classifier built from a snapshot decides and learns exactly as the original would have. The
    snapshot does not change while the original goes on learning.

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

    To share what was learnt, without stored readings and what single readings leave behind (counts,
    means and prototypes still tell something of readings, see docs/privacy.md):

    >>> shared = Snapshot.of(model, node="camera 1", readings=False)
    >>> len(shared.to_bytes()) < len(data)
    True

    """

    def __init__(
        self,
        state: EstimatorState,
        node: str = "n1",
        *,
        readings: bool = True,
        created: float | datetime | None = None,
        weights: PoolWeights | None = None,
        privacy: PrivacyStatement | None = None,
    ) -> None:
        _check_node(node)
        self._state = state
        self._weights = weights
        self._privacy = privacy
        self._node = node
        self._readings = readings
        self._created = created.timestamp() if isinstance(created, datetime) else created
        _check_time(self._created)

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
        """Take a snapshot of a classifier as it is now.

        Parameters
        ----------
        classifier
            A model of streamlvq, or one in wrappers of streamlvq.
        node
            Name of the node that learnt it.
        readings
            Whether to include the readings that are rehearsed, the windows of devices, and all that
            single readings leave in a model, such as optimiser moments. Without them a snapshot is
            small and can be shared: what is left are prototypes, metrics, counts, means and
            spreads. This hides no reading from somebody who has two snapshots: they differ by
            what was learnt in between, and one reading more in a count and a mean is that reading.
            A prototype is born on a reading, and one that has learnt little since is still close
            to it. A node of a fleet holds back what would tell fewer than
            `fleet.min_new_per_class` readings; here there is no history to do that with.
        created
            The time to write into it, in seconds since 1970 or as a datetime; none by default, so
            that the same knowledge gives the same bytes.

        """
        state, weights = capture(classifier, readings=readings), None
        if state.innermost.kind == PoolClassifier.__name__ and not readings:
            state, weights = _own_part(state)
        to_arrays(state)  # raises for names that cannot be written, now and not later
        return cls(state, node, readings=readings, created=created, weights=weights)

    def without_traces(self) -> Snapshot:
        """Return the snapshot as `of(..., readings=False)` would have taken it of a model.

        One that was taken so is returned unchanged, whatever version took it.
        """
        if not any(_has_traces(state) for state in self.node_models().values()):
            return self
        return Snapshot.of(self.classifier(), self._node, readings=False, created=self._created)

    def without_pool(self) -> Snapshot:
        """Return a snapshot of the local model alone if this is one of a pool, with its weights."""
        if self._state.innermost.kind != PoolClassifier.__name__:
            return self
        state, weights = _own_part(self._state)
        return Snapshot(
            state, self._node, readings=self._readings, created=self._created, weights=weights
        )

    def classifier(self) -> Any:
        """Build a new, independent classifier that continues from here."""
        return build_estimator(self._state)

    def estimator_state(self) -> EstimatorState:
        """Return the state of the classifier; do not change it."""
        return self._state

    def node_models(self) -> dict[str, EstimatorState]:
        """Return the states of the learning models: one named "", or the members of a committee."""
        state = self._state.innermost
        return dict(state.parts) if state.kind == COMMITTEE else {"": state}

    def to_bytes(self, *, limit: int = MAX_SNAPSHOT_BYTES) -> bytes:
        """Encode as a safetensors file; raises `SnapshotError` if it is larger than `limit`."""
        arrays, meta = to_arrays(self._state)
        weights = None if self._weights is None else self._weights.named()
        file = _SnapshotFile(
            self._node, self._created, self._readings, meta, weights, self._privacy
        )
        return encode(arrays, msgspec.to_builtins(file), limit=limit)

    @classmethod
    def from_bytes(
        cls,
        data: bytes,
        *,
        limit: int = MAX_SNAPSHOT_BYTES,
        limits: StateLimits = DEFAULT_LIMITS,
        before_build: Callable[[EstimatorState], None] | None = None,
    ) -> Self:
        """Decode what `to_bytes` returned; raises `SnapshotError` if it is damaged or impossible.

        Parameters
        ----------
        data
            The bytes of a file.
        limit
            Maximum size of the file, in bytes.
        limits
            How much its classifier may allocate: a short snapshot from a stranger can describe a
            large one.
        before_build
            Called with the state before anything is computed of it; raises `SnapshotError` for what
            is not wanted. Names and arrays are not checked yet.

        """
        arrays, metadata = decode(data, limit=limit)
        try:
            file = msgspec.convert(metadata, _SnapshotFile)
        except (msgspec.ValidationError, OverflowError) as error:
            raise SnapshotError(f"metadata: {error}") from error
        _check_node(file.node)
        _check_time(file.created)
        state = from_arrays(arrays, file.classifier)
        if before_build is not None:
            before_build(state)
        built = check(state, limits=limits)  # what cannot be rebuilt is no snapshot
        try:
            weights = None if file.weights is None else PoolWeights.from_names(file.weights)
        except ValueError as error:
            raise SnapshotError(f"weights: {error}") from error
        snapshot = cls(
            state,
            file.node,
            readings=file.readings,
            created=file.created,
            weights=weights,
            privacy=file.privacy,
        )
        if built is not None:
            snapshot._built = built
        return snapshot

    def save(self, path: str | Path, *, limit: int = MAX_SNAPSHOT_BYTES) -> None:
        """Write a file atomically; it survives a power failure."""
        write_atomically(path, self.to_bytes(limit=limit))

    @classmethod
    def load(cls, path: str | Path, *, limit: int = MAX_SNAPSHOT_BYTES) -> Self:
        """Read a file; raises `SnapshotError` if it is damaged, too large or not a snapshot."""
        try:
            return cls.from_bytes(read(path, limit), limit=limit)
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}") from error

    # --- what it says ----------------------------------------------------------------------------

    @functools.cached_property
    def _built(self) -> Any:
        """A classifier for look-ups, never handed out."""
        return self.classifier()

    @property
    def node(self) -> str:
        """Name of the node that learnt it."""
        return self._node

    @property
    def created(self) -> datetime | None:
        """Time of the snapshot; None if it was not recorded."""
        return None if self._created is None else datetime.fromtimestamp(self._created, UTC)

    @property
    def created_seconds(self) -> float | None:
        """Time of the snapshot in seconds since 1970, unrounded."""
        return self._created

    @property
    def pool_weights(self) -> PoolWeights | None:
        """Weights that suit the node's own readings best; None if it has no pool or records."""
        return self._weights

    @property
    def privacy(self) -> PrivacyStatement | None:
        """What its node guarantees; None if it was not learnt under differential privacy."""
        return self._privacy

    @property
    def has_readings(self) -> bool:
        """Whether rehearsed readings and device windows are included."""
        return self._readings

    @property
    def type_name(self) -> str:
        """Type of the classifier, such as LGMLVQ or RelSimRejector(TimeIntegrator(LGMLVQ))."""
        state, names = self._state, [self._state.kind]
        while "classifier" in state.parts:
            state = state.parts["classifier"]
            names.append(state.kind)
        return "(".join(names) + ")" * (len(names) - 1)

    @property
    def transform(self) -> tuple[str, tuple[Hashable, ...] | None] | None:
        """Name of the feature transform and the features it applies to (None: all of them).

        None without a transform. The features are in a canonical order.
        """
        wrapper = self._built
        if not isinstance(wrapper, FeatureTransform) or wrapper.transform is None:
            return None
        features = wrapper.features
        return wrapper.transform, None if features is None else tuple(name_order(features))

    @property
    def private(self) -> tuple[Hashable, ...]:
        """Names of the private features that were removed, with what others told of them."""
        wrapper = self._built
        return wrapper.private_features if isinstance(wrapper, FeatureTransform) else ()

    def in_sensor_units(self, values: ByFeature) -> ByFeature:
        """Convert feature values from the units of the model to those of the sensors.

        What was removed of `private` features stays removed: the values are those of somebody whose
        private values are the mean ones.
        """
        wrapper = self._built
        return wrapper.inverse_one(values) if isinstance(wrapper, FeatureTransform) else {**values}

    @property
    def members(self) -> dict[str, CompiledClassifier[Any]]:
        """Models that learnt: one named "", or the members of a committee.

        For inspection only: what they learn afterwards is lost.
        """
        model = innermost_model(self._built)
        return model.parts if self._state.innermost.kind == COMMITTEE else {"": model}

    @property
    def weights(self) -> dict[str, float]:
        """Voting weight of each of the `members`."""
        committee = self._state.innermost.kind == COMMITTEE
        return innermost_model(self._built).weights if committee else {"": 1.0}

    @functools.cached_property
    def _speaker_name(self) -> str:
        """Name of the member that speaks for a committee, or its first; "" without a committee."""
        models = self.node_models()
        name = speaker_name({name: estimator_class(each.kind) for name, each in models.items()})
        return next(iter(models)) if name is None else name

    @property
    def _speaker_state(self) -> EstimatorState:
        """State of the model, or of the member that speaks for a committee."""
        return self.node_models()[self._speaker_name]

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Feature names, in the order of their appearance."""
        return tuple(self._speaker_state.extra["features"])

    @property
    def labels(self) -> tuple[Label, ...]:
        """Class labels, in the order of their appearance."""
        return tuple(self._speaker_state.extra["classes"])

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt."""
        sizes = self._speaker_state.extra["sizes"]
        return 0 if sizes is None else int(sizes["samples"])

    @property
    def counts(self) -> dict[Label, int]:
        """Number of samples of each class; empty for models that do not count them exactly."""
        arrays = self._speaker_state.arrays
        if "class_count" not in arrays:  # no reading yet, or a model that learns under privacy
            return {}
        counts = arrays["class_count"].tolist()
        return {label: int(counts[code]) for code, label in enumerate(self.labels)}

    @property
    def means(self) -> dict[Label, ByFeature]:
        """Mean of every feature in each class; NaN where the class has no value of it."""
        return self._statistics(lambda arrays: arrays["class_mean"])

    @property
    def spreads(self) -> dict[Label, ByFeature]:
        """Standard deviation of every feature in each class; NaN where the class has none."""
        return self._statistics(lambda arrays: np.sqrt(arrays["class_variance"]))

    @property
    def seen(self) -> dict[Label, ByFeature]:
        """Number of readings behind each of `means` and `spreads`.

        Missing values do not count, and with a half-life older readings count less.
        """
        return self._statistics(lambda arrays: arrays["class_weight"], absent=0.0)

    def _statistics(
        self, table: Callable[[Mapping[str, Array]], Array], absent: float = float("nan")
    ) -> dict[Label, ByFeature]:
        arrays = self._speaker_state.arrays
        if "class_weight" not in arrays:  # as in `counts`, or no feature yet
            return {label: {} for label in self.labels}
        values = np.where(arrays["class_weight"] > 0.0, table(arrays), absent)
        return {
            label: dict(zip(self.features, values[code].tolist(), strict=True))
            for code, label in enumerate(self.labels)
        }

    @property
    def _speaker(self) -> CompiledClassifier[Any]:
        return self.members[self._speaker_name]

    @property
    def prototypes(self) -> list[Prototype]:
        """Prototypes of the model, or of a committee's speaker (see `members` for the others).

        None for trees and bins.
        """
        model = self._speaker
        return model.prototypes() if isinstance(model, LVQClassifier) else []

    @property
    def relevances(self) -> ByFeature:
        """Relevance of each feature; empty before the first sample, and for trees and bins."""
        model = self._speaker
        return model.relevances() if self.labels and isinstance(model, LVQClassifier) else {}

    def __repr__(self) -> str:
        return (
            f"Snapshot({self.type_name} of node {self.node!r}: {self.samples} samples, "
            f"{len(self.features)} features, {len(self.labels)} classes)"
        )


def _own_part(state: EstimatorState) -> tuple[EstimatorState, PoolWeights | None]:
    """Return the state without its pool: the local model in its wrappers; and its own weights.

    Not those in force, which other nodes have a part in: what they told would come back to them.
    """
    if "classifier" in state.parts:
        inner, weights = _own_part(state.parts["classifier"])
        return replace(state, parts={**state.parts, "classifier": inner}), weights
    if "local" not in state.parts:
        raise SnapshotError("pool: expected a local model, got candidates alone")
    own = state.arrays["fitted"]
    told = PoolWeights.of(state.extra["candidates"], own) if own.size else None
    return state.parts["local"], told


def _has_traces(state: EstimatorState) -> bool:
    """Return whether a model's state says when prototypes were born, or holds readings."""
    arrays = state.arrays
    return "buffer_x" in arrays or ("born" in arrays and bool(arrays["born"].any()))


def _check_node(node: str) -> None:
    good = isinstance(node, str) and 1 <= len(node) <= MAX_NODE_LENGTH and node.isprintable()
    if not good:
        raise SnapshotError(
            f"node: expected 1 to {MAX_NODE_LENGTH} printable characters, got {str(node)[:80]!r}"
        )


def _check_time(created: float | None) -> None:
    """Raise `SnapshotError` unless the time can be displayed."""
    try:
        if created is not None:
            datetime.fromtimestamp(created, UTC)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise SnapshotError(f"created: expected seconds since 1970, got {created!r}") from error
