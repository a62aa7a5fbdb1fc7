"""Raw numbers: 32-bit floats, little-endian, one for each of the named columns.

NaN means missing, infinities are refused. Labels are whole numbers. A 32-bit float cannot tell
seconds of these years apart and counts to 16 777 216 only, so times and sequence numbers are better
sent in another format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamlvq.config import Fields
from streamlvq.events import Rows
from streamlvq.payloads import checks
from streamlvq.payloads.layout import Field, Layout, array_layout_of
from streamlvq.payloads.reader import Reader, Table
from streamlvq.payloads.values import RefusedError

BYTES = 4


def float32_reader(fields: Fields) -> Reader:
    """A reader of raw numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.payloads.float32_format import float32_reader
    >>> reader = float32_reader(Fields(format="float32", columns=["x", "y"]))
    >>> reader.careful(np.array([0.25, 1500], dtype="<f4").tobytes()).values
    (0.25, 1500.0)

    """
    return Float32Reader(array_layout_of(fields))


class Float32Reader(Reader):
    """Reads many payloads as one array."""

    def __init__(self, layout: Layout) -> None:
        assert layout.columns is not None
        assert layout.features is not None
        self._width = len(layout.columns)
        self._at = {name: i for i, name in enumerate(layout.columns)}
        self._features = [self._at[feature.name] for feature in layout.features]
        self._whole = self._features == list(range(self._width))
        self._times = checks.times(layout.time_unit)
        super().__init__(layout, self._list, _no_types, "32-bit floats")

    def _list(self, payload: bytes) -> list[float]:
        size = self._width * BYTES
        if len(payload) != size:
            raise RefusedError(
                "payload",
                f"expected {size} bytes ({self._width} floats of 32 bits), got {len(payload)}",
                "width",
            )
        values: list[float] = np.frombuffer(payload, dtype="<f4").tolist()
        return values

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table; None if something is unusual."""
        size = self._width * BYTES
        if any(len(payload) != size for payload in payloads):
            return None
        with np.errstate(invalid="ignore"):  # there are NaNs that make processors complain
            numbers = np.frombuffer(b"".join(payloads), dtype="<f4").astype(np.float64)
        numbers = numbers.reshape(len(payloads), self._width)
        rows = numbers if self._whole else np.ascontiguousarray(numbers[:, self._features])
        try:
            return None if checks.plain(rows) is None else self._table(numbers, rows)
        except RefusedError:
            return None

    def _table(self, numbers: Rows, rows: Rows) -> Table:
        def column(field: Field | None, check: Any) -> Any:
            if field is None:
                return None
            return check(field.name, numbers[:, self._at[field.name]].tolist())

        layout = self.layout
        return Table(
            self.names,
            rows,
            column(layout.label, checks.labels),
            column(layout.time, self._times),
            column(layout.sequence, checks.sequences),
            column(layout.device, checks.devices),
            (),
        )


def _no_types(kind: Any) -> Any:
    return None  # there is a faster way than types
