"""Field map: which fields of a payload are features, label, time and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamlvq.config import Fields
from streamlvq.paths import FieldsError, Path, parse_path


class FieldPath(NamedTuple):
    """A field: its name as in the configuration, and where it is."""

    name: str
    path: Path


class FieldMap(NamedTuple):
    """Where everything is; `features` is None if they are to be found out.

    With `columns` a payload is an array, and all names are among them.
    """

    features: tuple[FieldPath, ...] | None
    label: FieldPath | None
    time: FieldPath | None
    sequence: FieldPath | None
    device: FieldPath | None
    time_unit: str
    columns: tuple[str, ...] | None

    @property
    def designated(self) -> tuple[FieldPath, ...]:
        """The fields that are something else than features."""
        roles = (self.label, self.time, self.sequence, self.device)
        return tuple(field for field in roles if field is not None)


def field_map(fields: Fields) -> FieldMap:
    """The layout of payloads that are objects, with nested keys by path."""
    return _field_map(fields, parse_path, None)


def array_field_map(fields: Fields) -> FieldMap:
    """The layout of payloads that are arrays with named columns."""
    names = fields.columns if fields.columns is not None else fields.features
    if not names:
        raise FieldsError(
            f"format {fields.format}: expected the names of the values in `columns`, "
            f"got {fields.columns!r}"
        )
    columns = tuple(names)
    _distinct("columns", columns)

    def path(name: str) -> Path:
        if name not in columns:
            raise FieldsError(f"expected one of the columns {list(columns)}, got {name!r}")
        return (name,)

    layout = _field_map(fields, path, columns)
    if layout.features is not None:
        return layout
    others = {field.name for field in layout.designated}
    found = tuple(FieldPath(name, (name,)) for name in columns if name not in others)
    if not found:
        raise FieldsError(f"expected a column that is a feature, got {list(columns)}")
    return layout._replace(features=found)


def _field_map(
    fields: Fields, path: Callable[[str], Path], columns: tuple[str, ...] | None
) -> FieldMap:
    def field(name: str | None) -> FieldPath | None:
        return None if name is None else FieldPath(name, path(name))

    features: tuple[FieldPath, ...] | None = None
    if fields.features is not None:
        features = tuple(FieldPath(name, path(name)) for name in fields.features)
        if not features:
            raise FieldsError("expected at least one feature, got []: leave it out for all numbers")
        _distinct("features", tuple(feature.path for feature in features))
    layout = FieldMap(
        features,
        field(fields.label),
        field(fields.time),
        field(fields.sequence),
        field(fields.device),
        fields.time_unit,
        columns,
    )
    taken = {feature.path for feature in features or ()}
    for other in layout.designated:
        if other.path in taken:
            raise FieldsError(f"expected features that are nothing else, got {other.name!r}")
    return layout


def _distinct(what: str, names: tuple[object, ...]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise FieldsError(f"expected distinct {what}, got {twice!r} twice")
