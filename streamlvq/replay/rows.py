"""Readings as payloads, in the format that a configuration expects."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from streamlvq.config import Fields
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.paths import parse_path
from streamlvq.payloads.values import UNITS_PER_SECOND


class ReadingEncoder:
    """Turns rows into payloads that decode to the same readings.

    Parameters
    ----------
    fields
        The format, and what things are called.

    Examples
    --------

    >>> from streamlvq.config import Fields
    >>> from streamlvq.events import Readings
    >>> from streamlvq.replay.rows import ReadingEncoder
    >>> readings = Readings.of(["motor.rpm", "t"], [[900.0, 21.5]], labels=["ok"], times=[12.5])
    >>> ReadingEncoder(Fields(label="state", time="at", time_unit="ms")).encode(readings)
    [b'{"motor":{"rpm":900.0},"t":21.5,"state":"ok","at":12500}']

    """

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        if fields.format in ("json_array", "float32") and not fields.columns:
            raise StreamLVQError(f"readings.columns: {fields.format} needs them, got none")
        self._finish: Callable[[dict[str, Any]], bytes] = {
            "json": lambda values: msgspec.json.encode(_nested(values)),
            "msgpack": lambda values: msgspec.msgpack.encode(_nested(values)),
            "json_array": lambda values: msgspec.json.encode(self._in_columns(values)),
            "float32": self._packed,
        }[fields.format]

    def encode(self, readings: Readings) -> list[bytes]:
        """A payload for each row."""
        return [self._finish(self._values(readings, k)) for k in range(len(readings))]

    def _values(self, readings: Readings, k: int) -> dict[str, Any]:
        values: dict[str, Any] = {
            name: value
            for name, value in zip(readings.features, readings.rows[k].tolist(), strict=True)
            if not math.isnan(value)  # missing is said by saying nothing
        }
        fields = self.fields
        for name, value in (
            (fields.label, readings.labels[k]),
            (fields.time, self._time(readings.times[k])),
            (fields.sequence, readings.sequences[k]),
            (fields.device, readings.devices[k]),
        ):
            if name is not None and value is not None:
                values[name] = value
        return values

    def _time(self, t: float | None) -> Any:
        if t is None:
            return None
        if self.fields.time_unit == "iso":
            return datetime.fromtimestamp(t, UTC).isoformat()
        if self.fields.time_unit == "s":
            return t
        return round(
            Fraction(t) * UNITS_PER_SECOND[self.fields.time_unit]
        )  # floats would round twice

    def _in_columns(self, values: dict[str, Any]) -> list[Any]:
        return [values.get(name) for name in self.fields.columns or ()]

    def _packed(self, values: dict[str, Any]) -> bytes:
        numbers = [values.get(name, math.nan) for name in self.fields.columns or ()]
        try:
            return np.array(numbers, dtype="<f4").tobytes()
        except (TypeError, ValueError) as error:
            raise StreamLVQError(f"float32: expected numbers only, got {numbers!r}") from error


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    """Names such as `motor.rpm` as objects within objects."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *way, last = parse_path(name)
        place = out
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
    return out
