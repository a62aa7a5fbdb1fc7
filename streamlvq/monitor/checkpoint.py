"""All that a monitor knows, as bytes: its classifiers, and what it remembers of readings."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from streamlvq.config import Config, build_classifier
from streamlvq.errors import StreamLVQError
from streamlvq.monitor.duplicates import Duplicates
from streamlvq.monitor.pending import Pending
from streamlvq.monitor.pipeline import Pipeline
from streamlvq.snapshot import SnapshotError, decode, describe, encode, rebuild
from streamlvq.snapshot.classifiers import prefixed, split
from streamlvq.wrappers.chain import links

KIND = "checkpoint"


class OtherModelError(StreamLVQError):
    """A checkpoint is good, but of a model that the configuration does not ask for."""


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    classifier: dict[str, Any]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    made_of: dict[str, Any]
    groups: list[_Group]
    pending: dict[str, Any] | None


def made_of(config: Config) -> dict[str, Any]:
    """What of a configuration the classifiers depend on, as JSON would give it back."""
    parts = {"model": config.model, "integrator": config.integrator, "rejector": config.rejector}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(parts))
    return plain


class Checkpoint(NamedTuple):
    """What a monitor knew at one moment, in copies; it may be put into bytes in another thread."""

    arrays: dict[str, Any]
    metadata: dict[str, Any]

    def to_bytes(self) -> bytes:
        """The same knowledge always gives the same bytes."""
        return encode(self.arrays, self.metadata, kind=KIND)


def capture(
    config: Config,
    pipelines: dict[str, Pipeline],
    duplicates: Duplicates,
    pending: Pending | None,
) -> Checkpoint:
    """All that is known now; raises `SnapshotError` for a model that cannot be kept."""
    arrays: dict[str, Any] = {"duplicates": duplicates.keys()}
    groups = []
    for number, (name, pipeline) in enumerate(sorted(pipelines.items())):
        own, meta = describe(pipeline.classifier)
        arrays |= prefixed(f"group{number}", own)
        groups.append(_Group(name, meta))
    extra = None
    if pending is not None:
        own, extra = pending.memory()
        arrays |= prefixed("pending", own)
    file = _File(made_of(config), groups, extra)
    return Checkpoint(arrays, msgspec.to_builtins(file))


def load(
    config: Config, data: bytes, duplicates: Duplicates, pending: Pending | None
) -> dict[str, Pipeline]:
    """Fill the memories and return the pipelines; raises `SnapshotError` for what cannot be."""
    arrays, metadata = decode(data, kind=KIND)
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
        group.name: Pipeline(_adapted(config, file.made_of, rebuild(parts[p], group.classifier)))
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
    *_, model = links(classifier)
    _compare(now["model"], before.get("model", {}))
    _set_parameters(model, now["model"]["parameters"], before["model"]["parameters"])
    if all(now[part] == before.get(part) for part in ("integrator", "rejector")):
        return classifier
    return build_classifier(config, model)  # what windows and thresholds knew is of no use now


def _compare(now: dict[str, Any], before: dict[str, Any]) -> None:
    for key in ("type", "per"):
        if now[key] != before.get(key):
            raise OtherModelError(
                f"model.{key}: the state was made with {before.get(key)!r}, the configuration says "
                f"{now[key]!r}; change it back, or give state.folder another name to begin anew"
            )


def _set_parameters(model: Any, now: dict[str, Any], before: dict[str, Any]) -> None:
    """Parameters that may change at any time do; others would need another model."""
    for name in sorted(now.keys() | before.keys()):
        if name in now and name in before and now[name] == before[name]:
            continue
        if name not in getattr(model, "_mutable_attributes", set()) or name not in now:
            was, is_now = (each.get(name, "its default") for each in (before, now))
            raise OtherModelError(
                f"model.parameters.{name}: the state was made with {was!r}, the configuration says "
                f"{is_now!r}, and this cannot change in a model that has begun to learn; change it "
                f"back, or give state.folder another name to begin anew"
            )
        setattr(model, name, now[name])
