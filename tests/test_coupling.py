"""Pairwise coupling: the kernels against exact oracles, against solvers, and on consistent pairs.

Runs compiled and, with NUMBA_DISABLE_JIT=1, as plain Python. Other implementations are no oracles:
R's kernlab is wrong from four classes on, and so is the reference of ONNX.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import naive
from naive import Array
from streamlvq.coupling import couple
from streamlvq.kernels import kernels
from streamlvq.kernels.layout import COUPLINGS, HT, coupling_scratch

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
SMOOTH = [method for method in COUPLINGS if method != "vote"]
EPSILON = 1e-12  # what zeros count as

ORACLES: dict[str, Callable[[Array], Array]] = {
    "pkpd": naive.couple_pkpd,
    "ht": lambda r: naive.couple_ht(r, np.ones_like(r)),
    "wlw1": naive.couple_wlw1,
    "wlw2": naive.couple_wlw2,
    "vote": naive.couple_vote,
}

# --- pairs ---------------------------------------------------------------------------------------


def completed(upper: Array) -> Array:
    """Pairwise probabilities of which the upper triangle is given."""
    above = np.triu(upper, 1)
    return np.asarray(above + np.tril(1.0 - above.swapaxes(-1, -2), -1))


def random_pairs(c: int, seed: int) -> Array:
    return completed(np.random.default_rng(seed).uniform(0.001, 0.999, (c, c)))


def consistent(p: Array) -> Array:
    return np.asarray(p[:, None] / (p[:, None] + p))


def divergence(p: Array, r: Array, counts: Array) -> float:
    """What HT minimises, up to a constant, for positive p."""
    return float(-(counts * r * np.log(consistent(p)))[~np.eye(len(p), dtype=bool)].sum())


def squares(p: Array, r: Array) -> float:
    """What WLW2 minimises."""
    errors = r.T * p[:, None] - r * p
    return float((errors[~np.eye(len(p), dtype=bool)] ** 2).sum())


# --- against oracles and solvers ------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 5, 10])
@pytest.mark.parametrize("method", COUPLINGS)
def test_equals_the_oracle(method: str, c: int) -> None:
    for seed in range(5):
        r = random_pairs(c, seed)
        # The oracle of HT stops when rounding does, the others round once.
        tolerance = 1e-12 if method == "ht" else 1e-14
        np.testing.assert_allclose(couple(r, method), ORACLES[method](r), rtol=0, atol=tolerance)


@pytest.mark.parametrize("method", ["pkpd", "wlw1", "wlw2"])
def test_small_probabilities_have_all_their_digits(method: str) -> None:
    """Inconsistent pairs of classes between which there are many orders of magnitude."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        p = 10.0 ** rng.uniform(-8, 0, 5)
        odds = p[:, None] / p * np.exp(rng.standard_normal((5, 5)))
        r = np.where(np.triu(odds, 1) > 0, odds / (1 + odds), 1 / (1 + odds.T))
        np.testing.assert_allclose(couple(r, method), ORACLES[method](r), rtol=1e-12)


@pytest.mark.parametrize("c", [2, 3, 5, 10])
def test_wlw1_solves_its_equations(c: int) -> None:
    r = random_pairs(c, 11)
    np.fill_diagonal(r, 0.0)
    matrix = (r + np.diag(r.sum(axis=1))) / (c - 1) - np.eye(c)
    rows = np.vstack([matrix, np.ones(c)])
    expected = np.linalg.lstsq(rows, np.append(np.zeros(c), 1.0))[0]
    np.testing.assert_allclose(couple(r, "wlw1"), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("c", [2, 3, 5, 10])
def test_wlw2_finds_what_a_solver_finds(c: int) -> None:
    r = random_pairs(c, 12)
    found = minimize(
        squares,
        np.full(c, 1.0 / c),
        args=(r,),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * c,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    p = couple(r, "wlw2")
    assert squares(p, r) <= found.fun + 1e-14
    # Where a parabola is flat, a solver that compares values knows half of the digits.
    np.testing.assert_allclose(p, found.x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("c", [2, 3, 5, 10])
@pytest.mark.parametrize("alike", [True, False])
def test_ht_finds_what_a_solver_finds(c: int, alike: bool) -> None:
    r = random_pairs(c, 13)
    samples = np.random.default_rng(13).integers(1, 1000, c).astype(float)
    counts = np.ones((c, c)) if alike else samples[:, None] + samples

    def cost(scores: Array) -> float:
        return divergence(naive.softmax(scores), r, counts) / counts.sum()

    def slope(scores: Array) -> Array:
        missing = counts * (consistent(naive.softmax(scores)) - r)
        np.fill_diagonal(missing, 0.0)
        return np.asarray(missing.sum(axis=1) / counts.sum())

    found = minimize(cost, np.zeros(c), jac=slope, method="BFGS", options={"gtol": 1e-10})
    p = couple(r, "ht", None if alike else samples)
    np.testing.assert_allclose(p, naive.softmax(found.x), rtol=0, atol=1e-8)
    assert np.abs(slope(np.log(p))).max() < 1e-15


# --- consistent pairs -----------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("c", [2, 3, 7, 26])
@pytest.mark.parametrize("method", SMOOTH)
def test_consistent_pairs_give_their_probabilities_back(
    method: str, c: int, concentration: float
) -> None:
    for seed in range(3):
        drawn = np.random.default_rng(seed).dirichlet(np.full(c, concentration))
        p = (drawn + 1e-10) / (drawn + 1e-10).sum()  # pairs are never clamped
        # To a billionth of each probability, even of those of 1e-10.
        np.testing.assert_allclose(couple(consistent(p), method), p, rtol=1e-9)


@pytest.mark.parametrize("method", SMOOTH)
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.3, 0.5, 1.0])
def test_two_classes_are_their_pair(method: str, share: float) -> None:
    p = couple([[0.0, share], [1.0 - share, 0.0]], method)
    np.testing.assert_allclose(p, [share, 1.0 - share], rtol=1e-14, atol=2 * EPSILON)


@pytest.mark.parametrize("method", COUPLINGS)
def test_one_class_is_certain(method: str) -> None:
    assert couple([[np.nan]], method).tolist() == [1.0]


def test_votes_are_shares_of_pairs() -> None:
    r = completed(np.array([[0, 0.9, 0.5, 1.0], [0, 0, 0.2, 0.6], [0, 0, 0, 0.5], [0, 0, 0, 0]]))
    np.testing.assert_allclose(couple(r, "vote"), np.array([2.5, 1.0, 2.0, 0.5]) / 6)


# --- whatever the pairs ---------------------------------------------------------------------------

modest = settings(
    derandomize=True, max_examples=20 if INTERPRETED else 50, deadline=None, database=None
)
extreme = st.sampled_from([0.0, 1.0, 0.5, 5e-324, EPSILON, 1.0 - EPSILON, 1e-6, 1.0 - 1e-16])


@st.composite
def any_pairs(draw: st.DrawFn, values: st.SearchStrategy[float] | None = None) -> Array:
    c = draw(st.integers(1, 7))
    value = extreme | st.floats(0.0, 1.0) if values is None else values
    drawn = draw(st.lists(value, min_size=c * c, max_size=c * c))
    return completed(np.array(drawn).reshape(c, c))


@pytest.mark.parametrize("method", COUPLINGS)
@modest
@given(r=any_pairs() | any_pairs(extreme))
def test_probabilities_are_finite_and_add_up_to_one(method: str, r: Array) -> None:
    p = couple(r, method)
    assert np.isfinite(p).all()
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("method", COUPLINGS)
@modest
@given(r=any_pairs(), random=st.randoms(use_true_random=False))
def test_names_of_classes_do_not_matter(method: str, r: Array, random: Any) -> None:
    order = list(range(len(r)))
    random.shuffle(order)
    expected = couple(r, method)[order]
    np.testing.assert_allclose(couple(r[np.ix_(order, order)], method), expected, atol=1e-12)


@modest
@given(r=any_pairs())
def test_nobody_beats_a_method_at_its_own_game(r: Array) -> None:
    """However extreme the pairs, where solvers give up."""
    r = np.clip(r, EPSILON, 1.0 - EPSILON)
    every = [couple(r, method) for method in SMOOTH]
    ones = np.ones_like(r)
    best = divergence(couple(r, "ht"), r, ones)
    assert best <= min(divergence(p, r, ones) for p in every) + 1e-9
    assert squares(couple(r, "wlw2"), r) <= min(squares(p, r) for p in every) + 1e-15


@pytest.mark.parametrize("method", COUPLINGS)
def test_zeros_and_ones_count_as_nearly_so(method: str) -> None:
    r = completed(np.array([[0, 0.0, 0.3, 1.0], [0, 0, 1.0, 0.0], [0, 0, 0, 0.0], [0, 0, 0, 0]]))
    nearly = np.clip(r, EPSILON, 1.0 - EPSILON)
    np.testing.assert_array_equal(couple(r, method), couple(nearly, method))


@pytest.mark.parametrize("method", COUPLINGS)
@pytest.mark.parametrize("c", [1, 2, 4])
def test_many_readings_are_many_single_ones(method: str, c: int) -> None:
    r = completed(np.random.default_rng(3).random((6, c, c)))
    together = couple(r, method)
    assert together.shape == (6, c)
    np.testing.assert_array_equal(together, [couple(one, method) for one in r])
    assert couple(r[:0], method).shape == (0, c)


# --- counts ---------------------------------------------------------------------------------------


def test_counts_of_classes_are_added_for_pairs() -> None:
    r, samples = random_pairs(4, 21), np.array([3.0, 50.0, 0.0, 8.0])
    expected = naive.couple_ht(r, samples[:, None] + samples)
    for counts in (samples, samples[:, None] + samples, 1e306 * samples, 1e-300 * samples):
        np.testing.assert_allclose(couple(r, "ht", counts), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", COUPLINGS)
def test_equal_counts_change_nothing(method: str) -> None:
    r = random_pairs(5, 22)
    np.testing.assert_allclose(couple(r, method, np.full(5, 7)), couple(r, method), rtol=1e-13)


def test_pairs_that_count_nothing_are_not_asked() -> None:
    """Only neighbours count, so p is a product of their odds."""
    r = random_pairs(6, 23)
    neighbours = np.eye(6, k=1) + np.eye(6, k=-1)
    odds = [r[k + 1, k] / r[k, k + 1] for k in range(5)]
    expected = np.cumprod([1.0, *odds])
    p = couple(r, "ht", neighbours)
    np.testing.assert_allclose(p, expected / expected.sum(), rtol=1e-9)


def unequal_counts(c: int, magnitudes: float, rng: np.random.Generator) -> Array:
    above = np.triu(10.0 ** rng.uniform(-magnitudes, 0.0, (c, c)), 1)
    return np.asarray(above + above.T)


def test_ht_is_right_however_unequal_the_counts() -> None:
    """Newton's method strays on a few of these unless its steps are shortened."""
    rng = np.random.default_rng(24)
    for _ in range(50 if INTERPRETED else 1000):
        r = completed(1.0 / (1.0 + np.exp(-5.0 * rng.standard_normal((8, 8)))))
        counts = unequal_counts(8, 8, rng)
        missing = counts * (consistent(couple(r, "ht", counts)) - r)
        np.fill_diagonal(missing, 0.0)
        assert np.abs(missing.sum(axis=1)).max() < 1e-14


def test_ht_stays_finite_however_absurd_the_counts() -> None:
    """Odds that multiply, along chains of pairs, to more than a float can say."""
    rng = np.random.default_rng(25)
    for _ in range(10 if INTERPRETED else 200):
        r, counts = completed(rng.integers(0, 2, (20, 20)) * 1.0), unequal_counts(20, 300, rng)
        p = couple(r, "ht", counts)
        assert np.isfinite(p).all()
        assert (p >= 0.0).all()
        assert p.sum() == pytest.approx(1.0, abs=1e-14)


# --- the kernel as a function ---------------------------------------------------------------------


@pytest.mark.parametrize("method", COUPLINGS.values(), ids=COUPLINGS)
def test_kernel_reads_neither_scratch_nor_diagonal(method: int) -> None:
    r = random_pairs(4, 31)[None]
    answers = []
    for rubbish in (0.0, np.nan, -1e300):
        r[0, range(4), range(4)] = rubbish
        out = np.full((1, 4), rubbish)
        scratch = np.full(coupling_scratch(4), rubbish)
        kernels("coupling").couple_array(r, np.empty((0, 0)), method, scratch, out)
        answers.append(out[0].tolist())
    assert answers[0] == answers[1] == answers[2]


def test_kernel_survives_counts_that_do_not_link_all_classes() -> None:
    r, out = random_pairs(4, 32), np.empty((1, 4))
    for counts in (np.zeros((4, 4)), np.kron(np.eye(2), np.ones((2, 2)))):
        kernels("coupling").couple_array(r[None], counts, HT, np.empty(coupling_scratch(4)), out)
        assert np.isfinite(out).all()
        assert out.sum() == pytest.approx(1.0)
    # In the end there are two pairs that know nothing of each other.
    assert out[0, 0] / out[0, 1] == pytest.approx(r[0, 1] / r[1, 0])
    assert out[0, 2] / out[0, 3] == pytest.approx(r[2, 3] / r[3, 2])


# --- what is taken and what is refused ------------------------------------------------------------


@pytest.mark.parametrize("method", COUPLINGS)
def test_input_stays_as_it_is(method: str) -> None:
    r, counts = random_pairs(3, 41), np.ones((3, 3))
    r[range(3), range(3)] = counts[range(3), range(3)] = np.nan
    before = r.tobytes(), counts.tobytes()
    r.flags.writeable = counts.flags.writeable = False
    p = couple(r, method, counts)
    assert (r.tobytes(), counts.tobytes()) == before
    by_columns = np.asfortranarray(r), method, np.asfortranarray(counts)
    np.testing.assert_array_equal(couple(*by_columns), p)
    np.testing.assert_array_equal(couple(r.tolist(), method, counts.tolist()), p)


def test_whole_numbers_and_short_floats_are_taken() -> None:
    assert couple([[0, 1], [0, 0]]).tolist() == pytest.approx([1.0, 0.0], abs=1e-11)
    r = random_pairs(5, 42)
    np.testing.assert_allclose(couple(r.astype(np.float32)), couple(r), atol=1e-6)


def changed(place: tuple[int, ...], value: float) -> Array:
    r = np.full((2, 3, 3) if len(place) == 3 else (3, 3), 0.5)
    r[place] = value
    return r


EVEN = np.full((3, 3), 0.5)
SHAPE = "r: expected classes x classes or readings x classes x classes, got shape "
SAMPLES = "expected a number of samples"
LINK = "counts: expected pairs that connect all classes"

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ([0.5, 0.5], {}, SHAPE + r"\(2,\)"),
    (np.zeros((2, 3)), {}, SHAPE + r"\(2, 3\)"),
    (np.zeros((2, 2, 3)), {}, SHAPE + r"\(2, 2, 3\)"),
    (np.zeros((1, 1, 2, 2)), {}, SHAPE + r"\(1, 1, 2, 2\)"),
    (np.zeros((0, 0)), {}, r"r: expected at least one class, got shape \(0, 0\)"),
    (np.zeros((4, 0, 0)), {}, r"r: expected at least one class, got shape \(4, 0, 0\)"),
    (changed((0, 2), np.nan), {}, r"r\[0, 2\]: expected a probability, got nan"),
    (changed((2, 1), -0.1), {}, r"r\[2, 1\]: expected a probability, got -0.1"),
    (changed((1, 0), np.inf), {}, r"r\[1, 0\]: expected a probability, got inf"),
    (changed((1, 2, 0), 1.5), {}, r"r\[1, 2, 0\]: expected a probability, got 1.5"),
    (changed((1, 2), 0.75), {}, r"r\[1, 2\] \+ r\[2, 1\]: expected 1, got 1.25"),
    (changed((1, 2, 0), 0.25), {}, r"r\[1, 0, 2\] \+ r\[1, 2, 0\]: expected 1, got 0.75"),
    (changed((0, 1), 0.500002), {}, r"r\[0, 1\] \+ r\[1, 0\]: expected 1, got 1.00000.*"),
    (EVEN, {"method": "HT"}, "method: expected one of pkpd, ht, wlw1, wlw2, vote, got 'HT'"),
    (EVEN, {"method": None}, "method: expected one of .*, got None"),
    (EVEN, {"counts": [1, 2]}, r"counts: expected shape \(3,\) or \(3, 3\), got \(2,\)"),
    (EVEN, {"counts": 4}, r"counts: expected shape .*, got \(\)"),
    (EVEN, {"counts": [1, -2, 3]}, rf"counts\[1\]: {SAMPLES}, got -2.0"),
    (EVEN, {"counts": [1, np.nan, 3]}, rf"counts\[1\]: {SAMPLES}, got nan"),
    (EVEN, {"counts": changed((0, 2), np.inf)}, rf"counts\[0, 2\]: {SAMPLES}, got inf"),
    (
        EVEN,
        {"counts": changed((0, 2), 3.0)},
        r"counts\[0, 2\] and counts\[2, 0\]: expected the same number, got 3.0 and 0.5",
    ),
    (EVEN, {"counts": [0, 0, 0]}, rf"{LINK}, got \[0\] apart from others"),
    (
        EVEN,
        {"counts": [[0, 0, 5], [0, 0, 0], [5, 0, 0]]},
        rf"{LINK}, got \[0, 2\] apart from others",
    ),
]


@pytest.mark.parametrize(("r", "options", "message"), REFUSED, ids=[m for _, _, m in REFUSED])
def test_refuses(r: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        couple(r, **options)


def test_rounding_in_a_pair_is_forgiven() -> None:
    r = random_pairs(4, 43)
    rounded = np.round(r, 7)
    rounded[0, 1] += 2e-7
    np.testing.assert_allclose(couple(rounded), couple(r), atol=1e-6)


def test_import_is_light() -> None:
    code = "import sys, streamlvq.coupling; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
