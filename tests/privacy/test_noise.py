"""Gaussian noise on the integers."""

from __future__ import annotations

import math
import random
from decimal import Context, Decimal, localcontext

import numpy as np
import pytest
from scipy import special, stats

from streamlvq.privacy import noise
from streamlvq.privacy.noise import bernoulli, gaussian_of_bits, integer_gaussian, upper_tail


@pytest.mark.parametrize("sigma", [0.7, 3.0])
def test_small_noise_has_the_probabilities_of_a_rounded_gaussian(sigma: float) -> None:
    drawn = integer_gaussian(sigma, 200_000)
    edges = np.arange(-math.ceil(3 * sigma), math.ceil(3 * sigma) + 1)
    inner = np.diff(special.ndtr((edges - 0.5) / sigma))
    counts = np.array([np.count_nonzero(drawn == k) for k in edges[:-1]])
    expected = np.append(inner, 1 - inner.sum()) * len(drawn)
    observed = np.append(counts, len(drawn) - counts.sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_large_noise_passes_chi_square_and_ten_percent_too_little_does_not() -> None:
    sigma, count = 2.0**30, 4000
    drawn = integer_gaussian(sigma, count).astype(float)
    square = float(np.sum((drawn / sigma) ** 2))
    assert 1e-7 < stats.chi2.cdf(square, count) < 1 - 1e-7
    assert stats.chi2.cdf(0.9**2 * square, count) < 1e-3
    assert stats.kstest(drawn / sigma, "norm").pvalue > 1e-7


def test_the_upper_tail_has_forty_digits() -> None:
    for z in (0.0, 0.3, 1.0, 4.5, 11.0):
        assert float(upper_tail(Decimal(z))) == pytest.approx(special.ndtr(-z), rel=1e-12)
    assert float(upper_tail(Decimal(1)) + upper_tail(Decimal(-1))) == 1.0
    with localcontext(Context(prec=50)):  # twice the number of digits by another way
        third = upper_tail(Decimal(3))
        assert abs(third - by_continued_fraction(Decimal(3))) < Decimal(10) ** -40


def by_continued_fraction(z: Decimal) -> Decimal:
    """Return the upper tail by Laplace's continued fraction, for z well above 0."""
    ratio = z
    for k in range(3000, 0, -1):
        ratio = z + k / ratio
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return (-z * z / 2).exp() / (2 * pi).sqrt() / ratio


def bits(tail: int, negative: bool = False) -> bytes:
    return (tail + (negative << 127)).to_bytes(16, "little")


def test_numbers_between_two_integers_are_rounded_with_all_bits() -> None:
    """Floats cannot tell the two sides of a border apart, 127 bits can."""
    sigma = 2.0**30
    for whole in (0, 1, 2**29, 3 * 2**30, 6 * 2**30):
        with localcontext(Context(prec=60)):
            border = upper_tail((Decimal(whole) + Decimal("0.5")) / Decimal(sigma))
            tail = int(border * 2**128)  # the border is in this cell or beside it
        beyond, before = bits(tail - 1), bits(tail + 1)
        assert gaussian_of_bits(sigma, beyond + before).tolist() == [whole + 1, whole]
        mirrored = bits(tail - 1, negative=True)
        assert gaussian_of_bits(sigma, mirrored).tolist() == [-whole - 1]


def test_floats_are_as_good_as_is_relied_on() -> None:
    rng = random.Random(1)
    for _ in range(300):
        tail = rng.getrandbits(rng.choice([127, 120, 90, 40]))
        z = -float(special.ndtri((tail + 0.5) / 2.0**128))
        with localcontext(Context(prec=60)):
            slack = (Decimal(z) + 1) * Decimal(noise.FLOAT_ERROR) / 16
            u = (Decimal(tail) + Decimal("0.5")) / 2**128
            assert upper_tail(Decimal(z) + slack) < u < upper_tail(Decimal(z) - slack)


def test_extreme_bits() -> None:
    smallest, largest = gaussian_of_bits(1000.0, bits(0) + bits(2**127 - 1)).tolist()
    assert smallest == round(1000 * -special.ndtri(2.0**-129))
    assert largest == 0


def test_every_draw_is_another() -> None:
    assert not np.array_equal(integer_gaussian(1e6, 20), integer_gaussian(1e6, 20))


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, 2.0**41])
def test_impossible_sigmas_are_refused(sigma: float) -> None:
    with pytest.raises(ValueError, match="expected a sigma above 0"):
        integer_gaussian(sigma, 3)


def test_bernoulli() -> None:
    assert 0.09 < bernoulli(0.1, 100_000).mean() < 0.11
    assert bernoulli(1.0, 1000).all()
    assert not bernoulli(0.0, 1000).any()
