r"""Field paths: where a value is in a payload, written as `motor.vib.x`.

Each step is the key of an object, or the position in an array (from 0). A key that holds a dot, a
quote or a backslash itself is written with a backslash before it (`motor.vib\.x`) or in quotes
(`motor."vib.x"`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from streamlvq.errors import StreamLVQError

Path = tuple[str, ...]

_STEP = re.compile(r'"((?:[^"\\]|\\.)*)"|((?:[^.\\"]|\\.)*)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPECIAL = re.compile(r'([.\\"])')


class FieldsError(StreamLVQError, ValueError):
    """An invalid description of the fields of payloads."""


class _Absent:
    def __repr__(self) -> str:
        return "nothing"  # in messages: "expected ..., got nothing"


ABSENT: Any = _Absent()  # there is no such field; None is a field that is null


def parse_path(text: str) -> Path:
    r"""Split a path into its steps.

    Examples
    --------
    >>> from streamlvq.paths import parse_path
    >>> parse_path("motor.vib.x"), parse_path('motor."vib.x"'), parse_path(r"motor.vib\.x")
    (('motor', 'vib', 'x'), ('motor', 'vib.x'), ('motor', 'vib.x'))

    """
    steps: list[str] = []
    at = 0
    while True:
        match = _STEP.match(text, at)
        assert match is not None  # an empty step matches everywhere
        quoted, plain = match.groups()
        at = match.end()
        if (at < len(text) and text[at] != ".") or (quoted is None and not plain):
            raise FieldsError(
                f"expected a path like motor.vib.x, got {text!r}: write a key that holds dots, "
                f'quotes or backslashes in quotes ("a.b") or with backslashes (a\\.b)'
            )
        steps.append(_ESCAPED.sub(r"\1", quoted if quoted is not None else plain))
        if at == len(text):
            return tuple(steps)
        at += 1


def join_path(steps: Sequence[str]) -> str:
    r"""Join steps to a path that `parse_path` reads.

    Examples
    --------
    >>> from streamlvq.paths import join_path
    >>> print(join_path(["motor", "vib.x"]))
    motor.vib\.x

    """
    return ".".join([_SPECIAL.sub(r"\\\1", step) or '""' for step in steps])


def pick(value: Any, path: Path) -> Any:
    """Return the value at a path, `ABSENT` if there is none."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ABSENT)
        elif isinstance(value, list):
            value = _at(value, step)
        else:
            return ABSENT
    return value


def _at(values: list[Any], step: str) -> Any:
    if not (step.isascii() and step.isdigit() and len(step) < 10):
        return ABSENT
    return values[int(step)] if int(step) < len(values) else ABSENT
