"""All that a monitor knows, as bytes: its classifiers, and what it remembers of readings."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from streamlvq.config import Config, ModelSection, build_classifier
from streamlvq.config.build import build_model
from streamlvq.errors import StreamLVQError
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor.duplicates import Duplicates
from streamlvq.monitor.pending import Pending
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.snapshot import (
    OWN_LIMIT,
    OWN_ROOM,
    SnapshotError,
    decode,
    describe,
    encode,
    rebuild,
)
from streamlvq.snapshot.classifiers import prefixed, split
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.chain import links

KIND = "checkpoint"
ANEW = "change it back, or give state.folder another name to begin anew"


class OtherModelError(StreamLVQError):
    """A checkpoint is good, but of a model that the configuration does not ask for."""


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    classifier: dict[str, Any]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    made_of: dict[str, dict[str, Any] | None]
    groups: list[_Group]
    pending: dict[str, Any] | None


def made_of(config: Config) -> dict[str, Any]:
    """What of a configuration the classifiers depend on, as JSON would give it back."""
    parts = {"model": config.model, "integrator": config.integrator, "rejector": config.rejector}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parts))
    return plain


class Checkpoint(NamedTuple):
    """What a monitor knew at one moment, in copies; it may be put into bytes in another thread."""

    made_of: dict[str, Any]
    classifiers: list[tuple[str, dict[str, Any], dict[str, Any]]]  # group, arrays, metadata
    duplicates: list[int]
    pending: Pending | None

    def to_bytes(self) -> bytes:
        """The same knowledge always gives the same bytes."""
        arrays: dict[str, Any] = {"duplicates": np.array(self.duplicates, np.int64)}
        groups = []
        for number, (name, own, meta) in enumerate(self.classifiers):
            arrays |= prefixed(f"group{number}", own)
            groups.append(_Group(name, meta))
        extra = None
        if self.pending is not None:
            own, extra = self.pending.memory()
            arrays |= prefixed("pending", own)
        file = _File(self.made_of, groups, extra)
        return encode(arrays, msgspec.to_builtins(file), kind=KIND, limit=OWN_LIMIT)


def capture(
    config: Config,
    pipelines: dict[str, Pipeline],
    duplicates: Duplicates,
    pending: Pending | None,
) -> Checkpoint:
    """All that is known now; raises `SnapshotError` for a model that cannot be kept."""
    classifiers = [
        (name, *describe(pipeline.classifier, room=OWN_ROOM))
        for name, pipeline in sorted(pipelines.items())
    ]
    copy = None if pending is None else pending.copy()
    return Checkpoint(made_of(config), classifiers, duplicates.copy(), copy)


def load(
    config: Config, data: bytes, duplicates: Duplicates, pending: Pending | None
) -> dict[str, Pipeline]:
    """Fill the memories and return the pipelines; raises `SnapshotError` for what cannot be."""
    arrays, metadata = decode(data, kind=KIND, limit=OWN_LIMIT)
    try:
        file = msgspec.convert(metadata, _File)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"checkpoint: {error}") from error
    prefixes = [f"group{number}" for number in range(len(file.groups))]
    own, parts = split(arrays, [*prefixes, "pending"])
    if own.keys() != {"duplicates"} or own["duplicates"].ndim != 1:
        raise SnapshotError(f"checkpoint: expected the array duplicates, got {sorted(own)}")
    if own["duplicates"].dtype.kind != "i":
        raise SnapshotError("checkpoint: expected whole numbers in the array duplicates")
    pipelines = {
        group.name: Pipeline(
            _adapted(config, file.made_of, rebuild(parts[p], group.classifier, room=OWN_ROOM))
        )
        for p, group in zip(prefixes, file.groups, strict=True)
    }
    duplicates.restore(own["duplicates"])
    if pending is not None and file.pending is not None:
        try:
            pending.restore(parts["pending"], file.pending)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise SnapshotError(f"checkpoint: readings that wait for a label: {error}") from error
    return pipelines


def _adapted(config: Config, before: dict[str, Any], classifier: Any) -> Any:
    """The classifier as the configuration wants it now; raises if it is another model."""
    now = made_of(config)
    if now == before:
        return classifier
    *wrappers, model = links(classifier)
    per = (before.get("model") or {}).get("per")
    if now["model"]["per"] != per:
        raise OtherModelError(
            f"model.per: the state was made with {per!r}, the configuration says "
            f"{now['model']['per']!r}; {ANEW}"
        )
    adapt(config.model, model, "the state is that of")
    if now["integrator"] != before.get("integrator"):
        return build_classifier(config, model)  # what windows and thresholds knew is of no use now
    if now["rejector"] != before.get("rejector"):
        inner = next((w for w in wrappers if isinstance(w, TimeIntegrator)), model)
        return build_classifier(structs.replace(config, integrator=None), inner)
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
