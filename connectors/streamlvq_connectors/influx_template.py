"""How the lines of a file in line protocol are made, if they are like the first one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from streamlvq_connectors.cells import Texts, to_label
from streamlvq_connectors.kinds import CONSTANT, NUMBER, QUOTED, SKIP, TEXT
from streamlvq_connectors.line_protocol import Parts, plain, plain_string, value_of
from streamlvq_connectors.scanner import Scan, Scanner

MEASUREMENT, TIMESTAMP = "the measurement", "the timestamp"
_NO_VALUE = object()


class _Cell(NamedTuple):
    kind: int
    name: str = ""
    word: str = ""  # what has to stand there
    separator: str = ""  # what comes after it
    convert: Callable[[str], Any] | None = None  # from its text


class Template:
    """A scanner for lines that have the same tags and fields in the same order.

    Lines that are otherwise are odd to it.

    Parameters
    ----------
    parts
        A line.
    numbers
        The columns that have to be numbers.
    others
        More columns that are wanted.
    shifts
        Powers of ten to multiply numbers of some columns by.
    """

    def __init__(
        self,
        parts: Parts,
        numbers: Collection[str],
        others: Collection[str],
        shifts: Mapping[str, int],
    ) -> None:
        self._numeric, self._others = numbers, others
        cells = self._cells(parts)
        self._numbers = [cell.name for cell in cells if cell.kind == NUMBER]
        self._texts = [cell for cell in cells if cell.kind in (TEXT, QUOTED)]
        self.scanner = Scanner(
            [cell.kind for cell in cells],
            separators="".join(cell.separator for cell in cells).encode(),
            escape=b"\\",
            typed=True,
            shifts=[shifts.get(cell.name, 0) if cell.kind == NUMBER else 0 for cell in cells],
            constants=[cell.word.encode() for cell in cells],
        )

    def _cells(self, parts: Parts) -> list[_Cell]:
        after = "," if parts.tags else " "
        cells = [_Cell(TEXT, MEASUREMENT, separator=after, convert=plain)]
        named = {plain(key) for key, _ in parts.fields}
        for i, (key, _) in enumerate(parts.tags, 1):
            cells.append(_Cell(CONSTANT, word=key, separator="="))
            after = "," if i < len(parts.tags) else " "
            wanted = "" if plain(key) in named else plain(key)  # a field goes before a tag
            cells.append(self._tag(wanted)._replace(separator=after))
        for i, (key, value) in enumerate(parts.fields, 1):
            cells.append(_Cell(CONSTANT, word=key, separator="="))
            after = "," if i < len(parts.fields) else " "
            cells.append(self._field(plain(key), value)._replace(separator=after))
        if parts.time is not None:
            cells.append(_Cell(NUMBER, TIMESTAMP, separator="\n"))
        return cells

    def _tag(self, name: str) -> _Cell:
        if name in self._numeric:
            return _Cell(NUMBER, name)
        if name in self._others:
            return _Cell(TEXT, name, convert=lambda text: to_label(plain(text)))
        return _Cell(SKIP)

    def _field(self, name: str, value: str) -> _Cell:
        if name not in self._numeric and name not in self._others:
            return _Cell(SKIP)
        if value[:1] == '"':
            return _Cell(QUOTED, name, convert=plain_string)
        if name in self._numeric and not isinstance(value_of(value), bool):
            return _Cell(NUMBER, name)
        return _Cell(TEXT, name, convert=_value)

    def columns(self, found: Scan) -> tuple[dict[str, Any], list[int]]:
        """The columns of what was scanned, and the rows that have to be looked at one by one."""
        columns: dict[str, Any] = {}
        doubtful = set(found.odd)
        for i, name in enumerate(self._numbers):
            columns[name] = found.numbers[:, i]
        for i, cell in enumerate(self._texts):
            assert cell.convert is not None
            values = Texts(cell.convert).all(found.texts(i))
            if _NO_VALUE in values:
                doubtful.update(row for row, value in enumerate(values) if value is _NO_VALUE)
            columns[cell.name] = values
        return columns, sorted(doubtful)


def _value(text: str) -> Any:
    try:
        return value_of(text)
    except ValueError:
        return _NO_VALUE
