"""Values of YAML scalars, read as the type that is expected in their place.

YAML 1.1 guesses: `3.1.1` is a text and `5` a number, `off` is false, `1e-3` a text and `010` eight.
Here the type that the schema asks for decides, and the text is taken as it was written.
"""

from __future__ import annotations

import math
import re
from typing import Any

_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F]{1,16}|[0-9][0-9_]{0,30})")
_REAL = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]{1,4})?")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def is_nothing(node: Any) -> bool:
    """Return True for YAML's null, such as a key without a value."""
    return node.id == "scalar" and node.style is None and node.value in _NOTHING


def truth(node: Any) -> bool | None:
    """Read true or false; None if it is neither."""
    return _TRUTH.get(node.value.lower()) if node.style is None else None


def real(node: Any) -> float | None:
    """Read a finite number; None if it is not one."""
    if node.style is not None or len(node.value) > 400 or not _REAL.fullmatch(node.value):
        return None
    number = float(node.value.replace("_", ""))
    return number if math.isfinite(number) else None


def whole(node: Any) -> int | None:
    """Read a whole number in any notation; None if it is not one."""
    if node.style is None and _WHOLE.fullmatch(node.value):
        text = node.value.replace("_", "")
        return int(text, 16 if "0x" in text else 10)
    number = real(node)
    # Larger floats, such as 1e300, are whole only because they have no digits left.
    return int(number) if number is not None and number == int(number) < 2**53 else None


def guess(node: Any) -> Any:
    """Read a scalar of any type as what it most likely means."""
    if is_nothing(node):
        return None
    for read in (truth, whole_as_written, real):
        value = read(node)
        if value is not None:
            return value
    return node.value


def whole_as_written(node: Any) -> int | None:
    """Read a whole number without a point or an exponent; None if it is not one."""
    return whole(node) if _WHOLE.fullmatch(node.value) else None
