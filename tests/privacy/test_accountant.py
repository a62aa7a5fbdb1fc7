"""The accountant against dp-accounting, against definitions, and with stated guarantees checked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, rdp
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from scipy.stats import norm

from streamlvq.privacy.accountant import (
    ORDERS,
    compose_gaussian,
    curve_epsilon,
    gaussian_curve,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    poisson_curve,
    poisson_epsilon,
    poisson_sigma,
)

DELTA = 1e-5


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 7.03), (1.0, 3.73), (2.0, 1.99), (4.0, 1.08)])
def test_noise_of_a_single_release(epsilon: float, sigma: float) -> None:
    assert 1 / gaussian_mu(epsilon, DELTA) == pytest.approx(sigma, abs=0.005)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
def test_gaussian_delta_is_that_of_dp_accounting(mu: float, epsilon: float) -> None:
    theirs = GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    assert gaussian_delta(mu, epsilon) == pytest.approx(theirs, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
def test_gaussian_mu_is_that_of_dp_accounting(epsilon: float, delta: float) -> None:
    theirs = GaussianPrivacyLoss.from_privacy_guarantee(
        DifferentialPrivacyParameters(epsilon, delta)
    )
    ours = 1 / gaussian_mu(epsilon, delta)
    assert ours == pytest.approx(theirs.standard_deviation, rel=1e-6)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.09, 0.11, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30, 1e-200])
def test_the_three_forms_agree(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-4)
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)
    else:
        assert gaussian_delta(mu, 0.0) <= delta * (1 + 1e-8)


def test_gaussian_delta_is_the_largest_excess_of_any_outcome() -> None:
    """A sum over a fine grid of outcomes, which is the definition."""
    mu, epsilon = 0.8, 0.6
    grid = np.linspace(-12, 12, 400_001)
    excess = norm.pdf(grid, loc=mu) - math.exp(epsilon) * norm.pdf(grid)
    integral = np.sum(np.maximum(excess, 0)) * (grid[1] - grid[0])
    assert gaussian_delta(mu, epsilon) == pytest.approx(integral, rel=1e-6)


def test_no_noise_needed_and_none_that_would_do() -> None:
    assert gaussian_delta(0.0, 0.0) == 0.0
    assert gaussian_epsilon(0.0, DELTA) == 0.0
    assert gaussian_epsilon(1e-6, DELTA) == 0.0  # what it could reveal is below delta
    with pytest.raises(ValueError, match=r"no noise gives epsilon=0\.1"):
        poisson_sigma(0.1, DELTA, 0.01, 100, mu=1.0)


def test_mus_add_in_squares() -> None:
    assert compose_gaussian([3.0, 4.0]) == pytest.approx(5.0)
    assert compose_gaussian([]) == 0.0
    both = gaussian_curve(3.0) + gaussian_curve(4.0)
    np.testing.assert_allclose(both, gaussian_curve(5.0))


STEPS = [
    # sigma, rate, steps
    (4.0, 0.01, 5000),
    (0.8, 0.001, 100),
    (20.0, 1.0, 10),
    (1.1, 0.004, 15_000),
    (0.05, 0.01, 3),
    (1e4, 0.3, 10),
]


@pytest.mark.parametrize(("sigma", "rate", "steps"), STEPS)
def test_renyi_epsilon_is_that_of_dp_accounting(sigma: float, rate: float, steps: int) -> None:
    theirs = _renyi(sigma, rate, steps, ORDERS.tolist())
    ours = poisson_epsilon(sigma, DELTA, rate, steps)
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(("sigma", "rate", "steps"), [STEPS[0], STEPS[2], STEPS[3]])
def test_integer_orders_cost_little_over_many_steps(sigma: float, rate: float, steps: int) -> None:
    ours = poisson_epsilon(sigma, DELTA, rate, steps)
    exact = PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(_event(sigma, rate, steps))
    assert exact.get_epsilon(DELTA) <= ours <= 1.3 * exact.get_epsilon(DELTA) + 0.02


def test_a_curve_at_a_rate_of_one_is_that_of_a_gaussian() -> None:
    np.testing.assert_allclose(poisson_curve(2.0, 1.0, 4), gaussian_curve(1.0))
    nearly = poisson_curve(2.0, 1 - 1e-12, 4)
    np.testing.assert_allclose(nearly[:20], gaussian_curve(1.0)[:20], rtol=1e-9)


def test_a_tiny_rate_keeps_its_digits() -> None:
    """The divergence of order 2 has the closed form log(1 + rate^2 (exp(1 / sigma^2) - 1))."""
    rate, sigma = 1e-9, 3.0
    exact = math.log1p(rate**2 * math.expm1(sigma**-2))
    assert poisson_curve(sigma, rate)[0] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_sigma_gives_epsilon(epsilon: float, mu: float) -> None:
    sigma = poisson_sigma(epsilon, DELTA, 0.01, 1000, mu=mu)
    reached = poisson_epsilon(sigma, DELTA, 0.01, 1000, mu=mu)
    assert epsilon * (1 - 1e-6) <= reached <= epsilon
    assert sigma >= poisson_sigma(epsilon, DELTA, 0.01, 1000)


def test_composition_with_a_gaussian_is_that_of_dp_accounting() -> None:
    accountant = rdp.RdpAccountant(orders=ORDERS.tolist())
    accountant.compose(_event(2.0, 0.02, 500))
    accountant.compose(GaussianDpEvent(1 / 0.4))
    ours = poisson_epsilon(2.0, DELTA, 0.02, 500, mu=0.4)
    assert ours == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-6)


@pytest.mark.parametrize(
    ("stated", "exact"),
    [(0.2, 0.09), (0.6, 0.30), (1.2, 0.65), (2.0, 1.18), (4.0, 3.05), (6.0, 6.85)],
)
def test_what_the_thesis_states_and_what_it_guarantees(stated: float, exact: float) -> None:
    rate, steps = 0.01, 5000
    sigma = 2 * rate * math.sqrt(steps * math.log(1 / DELTA)) / stated
    accountant = PLDAccountant()
    accountant.compose(_event(sigma, rate, steps))
    assert accountant.get_epsilon(DELTA) == pytest.approx(exact, abs=0.006)
    proved = poisson_epsilon(sigma, DELTA, rate, steps)
    assert exact < proved < 1.13 * exact


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_delta(-1, 1), "mu: expected a number from 0, got -1"),
        (lambda: gaussian_delta(1, math.nan), "epsilon: expected a number from 0, got nan"),
        (lambda: gaussian_epsilon(1, 0), "delta: expected a probability between 0 and 1, got 0"),
        (lambda: gaussian_mu(1e99, 1e-5), r"no mu from 1e-09 to 1e\+06 gives epsilon=1e\+99"),
        (lambda: poisson_epsilon(0, 1e-5, 0.1, 1), "sigma: expected a positive number, got 0"),
        (lambda: poisson_epsilon(1, 1e-5, 0, 1), "rate: expected a probability above 0"),
        (lambda: poisson_epsilon(1, 1e-5, 0.1, 1.5), "steps: expected a whole number from 0"),
        (lambda: curve_epsilon(np.ones(3), 1e-5), r"expected 119 divergences, got shape \(3,\)"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def _event(sigma: float, rate: float, steps: int) -> SelfComposedDpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), steps)


def _renyi(sigma: float, rate: float, steps: int, orders: list[int]) -> float:
    accountant = rdp.RdpAccountant(orders=orders)
    accountant.compose(_event(sigma, rate, steps))
    return float(accountant.get_epsilon(DELTA))
