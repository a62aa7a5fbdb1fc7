"""All that a monitor knows, as bytes: its classifiers, and what it remembers of readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from streamlvq.config import Config, ModelSection
from streamlvq.config.build import build_model
from streamlvq.errors import StreamLVQError
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor.building import build_whole, empty_transform
from streamlvq.monitor.duplicates import Duplicates
from streamlvq.monitor.pending import Pending
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.servable import transform_of
from streamlvq.monitor.served import Served
from streamlvq.monitor.served_pipeline import ServedPipeline
from streamlvq.monitor.standing import LEAST, SPAN, Standing
from streamlvq.snapshot import (
    TRUSTED_LIMITS,
    TRUSTED_MAX_BYTES,
    SnapshotError,
    build_estimator,
    decode,
    encode,
    from_arrays,
    to_arrays,
)
from streamlvq.snapshot import (
    capture as capture_state,
)
from streamlvq.snapshot.state import prefixed, split
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.chain import unwrap
from streamlvq.wrappers.feature_transform import FeatureTransform

KIND = "checkpoint"
ANEW = "change it back, or give state.folder another name to begin anew"


class OtherModelError(StreamLVQError):
    """A checkpoint is good, but of a model that the configuration does not ask for."""


class _Served(msgspec.Struct, forbid_unknown_fields=True):
    classifier: dict[str, Any]
    standing: Standing


# Where nothing was ever served, a file is as it was before there was serving.
class _Group(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    classifier: dict[str, Any]
    served: _Served | None = None
    given: Annotated[int, msgspec.Meta(ge=0)] = 0  # models that were ever served


class _File(msgspec.Struct, forbid_unknown_fields=True):
    made_of: dict[str, dict[str, Any] | None]
    groups: list[_Group]
    pending: dict[str, Any] | None


class Groups(NamedTuple):
    """What there is of each group: who learns, who is served beside it, and how many were."""

    pipelines: dict[str, Pipeline]
    served: dict[str, Served]
    given: dict[str, int]


def made_of(config: Config) -> dict[str, Any]:
    """What of a configuration the classifiers depend on, as JSON would give it back."""
    parts = {"model": config.model, "integrator": config.integrator, "rejector": config.rejector}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parts))
    return plain


class Kept(NamedTuple):
    """A group: what its classifier knows, and the one that is served."""

    name: str
    arrays: dict[str, Any]
    meta: dict[str, Any]
    served_arrays: dict[str, Any]
    served: _Served | None
    given: int


class Checkpoint(NamedTuple):
    """What a monitor knew at one moment, in copies; it may be put into bytes in another thread."""

    made_of: dict[str, Any]
    groups: list[Kept]
    duplicates: list[int]
    pending: Pending | None

    def to_bytes(self) -> bytes:
        """The same knowledge always gives the same bytes."""
        arrays: dict[str, Any] = {"duplicates": np.array(self.duplicates, np.int64)}
        groups = []
        for number, each in enumerate(self.groups):
            arrays |= prefixed(f"group{number}", each.arrays)
            arrays |= prefixed(f"served{number}", each.served_arrays)
            groups.append(_Group(each.name, each.meta, each.served, each.given))
        extra = None
        if self.pending is not None:
            own, extra = self.pending.memory()
            arrays |= prefixed("pending", own)
        file = _File(self.made_of, groups, extra)
        return encode(arrays, msgspec.to_builtins(file), kind=KIND, limit=TRUSTED_MAX_BYTES)


def capture(
    config: Config,
    groups: Groups,
    duplicates: Duplicates,
    pending: Pending | None,
) -> Checkpoint:
    """All that is known now; raises `SnapshotError` for a model that cannot be kept."""
    kept = [_keep(name, groups) for name in sorted(groups.pipelines)]
    copy = None if pending is None else pending.copy()
    return Checkpoint(made_of(config), kept, duplicates.copy(), copy)


def _keep(name: str, groups: Groups) -> Kept:
    arrays, meta = _described(groups.pipelines[name].classifier)
    served, given = groups.served.get(name), groups.given.get(name, 0)
    if served is None:
        return Kept(name, arrays, meta, {}, None, given)
    own, own_meta = _described(served.pipeline.classifier)
    standing = replace(served.standing)
    return Kept(name, arrays, meta, own, _Served(own_meta, standing), given)


def _described(classifier: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return to_arrays(capture_state(classifier, limits=TRUSTED_LIMITS))


def _rebuilt(arrays: dict[str, Any], meta: dict[str, Any]) -> Any:
    return build_estimator(from_arrays(arrays, meta), limits=TRUSTED_LIMITS)


def load(config: Config, data: bytes, duplicates: Duplicates, pending: Pending | None) -> Groups:
    """Fill the memories and return the groups; raises `SnapshotError` for what cannot be."""
    arrays, metadata = decode(data, kind=KIND, limit=TRUSTED_MAX_BYTES)
    try:
        file = msgspec.convert(metadata, _File)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"checkpoint: {error}") from error
    numbers = range(len(file.groups))
    prefixes = [f"{what}{number}" for what in ("group", "served") for number in numbers]
    own, parts = split(arrays, [*prefixes, "pending"])
    _check_own(own)
    groups = Groups({}, {}, {})
    for number, group in enumerate(file.groups):
        _load_group(config, file.made_of, group, groups, parts, number)
    duplicates.restore(own["duplicates"])
    if pending is not None and file.pending is not None:
        try:
            pending.restore(parts["pending"], file.pending)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise SnapshotError(f"checkpoint: readings that wait for a label: {error}") from error
    return groups


def _check_own(own: dict[str, Any]) -> None:
    if own.keys() != {"duplicates"} or own["duplicates"].ndim != 1:
        raise SnapshotError(f"checkpoint: expected the array duplicates, got {sorted(own)}")
    if own["duplicates"].dtype.kind != "i":
        raise SnapshotError("checkpoint: expected whole numbers in the array duplicates")


def _load_group(
    config: Config,
    before: dict[str, Any],
    group: _Group,
    groups: Groups,
    parts: dict[str, dict[str, Any]],
    number: int,
) -> None:
    name, arrays = group.name, parts[f"group{number}"]
    local = _rebuilt(arrays, group.classifier)
    groups.pipelines[name] = Pipeline(_adapted(config, before, local))
    if group.given:
        groups.given[name] = group.given
    arrays = parts[f"served{number}"]
    if group.served is not None:
        chain = _rebuilt(arrays, group.served.classifier)
        pipeline = ServedPipeline(_rewrapped(config, before, chain), group.given)
        _check_served(name, group, pipeline)
        groups.served[name] = Served(pipeline, group.served.standing)
    elif arrays:
        raise SnapshotError(f"checkpoint: expected nothing to serve to {name!r}, got arrays")


def _check_served(name: str, group: _Group, pipeline: ServedPipeline) -> None:
    assert group.served is not None
    if group.given < 1 or len(pipeline.classes) < 2:
        raise SnapshotError(f"checkpoint: expected a model to serve to {name!r}, got none")
    standing = group.served.standing
    right = standing.local, standing.fused
    early = standing.labels < (LEAST if standing.ahead else 0)
    if not 0.0 <= min(right) <= max(right) <= standing.weight <= SPAN or early:
        raise SnapshotError(f"checkpoint: expected how models have done, got {standing}")


def _adapted(config: Config, before: dict[str, Any], classifier: Any) -> Any:
    """The classifier as the configuration wants it now; raises if it is another model."""
    now = made_of(config)
    if now == before:
        return classifier
    *_, model = unwrap(classifier)
    per = (before.get("model") or {}).get("per")
    if now["model"]["per"] != per:
        raise OtherModelError(
            f"model.per: the state was made with {per!r}, the configuration says "
            f"{now['model']['per']!r}; {ANEW}"
        )
    adapt(config.model, model, "the state is that of")
    check_transform(empty_transform(config.model), classifier, "the state is that of a model")
    return _rewrapped(config, before, classifier)


def _rewrapped(config: Config, before: dict[str, Any], classifier: Any) -> Any:
    """The model of a classifier in the wrappers that the configuration wants now."""
    now = made_of(config)
    *wrappers, model = unwrap(classifier)
    if now["integrator"] != before.get("integrator"):
        return build_whole(config, model)  # what windows and thresholds knew is of no use now
    if now["rejector"] != before.get("rejector"):
        inner = next((w for w in wrappers if isinstance(w, TimeIntegrator)), model)
        return build_whole(structs.replace(config, integrator=None), inner)
    return classifier


def adapt(section: ModelSection, model: Any, what: str) -> None:
    """Give a model that has learnt something the parameters that are asked for, where that works.

    Raises `OtherModelError` where it would be another model.
    """
    if type(model).__name__ != section.type:
        raise OtherModelError(
            f"{what} {type(model).__name__}, but the configuration asks for {section.type} "
            f"(model.type); {ANEW}"
        )
    wanted = build_model(section)
    for name in type(model).__dataclass_fields__:
        now, before = getattr(wanted, name), getattr(model, name)
        if now == before or isinstance(before, LVQClassifier):
            continue
        if name not in model._mutable_attributes:
            raise OtherModelError(
                f"model.parameters.{name}: the state was made with {before!r}, the configuration "
                f"says {now!r}, and this cannot change in a model that has begun to learn; {ANEW}"
            )
        setattr(model, name, now)


def check_transform(wanted: FeatureTransform | None, classifier: Any, what: str) -> None:
    """Raise `OtherModelError` unless a classifier has the transform that is asked for."""
    ours, theirs = transform_of(wanted), transform_of(classifier)
    if ours != theirs:
        raise OtherModelError(
            f"{what} with the transform {theirs!r}, but the configuration asks for {ours!r} "
            f"(model.transform); {ANEW}"
        )
