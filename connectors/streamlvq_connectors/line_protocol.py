"""A line of InfluxDB's line protocol: `measurement,tag=v field=1.5,n=2i 1700000000000000000`."""

from __future__ import annotations

import re
from typing import NamedTuple

Value = float | int | bool | str

_MEASUREMENT = re.compile(r"(?:[^, \\]|\\.)+", re.DOTALL)
_KEY = re.compile(r"((?:[^,= \\]|\\.)+)=", re.DOTALL)
_TAG = re.compile(r"(?:[^,= \\]|\\.)+", re.DOTALL)
_FIELD = re.compile(r'"(?:[^"\\]|\\.)*"|[^," ]+', re.DOTALL)
_SPACES = re.compile(r" +")
_TIME = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"([+-]?\d{1,20})[iu]", re.ASCII)
_ESCAPED = re.compile(r"\\([,= ])")
_ESCAPED_IN_STRING = re.compile(r'\\(["\\])')
_BOOLEANS = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


class Parts(NamedTuple):
    """The parts of a line as they are written."""

    measurement: str
    tags: list[tuple[str, str]]
    fields: list[tuple[str, str]]
    time: str | None


class Point(NamedTuple):
    """What a line says; the time is a whole number of whatever unit."""

    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time: int | None


def split_line(line: str) -> Parts:
    """The parts of a line; a ValueError tells what was expected where.

    Examples
    --------
    >>> split_line("pump,site=leeds x=1.5,n=2i 1700000000000000000")
    Parts(measurement='pump', tags=[('site', 'leeds')], fields=[('x', '1.5'), ('n', '2i')],
          time='1700000000000000000')
    """
    measurement, at = _match(_MEASUREMENT, line, 0, "a measurement")
    tags, at = _pairs(line, at, _TAG) if line[at : at + 1] == "," else ([], at)
    _, at = _match(_SPACES, line, at, "a space before the fields")
    fields, at = _pairs(line, at - 1, _FIELD)
    rest = line[at:]
    if not rest.strip():
        return Parts(measurement, tags, fields, None)
    if rest[0] != " " or not _TIME.fullmatch(rest.strip()):
        raise ValueError(f"expected a whole number as the time, got {rest.strip()[:40]!r}")
    return Parts(measurement, tags, fields, rest.strip())


def _pairs(line: str, at: int, pattern: re.Pattern[str]) -> tuple[list[tuple[str, str]], int]:
    """Names and values, each after the byte that separates it from what is before."""
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


def parse_line(line: str) -> Point:
    r"""What a line says; a ValueError tells what was expected where.

    Examples
    --------
    >>> parse_line(r'a\ pump,site=Leeds\,UK x=1.5,n=2i,ok=t,state="so \"so\"" 1700000000000000000')
    Point(measurement='a pump', tags={'site': 'Leeds,UK'},
          fields={'x': 1.5, 'n': 2, 'ok': True, 'state': 'so "so"'}, time=1700000000000000000)
    """
    measurement, tags, fields, time = split_line(line)
    return Point(
        plain(measurement),
        {plain(key): plain(value) for key, value in tags},
        {plain(key): value_of(value, key) for key, value in fields},
        None if time is None else int(time),
    )


def plain(text: str) -> str:
    """A measurement, a name or the value of a tag without its escapes."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def plain_string(text: str) -> str:
    """What is between the quotes of a string, without its escapes."""
    return _ESCAPED_IN_STRING.sub(r"\1", text) if "\\" in text else text


def value_of(text: str, key: str = "value") -> Value:
    """The value of a field."""
    if text[:1] == '"':
        return plain_string(text[1:-1])
    if _FLOAT.fullmatch(text):
        return float(text)
    if integer := _INTEGER.fullmatch(text):
        return int(integer[1])
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    expected = "a number, true, false or a text in quotes"
    raise ValueError(f"{key}: expected {expected}, got {text[:40]!r}")
