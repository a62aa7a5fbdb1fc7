"""Checkpoints: a monitor's classifiers and its memory of readings as bytes, and back."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from streamlvq.config import Config, ModelSection
from streamlvq.config.build import build_full_classifier, build_model
from streamlvq.config.schema import PRIVATE_MODEL
from streamlvq.errors import StreamLVQError
from streamlvq.estimator import EstimatorState, build_around, parameters_of
from streamlvq.models import LVQCommittee
from streamlvq.models.pool import LOCAL, PoolClassifier, without_local
from streamlvq.monitor.admission import Admission
from streamlvq.monitor.late_labels import PendingReadings
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.monitor.serving import (
    SCORE_SPAN_LABELS,
    Group,
    Served,
    ServingScore,
    transform_of,
)
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
from streamlvq.snapshot import capture as capture_state
from streamlvq.snapshot.state import prefixed, split
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.base import unwrap
from streamlvq.wrappers.rejectors import Rejector

log = logging.getLogger(__name__)

CHECKPOINT_KIND = "checkpoint"
CHANGE_BACK = "change it back, or set state.folder to a new folder to start afresh"


class OtherModelError(StreamLVQError):
    """Checkpoint with a different model from the one that is configured."""


# A pool is stored without its local model, which is that of the group.
class _Served(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    classifier: dict[str, Any]
    standing: ServingScore
    scored: dict[str, Any] | None = None  # of a pool: what its models said about labelled readings


# Defaults are omitted: most monitors are never served a model.
class _Group(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    classifier: dict[str, Any]
    served: _Served | None = None
    given: Annotated[int, msgspec.Meta(ge=0)] = 0  # number of models ever served


# Defaults are omitted: most of the time nothing is on probation.
class _CheckpointFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    made_of: dict[str, dict[str, Any] | None]
    groups: list[_Group]
    pending: dict[str, Any] | None
    probation: dict[str, Any] | None = None


def config_fingerprint(config: Config) -> dict[str, Any]:
    """Return the configuration sections that classifiers depend on, as decoded from JSON."""
    parts: dict[str, Any] = {
        "model": config.model,
        "integrator": config.integrator,
        "rejector": config.rejector,
    }
    if config.privacy is not None:
        parts["privacy"] = config.privacy
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parts))
    return plain


class GroupCopy(NamedTuple):
    """Copy of a group's classifiers: the one that learns and the one that is served."""

    name: str
    arrays: dict[str, Any]
    meta: dict[str, Any]
    served_arrays: dict[str, Any]
    scored_arrays: dict[str, Any]
    served: _Served | None
    given: int


class Checkpoint(NamedTuple):
    """Copy of a monitor's state; another thread may encode it."""

    made_of: dict[str, Any]
    groups: list[GroupCopy]
    duplicates: list[int]
    pending: PendingReadings | None
    probation_arrays: dict[str, Any]
    probation: dict[str, Any] | None

    def to_bytes(self) -> bytes:
        """Encode the checkpoint; equal state gives equal bytes."""
        arrays: dict[str, Any] = {"duplicates": np.array(self.duplicates, np.int64)}
        groups = []
        for number, each in enumerate(self.groups):
            arrays |= prefixed(f"group{number}", each.arrays)
            arrays |= prefixed(f"served{number}", each.served_arrays)
            arrays |= prefixed(f"scored{number}", each.scored_arrays)
            groups.append(_Group(each.name, each.meta, each.served, each.given))
        extra = None
        if self.pending is not None:
            own, extra = self.pending.state()
            arrays |= prefixed("pending", own)
        arrays |= prefixed("probation", self.probation_arrays)
        file = _CheckpointFile(self.made_of, groups, extra, self.probation)
        return encode(
            arrays, msgspec.to_builtins(file), kind=CHECKPOINT_KIND, limit=TRUSTED_MAX_BYTES
        )


# --- from a monitor to bytes ---------------------------------------------------------------------


def capture(
    config: Config,
    groups: Mapping[str, Group],
    admission: Admission,
    pending: PendingReadings | None,
) -> Checkpoint:
    """Copy the current state; raise `SnapshotError` for a model that cannot be saved."""
    copies = [_copy(name, groups[name]) for name in sorted(groups)]
    waiting = None if pending is None else pending.copy()
    keys, probation = admission.duplicates.keys(), admission.probation.state(admission.clock)
    return Checkpoint(config_fingerprint(config), copies, keys, waiting, *probation)


def _copy(name: str, group: Group) -> GroupCopy:
    arrays, meta = _to_arrays(group.local.classifier)
    served = group.served
    if served is None:
        return GroupCopy(name, arrays, meta, {}, {}, None, group.served_models)
    state, pool = capture_state(served.pipeline.classifier, limits=TRUSTED_LIMITS), None
    scored_arrays: dict[str, Any] = {}
    if served.pipeline.pool is not None:
        state = _with_innermost(state, without_local(state.innermost))
        scored_arrays, pool = served.pipeline.pool.memory_state()
    own, own_meta = to_arrays(state)
    kept = _Served(own_meta, replace(served.score), pool)
    return GroupCopy(name, arrays, meta, own, scored_arrays, kept, group.served_models)


def _to_arrays(classifier: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return to_arrays(capture_state(classifier, limits=TRUSTED_LIMITS))


def _from_arrays(arrays: dict[str, Any], meta: dict[str, Any]) -> Any:
    return build_estimator(from_arrays(arrays, meta), limits=TRUSTED_LIMITS)


def _with_innermost(state: EstimatorState, model: EstimatorState) -> EstimatorState:
    """Return the state of wrappers around another model."""
    if "classifier" not in state.parts:
        return model
    inner = _with_innermost(state.parts["classifier"], model)
    return replace(state, parts={"classifier": inner})


# --- from bytes to a monitor ---------------------------------------------------------------------


def load(
    config: Config,
    data: bytes,
    groups: dict[str, Group],
    admission: Admission,
    pending: PendingReadings | None,
) -> None:
    """Restore groups, duplicates, probation and pending readings in place.

    Raises `SnapshotError` if the checkpoint is not valid.
    """
    arrays, metadata = decode(data, kind=CHECKPOINT_KIND, limit=TRUSTED_MAX_BYTES)
    try:
        file = msgspec.convert(metadata, _CheckpointFile)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"checkpoint: {error}") from error
    numbers = range(len(file.groups))
    prefixes = [f"{what}{number}" for what in ("group", "served", "scored") for number in numbers]
    own, parts = split(arrays, [*prefixes, "pending", "probation"])
    _check_own(own)
    for number, group in enumerate(file.groups):
        arrays_of = [parts[f"{what}{number}"] for what in ("group", "served", "scored")]
        groups[group.name] = _load_group(config, file.made_of, group, *arrays_of)
    admission.duplicates.restore(own["duplicates"])
    if file.probation is not None:
        try:
            admission.probation.restore(parts["probation"], file.probation, admission.clock)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise SnapshotError(f"checkpoint: probation: {error}") from error
    if pending is not None and file.pending is not None:
        try:
            pending.restore(parts["pending"], file.pending)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise SnapshotError(f"checkpoint: pending readings: {error}") from error


def _check_own(own: dict[str, Any]) -> None:
    if own.keys() != {"duplicates"} or own["duplicates"].ndim != 1:
        raise SnapshotError(f"checkpoint: expected the array duplicates, got {sorted(own)}")
    if own["duplicates"].dtype.kind != "i":
        raise SnapshotError("checkpoint: expected whole numbers in the array duplicates")


def _load_group(
    config: Config,
    before: dict[str, Any],
    group: _Group,
    arrays: dict[str, Any],
    served_arrays: dict[str, Any],
    scored_arrays: dict[str, Any],
) -> Group:
    local = _from_arrays(arrays, group.classifier)
    loaded = Group(Pipeline(_adapted(config, before, local)), None, group.given)
    if group.served is not None:
        chain = _load_served(group.served, served_arrays, scored_arrays, loaded.local.model)
        pipeline = Pipeline(_rewrapped(config, before, chain), learns=False)
        _check_served(group, group.served.standing, pipeline)
        loaded.served = Served(pipeline, group.given, group.served.standing)
    elif served_arrays or scored_arrays:
        raise SnapshotError(f"checkpoint: expected no served model for {group.name!r}, got arrays")
    return loaded


def _load_served(
    served: _Served, arrays: dict[str, Any], scored_arrays: dict[str, Any], local: Any
) -> Any:
    """Return what is served in its wrappers; a pool is put beside the local model."""
    state = from_arrays(arrays, served.classifier)
    is_pool = state.innermost.kind == PoolClassifier.__name__
    if is_pool != (served.scored is not None) or (scored_arrays and not is_pool):
        raise SnapshotError("checkpoint: expected what was scored of pools, and of nothing else")
    if served.scored is None:
        return build_estimator(state, limits=TRUSTED_LIMITS)
    if LOCAL in state.innermost.parts:
        raise SnapshotError("checkpoint: expected a pool without its local model, got one with it")
    pool = PoolClassifier.from_state_beside(state.innermost, local, limits=TRUSTED_LIMITS)
    pool.restore_memory(scored_arrays, served.scored)
    return build_around(state, pool)


def _check_served(group: _Group, score: ServingScore, pipeline: Pipeline) -> None:
    if group.given < 1 or len(pipeline.classes) < 2:
        raise SnapshotError(f"checkpoint: expected a served model for {group.name!r}, got none")
    right = score.local, score.fused
    ordered = 0.0 <= min(right) <= max(right) <= score.weight <= SCORE_SPAN_LABELS
    if not ordered or score.labels < 0:
        raise SnapshotError(f"checkpoint: expected a consistent serving score, got {score}")


def _adapted(config: Config, before: dict[str, Any], classifier: Any) -> Any:
    """Return the classifier adapted to the configuration; raise if the model is a different one."""
    now = config_fingerprint(config)
    if now == before:
        return classifier
    *_, model = unwrap(classifier)
    per = (before.get("model") or {}).get("per")
    if now["model"]["per"] != per:
        raise OtherModelError(
            f"model.per: the state was written with {per!r}, but the configuration says "
            f"{now['model']['per']!r}; {CHANGE_BACK}"
        )
    if now.get("privacy") != before.get("privacy"):
        raise OtherModelError(
            f"privacy: the state was written under another promise; {CHANGE_BACK}"
        )
    adapt(config.model, model, "the state is that of")
    check_transform(config.model, classifier, "the state is that of a model")
    return _rewrapped(config, before, classifier)


def _rewrapped(config: Config, before: dict[str, Any], classifier: Any) -> Any:
    """Return the classifier's model in the wrappers that are configured now."""
    now = config_fingerprint(config)
    *wrappers, model = unwrap(classifier)
    if now["integrator"] != before.get("integrator"):
        return build_full_classifier(
            config, model
        )  # old windows and thresholds do not fit any more
    if now["rejector"] != before.get("rejector"):
        inner = next((w for w in wrappers if isinstance(w, TimeIntegrator)), model)
        return build_full_classifier(structs.replace(config, integrator=None), inner)
    return classifier


def begun_with(config: Config, classifier: Any, what: str) -> tuple[Any, list[str]]:
    """Return a trained classifier as the configuration wants it, and the wrappers that begin anew.

    Integrator and rejector go on with what labels taught them if they are configured as they were;
    certainties that were measured behind another integrator do not count. Windows of devices stay
    behind. Raises `OtherModelError` for another model.
    """
    check_transform(config.model, classifier, what)
    *_, model = unwrap(classifier)
    adapt(config.model, model, f"{what} of")
    full = build_full_classifier(config, model)
    before, after = _memories(classifier), _memories(full)
    anew: list[str] = []
    for kind in (TimeIntegrator, Rejector):
        old, new = before.get(kind), after.get(kind)
        if old is None and new is None:
            continue
        if old is not None and new is not None and not anew and _alike(old, new):
            new.adopt(old)
        else:
            anew.append("integrator" if kind is TimeIntegrator else "rejector")
    return full, [name for name in anew if getattr(config, name) is not None]


def _memories(classifier: Any) -> dict[type[Any], Any]:
    """Return the integrator and the rejector around a model."""
    kinds = (TimeIntegrator, Rejector)
    # `type`, because `isinstance` looks through wrappers
    links = [(kind, link) for link in unwrap(classifier) for kind in kinds]
    return {kind: link for kind, link in links if issubclass(type(link), kind)}


def _alike(old: Any, new: Any) -> bool:
    """Return True for wrappers whose memories mean the same."""
    ours, theirs = ({**parameters_of(each), "max_devices": None} for each in (new, old))
    return type(old) is type(new) and ours == theirs


def adapt(section: ModelSection, model: Any, what: str) -> None:
    """Set the configured parameters of a trained model where possible.

    Raises `OtherModelError` for parameters that cannot change once the model has learnt something.
    A committee that began with what others shared lacks trees and bins; it goes on without them.
    """
    if type(model).__name__ != section.type:
        raise OtherModelError(
            f"{what} {type(model).__name__}, but the configuration asks for {section.type} "
            f"(model.type); {CHANGE_BACK}"
        )
    if section.type == PRIVATE_MODEL:
        _check_private(section, model)
        return
    _adapt(build_model(section), model, "model.parameters")


def _check_private(section: ModelSection, model: Any) -> None:
    """Raise `OtherModelError` if a private model has other parameters than are configured."""
    for name, before in parameters_of(model).items():
        if (now := section.parameters.get(name, before)) != before:
            raise _unlike(f"model.parameters.{name}", before, now)


def _adapt(wanted: Any, model: Any, path: str) -> None:
    """Set the parameters of a trained model, and of the members of a committee, to those wanted."""
    if isinstance(model, LVQCommittee):
        theirs = {name: type(part).__name__ for name, part in model.parts.items()}
        ours = {name: type(part).__name__ for name, part in wanted.parts.items()}
        lacking = {k for k in ours.keys() - theirs.keys() if not wanted.parts[k].shareable}
        if {name: kind for name, kind in ours.items() if name not in lacking} != theirs:
            raise _unlike(f"{path}.members", theirs, ours)
        _warn_without(", ".join(sorted(lacking)))
        for name, part in model.parts.items():
            _adapt(wanted.parts[name], part, f"{path}.members.{name}")
    for name in type(model).__dataclass_fields__:
        now, before = getattr(wanted, name), getattr(model, name)
        if now == before or name == "members":
            continue
        if name not in model.mutable_parameters:
            raise _unlike(f"{path}.{name}", before, now)
        setattr(model, name, now)


@functools.cache  # once, not for every group
def _warn_without(names: str) -> None:
    if names:
        log.warning(
            "the committee goes on without %s: it began as a snapshot that was shared, or it was "
            "written without; begin afresh to have them",
            names,
        )


def _unlike(path: str, before: Any, now: Any) -> OtherModelError:
    return OtherModelError(
        f"{path}: the state was written with {before!r}, but the configuration says {now!r}; it "
        f"cannot change once a model has learnt something; {CHANGE_BACK}"
    )


def check_transform(section: ModelSection, classifier: Any, what: str) -> None:
    """Raise `OtherModelError` unless a classifier has the configured transform."""
    ours = None if section.transform is None else (section.transform, None)
    theirs = transform_of(classifier)
    if ours != theirs:
        raise OtherModelError(
            f"{what} with the transform {theirs!r}, but the configuration asks for {ours!r} "
            f"(model.transform); {CHANGE_BACK}"
        )
