"""Learning streams from releases alone: what is promised, and that nothing else gets out."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from river import checks, datasets

import streamlvq
from streamlvq.errors import NotLearntYetError, ParameterError, SnapshotError
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.privacy import (
    CopyError,
    LedgerExhaustedError,
    LedgerMismatchError,
    MemoryLedger,
    Privacy,
    PrivateLVQ,
    engine,
    series,
)
from streamlvq.privacy.accountant import gaussian_delta
from streamlvq.privacy.budget import NoisePlan, unit_norm
from streamlvq.privacy.factor import ToeplitzFactor
from streamlvq.privacy.noise import rounding_allowance
from streamlvq.privacy.vector import GRID, BatchVector
from streamlvq.snapshot import Snapshot

FEATURES = ["a", "b", "c"]
CLASSES = ["ok", "worn", "broken"]


def promise(epsilon: float = 4.0, **options: Any) -> Privacy:
    given = {"scale_batch": 64, "warmup": 128, "batch": 32, "half_life": 20.0, **options}
    return Privacy(epsilon, bounds=dict.fromkeys(FEATURES, (-6, 6)), classes=CLASSES, **given)


def readings(n: int, seed: int = 0) -> tuple[Any, list[str]]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    centres = np.array([[2.0, 0, 0], [0, 2.0, 0], [0, 0, 2.0]])
    return centres[codes] + 0.6 * rng.normal(size=(n, 3)), [CLASSES[c] for c in codes]


def as_dictionary(row: Any) -> dict[str, float]:
    return dict(zip(FEATURES, row.tolist(), strict=True))


def taught(n: int = 2000, ledger: MemoryLedger | None = None, **options: Any) -> PrivateLVQ:
    model = PrivateLVQ(promise(), **options)
    if ledger is not None:
        model.use_ledger(ledger)
    X, y = readings(n)
    model.learn_array(X, y)
    return model


# --- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["shared", "local"])
def test_a_stream_is_learnt(metric: str) -> None:
    model = PrivateLVQ(promise(), metric=metric)
    X, y = readings(4000)
    model.learn_array(X[:3000], y[:3000])
    assert np.mean(model.predict_array(X[3000:]) == y[3000:]) > 0.9
    assert model.releases == 2 + (3000 - 64 - 128) // 32
    assert model.classes == tuple(CLASSES) and model.samples == 3000
    assert sum(model.predict_proba_one(as_dictionary(X[0])).values()) == pytest.approx(1.0)


def test_nothing_is_said_before_the_first_model() -> None:
    model = PrivateLVQ(promise())
    X, y = readings(200)
    for k in range(64 + 127):
        model.learn_one(as_dictionary(X[k]), y[k])
        assert model.classes == () and model.predict_one(as_dictionary(X[k])) is None
        assert model.predict_proba_one(as_dictionary(X[k])) == {}
    with pytest.raises(NotLearntYetError, match="before its first"):
        model.released_model()
    model.learn_one(as_dictionary(X[191]), y[191])
    assert model.classes == tuple(CLASSES) and model.predict_one(as_dictionary(X[0])) in CLASSES


def test_only_a_release_changes_what_is_decided() -> None:
    model = taught(64 + 128 + 32)
    X, y = readings(64, seed=5)
    before = model.predict_proba_array(X)
    published = Snapshot.of(model.released_model(), readings=False).to_bytes()
    for k in range(31):
        model.learn_one(as_dictionary(X[k]), y[k])
        assert np.array_equal(model.predict_proba_array(X), before)
        model.predict_one(as_dictionary(X[k]))
    assert Snapshot.of(model.released_model(), readings=False).to_bytes() == published
    model.learn_one(as_dictionary(X[31]), y[31])
    assert not np.array_equal(model.predict_proba_array(X), before)


def test_readings_one_by_one_and_in_arrays_are_the_same() -> None:
    ledger = MemoryLedger()
    model = PrivateLVQ(promise())
    X, y = readings(1000)
    model.learn_array(X[:1], y[:1])
    twin = build_estimator(model.state())
    model.use_ledger(ledger)
    twin.use_ledger(ledger)
    model.learn_array(X[1:700], y[1:700])
    for row, label in zip(X[1:700], y[1:700], strict=True):
        twin.learn_one(as_dictionary(row), label)
    assert model.releases > 10 and twin.state().same_as(model.state())


def test_learning_watched_says_what_was_decided_before() -> None:
    model = taught(400)
    X, y = readings(100, seed=3)
    before, codes = model.learn_array_watched(X, y)
    assert before.shape == (100, 3) and np.allclose(before.sum(axis=1), 1.0)
    assert [CLASSES[c] for c in codes] == y


# --- sensitivity of the whole series --------------------------------------------------------------


def encoded(monkeypatch: pytest.MonkeyPatch, X: Any, y: Any, outcomes: list[Any]) -> list[Any]:
    """Return what each release is before noise, if releases say what outcomes say."""
    found: list[Any] = []

    def draw(before: Any, sigma: float) -> Any:
        if len(outcomes) == len(found):
            outcomes.append(series.draw(before, sigma))
        found.append(before)
        return outcomes[len(found) - 1]

    monkeypatch.setattr(engine, "draw", draw)
    model = PrivateLVQ(promise())
    model.learn_array(X, y)
    return found


@pytest.mark.parametrize("place", [10, 70, 200, 400])
def test_another_reading_moves_all_releases_together_by_no_more_than_promised(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Given the same releases so far, as the proof has it; readings at opposite corners."""
    X, y = readings(64 + 128 + 32 * 30)
    other, labels = X.copy(), list(y)
    X[place], y[place] = 6.0, "ok"
    other[place], labels[place] = -6.0, "worn"
    outcomes: list[Any] = []
    one = encoded(monkeypatch, X, y, outcomes)
    two = encoded(monkeypatch, other, labels, outcomes)
    moved = math.sqrt(sum(float(np.sum((a - b) ** 2)) for a, b in zip(one, two, strict=True)))
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    plan = NoisePlan.of(promise(), vector)
    if place < 64:  # in the first release
        assert moved <= 2 * plan.scale_sigma * plan.mu
        return
    limit = vector.sensitivity * GRID * plan.factor.norm() + rounding_allowance(vector.size, 31)
    assert moved <= 2 * limit <= 2 * plan.sigma * plan.mu * (1 + 1e-9)
    first = next(
        k for k, (a, b) in enumerate(zip(one, two, strict=True)) if not np.array_equal(a, b)
    )
    alone = float(np.linalg.norm(one[first] - two[first]))
    later = float(np.linalg.norm(plan.factor.coefficients(len(one) - first)))
    assert moved == pytest.approx(alone * later, rel=1e-6)
    assert moved > 1.1 * alone  # without the norm of a column noise would be too small


def test_noise_is_what_the_promise_needs() -> None:
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    for epsilon, half_life in ((1.0, 20.0), (4.0, 50.0)):
        given = promise(epsilon, half_life=half_life)
        plan = NoisePlan.of(given, vector)
        column = np.linalg.norm(plan.factor.coefficients(20_000))
        mu = math.sqrt(1 + 0.25**2 + 0.7**2 + 1) * column * GRID / plan.sigma
        assert gaussian_delta(mu, epsilon) <= given.delta
        assert gaussian_delta(mu * 1.02, epsilon) > given.delta  # and not much more than that
        assert gaussian_delta(GRID / plan.scale_sigma, epsilon) <= given.delta * (1 + 1e-6)


def test_released_noise_is_as_large_as_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square of what is left when the secret is taken away; 10 % less noise is seen."""
    outcomes: list[Any] = []
    X, y = readings(64 + 128 + 32 * 120)
    before = encoded(monkeypatch, X, y, outcomes)
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    sigma = NoisePlan.of(promise(), vector).sigma
    noise = np.array(outcomes[1:]) - np.array(before[1:])
    share = np.sum((noise / sigma) ** 2) / noise.size
    assert noise.size > 2000 and abs(share - 1.0) < 5.5 * math.sqrt(2.0 / noise.size) < 0.15
    neighbours = np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]
    assert abs(neighbours) < 0.1  # independent from release to release


def test_the_promise_is_constant_for_ever() -> None:
    vector = BatchVector(16, 26, False, 4.0, 1.0)
    plan = NoisePlan.of(
        Privacy(2.0, bounds=dict.fromkeys(range(16), (0, 15)), classes=range(26)), vector
    )
    entries = plan.factor.coefficients(4000)  # a million readings
    spent = vector.sensitivity * GRID * np.linalg.norm(entries) / plan.sigma
    assert spent <= plan.mu and np.linalg.norm(entries) <= plan.factor.norm() * (1 + 1e-9)


def test_encoders_lose_nothing_to_rounding() -> None:
    """After many batches of full size the last reading still moves the release exactly."""
    factor = ToeplitzFactor.fitted(0.5 ** (1 / 10_000))
    one = series.ReleaseSeries(factor, 1, 0)
    two = series.ReleaseSeries(factor, 1, 0)
    full = np.array([256 * GRID])
    two.keep(np.array([GRID]))
    one.keep(np.array([0.0]))
    coefficients = factor.coefficients(3001)
    for k in range(1, 3000):
        assert abs((two.encode(full) - one.encode(full))[0] - coefficients[k] * GRID) < 2
        one.keep(full)
        two.keep(full)


def exact_encoding(made: series.ReleaseSeries, vector: Any) -> list[Fraction]:
    """Return what is encoded next, before rounding, without errors of floats."""
    return [
        Fraction(x)
        + sum(
            Fraction(weight) * (Fraction(value) + Fraction(rest))
            for weight, value, rest in zip(
                made.factor.weight, made.encoder[:, k], made.remainder[:, k], strict=True
            )
        )
        for k, x in enumerate(vector.tolist())
    ]


def test_the_largest_sums_that_are_allowed_are_rounded_right() -> None:
    """Batches of 65536 equal readings, as many as the plan accepts: an error stays below 1/2."""
    given = promise(8.0, half_life=None, horizon=10_000, batch=65_536)
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    factor = NoisePlan.of(given, vector).factor
    made = series.ReleaseSeries(factor, 6, 0)
    full = np.floor(65_536 * GRID * np.array([1.0, 0.999, 0.7, -0.3, 1e-6, -1.0]))
    for _ in range(10_000):
        made.keep(full)
    found = made.encode(full)
    errors = [
        abs(Fraction(each) - exact)
        for each, exact in zip(found.tolist(), exact_encoding(made, full), strict=True)
    ]
    assert max(errors) < 1  # of rounding to an integer, and of floats
    assert 2.0**47 < np.abs(found).max() < 2.0**50


def test_sums_that_floats_cannot_hold_are_refused() -> None:
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    for horizon in (100_000, 2**24):
        with pytest.raises(ParameterError, match=r"batch.*whose sums are exact.*smaller batches"):
            NoisePlan.of(promise(8.0, half_life=None, horizon=horizon, batch=65_536), vector)
    NoisePlan.of(promise(8.0, half_life=10_000.0, batch=65_536), vector)
    NoisePlan.of(promise(8.0, half_life=None, horizon=2**24, batch=256), vector)


# --- units ----------------------------------------------------------------------------------------


def test_a_segment_costs_what_its_readings_cost_together() -> None:
    factor = ToeplitzFactor.fitted(0.5 ** (1 / 50))
    assert unit_norm(factor, 5, 32, 128) == pytest.approx(5 * factor.norm())
    assert unit_norm(factor, 500, 1, 1) == pytest.approx(factor.norm() + factor.norm([1] * 499))
    vector = BatchVector(3, 3, False, math.sqrt(3.0), 1.0)
    alone = NoisePlan.of(promise(8.0, half_life=500.0), vector)
    five = NoisePlan.of(promise(8.0, half_life=500.0, unit="segment", segment=5), vector)
    assert five.sigma == pytest.approx(5 * alone.sigma, rel=0.01)
    assert five.scale_sigma == pytest.approx(5 * alone.scale_sigma)


@pytest.mark.parametrize("unit", ["device", "node", "user", "person", "batch"])
def test_units_that_cannot_be_protected_are_refused_with_the_reason(unit: str) -> None:
    with pytest.raises(ParameterError, match=rf"expected one of reading, segment, got '{unit}': a"):
        promise(unit=unit)


def test_units_that_only_drowning_noise_would_hide_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"segment.*protect a smaller unit"):
        PrivateLVQ(promise(0.1, unit="segment", segment=100))
    with pytest.raises(ParameterError, match=r"epsilon.*protect a smaller unit"):
        PrivateLVQ(promise(0.001))


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.5}, "delta"),
        ({"bounds": {}}, "not from the readings"),
        ({"bounds": {"a": (1, 1)}}, "low < high for 'a'"),
        ({"bounds": {"a": (0, math.inf)}}, "low < high for 'a'"),
        ({"bounds": {"a": "01"}}, "low < high for 'a'"),
        ({"bounds": {"a": (0, 5e-324)}}, "at least 1e-50 apart for 'a'"),
        ({"bounds": {"a": (0, 1e51)}}, r"up to 1e\+50 for 'a'"),
        ({"classes": ["ok"]}, "two different labels"),
        ({"classes": ["ok", "ok"]}, "two different labels"),
        ({"classes": "ab"}, "two different labels"),
        ({"unit": "segment"}, "segment"),
        ({"segment": 3}, "expected None where the unit is a reading"),
        ({"half_life": None}, "horizon"),
        ({"half_life": 0}, "half_life"),
        ({"batch": 0}, "batch"),
        ({"warmup": True}, "warmup"),
        ({"horizon": 0.5}, "horizon"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_promises_that_make_no_sense_are_refused(options: dict[str, Any], expected: str) -> None:
    good = {"epsilon": 1.0, "bounds": {"a": (0, 1)}, "classes": ["ok", "worn"]}
    with pytest.raises(ParameterError, match=expected):
        Privacy.from_mapping({**good, **options})


def test_a_promise_as_a_mapping() -> None:
    given = promise(unit="segment", segment=3, horizon=100)
    twin = Privacy.from_mapping(given.as_mapping())
    assert twin == given and hash(twin) == hash(given)
    assert pickle.loads(pickle.dumps(given)) == given == copy.deepcopy(given)
    assert PrivateLVQ(promise().as_mapping()).privacy == promise()
    with pytest.raises(dataclasses.FrozenInstanceError):
        given.epsilon = 2.0  # type: ignore[misc]


# --- public features and classes ------------------------------------------------------------------


def test_unknown_classes_features_and_weights_are_refused_and_change_nothing() -> None:
    model = taught(300)
    before = model.state()
    x = as_dictionary(np.zeros(3))
    with pytest.raises(ValueError, match=r"expected one of the public classes.*got 'new'"):
        model.learn_one(x, "new")
    with pytest.raises(ValueError, match=r"expected one of the public classes.*got 'new'"):
        model.learn_array(np.zeros((2, 3)), ["ok", "new"])
    with pytest.raises(ValueError, match=r"expected one of the public features.*got 'd'"):
        model.learn_one({**x, "d": 1.0}, "ok")
    with pytest.raises(ValueError, match=r"expected one of the public features.*got 'd'"):
        model.learn_array(np.zeros((1, 1)), ["ok"], ["d"])
    with pytest.raises(ValueError, match="weight 1, which the noise can hide, got 2"):
        model.learn_one(x, "ok", w=2.0)
    with pytest.raises(ValueError, match="weight 1"):
        model.learn_array(np.zeros((2, 3)), ["ok", "ok"], w=0.5)
    with pytest.raises(ValueError, match="feature 'b'"):
        model.learn_one({**x, "b": math.inf}, "ok")
    model.learn_one(x, "ok", w=0.0)
    model.observe_one(x)
    assert model.state().same_as(before)


def test_values_beyond_the_bounds_count_as_the_bounds() -> None:
    ledger = MemoryLedger()
    first = taught(10)
    one, two = (build_estimator(first.state()) for _ in range(2))
    one.use_ledger(ledger)
    X, y = readings(400, seed=1)
    X[::3] *= 10
    one.learn_array(X, y)
    assert one.predict_proba_one(dict.fromkeys(FEATURES, 1e30)) == one.predict_proba_one(
        dict.fromkeys(FEATURES, 6.0)
    )
    two.use_ledger(ledger)
    with pytest.raises(LedgerMismatchError):  # the seal is of the readings as they came
        two.learn_array(np.clip(X, -6, 6), y)


def test_missing_values_are_those_released() -> None:
    model = taught()
    X, y = readings(600, seed=2)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model.learn_array(X, y)
    model.learn_one({}, "ok")
    whole, _ = readings(600, seed=2)
    assert np.mean(model.predict_array(whole) == y) > 0.9
    assert model.predict_one({"a": 2.0}) in CLASSES


# --- the ledger -----------------------------------------------------------------------------------


def test_a_restored_model_replays_and_never_draws_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = MemoryLedger()
    X, y = readings(1500)
    model = PrivateLVQ(promise())
    model.use_ledger(ledger)
    model.learn_array(X[:500], y[:500])
    saved = Snapshot.of(model).to_bytes()
    model.learn_array(X[500:1400], y[500:1400])
    head, releases = ledger.head, model.releases

    def never(*arguments: object) -> None:
        raise AssertionError("noise was drawn for a release that was recorded")

    again = Snapshot.from_bytes(saved).classifier()
    again.use_ledger(ledger)
    with monkeypatch.context() as patch:
        patch.setattr(series, "integer_gaussian", never)
        again.learn_array(X[500:1400], y[500:1400])
    assert again.state().same_as(model.state())
    assert ledger.head == head and again.releases == releases
    again.learn_array(X[1400:], y[1400:])
    assert again.releases > releases and ledger.head != head


def test_other_readings_under_a_number_are_noticed() -> None:
    ledger = MemoryLedger()
    X, y = readings(600)
    model = PrivateLVQ(promise())
    model.use_ledger(ledger)
    model.learn_array(X[:500], y[:500])
    older = build_estimator(model.state())
    older.use_ledger(ledger)
    model.learn_array(X[500:], y[500:])
    with pytest.raises(LedgerMismatchError, match="readings between them are lost"):
        older.learn_array(X[501:], y[501:])


def test_what_the_ledger_keeps_is_noise_without_the_key() -> None:
    """The same readings, twice: neither releases nor seals are the same."""
    X, y = readings(300)
    kept = []
    for _ in range(2):
        ledger = MemoryLedger()
        model = PrivateLVQ(promise())
        model.use_ledger(ledger)
        model.learn_array(X, y)
        kept.append([ledger.recorded(k) for k in range(model.releases)])
    assert all(not np.any(a == b) for a, b in zip(*kept, strict=True))


class FailingLedger(MemoryLedger):
    """A ledger whose disk is full for a while."""

    broken = False

    def reserve(self, number: int, spending: Any) -> None:
        if self.broken:
            raise OSError("no space left on device")
        super().reserve(number, spending)


def test_a_reading_whose_release_fails_is_not_learnt_and_may_come_again() -> None:
    ledger = FailingLedger()
    X, y = readings(400)
    model = PrivateLVQ(promise())
    model.use_ledger(ledger)
    model.learn_array(X[:63], y[:63])
    before, ledger.broken = model.state(), True
    for _ in range(3):
        with pytest.raises(OSError, match="no space"):
            model.learn_one(as_dictionary(X[63]), y[63])
        state = model.state()
        assert state.extra["sizes"] == before.extra["sizes"]
        assert np.array_equal(state.arrays["sums"], before.arrays["sums"])
    ledger.broken = False
    model.learn_array(X[63:], y[63:])
    assert model.releases == 2 + (400 - 192) // 32 and model.samples == 400


def test_nothing_is_released_when_the_ledger_is_exhausted() -> None:
    ledger = MemoryLedger(epsilon=4.0)
    first, second = PrivateLVQ(promise()), PrivateLVQ(promise())
    X, y = readings(500)
    first.use_ledger(ledger)
    first.learn_array(X[:300], y[:300])
    assert first.exhausted is None and len(ledger.series) == 1
    assert first.spending() == next(iter(ledger.series.values()))
    ledger = copy.deepcopy(ledger)
    shifted = FreshNumbers(ledger)
    second.use_ledger(shifted)
    second.learn_array(X, y)
    assert "at most epsilon 4, got 8" in str(second.exhausted)
    assert second.releases == 0 and second.classes == ()


class FreshNumbers:
    """Another model's numbers in the same ledger."""

    def __init__(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger

    @property
    def head(self) -> bytes:
        return self.ledger.head

    def reserve(self, number: int, spending: Any) -> None:
        self.ledger.reserve(1000 + number, spending)

    def record(self, number: int, released: Any) -> None:
        self.ledger.record(1000 + number, released)

    def recorded(self, number: int) -> Any:
        return self.ledger.recorded(1000 + number)

    def is_reserved(self, number: int, series: str) -> bool:
        return self.ledger.is_reserved(1000 + number, series)


def test_a_ledger_keeps_its_order() -> None:
    ledger = MemoryLedger(delta=1e-5)
    spending = PrivateLVQ(promise()).spending()
    with pytest.raises(ValueError, match="reserved once, got 3"):
        ledger.record(3, np.array([1]))
    ledger.reserve(3, spending)
    ledger.reserve(3, spending)  # nobody has seen what was drawn
    heads = {ledger.head}
    ledger.record(3, np.array([1]))
    assert ledger.head not in heads
    with pytest.raises(ValueError, match="not made yet, got 3"):
        ledger.reserve(3, spending)
    with pytest.raises(LedgerExhaustedError, match="at most delta"):
        ledger.reserve(4, dataclasses.replace(spending, series="another"))


def test_what_a_series_spent_never_falls() -> None:
    ledger = MemoryLedger(epsilon=4.5)
    spending = PrivateLVQ(promise()).spending()
    ledger.reserve(0, spending)
    ledger.reserve(1, dataclasses.replace(spending, epsilon=0.1, delta=1e-9, mu=None))
    (kept,) = ledger.series.values()
    assert (kept.epsilon, kept.delta, kept.mu) == (4.0, 1e-5, None)
    with pytest.raises(LedgerExhaustedError, match=r"at most epsilon 4\.5, got 5"):
        ledger.reserve(2, dataclasses.replace(spending, series="another", epsilon=1.0))


# --- interruptions --------------------------------------------------------------------------------


class Interrupted(BaseException):
    """What Ctrl-C raises, anywhere."""


def interrupt(patch: pytest.MonkeyPatch, at_call: int, name: str = "draw") -> None:
    """Let a call of a function of the engine be interrupted when it returns."""
    function, calls = getattr(engine, name), [0]

    def interrupted(*arguments: Any) -> Any:
        result = function(*arguments)
        calls[0] += 1
        if calls[0] == at_call:
            raise Interrupted
        return result

    patch.setattr(engine, name, interrupted)


@pytest.mark.parametrize("function", ["draw", "fit_model", "fit_scales"])
@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupted_release_changes_nothing_and_is_made_once(
    function: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards all is as if nothing had happened, bit for bit."""
    X, y = readings(600)
    model = PrivateLVQ(promise())
    part = 63 if function == "fit_scales" else 64 + 128 + 31
    model.learn_array(X[:part], y[:part])
    twin = build_estimator(model.state())
    if kept:
        for each in (model, twin):
            each.use_ledger(MemoryLedger())
    with monkeypatch.context() as patch:
        interrupt(patch, 1, function)
        before = model.state()
        with pytest.raises(Interrupted):
            model.learn_one(as_dictionary(X[part]), y[part])
    assert model.state().same_as(before)

    def draw(encoded: Any, sigma: float) -> Any:
        return (encoded + np.rint(sigma / (1.0 + np.arange(len(encoded))))).astype(np.int64)

    monkeypatch.setattr(engine, "draw", draw)
    if kept and function != "draw":  # it was recorded, and is taken from the ledger
        ledger = model._ledger
        twin.use_ledger(ledger)
    model.learn_array(X[part:], y[part:])
    twin.learn_array(X[part:], y[part:])
    assert model.state().same_as(twin.state()) and model.releases == 2 + (600 - 192) // 32


@pytest.mark.parametrize("draws", [1, 2, 150])
@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupted_log_leaves_no_model_and_is_not_learnt_again(
    draws: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = readings(500)
    model, ledger = PrivateLVQ(promise()), MemoryLedger()
    model.spending()  # the series has a name
    before = model.state()
    if kept:
        model.use_ledger(ledger)
    with monkeypatch.context() as patch:
        interrupt(patch, draws)
        with pytest.raises(Interrupted):
            model.train(X, y)
    twin = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
    for each in (model, twin):
        assert each.classes == () and each.predict_one(as_dictionary(X[0])) is None
        with pytest.raises(NotLearntYetError):
            each.released_model()
        with pytest.raises(ValueError, match="expected a model that has learnt nothing"):
            each.train(X, y)
        made = each.releases
        each.learn_array(X, y)
        assert each.releases == made and "learns no more" in str(each.exhausted)
    if kept:  # nor from the state before
        older = build_estimator(before)
        older.use_ledger(ledger)
        with pytest.raises(LedgerMismatchError, match="begun and not finished"):
            older.train(X, y)


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_decides_but_releases_nothing_without_a_ledger(copied: Any) -> None:
    X, y = readings(600)
    model = taught(300, MemoryLedger())
    twin = copied(model)
    assert np.array_equal(twin.predict_proba_array(X), model.predict_proba_array(X))
    with pytest.raises(CopyError, match="expected a ledger for a copy"):
        twin.learn_array(X[300:], y[300:])
    releases = twin.releases
    with pytest.raises(CopyError):
        twin.learn_one(as_dictionary(X[0]), y[0])
    assert twin.releases == releases == model.releases
    model.learn_array(X[300:], y[300:])
    assert model.releases > releases


def test_copies_with_one_ledger_take_what_it_has() -> None:
    X, y = readings(600)
    ledger = MemoryLedger()
    model = taught(290, ledger)
    twin, other = copy.deepcopy(model), copy.deepcopy(model)
    for each in (twin, other):
        each.use_ledger(ledger)
    for each in (model, twin):
        each.learn_array(X[290:], y[290:])
    assert twin.state().same_as(model.state())
    with pytest.raises(LedgerMismatchError):
        other.learn_array(X[291:], y[291:])


def test_a_copy_learns_no_log_without_a_ledger() -> None:
    X, y = readings(300)
    model = PrivateLVQ(promise())
    model.spending()
    twin = copy.deepcopy(model)
    with pytest.raises(CopyError, match="may have learnt the same log"):
        twin.train(X, y)
    assert twin.exhausted is None
    model.train(X, y)


def test_a_horizon_ends_learning_and_decisions_go_on() -> None:
    model = PrivateLVQ(promise(half_life=None, horizon=10))
    X, y = readings(1000)
    model.learn_array(X, y)
    assert model.releases == 2 + (10 * 32 - 128) // 32
    assert "releases, got one more" in str(model.exhausted)
    assert np.mean(model.predict_array(X) == y) > 0.7


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["shared", "local"])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 191, 192, 193, 1000])
def test_states_are_restored_bit_for_bit(metric: str, n: int) -> None:
    model = PrivateLVQ(promise(), metric=metric)
    X, y = readings(1200)
    if n:
        model.learn_array(X[:n], y[:n])
    twin = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
    assert twin.state().same_as(model.state())
    assert np.array_equal(twin.predict_proba_array(X), model.predict_proba_array(X))
    pickled = pickle.loads(pickle.dumps(model))
    assert pickled.state().same_as(model.state())
    if n:
        ledger = MemoryLedger()
        for each in (model, twin, pickled):
            each.use_ledger(ledger)
            each.learn_array(X[n:], y[n:])
        assert twin.state().same_as(model.state()) and pickled.state().same_as(model.state())


def test_a_state_is_secret() -> None:
    with pytest.raises(SnapshotError, match="its state is secret; share released_model"):
        Snapshot.of(taught(100), readings=False)
    assert not PrivateLVQ.shareable


@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize(
    "name, value",
    [
        ("sums", 1e300),
        ("encoder", 1e300),
        ("encoder", 1e20),
        ("remainder", -1e300),
        ("inverse", 1e300),
        ("inverse", 1e-9),
        ("centre", 7.0),
        ("products", 1e300),
        ("squares", math.nan),
    ],
)
def test_numbers_that_would_break_learning_are_refused(n: int, name: str, value: float) -> None:
    state = taught(n).state()
    arrays = dict(state.arrays)
    arrays[name] = np.full_like(arrays[name], value)
    with pytest.raises(SnapshotError, match=f"{name}.*expected a number"):
        build_estimator(EstimatorState(state.kind, state.parameters, arrays, state.extra))


@pytest.mark.parametrize("n, length", [(10, 64), (100, 128), (1000, 32)])
def test_more_readings_than_a_batch_has_are_refused(n: int, length: int) -> None:
    state = taught(n).state()
    for taken in (length - 1, length, 5000):
        extra = {**state.extra, "sizes": {**state.extra["sizes"], "taken": taken}}
        changed = EstimatorState(state.kind, state.parameters, dict(state.arrays), extra)
        if taken < length:
            model = build_estimator(changed)
            model.learn_array(*readings(300))
            assert model.releases > state.extra["sizes"]["number"]
        else:
            with pytest.raises(SnapshotError, match=f"taken: expected .* to {length - 1}, got"):
                build_estimator(changed)


def test_statistics_that_no_release_leaves_are_refused() -> None:
    state = taught(1000).state()
    for changes in (
        {"squares": state.arrays["squares"] * 0.0},
        {"factor": np.array([[0.9] * 4, [1.0] * 4])},
        {"factor": np.array([[1.0] * 4, [0.0] * 4])},
    ):
        arrays = {**state.arrays, **changes}
        with pytest.raises(SnapshotError):
            build_estimator(EstimatorState(state.kind, state.parameters, arrays, state.extra))


def test_states_of_features_far_from_zero_are_restored() -> None:
    bounds = {"a": (1e10, 1e10 + 1e-5), "b": (-1e50, 1e50), "c": (0.0, 1e-50)}
    given = {"scale_batch": 64, "warmup": 128, "batch": 32, "half_life": 20.0}
    model = PrivateLVQ(Privacy(8.0, bounds=bounds, classes=CLASSES, **given))
    low, high = np.array(list(bounds.values())).T
    X = low + (high - low) * np.random.default_rng(0).integers(2, size=(300, 3))
    model.learn_array(X, readings(300)[1])
    twin = build_estimator(model.state())
    assert twin.state().same_as(model.state()) and model.releases == 5


def test_a_trained_model_that_is_shown_more_is_restored() -> None:
    X, y = readings(400)
    model = PrivateLVQ(promise())
    model.train(X, y)
    for k in range(0, 200, 7):
        model.learn_array(X[k : k + 7], y[k : k + 7])
        twin = build_estimator(model.state())
        assert twin.state().same_as(model.state())


@pytest.mark.parametrize("change", ["rows", "sizes", "factor", "classes", "features", "codes"])
def test_impossible_states_are_refused(change: str) -> None:
    state = taught(1000).state()
    arrays, extra = dict(state.arrays), dict(state.extra)
    if change == "sizes":
        extra["sizes"] = {**extra["sizes"], "position": 10**6}
    elif change in ("classes", "features"):
        extra[change] = list(reversed(extra[change]))
    elif change == "codes":
        arrays["codes"] = arrays["codes"] + 3
    elif change == "factor":
        arrays["factor"] = arrays["factor"] * 2.0
    else:
        arrays["rows"] = arrays["rows"][1:]
    with pytest.raises(SnapshotError):
        build_estimator(EstimatorState(state.kind, state.parameters, arrays, extra))


# --- what is shared -------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["shared", "local"])
def test_the_released_model_decides_alike_and_can_be_fused(metric: str) -> None:
    model = taught(metric=metric)
    released = model.released_model()
    assert type(released).__name__ == ("LGMLVQ" if metric == "local" else "GMLVQ")
    X, y = readings(1000, seed=9)
    # A shared metric decides on readings within the radius only, which an ordinary model cannot.
    alike = 0.9 if metric == "shared" else 0.999
    assert np.mean(released.predict_array(X) == model.predict_array(X)) > alike
    other = PrivateLVQ(promise(), metric=metric)
    other.learn_array(X + np.array([0.5, 0.0, 0.0]), y)
    nodes = [
        Snapshot.of(each.released_model(), name, readings=False)
        for each, name in ((model, "n1"), (other, "n2"))
    ]
    fused = streamlvq.fuse(nodes).snapshot("n1").classifier()
    assert np.mean(fused.predict_array(X) == y) > 0.85


def test_released_statistics_are_plausible_however_noisy() -> None:
    """Counts are whole and not negative, spreads positive, metrics of norm one."""
    bounds = dict.fromkeys(FEATURES, (-6, 6))
    for _ in range(10):
        model = PrivateLVQ(Privacy(0.5, bounds=bounds, classes=CLASSES, warmup=64, scale_batch=2))
        X, _ = readings(66)
        model.learn_array(X, ["ok"] * 66)
        snapshot = Snapshot.of(model.released_model(), readings=False)
        assert all(count >= 0 for count in snapshot.counts.values())
        assert all(0.0 < s < 1e6 for c in snapshot.spreads.values() for s in c.values() if s == s)
        assert snapshot.to_bytes() == Snapshot.of(model.released_model(), readings=False).to_bytes()
        assert all(np.isfinite(list(p.values.values())).all() for p in snapshot.prototypes)


# --- recorded logs --------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["shared", "local"])
def test_a_recorded_log(metric: str) -> None:
    model, ledger = PrivateLVQ(promise(), metric=metric), MemoryLedger()
    model.use_ledger(ledger)
    X, y = readings(1500)
    model.train(X[:1000], y[:1000])
    assert np.mean(model.predict_array(X[1000:]) == y[1000:]) > 0.9
    assert model.samples == 1000 and next(iter(ledger.series.values())).mu is None
    twin = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
    assert np.array_equal(twin.predict_proba_array(X), model.predict_proba_array(X))
    released = model.released_model()
    alike = 0.9 if metric == "shared" else 0.999
    assert np.mean(released.predict_array(X) == model.predict_array(X)) > alike
    assert released.samples == pytest.approx(1000, abs=200)
    for each in (model, twin):
        with pytest.raises(ValueError, match="expected a model that has learnt nothing"):
            each.train(X, y)
        assert "learns no more" in str(each.exhausted)
    again = PrivateLVQ(promise(), metric=metric)
    again.use_ledger(ledger)
    with pytest.raises(LedgerMismatchError, match="expected none"):
        again.train(X, y)


def test_a_log_of_segments_is_refused() -> None:
    model = PrivateLVQ(promise(8.0, half_life=500.0, unit="segment", segment=2))
    X, y = readings(100)
    with pytest.raises(ValueError, match="expected the unit 'reading' for a recorded log"):
        model.train(X, y)


# --- River ----------------------------------------------------------------------------------------


def river_checks() -> list[Any]:
    """Every check of River on a data set with known features and classes, and those without."""
    samples = list(datasets.ImageSegments().take(500))
    bounds = {
        name: (min(x[name] for x, _ in samples) - 1.0, max(x[name] for x, _ in samples) + 1.0)
        for name in samples[0][0]
    }
    classes = sorted({y for _, y in datasets.ImageSegments()})
    model = PrivateLVQ(Privacy(4.0, bounds=bounds, classes=classes, warmup=200, scale_batch=64))
    cases = []
    for check in checks.yield_checks(model):
        dataset = getattr(check, "keywords", {}).get("dataset")
        fits = dataset is None or "ImageSegments" in type(dataset).__name__
        if fits and check.__name__ not in model._unit_test_skips():
            cases.append(pytest.param(model, check, id=check.__name__))
    return cases


@pytest.mark.parametrize("estimator, check", river_checks())
def test_river_check(estimator: Any, check: Any) -> None:
    check(estimator.clone())
