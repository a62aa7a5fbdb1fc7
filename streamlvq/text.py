"""Numbers as text, for terminals and pages."""

from __future__ import annotations


def number(value: int) -> str:
    """Return a number with its digits in groups of three.

    Examples
    --------
    >>> number(1234567)
    '1 234 567'

    """
    return f"{value:,}".replace(",", " ")
