"""A line of InfluxDB's line protocol: `measurement,tag=v field=1.5,n=2i 1700000000000000000`.

By hand on purpose: InfluxDB's client library writes lines but does not read them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Value = float | int | bool | str

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
