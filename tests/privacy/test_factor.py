"""Noise that is correlated over time: what it costs and what it gains."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.privacy import Privacy
from streamlvq.privacy.budget import NoisePlan
from streamlvq.privacy.factor import ToeplitzFactor, square_root_norm
from streamlvq.privacy.vector import BatchVector

HALF_LIVES = [1, 10, 50, 200, 1000]
PUBLISHED = {10: (2.78, 1.56), 50: (6.05, 2.04), 200: (12.0, 2.47), 1000: (26.9, 2.98)}


def forget(half_life: float) -> float:
    return 0.5 ** (1 / half_life)


def matrix(factor: ToeplitzFactor, size: int) -> np.ndarray:
    """Return C as a matrix."""
    entries = factor.coefficients(size)
    rows, columns = np.indices((size, size))
    return np.where(rows >= columns, entries[np.maximum(rows - columns, 0)], 0.0)


@pytest.mark.parametrize("half_life", HALF_LIVES)
def test_four_buffers_are_within_a_hundredth_of_the_optimum(half_life: int) -> None:
    factor = ToeplitzFactor.fitted(forget(half_life))
    assert len(factor.decay) == len(factor.weight) == 4
    optimum = square_root_norm(forget(half_life)) ** 2
    assert optimum * (1 - 1e-9) <= factor.error() < 1.01 * optimum
    assert min(factor.weight) > 0.0 and max(factor.decay) < 1.0


@pytest.mark.parametrize("half_life", PUBLISHED)
def test_noise_in_running_sums(half_life: int) -> None:
    independent, ours = PUBLISHED[half_life]
    alone = ToeplitzFactor.independent(forget(half_life))
    assert alone.error() == pytest.approx(independent, rel=0.003)
    assert ToeplitzFactor.fitted(forget(half_life)).error() == pytest.approx(ours, rel=0.005)


@pytest.mark.parametrize("releases", [1, 4, 64, 1024])
def test_without_forgetting_the_optimum_is_the_sum_of_squares(releases: int) -> None:
    central = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, releases))])
    factor = ToeplitzFactor.fitted(1.0, releases)
    assert factor.error() < 1.01 * float(central @ central)


def test_sums_that_forget_nothing_need_an_end() -> None:
    with pytest.raises(ValueError, match="expected a number of releases"):
        ToeplitzFactor.fitted(1.0)
    with pytest.raises(ValueError, match="expected to forget"):
        ToeplitzFactor.fitted(1.1)


@pytest.mark.parametrize("half_life, releases", [(5, math.inf), (50, 30), (None, 40)])
def test_the_norm_is_that_of_the_column_in_fact_used(
    half_life: float | None, releases: float
) -> None:
    factor = ToeplitzFactor.fitted(1.0 if half_life is None else forget(half_life), releases)
    size = 2000 if math.isinf(releases) else int(releases)
    columns = matrix(factor, size)
    assert factor.norm() == pytest.approx(np.linalg.norm(columns[:, 0]), rel=1e-9)
    for lag in (1, 2, 7):
        assert factor.correlation(lag) == pytest.approx(columns[:, 0] @ columns[:, lag], rel=1e-9)


def test_a_column_norm_that_is_forgotten_shows() -> None:
    """The norm is well above 1, which it would be for independent noise."""
    assert ToeplitzFactor.fitted(forget(50)).norm() > 1.4
    assert ToeplitzFactor.independent(forget(50)).norm() == 1.0


def test_units_in_several_batches() -> None:
    factor = ToeplitzFactor.fitted(forget(50))
    one = factor.norm()
    assert factor.norm([1, 1]) / one == pytest.approx(1.84, abs=0.005)
    assert factor.norm([1] * 8) / one == pytest.approx(6.2, abs=0.05)
    long = ToeplitzFactor.fitted(forget(1000))
    assert long.norm([1] * 8) / long.norm() == pytest.approx(6.83, abs=0.01)


def test_batches_that_follow_each_other_are_the_worst() -> None:
    factor = ToeplitzFactor.fitted(forget(20))
    columns = matrix(factor, 400)
    worst = max(
        np.linalg.norm(columns[:, [0, i, j]] @ signs)
        for i, j in itertools.combinations(range(1, 12), 2)
        for signs in itertools.product((1, -1), repeat=3)
    )
    assert worst == pytest.approx(factor.norm([1, 1, 1]), rel=1e-9)


@given(st.integers(1, 40), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_run_costs_most_where_batches_cut_it_worst(length: int, batch: int) -> None:
    factor = ToeplitzFactor.fitted(forget(20))
    columns = matrix(factor, 300)
    costs = []
    for start in range(batch):
        counts = np.bincount((start + np.arange(length)) // batch)
        costs.append(np.linalg.norm(columns[:, : len(counts)] @ counts))
    assert factor.norm_of_run(length, batch) == pytest.approx(max(costs), rel=1e-9)
    assert factor.norm_of_run(length, batch) <= length * factor.norm() * (1 + 1e-9)


def test_the_decoder_undoes_the_factor() -> None:
    factor, size = ToeplitzFactor.fitted(forget(10)), 60
    entries = factor.decoder(size)
    rows, columns = np.indices((size, size))
    decoder = np.where(rows >= columns, entries[np.maximum(rows - columns, 0)], 0.0)
    sums = np.where(rows >= columns, forget(10) ** np.maximum(rows - columns, 0.0), 0.0)
    assert np.allclose(decoder @ matrix(factor, size), sums, rtol=0, atol=1e-12)


@pytest.mark.parametrize("releases", [1, 2, 7, 64, 1000, 16_385, math.inf])
@pytest.mark.parametrize("half_life", [0.1, 50, 1000, None])
def test_the_noise_of_the_decoder_is_that_of_its_entries(
    half_life: float | None, releases: float
) -> None:
    if half_life is None and math.isinf(releases):
        return
    forgets = 1.0 if half_life is None else forget(half_life)
    for factor in (
        ToeplitzFactor.fitted(forgets, releases),
        ToeplitzFactor.independent(forgets, releases),
        ToeplitzFactor(forgets, releases, (0.9, 0.9, 0.5, 0.5), (0.1, 0.1, 0.2, 0.2)),
    ):
        entries = factor.decoder(40_000 if math.isinf(releases) else int(releases))
        expected = factor.norm() * float(np.linalg.norm(entries))
        assert factor.error() == pytest.approx(expected, rel=1e-10)


def test_a_decoder_that_grows_for_ever_has_no_end_of_noise() -> None:
    for releases in (2.0**24, math.inf):
        assert math.isinf(ToeplitzFactor(0.9, releases, (0.9,) * 4, (1.0,) * 4).error())


@pytest.mark.parametrize("half_life", [None, 10_000.0])
@pytest.mark.parametrize("horizon", [1, 2**19, 2**24])
def test_a_plan_needs_no_loop_over_its_horizon(
    half_life: float | None, horizon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loop(factor: ToeplitzFactor, count: int) -> None:
        raise AssertionError(f"a loop over {count} releases")

    monkeypatch.setattr(ToeplitzFactor, "decoder", loop)
    given = Privacy(
        64.0,
        bounds={"a": (0, 1)},
        classes=["ok", "worn"],
        half_life=half_life,
        horizon=horizon,
        scale_batch=2,
    )
    plan = NoisePlan.of(given, BatchVector(1, 2, False, 1.0, 1.0))
    assert plan.factor.releases == plan.releases
