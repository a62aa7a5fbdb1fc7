"""Statistics of an audit: how little privacy a count of successes proves."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, binom, chi2, norm

from streamlvq.arrays import Floats

MAX_FOUND_EPSILON = 50.0


def clopper_pearson(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return bounds of a probability, each wrong with chance at most `alpha`.

    Examples
    --------
    >>> low, high = clopper_pearson(0, 100, 0.05)
    >>> low, round(high, 4)  # the rule of three
    (0.0, 0.0295)

    """
    low = beta.ppf(alpha, successes, trials - successes + 1) if successes else 0.0
    high = beta.isf(alpha, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def least_mu(false_alarms: int, misses: int, trials: int, alpha: float) -> float:
    """Return the mu that a test of two worlds proves, wrong with chance at most `alpha`.

    Whoever tells the worlds apart with these rates of false alarms and misses cannot face a
    mechanism as hard to see through as telling N(0, 1) from N(mu, 1) with a smaller mu.

    Parameters
    ----------
    false_alarms, misses
        Errors in `trials` of each world.
    trials, alpha
        Runs of each world, and the chance to be wrong.

    Examples
    --------
    >>> round(least_mu(false_alarms=170, misses=170, trials=1000, alpha=0.01), 2)  # truly 1.91
    1.66

    """
    alarms = clopper_pearson(false_alarms, trials, alpha / 2)[1]
    missed = clopper_pearson(misses, trials, alpha / 2)[1]
    return max(0.0, float(-norm.ppf(alarms) - norm.ppf(missed)))


def one_run_chance(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return how likely so many right guesses are at most, if one run is (epsilon, delta)-private.

    References
    ----------
    - Steinke, T., Nasr, M., Jagielski, M. (2023). Privacy auditing with one (1) training run.
      NeurIPS, theorem 1.1 and appendix D.

    Examples
    --------
    >>> round(one_run_chance(1000, 200, 170, epsilon=1.0, delta=1e-5), 4)
    0.0006

    """
    chance = 1.0 / (1.0 + np.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, chance))
    steps = np.arange(1, right + 1)
    ahead = np.cumsum(binom.pmf(right - steps, guesses, chance))
    worst = float(np.max(ahead / steps, initial=0.0))
    return min(1.0, tail + 2.0 * canaries * delta * worst)


def one_run_epsilon(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """Return the epsilon that right guesses about one run prove, wrong with chance `alpha`.

    Examples
    --------
    >>> round(one_run_epsilon(1000, 200, 170, delta=1e-5, alpha=0.01), 2)
    1.27

    """

    def excess(epsilon: float) -> float:
        return one_run_chance(canaries, guesses, right, epsilon, delta) - alpha

    if excess(0.0) >= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, MAX_FOUND_EPSILON, xtol=1e-6))


def noise_scale(noise: Floats, alpha: float) -> tuple[float, float, float]:
    """Return the scale of noise that should have scale one, and bounds of it.

    By chi-square, wrong with chance at most `alpha`.

    Examples
    --------
    >>> import numpy as np
    >>> noise = 0.9 * np.random.default_rng(1).standard_normal(2000)
    >>> [round(each, 2) for each in noise_scale(noise, 1e-3)]
    [0.91, 0.86, 0.96]

    """
    square, count = float(noise @ noise), len(noise)
    low, high = square / chi2.isf(alpha / 2, count), square / chi2.ppf(alpha / 2, count)
    return float((square / count) ** 0.5), float(low**0.5), float(high**0.5)
