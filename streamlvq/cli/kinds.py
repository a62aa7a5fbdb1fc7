"""Types of arguments."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """Parse a whole number of at least 1, such as `10_000` or `1e6`."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = math.nan
    if not (1 <= number < math.inf and number.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(number)


def seconds(text: str) -> float:
    """Parse a time span in seconds: `90`, `90s`, `15m`, `2h`."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower())
    try:
        number = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a time such as 90, 15m or 2h, got {text!r}")
    return number


def speed(text: str) -> float:
    """Parse a speed: `10x`, `0.5`, or `max` for as fast as possible."""
    if text.lower() == "max":
        return math.inf
    try:
        number = float(text.lower().removesuffix("x"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a speed such as 10x, 0.5x or max, got {text!r}")
    return number


def share(text: str) -> float:
    """Parse a share: `0.2` or `20%`."""
    try:
        number = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"expected a share such as 0.2 or 20%, got {text!r}")
    return number


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    given = [name.strip() for name in text.split(",") if name.strip()]
    if not given:
        raise argparse.ArgumentTypeError(f"expected names separated by commas, got {text!r}")
    return given
