"""What noise guarantees: closed-form Gaussian privacy and Renyi orders for Poisson-sampled steps.

A mechanism is (epsilon, delta)-private if adding or removing one unit changes the probability of
any outcome by at most a factor `exp(epsilon)`, up to `delta`. `mu` is the sensitivity of a
mechanism divided by the standard deviation of its Gaussian noise; `sigma` is that deviation divided
by the sensitivity. What is returned errs on the safe side by a relative 1e-9: epsilon, delta and
sigma upwards, mu downwards. The lemmas are in docs/privacy.md, "Accounting".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, gammaln, logsumexp, ndtr

from streamlvq.arrays import Floats

MARGIN = 1e-9  # relative, to the safe side
LARGEST_MU = 1e6
SMALLEST_MU = 1e-9
LARGEST_SIGMA = 1e9
SMALLEST_SIGMA = 1e-3
SMALL_MU = 0.1
FAR = 1e4  # deviations out, where rounding hides the slope of the Mills ratio

_GEOMETRIC = np.geomspace(64, 8192, 57).round().astype(np.int64)
ORDERS = np.concatenate((np.arange(2, 64), _GEOMETRIC))  # of Renyi divergences
ORDERS.flags.writeable = False


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta with which a Gaussian mechanism is (epsilon, delta)-private.

    Examples
    --------

    >>> from streamlvq.privacy.accountant import gaussian_delta
    >>> gaussian_delta(mu=1.0, epsilon=1.0)
    0.12693...

    """
    _at_least_zero("mu", mu)
    _at_least_zero("epsilon", epsilon)
    return min(1.0, _delta(mu, epsilon) * (1 + MARGIN))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon with which a Gaussian mechanism is (epsilon, delta)-private.

    Examples
    --------

    >>> from streamlvq.privacy.accountant import gaussian_epsilon
    >>> gaussian_epsilon(mu=1 / 3.73, delta=1e-5)
    1.00...

    """
    _at_least_zero("mu", mu)
    _probability("delta", delta)
    if _delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))  # the tail of one normal variable
    found = brentq(lambda epsilon: _log_delta(mu, epsilon) - math.log(delta), 0, most, xtol=1e-300)
    return float(found) * (1 + MARGIN)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu of a Gaussian mechanism that is (epsilon, delta)-private.

    The noise for a sensitivity s has the standard deviation `s / mu`.

    Examples
    --------

    >>> from streamlvq.privacy.accountant import gaussian_mu
    >>> 1 / gaussian_mu(epsilon=1.0, delta=1e-5)
    3.73...

    """
    _at_least_zero("epsilon", epsilon)
    _probability("delta", delta)

    def excess(log_mu: float) -> float:
        return _log_delta(math.exp(log_mu), epsilon) - math.log(delta)

    bounds = math.log(SMALLEST_MU), math.log(LARGEST_MU)
    if excess(bounds[0]) > 0 or excess(bounds[1]) < 0:
        raise ValueError(
            f"no mu from {SMALLEST_MU:g} to {LARGEST_MU:g} gives epsilon={epsilon!r} "
            f"with delta={delta!r}"
        )
    return math.exp(brentq(excess, *bounds, xtol=1e-13)) * (1 - MARGIN)


def compose_gaussian(mus: Iterable[float]) -> float:
    """Return the mu of several Gaussian mechanisms together: the root of the sum of squares."""
    mus = [_at_least_zero("mu", mu) for mu in mus]
    return math.hypot(*mus)


def gaussian_curve(mu: float) -> Floats:
    """Return the Renyi divergences of a Gaussian mechanism at `ORDERS`; curves add up."""
    return np.asarray(_at_least_zero("mu", mu) ** 2 / 2 * ORDERS, dtype=np.float64)


def pure_curve(epsilon: float) -> Floats:
    """Return bounds of the Renyi divergences at `ORDERS` of a mechanism without delta.

    They are those of Bun and Steinke (2016), proposition 3.3, at most epsilon itself.
    """
    _at_least_zero("epsilon", epsilon)
    return np.asarray(np.minimum(epsilon**2 / 2 * ORDERS, epsilon), dtype=np.float64)


def poisson_curve(sigma: float, rate: float, steps: int = 1) -> Floats:
    """Return the Renyi divergences at `ORDERS` of Gaussian steps on Poisson-sampled batches.

    Parameters
    ----------
    sigma
        Standard deviation of the noise of a batch's sum, divided by the norm one unit can add.
    rate
        Probability with which each unit joins a batch, independently of all others.
    steps
        How many batches are drawn.

    """
    sigma, rate, steps = _sampled(sigma, rate, steps)
    if rate == 1:
        return steps * gaussian_curve(1 / sigma)
    return np.array([steps * _log_moment(sigma, rate, order) / (order - 1) for order in ORDERS])


def curve_epsilon(curve: Floats, delta: float) -> float:
    """Return the smallest epsilon that Renyi divergences at `ORDERS` prove for this delta."""
    _probability("delta", delta)
    if np.shape(curve) != ORDERS.shape:
        raise ValueError(f"expected {len(ORDERS)} divergences, got shape {np.shape(curve)!r}")
    shift = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(curve + shift))) * (1 + MARGIN)


def poisson_epsilon(
    sigma: float, delta: float, rate: float, steps: int, *, mu: float = 0.0
) -> float:
    """Return epsilon of Gaussian steps on Poisson-sampled batches, adding or removing one unit.

    It is proved, and some 10 % above the smallest that holds for thousands of steps; a few steps
    with little noise are judged much too harshly.

    Parameters
    ----------
    sigma, rate, steps
        As in `poisson_curve`.
    delta
        Probability that the guarantee does not cover.
    mu
        Of the Gaussian mechanisms that were applied to the same units besides the steps.

    Examples
    --------

    >>> from streamlvq.privacy.accountant import poisson_epsilon
    >>> poisson_epsilon(sigma=4.0, delta=1e-5, rate=0.01, steps=5000)
    0.712...

    """
    return curve_epsilon(poisson_curve(sigma, rate, steps) + gaussian_curve(mu), delta)


def poisson_sigma(
    epsilon: float, delta: float, rate: float, steps: int, *, mu: float = 0.0
) -> float:
    """Return the smallest sigma whose `poisson_epsilon` is at most epsilon.

    Examples
    --------

    >>> from streamlvq.privacy.accountant import poisson_sigma
    >>> poisson_sigma(epsilon=1.0, delta=1e-5, rate=0.01, steps=5000)
    2.97...

    """
    _at_least_zero("epsilon", epsilon)
    _probability("delta", delta)
    _sampled(1.0, rate, steps)
    others = gaussian_curve(mu)
    least = curve_epsilon(others, delta)

    def excess(log_sigma: float) -> float:
        curve = poisson_curve(math.exp(log_sigma), rate, steps) + others
        return curve_epsilon(curve, delta) - epsilon

    bounds = math.log(SMALLEST_SIGMA), math.log(LARGEST_SIGMA)
    if excess(bounds[0]) <= 0:
        return SMALLEST_SIGMA
    if excess(bounds[1]) > 0:
        spent = "" if mu == 0 else f"; what else was done takes {least:.4g}"
        raise ValueError(f"no noise gives epsilon={epsilon!r} with delta={delta!r}{spent}")
    found = math.exp(brentq(excess, *bounds, xtol=1e-11))
    while excess(math.log(found)) > 0:
        found *= 1 + MARGIN
    return found


def _delta(mu: float, epsilon: float) -> float:
    """Return ndtr(a) - exp(epsilon) ndtr(b), a and b being mu / 2 either side of -epsilon / mu."""
    if mu == 0:
        return 0.0
    return math.exp(_log_delta(mu, epsilon))


def _log_delta(mu: float, epsilon: float) -> float:
    a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    if epsilon == 0:
        return math.log(math.erf(mu / math.sqrt(8)))
    # exp(epsilon) times the normal density at b is that at a, which leaves two Mills ratios
    if a > 0:
        return math.log(ndtr(a) - math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * _mills(b))
    if mu > SMALL_MU:
        ratio = _mills(a) - _mills(b)
    else:  # the integral of the slope in between does not cancel
        nodes, weights = np.polynomial.legendre.leggauss(3)
        t = nodes * mu / 2 - epsilon / mu
        slope = np.where(t < -FAR, t**-2.0, 1 + t * _mills(t))
        ratio = float(weights @ slope) * mu / 2
    return math.log(ratio) - a * a / 2 - math.log(2 * math.pi) / 2 if ratio > 0 else -math.inf


def _mills(t: Any) -> Any:
    """Return the normal distribution function divided by the density."""
    return math.sqrt(math.pi / 2) * erfcx(-t / math.sqrt(2))


def _log_moment(sigma: float, rate: float, order: int) -> float:
    """Return the logarithm of the moment of the privacy loss, (order - 1) times the divergence.

    The binomial probabilities sum to one, so that only what exceeds one is summed: exact for rates
    and exponents far below the precision of one.
    """
    k = np.arange(2, order + 1)
    exponent = k * (k - 1) / (2 * sigma**2)
    grown = exponent + np.log(-np.expm1(-exponent))  # of exp(exponent) - 1
    choices = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    chance = choices + k * math.log(rate) + (order - k) * math.log1p(-rate)
    return float(np.logaddexp(0.0, logsumexp(chance + grown)))


def _sampled(sigma: float, rate: float, steps: int) -> tuple[float, float, int]:
    if not (math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"sigma: expected a positive number, got {sigma!r}")
    if not 0 < rate <= 1:
        raise ValueError(f"rate: expected a probability above 0, at most 1, got {rate!r}")
    if steps != int(steps) or steps < 0:
        raise ValueError(f"steps: expected a whole number from 0, got {steps!r}")
    return float(sigma), float(rate), int(steps)


def _at_least_zero(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}: expected a number from 0, got {value!r}")
    return float(value)


def _probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name}: expected a probability between 0 and 1, got {value!r}")
