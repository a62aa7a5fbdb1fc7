"""DPGLVQ and DPGMLVQ: gradients against oracles, noise against the plan, bounds of influence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import naive_clipped
from streamlvq.errors import NotLearntYetError, ParameterError
from streamlvq.kernels import kernels
from streamlvq.privacy import DPGLVQ, DPGMLVQ, Privacy, sample_and_aggregate
from streamlvq.privacy.accountant import gaussian_mu, poisson_epsilon
from streamlvq.privacy.aggregate import glvq_prototypes
from streamlvq.privacy.published import GRID_STEPS, gradient_scratch

CLASSES, D = 4, 5
MODELS = [DPGLVQ, DPGMLVQ]
QUICK: dict[str, Any] = {"epochs": 0.5, "sampling": 0.05}


def promise(epsilon: float = 1.0, d: int = D, classes: int = CLASSES, **options: Any) -> Privacy:
    bounds = {f"f{j}": (-1.0, 1.0) for j in range(d)}
    return Privacy(epsilon, bounds=bounds, classes=range(classes), **options)


def blobs(n: int = 2000, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    centres = np.random.default_rng(1).uniform(-0.8, 0.8, size=(CLASSES, D))
    return centres[y] + 0.15 * rng.normal(size=(n, D)), y


def seeded(seed: int) -> Any:
    return np.random.default_rng(seed).bytes


def sums(X, y, w, omega, clip: float, grid: float = float(GRID_STEPS)):
    """What the kernel returns for all rows."""
    found = np.full(w.shape, 7.0), np.full(omega.shape, 7.0)
    scratch = np.full_like(gradient_scratch(w, omega), np.nan)
    rows = np.arange(len(X))
    kernels("clipped").clipped_sums(X, y, rows, w, omega, clip, grid, *found, scratch)
    return found


@pytest.fixture(params=["identity", "square", "flat", "none"])
def omega(request: pytest.FixtureRequest) -> np.ndarray:
    rng = np.random.default_rng(5)
    return {
        "identity": np.eye(D),
        "square": rng.normal(size=(D, D)),
        "flat": rng.normal(size=(2, D)),
        "none": np.empty((0, D)),
    }[request.param]


@pytest.mark.parametrize("clip", [1e6, 0.05])
def test_the_kernel_equals_the_oracle(omega: np.ndarray, clip: float) -> None:
    X, y = blobs(30)
    w = np.random.default_rng(2).uniform(-1, 1, size=(CLASSES, D))
    metric = omega.tolist() if len(omega) else None
    by_w, by_omega = np.zeros(w.shape, np.int64), np.zeros(omega.shape, np.int64)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        exact = naive_clipped.analytic_gradient(x, label, w.tolist(), metric)
        mine, metrics = naive_clipped.clipped(*exact, clip, GRID_STEPS)
        by_w += np.array(mine)
        by_omega += np.array(metrics).reshape(omega.shape).astype(np.int64)
    found = sums(X, y, w, omega, clip)
    np.testing.assert_allclose(found[0], by_w, atol=len(X))  # a grid step for each reading
    np.testing.assert_allclose(found[1], by_omega, atol=len(X))


def test_the_gradient_is_that_of_finite_differences(omega: np.ndarray) -> None:
    X, y = blobs(10)
    w = np.random.default_rng(2).uniform(-1, 1, size=(CLASSES, D))
    metric = omega.tolist() if len(omega) else None
    for k in range(len(X)):
        found = sums(X[k : k + 1], y[k : k + 1], w, omega, 1e6, 2.0**40)
        exact = naive_clipped.gradient(X[k].tolist(), int(y[k]), w.tolist(), metric)
        np.testing.assert_allclose(found[0] / 2.0**40, exact[0], atol=1e-8)
        by_omega = np.array(exact[1]).reshape(omega.shape)
        np.testing.assert_allclose(found[1] / 2.0**40, by_omega, atol=1e-8)


def test_one_reading_moves_the_sums_by_at_most_the_clip(omega: np.ndarray) -> None:
    rng = np.random.default_rng(9)
    clip = 0.3
    for scale in (1e-8, 1e-3, 1.0, 1e3, 1e80):
        w = scale * rng.normal(size=(CLASSES, D))
        for _ in range(20):
            x, y = rng.uniform(-1, 1, size=(1, D)), rng.integers(CLASSES, size=1)
            found = sums(x, y, w, omega, clip)
            square = sum(int(each) ** 2 for part in found for each in part.ravel())
            assert square <= (clip * GRID_STEPS) ** 2
    w = np.zeros((CLASSES, D))
    assert not sums(np.zeros((1, D)), np.zeros(1, np.int64), w, omega, clip)[0].any()


def test_sums_add_up_exactly(omega: np.ndarray) -> None:
    X, y = blobs(50)
    w = np.random.default_rng(2).uniform(-1, 1, size=(CLASSES, D))
    whole = sums(X, y, w, omega, 0.5)
    without = sums(X[1:], y[1:], w, omega, 0.5)
    alone = sums(X[:1], y[:1], w, omega, 0.5)
    for all_rows, others, one in zip(whole, without, alone, strict=True):
        np.testing.assert_array_equal(all_rows, others + one)


@pytest.mark.parametrize("model", MODELS)
def test_it_learns(model: type[DPGLVQ]) -> None:
    X, y = blobs()
    trained = model(promise(4.0), epochs=5, sampling=0.05).train(X, y, randomness=seeded(1))
    test, labels = blobs(seed=4)
    assert np.mean(np.array(trained.predict_rows(test)) == labels) > 0.95
    reading = dict(zip(trained.privacy.bounds, test[0].tolist(), strict=True))
    assert trained.predict_one(reading) == trained.predict_rows(test[:1])[0]
    shares = trained.predict_proba_one(reading)
    assert list(shares) == list(range(CLASSES))
    assert sum(shares.values()) == pytest.approx(1.0)


def test_learning_helps() -> None:
    """Means alone do worse where classes are crowded along one feature."""
    rng = np.random.default_rng(8)
    y = rng.integers(2, size=6000)
    X = np.stack([0.15 * (2 * y - 1) + 0.05 * rng.normal(size=6000), rng.uniform(-1, 1, 6000)], 1)
    privacy = promise(4.0, d=2, classes=2)
    errors = {}
    for epochs in (0.1, 20):
        model = DPGMLVQ(privacy, epochs=epochs, sampling=0.02, metric_rate=0.05)
        model.train(X, y, randomness=seeded(0))
        errors[epochs] = np.mean(np.array(model.predict_rows(X)) != y)
    assert errors[20] <= errors[0.1]
    assert model.omega[0] @ model.omega[0] > model.omega[1] @ model.omega[1]


@pytest.mark.parametrize("model", MODELS)
def test_only_seeded_randomness_repeats(model: type[DPGLVQ]) -> None:
    X, y = blobs(200)
    found = [
        model(promise(), **QUICK).train(X, y, randomness=seeded(seed)).prototypes
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    system = [model(promise(), **QUICK).train(X, y).prototypes for _ in range(2)]
    assert system[0] != system[1]


def test_readings_may_be_mappings_and_bounds_have_units() -> None:
    X, y = blobs(300)
    units = np.array([1.0, 10.0, 0.1, 5.0, 2.0])
    names = [f"f{j}" for j in range(D)]
    bounds = {name: (100 - u, 100 + u) for name, u in zip(names, units, strict=True)}
    privacy = Privacy(1.0, bounds=bounds, classes=range(CLASSES))
    raw = X * units + 100
    readings = [dict(zip(names[::-1], row[::-1], strict=True)) for row in raw.tolist()]
    scaled = DPGLVQ(promise(), **QUICK).train(X, y, randomness=seeded(1))
    unscaled = DPGLVQ(privacy, **QUICK).train(readings, y.tolist(), randomness=seeded(1))
    for label, w in scaled.prototypes.items():
        expected = 100 + units * np.array(list(w.values()))
        np.testing.assert_allclose(list(unscaled.prototypes[label].values()), expected, rtol=1e-6)
    np.testing.assert_allclose(unscaled.distances(raw), scaled.distances(X), rtol=1e-5)
    few = scaled.distances(X[:5])
    np.testing.assert_allclose(few, scaled.distances(X)[:5], rtol=1e-9)


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.25, 4.0])
def test_the_plan_proves_what_is_promised(epsilon: float) -> None:
    model = DPGLVQ(promise(epsilon))
    assert 0.999 * epsilon < model.plan.proved <= epsilon * (1 + 1e-8)
    mu = gaussian_mu(0.2 * epsilon, 1e-5)
    assert model.plan.initial == pytest.approx(math.sqrt(D + 1) / mu)
    assert poisson_epsilon(model.plan.sigma, 1e-5, 0.01, 5000, mu=mu) <= epsilon * (1 + 1e-8)


def test_the_published_plan_is_that_of_the_thesis() -> None:
    model = DPGLVQ(promise(1.0), accounting="published")
    sigma = 2 * 0.01 * math.sqrt(5000 * math.log(1e5)) / 0.8
    assert model.plan.sigma == pytest.approx(sigma)
    assert model.plan.initial == pytest.approx(math.sqrt(2) * 2 * D / 0.2)
    assert model.plan.proved < 1.0
    assert DPGLVQ(promise(8.0), accounting="published").plan.proved > 8.0
    assert "published" in repr(model)


def test_initial_noise_is_what_the_plan_says() -> None:
    """Deviation of noisy sums of 200 numbers; dropping any factor fails."""
    d, classes, n = 20, 10, 200_000
    rng = np.random.default_rng(1)
    y, X = rng.integers(classes, size=n), rng.uniform(-1, 1, size=(n, d))
    model = DPGLVQ(promise(1.0, d, classes), epochs=0.01, learning_rate=1e-12)
    model.train(X, y, randomness=seeded(3))
    w = np.array([list(each.values()) for each in model.prototypes.values()])
    means = np.array([X[y == k].mean(axis=0) for k in range(classes)])
    noise = (w - means) * np.bincount(y)[:, None]
    assert noise.std() == pytest.approx(model.plan.initial, rel=0.15)


@pytest.mark.parametrize("clip", [0.5, 2.0])
@pytest.mark.parametrize("model", MODELS)
def test_step_noise_is_what_the_plan_says(model: type[DPGLVQ], clip: float) -> None:
    """An empty log: what is left is a random walk."""
    d, classes, steps = 20, 20, 25
    options: dict[str, Any] = {"clip": clip, "epochs": steps * 0.04, "sampling": 0.04}
    if model is DPGMLVQ:
        options["metric_rate"] = 1000.0
    walk = model(promise(1.0, d, classes), accounting="published", learning_rate=1000.0, **options)
    walk.train(np.empty((0, d)), [], randomness=seeded(3))
    expected = 1000.0 * walk.plan.sigma * clip * math.sqrt(walk.steps)
    w = np.array([list(each.values()) for each in walk.prototypes.values()])
    middle = np.abs(w).ravel()  # the initial prototypes are ratios of noise: use the median
    assert np.median(middle) == pytest.approx(0.6745 * expected, rel=0.15)
    if isinstance(walk, DPGMLVQ):
        assert walk.omega.std() == pytest.approx(expected, rel=0.15)


def test_batches_are_poisson_samples() -> None:
    """Of identical readings, the number in a batch is seen in the length of a noiseless step."""
    drawn: list[int] = []
    asked: list[int] = []

    def counting(count: int) -> bytes:
        asked.append(count)
        return rng.bytes(count)

    rng = np.random.default_rng(4)
    X, y = blobs(500)
    model = DPGLVQ(promise(), epochs=2, sampling=0.1)
    model.train(X, y, randomness=counting)
    batches = asked[1::2]
    assert batches == [4 * 500] * 20  # 32 bits for each reading and batch, then noise
    rng = np.random.default_rng(4)
    for count in asked:
        bits = np.frombuffer(rng.bytes(count), "<u4")
        if count == 4 * 500:
            drawn.append(int(np.sum(bits < 0.1 * 2**32)))
    assert np.mean(drawn) == pytest.approx(50, abs=5)
    assert np.std(drawn) == pytest.approx(math.sqrt(500 * 0.1 * 0.9), rel=0.4)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_refusals(model: type[DPGLVQ]) -> None:
    X, y = blobs(50)
    fresh = model(promise(), **QUICK)
    assert fresh.predict_one({"f0": 0.0}) is None
    with pytest.raises(NotLearntYetError, match="call train"):
        _ = fresh.prototypes
    with pytest.raises(NotImplementedError, match="for streams use PrivateLVQ"):
        fresh.learn_one({}, 0)
    wrong = X.copy()
    wrong[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7: expected a number for 'f2', got nan"):
        fresh.train(wrong, y)
    with pytest.raises(ValueError, match="expected rows of 5 features"):
        fresh.train(X[:, :3], y)
    with pytest.raises(ValueError, match="row 0: expected a value for 'f1'"):
        fresh.train([{"f0": 1.0}], [0])
    with pytest.raises(ValueError, match="expected 50 labels"):
        fresh.train(X, y[:9])
    with pytest.raises(ValueError, match="row 3: expected one of the public classes"):
        fresh.train(X, [*y[:3].tolist(), "new", *y[4:].tolist()])
    fresh.train(X, y)
    with pytest.raises(ValueError, match="already trained"):
        fresh.train(X, y)
    twin = fresh.clone()
    assert type(twin) is model
    assert twin.predict_one({}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": 0}, r"DPGMLVQ\(clip=...\): expected more than 0, at most 1000, got 0"),
        ({"sampling": 1.5}, "sampling"),
        ({"epochs": math.nan}, "epochs"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"metric_rate": 0}, "metric_rate"),
        ({"initial_share": 1}, "initial_share"),
        ({"accounting": "thesis"}, "expected one of proved, published, got 'thesis'"),
    ],
)
def test_wrong_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        DPGMLVQ(promise(), **options)


def test_other_units_are_refused() -> None:
    with pytest.raises(ParameterError, match="the unit 'reading'"):
        DPGLVQ(promise(unit="segment", segment=4))
    with pytest.raises(ValueError, match="the unit 'reading'"):
        sample_and_aggregate([], [], promise(unit="segment", segment=4))


# --- sample and aggregate -------------------------------------------------------------------------


def as_array(found: dict[Any, dict[Any, float]]) -> np.ndarray:
    return np.array([list(each.values()) for each in found.values()])


def test_aggregated_prototypes_classify() -> None:
    X, y = blobs(20_000)
    w = as_array(sample_and_aggregate(X, y, promise(4.0), bins=400, randomness=seeded(2)))
    test, labels = blobs(seed=4)
    nearest = ((test[:, None] - w) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == labels) > 0.95


def test_aggregation_noise() -> None:
    """Prototypes that depend on nothing leave the noise of a sensitivity of 2 sqrt(c d)."""
    privacy = promise(1.0, d=30, classes=10)
    nothing = np.zeros((10, 30))
    w = as_array(
        sample_and_aggregate(
            np.empty((0, 30)),
            [],
            privacy,
            bins=1000,
            learn=lambda X, y, c: nothing,
            randomness=seeded(1),
        )
    )
    expected = 2 * math.sqrt(300) / gaussian_mu(1.0, 1e-5) / 1000
    assert w.std() == pytest.approx(expected, rel=0.12)


def test_a_bin_cannot_go_beyond_the_bounds() -> None:
    """Whatever one bin learns, the sum moves by no more than from corner to corner."""
    privacy = promise(64.0, d=2, classes=2)
    X, y = np.zeros((4, 2)), [0, 1, 0, 1]

    def learner(values: list[list[float]]) -> Any:
        return lambda rows, labels, c: np.array(values)

    wild = [[1e9, -1e9], [np.nan, np.inf]]
    tame = [[1.0, -1.0], [0.0, 0.0]]
    found = [
        as_array(
            sample_and_aggregate(X, y, privacy, bins=3, learn=learner(each), randomness=seeded(1))
        )
        for each in (wild, tame)
    ]
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match=r"expected prototypes of shape \(2, 2\)"):
        sample_and_aggregate(X, y, privacy, learn=lambda rows, labels, c: np.zeros(3))
    with pytest.raises(ValueError, match="bins: expected a whole number from 1, got 0"):
        sample_and_aggregate(X, y, privacy, bins=0)


def test_prototypes_of_a_bin() -> None:
    X, y = blobs(400)
    w = glvq_prototypes(X[y != 2], y[y != 2], CLASSES)
    assert np.isnan(w[2]).all()
    rest = np.delete(w, 2, axis=0)
    assert np.isfinite(rest).all()
    before = glvq_prototypes(X, y, CLASSES, epochs=0)
    after = glvq_prototypes(X, y, CLASSES)

    def cost(prototypes: np.ndarray) -> float:
        return sum(
            naive_clipped.relative_distance(x, int(label), prototypes.tolist(), None)
            for x, label in zip(X.tolist(), y, strict=True)
        )

    assert cost(after) < cost(before)
    assert np.isnan(glvq_prototypes(X[:0], y[:0], 3)).all()
