"""A compiled scanner of delimited text: numbers and the places of texts, line after line.

Numbers come out as `float` would read them, to the last bit. A line that is not plain (a cell too
many, an escape, a number nobody would write) is only marked; whoever calls looks at it by itself.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from streamlvq.kernels.compile import cache_folder
from streamlvq_connectors.kinds import (
    CONSTANT,
    DELIMITER,
    ESCAPE,
    GOOD,
    NEWLINE,
    NUMBER,
    ODD,
    PLAIN,
    QUOTE,
    QUOTED,
    TEXT,
)

_SPACE, _TAB, _PLUS, _MINUS, _POINT, _ZERO, _NINE = 32, 9, 43, 45, 46, 48, 57
_CR, _LF = 13, 10
_DIGITS = 18  # that fit into 64 bits
_EXPONENT = 60  # of ten: products of pairs stay far from underflow and overflow
_SPLITTER = 134217729.0  # 2**27 + 1 cuts a float into two halves whose products are exact
_DOUBT = 2.0**-95  # well above the relative error of a product of two pairs

F = TypeVar("F", bound=Callable[..., Any])


def _pairs_of_powers() -> np.ndarray[Any, np.dtype[np.float64]]:
    """Powers of ten as unevaluated sums of two floats: 32 digits, where one float has 16."""
    pairs = np.empty((2 * _EXPONENT + 1, 2))
    for row, exponent in enumerate(range(-_EXPONENT, _EXPONENT + 1)):
        above, below = 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
        high = above / below  # division of integers rounds correctly
        top, bottom = high.as_integer_ratio()
        pairs[row] = high, (above * bottom - top * below) / (below * bottom)
    return pairs


_POWERS = _pairs_of_powers()


def _compiled(signature: str) -> Callable[[F], F]:
    """Like `streamlvq.kernels.compile.kernel`, but no sum may be reordered: pairs need that."""

    def decorate(function: F) -> F:
        compiled: F
        before = numba.config.CACHE_DIR
        try:
            numba.config.CACHE_DIR = str(cache_folder())
            compiled = numba.njit(signature, cache=True, error_model="numpy")(function)
        except Exception:  # a cache that cannot be used costs time, never the program
            compiled = numba.njit(signature, error_model="numpy")(function)
        finally:
            numba.config.CACHE_DIR = before
        return compiled

    return decorate


_helper: Callable[[F], F] = numba.njit(
    no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy"
)


@_helper
def _product(a, b):
    """a * b without any error, as a pair."""
    p = a * b
    t = _SPLITTER * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLITTER * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@_helper
def _sum(a, b):
    """a + b without any error, as a pair."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@_helper
def _scaled(high, low, exponent):
    """The pair times a power of ten, as a pair."""
    power = _POWERS[exponent + _EXPONENT, 0]
    p, e = _product(high, power)
    return _sum(p, e + (high * _POWERS[exponent + _EXPONENT, 1] + low * power))


@_helper
def _float(first, second, count, exponent):
    """(first * 10**count + second) * 10**exponent, rounded once, and whether that is certain.

    The pair is off by less than `_DOUBT`. If adding and subtracting as much leads to the same
    float, then that is the one nearest to the true value.
    """
    if count == 0 and -22 <= exponent <= 22 and first < 9007199254740992:
        if exponent < 0:  # both are exact floats, so that one operation rounds once
            return first / _POWERS[_EXPONENT - exponent, 0], True
        return first * _POWERS[_EXPONENT + exponent, 0], True
    if first == 0 and second == 0:
        return 0.0, True
    if exponent < -_EXPONENT or exponent > _EXPONENT:
        return 0.0, False
    high = np.float64(first)
    low = np.float64(first - np.int64(high))
    if count > 0:
        high, low = _scaled(high, low, count)
        more = np.float64(second)
        low += np.float64(second - np.int64(more))
        high, rest = _sum(high, more)
        high, low = _sum(high, rest + low)
    high, low = _scaled(high, low, exponent)
    doubt = high * _DOUBT
    value = high + (low + doubt)
    return value, value == high + (low - doubt)


@_helper
def _digits(data, i):
    """Reads digits and a point from `i` on: (first, second, how many in second, exponent, end).

    The end is -1 if there are more digits than two integers hold, or none.
    """
    first = np.int64(0)
    second = np.int64(0)
    used = 0  # significant digits
    exponent = 0
    start = i
    points = 0
    while True:
        d = np.int64(data[i]) - _ZERO
        if 0 <= d <= 9:
            if used < _DIGITS:
                first = first * 10 + d
            elif used < 2 * _DIGITS:
                second = second * 10 + d
            if first > 0:
                used += 1
            exponent -= points
        elif d == _POINT - _ZERO and points == 0:
            points = 1
        else:
            break
        i += 1
    if i - start == points or used > 2 * _DIGITS:
        return first, second, 0, exponent, -1
    return first, second, max(used - _DIGITS, 0), exponent, i


@_helper
def _tens(data, i):
    """The exponent that may stand after the digits, and where it ends; -1 if it makes no sense."""
    if data[i] != 101 and data[i] != 69:  # e E
        return 0, i
    i += 1
    negative = data[i] == _MINUS
    if negative or data[i] == _PLUS:
        i += 1
    start = i
    exponent = 0
    while _ZERO <= data[i] <= _NINE and i - start < 5:
        exponent = exponent * 10 + np.int64(data[i]) - _ZERO
        i += 1
    if i == start:
        return 0, -1
    return (-exponent if negative else exponent), i


@_helper
def _number(data, i, shift, typed):
    """The number at `i` times 10**shift, and where it ends; -1 if it is no plain one."""
    negative = data[i] == _MINUS
    if negative or data[i] == _PLUS:
        i += 1
    first, second, count, exponent, i = _digits(data, i)
    if i < 0:
        return 0.0, -1
    tens, i = _tens(data, i)
    if i < 0:
        return 0.0, -1
    if typed and (data[i] == 105 or data[i] == 117):  # i u
        i += 1
    value, certain = _float(first, second, count, exponent + tens + shift)
    if not certain:
        return 0.0, -1
    return (-value if negative else value), i


@_helper
def _missing(data, i, classes):
    """Where an empty cell or one that says nan (in any case) ends; -1 if it is neither."""
    if classes[data[i]] == DELIMITER or classes[data[i]] == NEWLINE:
        return i
    if data[i] | 32 == 110 and data[i + 1] | 32 == 97 and data[i + 2] | 32 == 110:
        return i + 3
    return -1


@_helper
def _blanks(data, i, classes):
    while (data[i] == _SPACE or data[i] == _TAB) and classes[data[i]] == PLAIN:
        i += 1
    return i


@_helper
def _number_cell(data, i, shift, typed, classes):
    """The number in the cell at `i`, NaN if there is none, and its end; -1: not plain."""
    if typed:
        return _number(data, i, shift, True)
    i = _blanks(data, i, classes)
    quoted = classes[data[i]] == QUOTE
    if quoted:
        i += 1
    value, j = _number(data, i, shift, False)
    if j < 0:
        value = np.nan
        j = i if quoted and classes[data[i]] == QUOTE else _missing(data, i, classes)
        if j < 0:
            return value, -1
    if quoted:
        if classes[data[j]] != QUOTE:
            return value, -1
        j += 1
    return value, _blanks(data, j, classes)


@_helper
def _text_cell(data, i, end, classes):
    """From where to where the text of the cell at `i` goes, and the cell's end; -1: not plain.

    Quotes in it are still doubled, escapes still there.
    """
    j = i
    if classes[data[i]] != QUOTE:
        while classes[data[j]] == PLAIN or classes[data[j]] == ESCAPE:
            if classes[data[j]] == ESCAPE and classes[data[j + 1]] != NEWLINE:
                j += 1
            j += 1
        return i, j, j
    j += 1
    while j < end:
        if classes[data[j]] == ESCAPE:
            j += 1
        elif classes[data[j]] == QUOTE:
            if classes[data[j + 1]] != QUOTE:
                return i + 1, j, j + 1
            j += 1  # a doubled quote is one of the text
        j += 1
    return i, j, -1


@_helper
def _same(data, i, j, words, a, b):
    if j - i != b - a:
        return False
    for k in range(j - i):  # noqa: SIM110 (numba compiles no generators)
        if data[i + k] != words[a + k]:
            return False
    return True


@_helper
def _line_end(data, i, end, classes):
    """Where the record that goes on at `i`, the start of a cell, ends; -1: in an open quote."""
    fresh = True
    while i < end:
        kind = classes[data[i]]
        if kind == NEWLINE:
            return i
        if kind == QUOTE and fresh:
            i += 1
            while i < end and classes[data[i]] != QUOTE:
                i += 2 if classes[data[i]] == ESCAPE else 1
            if i >= end:
                return -1
            # A doubled quote goes on as another quoted part of the same cell.
        elif kind == ESCAPE:
            i += 1
        fresh = kind == DELIMITER or (kind == QUOTE and fresh)
        i += 1
    return -1


@_compiled(
    "UniTuple(int64, 2)(uint8[::1], int64, boolean, uint8[::1], int64[::1], int64[::1], "
    "uint8[::1], int64[::1], uint8[::1], boolean, float64[:, ::1], int64[:, :, ::1], int64[:, ::1])"
)
def scan(
    data: Any,
    end: int,
    final: bool,
    classes: Any,
    kinds: Any,
    shifts: Any,
    words: Any,
    bounds: Any,
    separators: Any,
    typed: bool,
    numbers: Any,
    spans: Any,
    lines: Any,
) -> tuple[int, int]:
    """Scan lines of `data[:end]`, which ends in a newline; (lines found, bytes used).

    Parameters
    ----------
    data, end
        The bytes, with a few newlines more after `end`.
    final
        Whether nothing comes after; otherwise a record with an open quote waits for the rest.
    classes
        What each of the 256 bytes is.
    kinds, shifts
        What each cell of a line is, and by which power of ten a number is to be multiplied.
    words, bounds
        What stands in each CONSTANT cell: `words[bounds[c] : bounds[c + 1]]`.
    separators
        The byte that comes after each cell but the last.
    typed
        Whether the way in which a value is written says what it is: numbers may end in i or u and
        are never missing or in quotes, only QUOTED texts are in quotes.
    numbers, spans
        Are filled: the numbers of each line; where its texts begin and end.
    lines
        Is filled: start, end and state (GOOD or ODD) of each line.
    """
    row = 0
    i = 0
    cells = len(kinds)
    while row < len(lines) and i < end:
        if classes[data[i]] == NEWLINE:  # an empty line, or the second half of CR LF
            i += 1
            continue
        start = i
        state = GOOD
        number = 0
        text = 0
        j = i
        for c in range(cells):
            kind = kinds[c]
            if kind == NUMBER:
                value, j = _number_cell(data, i, shifts[c], typed, classes)
                numbers[row, number] = value
                number += 1
            else:
                a, b, j = _text_cell(data, i, end, classes)
                if kind == TEXT or kind == QUOTED:  # noqa: PLR1714, SIM109 (compiles best)
                    spans[row, text, 0] = a
                    spans[row, text, 1] = b
                    text += 1
                    if typed and (a > i) != (kind == QUOTED):
                        j = -1
                elif kind == CONSTANT and not _same(data, a, b, words, bounds[c], bounds[c + 1]):
                    j = -1
            if j < 0:
                state = ODD
            elif c == cells - 1:
                state = GOOD if classes[data[j]] == NEWLINE else ODD
            elif data[j] != separators[c]:
                state = ODD
            if state == ODD:
                break
            i = j + 1
        if state == ODD:
            j = _line_end(data, start, end, classes)
            if j < 0:  # a quote that nobody closes takes its line with it, not the file
                if not final:
                    return row, start
                j = start
                while classes[data[j]] != NEWLINE:
                    j += 1
            i = j + 1
        lines[row, 0] = start
        lines[row, 1] = j
        lines[row, 2] = state
        row += 1
    return row, min(i, end)
