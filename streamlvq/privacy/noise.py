"""Gaussian noise on the integers, drawn from the randomness of the operating system.

Noise in floating point is not private: about a fifth of the sums `value + noise` cannot arise from
the neighbouring value, because floats are not evenly spaced. Here a release is an integer, its
noise is `rint(sigma * Z)` for a normal Z, and every integer can arise from every other.

Since the value is an integer n, `n + rint(sigma Z)` is `rint(n + sigma Z)`: rounding of the ideal
Gaussian mechanism, which costs nothing. `Z = ndtri(u)` of u from 127 random bits. A float is good
for about 50 of these, so a number that is nearer to the border between two integers than
`FLOAT_ERROR` allows is computed again in decimal arithmetic with all bits. What is left is that
127 bits are no real number: a border between integers may fall into one of their 2**128 cells, and
there are less than 27 sigma borders. For sigma = 2**30 that is a statistical distance below 2**-92
for a number, and below 2**-46 for all numbers of 2**24 releases of 2**22 numbers.
"""

from __future__ import annotations

import functools
import math
import os
from decimal import Context, Decimal, localcontext

import numpy as np
from scipy.special import ndtri

from streamlvq.arrays import Array, Bools, Floats, Ints

BYTES_PER_NUMBER = 16  # a sign and 127 bits
FLOAT_ERROR = 2.0**-44  # of `ndtri`, relative; its float results err by about 2**-51
DECIMAL_DIGITS = 60  # of decimal arithmetic
MAX_SIGMA = 2.0**40


def integer_gaussian(sigma: float, count: int) -> Ints:
    """Draw independent `rint(sigma * Z)` for standard normal Z, from `os.urandom`.

    Examples
    --------

    >>> from streamlvq.privacy.noise import integer_gaussian

    >>> noise = integer_gaussian(1000.0, 10_000)
    >>> noise.dtype, 950 < noise.std() < 1050
    (dtype('int64'), np.True_)

    """
    if not 0.0 < sigma <= MAX_SIGMA:
        raise ValueError(f"expected a sigma above 0 and up to 2**40, got {sigma!r}")
    return gaussian_of_bits(sigma, os.urandom(BYTES_PER_NUMBER * count))


def bernoulli(rate: float, count: int) -> Bools:
    """Draw which of so many things are chosen, each with a probability, from `os.urandom`."""
    words = np.frombuffer(os.urandom(8 * count), np.dtype("<u8"))
    return words < np.uint64(math.floor(min(rate, 1.0 - 2.0**-53) * 2.0**64))


def gaussian_of_bits(sigma: float, bits: bytes) -> Ints:
    """Return the noise that these random bits mean, 16 bytes a number."""
    words = np.frombuffer(bits, np.dtype("<u8")).reshape(-1, 2)
    sign = (words[:, 1] >> np.uint64(63)).astype(bool)
    low, high = words[:, 0], words[:, 1] & np.uint64(2**63 - 1)
    distance = sigma * -ndtri(_tail(high, low))  # of the number from 0
    whole = np.rint(distance)
    near = np.abs(np.abs(distance - whole) - 0.5) <= FLOAT_ERROR * (distance + sigma)
    for k in np.flatnonzero(near):
        tail = (int(high[k]) << 64) + int(low[k])
        whole[k] = exact_rounding(sigma, tail, int(whole[k]))
    signed: Ints = np.where(sign, -whole, whole).astype(np.int64)
    return signed


def _tail(high: Array, low: Array) -> Floats:
    """Return `(127 bits + 1/2) / 2**128`, above 0 and below 1/2, with the precision of a float."""
    tail: Floats = high.astype(np.float64) * 2.0**-64 + (low.astype(np.float64) + 0.5) * 2.0**-128
    return tail


def exact_rounding(sigma: float, tail: int, guess: int) -> int:
    """Return the integer nearest to `-sigma ndtri((tail + 1/2) / 2**128)`, near a guess."""
    with localcontext(Context(prec=DECIMAL_DIGITS)):
        u = (Decimal(tail) + Decimal("0.5")) / Decimal(2) ** 128
        whole = guess - 1
        # -ndtri(u) > z means that the upper tail beyond z is larger than u.
        while upper_tail((Decimal(whole) + Decimal("0.5")) / Decimal(sigma)) > u:
            whole += 1
        return whole


def upper_tail(z: Decimal) -> Decimal:
    """Return the probability of a standard normal number above z, to about 40 digits.

    By the series `phi(z) (z + z^3/3 + z^5/(3 5) + ...)` for the part between 0 and z.
    """
    with localcontext(Context(prec=DECIMAL_DIGITS)):
        square, term, total, k = z * z, z, z, 1
        while abs(term) > abs(total) * Decimal(10) ** -(DECIMAL_DIGITS - 2) and term != 0:
            k += 2
            term = term * square / k
            total += term
        density = (-square / 2).exp() / (2 * _pi()).sqrt()
        return Decimal("0.5") - density * total


@functools.cache
def _pi() -> Decimal:
    """Return pi to 60 digits, by Machin's formula."""
    with localcontext(Context(prec=DECIMAL_DIGITS + 5)):
        return 4 * (4 * _arctan_inverse(5) - _arctan_inverse(239))


def _arctan_inverse(n: int) -> Decimal:
    power = total = 1 / Decimal(n)
    k = 1
    while abs(power) > Decimal(10) ** -(DECIMAL_DIGITS + 4):
        power /= -n * n
        k += 2
        total += power / k
    return total


def rounding_allowance(numbers: int, releases: int) -> float:
    """Return how far rounding can move all releases together, in the unit of the grid.

    Each number of each release is a sum with real coefficients that is rounded before the noise is
    added. In two worlds it may be rounded differently, by at most 1, and errs by far less than 1/2
    in floating point.
    """
    return 2.0 * math.sqrt(float(numbers) * releases)
