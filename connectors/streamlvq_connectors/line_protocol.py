"""InfluxDB's line protocol: `measurement,tag=v field=1.5,n=2i 1700000000000000000`.

By hand on purpose: InfluxDB's client library writes lines but does not read them.

There are two roads. `split_line` takes one line of any kind and says what is wrong with it.
`split_columns` takes many lines, of which nearly all have the same fields in the same order, and
splits those by columns: several times as fast, because the work per cell is done in C. It leaves
out every line that it is not sure of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Value = float | int | bool | str

LAYOUT_MIN_LINES = 4  # fewer lines are split one by one
LAYOUT_MAX_TRIES = 8  # for lines with as many fields, but others or in another order

# Possessive quantifiers: time stays linear in the length of a line, whatever it holds.
_MEASUREMENT_TEXT = r"(?:[^, \\]++|\\.)++"
_NAME_TEXT = r"(?:[^,= \\]++|\\.)++"
_STRING_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_VALUE_TEXT = rf'(?:{_STRING_TEXT}|[^," ]++)'
_TIME_TEXT = r"[+-]?[0-9]{1,19}"

_MEASUREMENT = re.compile(_MEASUREMENT_TEXT, re.DOTALL)
_KEY = re.compile(rf"({_NAME_TEXT})=", re.DOTALL)
_TAG = re.compile(_NAME_TEXT, re.DOTALL)
_FIELD = re.compile(_VALUE_TEXT, re.DOTALL)
_TAG_PAIR = re.compile(rf",({_NAME_TEXT})=({_NAME_TEXT})", re.DOTALL)
_FIELD_PAIR = re.compile(rf"({_NAME_TEXT})=({_VALUE_TEXT}),?", re.DOTALL)
_LINE = re.compile(
    rf"({_MEASUREMENT_TEXT})((?:,{_NAME_TEXT}={_NAME_TEXT})*+) ++"
    rf"({_NAME_TEXT}={_VALUE_TEXT}(?:,{_NAME_TEXT}={_VALUE_TEXT})*+)(?: ++({_TIME_TEXT}))?+ *+",
    re.DOTALL,
)
_SPACES = re.compile(r" +")
_TIME = re.compile(_TIME_TEXT)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PLAIN_VALUE = re.compile(r'"[^"\\]*+"|[^," \\]++', re.DOTALL)
_INTEGER = re.compile(r"([+-]?\d{1,20})[iu]", re.ASCII)
_STRING = re.compile(rf"={_STRING_TEXT}", re.DOTALL)
_STRING_END = re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL)
_ESCAPED = re.compile(r"\\([,= ])")
_ESCAPED_IN_STRING = re.compile(r'\\(["\\])')
_BOOLEANS = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class Parts(NamedTuple):
    """The parts of a line: names without their escapes, values as they are written."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, str]
    time: str | None


class Point(NamedTuple):
    """The values of a line; the time is an integer of unknown unit."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time: int | None


def split_line(line: str) -> Parts:
    """Split a line into its parts; a ValueError says what was expected where.

    Examples
    --------
    >>> split_line("pump,site=leeds x=1.5,n=2i 1700000000000000000")
    Parts(measurement='pump', tags={'site': 'leeds'}, fields={'x': '1.5', 'n': '2i'},
          time='1700000000000000000')
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return _split_step_by_step(line)
    measurement, tags, fields, time = found.groups()
    named = _named_escaped if "\\" in line else dict
    return Parts(
        measurement,
        named(_TAG_PAIR.findall(tags)) if tags else {},
        named(_FIELD_PAIR.findall(fields)),
        time,
    )


def _named_escaped(pairs: list[tuple[str, str]]) -> dict[str, str]:
    return {unescape(name): value for name, value in pairs}


def _split_step_by_step(line: str) -> Parts:
    """Split a line that is not quite regular, or find the place where it goes wrong."""
    measurement, at = _match(_MEASUREMENT, line, 0, "a measurement")
    tags, at = _pairs(line, at, _TAG) if line[at : at + 1] == "," else ([], at)
    _, at = _match(_SPACES, line, at, "a space before the fields")
    fields, at = _pairs(line, at - 1, _FIELD)
    rest = line[at:]
    time = rest.strip()
    if time and (rest[0] != " " or not _TIME.fullmatch(time)):
        raise ValueError(f"expected a whole number as the time, got {time[:40]!r}")
    return Parts(measurement, _named_escaped(tags), _named_escaped(fields), time or None)


def _pairs(line: str, at: int, pattern: re.Pattern[str]) -> tuple[list[tuple[str, str]], int]:
    """Return names and values, each after the character that separates it from the last one."""
    pairs = []
    while True:
        key, at = _match(_KEY, line, at + 1, "a name and =")
        value, at = _match(pattern, line, at, f"a value of {key[:-1]!r}")
        pairs.append((key[:-1], value))
        if line[at : at + 1] != ",":
            return pairs, at


def _match(pattern: re.Pattern[str], line: str, at: int, expected: str) -> tuple[str, int]:
    found = pattern.match(line, at)
    if found is None:
        raise ValueError(f"expected {expected}, got {line[at : at + 40]!r}")
    return found[0], found.end()


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The part of a line before its fields; lines that begin alike share one."""

    measurement: str
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class LineColumns:
    """Parts of many lines, by column."""

    heads: Sequence[Head]
    times: Sequence[str]  # empty if the line has none
    fields: Mapping[str, Sequence[str | None]]  # as written; None if the line has no such field


@dataclass(slots=True)
class PartialColumns:
    """Parts of those lines that have a head; the others are not split (yet)."""

    heads: list[Head | None]
    times: list[str]
    fields: dict[str, list[str | None]]

    def add(self, line: int, parts: Parts) -> None:
        """Enter the parts of a line that was split by itself."""
        self.heads[line] = Head(parts.measurement, parts.tags)
        self.times[line] = parts.time or ""
        for name, cells in self.fields.items():
            cells[line] = parts.fields.get(name)

    def compact(self) -> tuple[list[int], LineColumns]:
        """Return which lines are split, and the columns of these."""
        used = [line for line, head in enumerate(self.heads) if head is not None]
        heads = [head for head in self.heads if head is not None]
        if len(used) == len(self.heads):
            return used, LineColumns(heads, self.times, self.fields)
        fields = {name: [cells[line] for line in used] for name, cells in self.fields.items()}
        return used, LineColumns(heads, [self.times[line] for line in used], fields)


def split_columns(lines: Sequence[str], names: Iterable[str]) -> PartialColumns:
    """Split lines with a common layout by columns; of the fields keep those with these names.

    Each line that gets a head is one that `split_line` splits into the same parts, and no string is
    open at its end. Lines that differ, that have a backslash, or strings with a comma, get none.

    Examples
    --------
    >>> found = split_columns([f"pump x={i},y=2 {i}" for i in range(5)] + ["pump x=5 5"], ["x"])
    >>> found.fields["x"], found.times[4], found.heads[5]
    (['0', '1', '2', '3', '4', None], '4', None)
    """
    count = len(lines)
    columns = PartialColumns([None] * count, [""] * count, {name: [None] * count for name in names})
    for candidates in _by_layout(lines):
        for _try in range(LAYOUT_MAX_TRIES):
            if len(candidates) < LAYOUT_MIN_LINES:
                break
            line, _, cells, _ = candidates[0]
            keys = _field_names(lines[line], len(cells))
            candidates = candidates[1:] if keys is None else _fill(columns, keys, candidates)
    return columns


# A line cut at its spaces and commas: its number, head, cells and time. Whether that was the right
# way to cut it is still to be seen. (A plain tuple, because there is one for each line.)
_Candidate = tuple[int, Head, list[str], str]


def _by_layout(lines: Sequence[str]) -> Iterable[list[_Candidate]]:
    """Return lines that may have the same layout together."""
    heads: dict[str, Head | None] = {}
    groups: dict[tuple[str, int], list[_Candidate]] = {}
    for number, line in enumerate(lines):
        start, _, rest = line.partition(" ")
        fields, space, time = rest.rpartition(" ")
        if not space:
            fields, time = time, ""
        elif not _TIME.fullmatch(time):
            continue
        if start not in heads:
            heads[start] = _plain_head(start)
        head = heads[start]
        if head is not None and "\\" not in fields:
            cells = fields.split(",")
            layout = (head.measurement, len(cells))
            groups.setdefault(layout, []).append((number, head, cells, time))
    return groups.values()


def _plain_head(text: str) -> Head | None:
    """Return measurement and tags; None if they are not plain, or it is a comment."""
    if text[:1] == "#" or '"' in text or "\\" in text:
        return None
    try:
        parts = split_line(f"{text} x=0")
    except ValueError:
        return None
    return Head(parts.measurement, parts.tags)


def _field_names(line: str, count: int) -> list[str] | None:
    """Return the names of the fields of a line; None if they are not so many, all different."""
    try:
        names = list(split_line(line).fields)
    except ValueError:
        return None
    return names if len(names) == count and '"' not in "".join(names) else None


def _fill(
    columns: PartialColumns, names: list[str], candidates: list[_Candidate]
) -> list[_Candidate]:
    """Enter the lines that have exactly these fields; return the others."""
    cells = zip(*(cells for _, _, cells, _ in candidates), strict=True)
    values = [_values(name, column) for name, column in zip(names, cells, strict=True)]
    wrong = {row for column in values if None in column for row in _where_none(column)}
    right = [row for row in range(len(candidates)) if row not in wrong]
    for row in right:
        line, head, _, time = candidates[row]
        columns.heads[line], columns.times[line] = head, time
    for name, column in zip(names, values, strict=True):
        if name not in columns.fields:
            continue
        if len(right) == len(columns.heads):
            columns.fields[name] = list(column)
            continue
        target = columns.fields[name]
        for row in right:
            target[candidates[row][0]] = column[row]
    return [candidates[row] for row in sorted(wrong)]


def _where_none(values: Sequence[str | None]) -> list[int]:
    return [row for row, value in enumerate(values) if value is None]


def _values(name: str, cells: Sequence[str]) -> Sequence[str | None]:
    """Return the value in each cell `name=value`; None where a cell is something else."""
    prefix = f",{name}="
    text = "," + ",".join(cells)  # no cell has a comma in it
    if " " not in text and '"' not in text and f"{prefix}," not in text + ",":
        values = text.split(prefix)
        if len(values) == len(cells) + 1:  # all of them begin with the name
            return values[1:]
    known = {cell: _value(prefix[1:], cell) for cell in set(cells)}
    return [known[cell] for cell in cells]


def _value(prefix: str, cell: str) -> str | None:
    if not cell.startswith(prefix):
        return None
    value = cell[len(prefix) :]
    return value if _PLAIN_VALUE.fullmatch(value) else None


def ends_in_string(line: str, inside: bool = False) -> bool:
    """Return True if a string is open at the end of the line; `inside`: also at its start.

    Examples
    --------
    >>> ends_in_string('m s="two'), ends_in_string('lines" 5', inside=True)
    (True, False)
    """
    if inside:
        closed = _STRING_END.match(line)
        if closed is None:
            return True
        line = line[closed.end() :]
    return '="' in line and '="' in _STRING.sub("", line)


def parse_line(line: str) -> Point:
    r"""Return the values of a line; a ValueError says what was expected where.

    Examples
    --------
    >>> parse_line(r'a\ pump,site=Leeds\,UK x=1.5,n=2i,ok=t,state="so \"so\"" 1700000000000000000')
    Point(measurement='a pump', tags={'site': 'Leeds,UK'},
          fields={'x': 1.5, 'n': 2, 'ok': True, 'state': 'so "so"'}, time=1700000000000000000)
    """
    measurement, tags, fields, time = split_line(line)
    return Point(
        unescape(measurement),
        {key: unescape(value) for key, value in tags.items()},
        {key: field_value(value, key) for key, value in fields.items()},
        None if time is None else int(time),
    )


def unescape(text: str) -> str:
    """Remove the escapes from a measurement, a name or the value of a tag."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def field_value(text: str, key: str) -> Value:
    """Return the value of a field; the key is for the error message."""
    if text[:1] == '"':
        return _ESCAPED_IN_STRING.sub(r"\1", text[1:-1]) if "\\" in text else text[1:-1]
    if _FLOAT.fullmatch(text):
        return float(text)
    if integer := _INTEGER.fullmatch(text):
        return int(integer[1])
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    expected = "a number, true, false or a text in quotes"
    raise ValueError(f"{key}: expected {expected}, got {text[:40]!r}")
