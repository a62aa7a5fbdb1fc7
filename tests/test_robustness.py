"""Bounds must hold whatever the attack; balls must hold what a threshold accepts."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import streamlvq
from streamlvq import robustness
from streamlvq.errors import NotLearntYetError
from streamlvq.robustness import acceptance_ball, certificate, is_outlier, prototype_distance
from support.samples import MODELS, blobs, readings

Array = npt.NDArray[np.float64]

modest = settings(derandomize=True, max_examples=8, deadline=None, database=None)
thorough = settings(modest, max_examples=60)

seeds = st.integers(0, 10_000)
thresholds = st.floats(0.02, 0.98)

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "LVQ1": ("LVQ1", {}),
    "OLVQ1": ("OLVQ1", {}),
    "LVQ21": ("LVQ21", {}),
    "LVQ3": ("LVQ3", {}),
    "GLVQ": ("GLVQ", {}),
    "GLVQ in raw units": ("GLVQ", {"standardize": False}),
    "GRLVQ": ("GRLVQ", {}),
    "GMLVQ": ("GMLVQ", {"rank": None}),
    "GMLVQ of rank 2": ("GMLVQ", {"rank": 2}),
    "GMLVQ of rank 1": ("GMLVQ", {"rank": 1}),
    "LGRLVQ": ("LGRLVQ", {}),
    "LGMLVQ": ("LGMLVQ", {"rank": None}),
    "LGMLVQ of rank 2": ("LGMLVQ", {"rank": 2}),
}
SHARED = [case for case in CASES if not case.startswith("LG")]


# --- models and attacks --------------------------------------------------------------------------


@cache
def learnt(case: str, prototypes: int, missing: float = 0.0, trained: bool = False) -> Any:
    """A model; with missing values, some of its prototypes do not know the last feature."""
    name, params = CASES[case]
    model = MODELS[name](max_prototypes_per_class=prototypes, **params)
    X, y = blobs(150, 5, 3, seed=40, missing=missing)
    names = list(readings(X)[0])
    if trained:
        model.train(X[:, :4], y, epochs=3, features=names[:4])
    else:
        model.learn_array(X[:, :4], y, features=names[:4])
    if missing:
        # Only class 0 ever reports it.
        model.learn_array(X[:20][y[:20] == 0], y[:20][y[:20] == 0], features=names)
    return model


def some_reading(model: Any, seed: int, missing: float = 0.0) -> Array:
    """Between two prototypes, near them, or far out."""
    random = np.random.default_rng(seed)
    known = np.array([list(p.values.values()) for p in model.prototypes()])
    first, second = np.nan_to_num(known[random.integers(len(known), size=2)])
    noise = random.normal(size=first.shape) * unit(model) * 10.0 ** random.uniform(-2, 1)
    row: Array = first + random.uniform(-0.2, 0.7) * (second - first) + noise
    row[random.random(row.shape) < missing] = np.nan
    return row


def unit(model: Any) -> Array:
    scales = np.array(list(model.scales().values()))
    return np.where(np.isfinite(scales), scales, 1.0)


def as_reading(model: Any, row: Array) -> dict[Any, float]:
    return dict(zip(model.features, row.tolist(), strict=True))


class Seen(NamedTuple):
    """A prototype as a reading meets it: its label, its values, and its effective raw metric."""

    label: Any
    values: Array
    metric: Array
    distance: float


def seen(model: Any, row: Array) -> list[Seen]:
    inverse = 1.0 / np.array(list(model.scales().values()))
    result = []
    for p in model.prototypes():
        values = np.array(list(p.values.values()))
        lam = model.metric(p.index, raw=False)
        known = ~np.isnan(row - values)
        effective = (naive.make_up(lam, known) or 0.0) * lam * np.outer(known, known)
        distance = naive.distance(lam, (row - values) * inverse)
        result.append(Seen(p.label, values, effective * np.outer(inverse, inverse), distance))
    return result


def longest(prototypes: list[Seen], steps: Array) -> Array:
    """The length of each step, measured by the prototype to which it looks longest."""
    squared = [((steps @ p.metric) * steps).sum(axis=1) for p in prototypes]
    return np.sqrt(np.maximum(np.max(squared, axis=0), 0.0))


def straight_lines(prototypes: list[Seen], label: Any) -> list[Array]:
    """To the planes between prototypes: the shortest ways in the metrics and in raw units."""
    rivals = [p for p in prototypes if p.label != label]
    own = [p for p in prototypes if p.label == label]
    apart = [(j, i, np.nan_to_num(j.values - i.values)) for j in rivals for i in own]
    return [v for j, i, w in apart for v in (w, i.metric @ w, j.metric @ w)]


def attacks(model: Any, row: Array, label: Any, seed: int) -> Array:
    """Directions that may hurt, a row each; they leave alone what is missing."""
    random = np.random.default_rng(seed)
    prototypes = seen(model, row)
    directions = straight_lines(prototypes, label)
    for p in prototypes:
        home = np.nan_to_num(p.values - row)
        directions += [home, p.metric @ home]  # straight to it, and down the slope
        directions += list(np.linalg.eigh(p.metric)[1].T)
    directions += list(random.normal(size=(60, len(row))) * unit(model))
    directions += list(random.normal(size=(60, len(row))))
    rows = np.array(directions)
    rows = np.concatenate([rows, -rows])
    rows[:, np.isnan(row)] = 0.0
    return rows[np.abs(rows).max(axis=1) > 0.0]


def scaled(model: Any, directions: Array, lengths: Array, bound: float) -> Array:
    """Steps of that length; not more than a thousand deviations where length costs nothing."""
    largest = 1000.0 / np.abs(directions / unit(model)).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.nan_to_num(bound / lengths, nan=0.0, posinf=np.inf)
    return directions * np.minimum(factors, largest)[:, None]


def labels_after(model: Any, row: Array, steps: Array) -> set[Any]:
    return set(model.predict_array(row + steps, features=model.features).tolist())


# --- certificates hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("trained", [False, True], ids=["stream", "train"])
@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
@pytest.mark.parametrize("prototypes", [1, 4])
@pytest.mark.parametrize("case", CASES)
@modest
@given(seed=seeds)
def test_no_attack_succeeds_within_the_bounds(
    case: str, prototypes: int, missing: float, trained: bool, seed: int
) -> None:
    model = learnt(case, prototypes, missing, trained)
    row = some_reading(model, seed, missing)
    x = as_reading(model, row)
    found = certificate(model, x)
    assert found.label == model.predict_one(x)
    assert found.metric >= 0.0
    assert found.raw >= 0.0
    directions = attacks(model, row, found.label, seed)
    if not len(directions):  # everything is missing
        assert found.raw == math.inf
        return
    in_metric = longest(seen(model, row), directions)
    steps = scaled(model, directions, in_metric, 0.999 * found.metric)
    assert labels_after(model, row, steps) == {found.label}
    in_raw = np.linalg.norm(directions, axis=1)
    steps = scaled(model, directions, in_raw, 0.999 * found.raw)
    assert labels_after(model, row, steps) == {found.label}


@pytest.mark.parametrize("case", CASES)
def test_prototypes_that_know_nothing_of_the_reading(case: str) -> None:
    """They are as far as an average reading, whatever happens to the feature that it has."""
    model = learnt(case, 4, 0.25)
    knowing = [p for p in model.prototypes() if not math.isnan(p.values["f04"])]
    assert {p.label for p in knowing} == {0}
    near = knowing[0].values["f04"]
    for value in near + unit(model)[4] * np.linspace(0, 5, 7):
        row = np.array([np.nan, np.nan, np.nan, np.nan, value])
        found = certificate(model, {"f04": value})
        steps = np.outer(np.linspace(-0.999, 0.999, 50) * min(found.raw, 1e3), [0, 0, 0, 0, 1])
        assert labels_after(model, row, steps) == {found.label}
    assert certificate(model, {"f04": near}).raw > 0.0


@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
@pytest.mark.parametrize("prototypes", [1, 4])
@pytest.mark.parametrize("case", SHARED)
@modest
@given(seed=seeds)
def test_exact_bounds_cannot_be_larger(
    case: str, prototypes: int, missing: float, seed: int
) -> None:
    model = learnt(case, prototypes, missing)
    row = some_reading(model, seed)
    found = certificate(model, as_reading(model, row))
    prototypes_seen = seen(model, row)
    assert found.exact or prototypes > 1 or missing > 0
    if not found.exact or found.metric < 1e-6:
        return
    directions = np.array(straight_lines(prototypes_seen, found.label))
    for lengths, bound in (
        (longest(prototypes_seen, directions), found.metric),
        (np.linalg.norm(directions, axis=1), found.raw),
    ):
        steps = scaled(model, directions, lengths, 1.000001 * bound)
        assert labels_after(model, row, steps) != {found.label}


def test_exactness_depends_on_the_reading() -> None:
    """Several prototypes of a class may make a bound inexact, and often do not."""
    model = learnt("GMLVQ", 4)
    rows = [some_reading(model, seed) for seed in range(200)]
    exact = [certificate(model, as_reading(model, row)).exact for row in rows]
    assert 0.5 < np.mean(exact) < 1.0


def root_of_largest(metric: Array) -> float:
    return float(np.sqrt(np.linalg.eigvalsh(metric)[-1]))


@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
@pytest.mark.parametrize("case", CASES)
@modest
@given(seed=seeds)
def test_bounds_are_no_worse_than_the_textbook(case: str, missing: float, seed: int) -> None:
    """The formulas that compare every rival with the winner alone."""
    model = learnt(case, 4, missing)
    row = some_reading(model, seed)
    found = certificate(model, as_reading(model, row))
    prototypes = seen(model, row)
    winner = min((p for p in prototypes if p.label == found.label), key=lambda p: p.distance)
    rivals = [p for p in prototypes if p.label != found.label]
    lengths = [math.sqrt(p.distance) - math.sqrt(winner.distance) for p in rivals]
    metric = min(lengths) / 2
    stretch = [root_of_largest(p.metric) + root_of_largest(winner.metric) for p in rivals]
    raw = min(a / b for a, b in zip(lengths, stretch, strict=True))
    if case in SHARED and not missing:
        apart = [p.values - winner.values for p in rivals]
        slopes = [2 * math.sqrt(w @ winner.metric @ w) for w in apart]
        behind = [p.distance - winner.distance for p in rivals]
        sharper = min(a / b for a, b in zip(behind, slopes, strict=True))
        assert sharper >= metric * (1 - 1e-9)
        metric, raw = sharper, sharper / root_of_largest(winner.metric)
    assert found.metric >= metric * (1 - 1e-6)
    assert found.raw >= raw * (1 - 1e-6)


# --- certificates of odd readings and models -----------------------------------------------------


def two_classes(**params: Any) -> Any:
    model = streamlvq.GLVQ(standardize=False, max_prototypes_per_class=1, **params)
    model.learn_one({"a": 0.0, "b": 0.0}, "left")
    model.learn_one({"a": 8.0, "b": 0.0}, "right")
    return model


def test_certificate_of_two_prototypes() -> None:
    """The border is at a = 4; b has no spread, so that the metric of trace one is that of a."""
    found = certificate(two_classes(), {"a": 1.0, "b": 5.0})
    assert (found.label, found.exact) == ("left", True)
    assert found.raw == pytest.approx(3.0)
    assert found.metric == pytest.approx(3.0)


def test_certificate_on_the_border_is_zero() -> None:
    found = certificate(two_classes(), {"a": 4.0, "b": 1.0})
    assert (found.metric, found.raw, found.exact) == (0.0, 0.0, True)


def test_several_prototypes_hold_a_rival_off_together() -> None:
    """Where one of the two allies loses to the rival, the other is still closer."""
    model = streamlvq.GLVQ(standardize=False, prototypes_per_class=3, rehearsal=0)
    left = [[0.0, 0.0], [4.5, 1.0], [4.5, -1.0]]
    model.learn_array([*left, [8.0, 0.0]], ["left", "left", "left", "right"])
    found = certificate(model, {0: 0.0, 1: 0.0})
    assert not found.exact
    winner_alone, truth = 4.0, 42.75 / 7
    assert winner_alone < found.raw < truth
    row, steps = np.zeros(2), np.array([[truth, 0.0]])
    assert labels_after(model, row, 0.999 * steps) == {"left"}
    assert labels_after(model, row, 1.001 * steps) == {"right"}


def test_one_class_stands_anything() -> None:
    model = streamlvq.GLVQ()
    model.learn_one({"a": 1.0}, "only")
    found = certificate(model, {"a": 5.0})
    assert (found.label, found.metric, found.raw, found.exact) == (
        "only",
        math.inf,
        math.inf,
        True,
    )


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_seen_cannot_change_the_label(case: str) -> None:
    """Features that were constant so far, and readings without any feature."""
    name, params = CASES[case]
    constant = MODELS[name](**(params | {"standardize": True}))
    for label in ("a", "b"):
        constant.learn_one({"x": 1.0, "y": 1.0, "z": 2.0}, label)
    for model, x in ((constant, {"x": 9.0, "y": 1.0}), (learnt(case, 4), {})):
        found = certificate(model, x)
        assert (found.metric, found.raw) == (math.inf, math.inf)
        assert found.label == model.predict_one(x)


@pytest.mark.parametrize("case", CASES)
def test_models_without_features(case: str) -> None:
    name, params = CASES[case]
    model = MODELS[name](**params)
    for label in ("a", "b"):
        model.learn_one({}, label)
    assert certificate(model, {}).raw == math.inf
    assert prototype_distance(model, 0, 1) == 1.0


@pytest.mark.parametrize("case", CASES)
def test_constant_features_are_free(case: str) -> None:
    name, params = CASES[case]
    model = MODELS[name](**(params | {"standardize": True}))
    X, y = blobs(60, 4, 2, seed=41)
    X[:, 2] = 7.0
    model.learn_array(X, y)
    for row in X[:10]:
        found = certificate(model, as_reading(model, row))
        assert found.metric < math.inf
        assert found.raw < math.inf
        assert labels_after(model, row, np.outer([-1e6, 1e6], [0, 0, 1, 0])) == {found.label}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("power", [-150, -60, -20, 20, 59])
def test_absurd_sizes_give_no_nan(case: str, power: int) -> None:
    name, params = CASES[case]
    model = MODELS[name](**params)
    X, y = blobs(40, 3, 2, seed=42)
    with np.errstate(all="raise"):
        model.learn_array(X / 1000.0 * 10.0**power, y)
        for size in (0.0, 1.0, 10.0**power, 1e60):
            found = certificate(model, {0: size, 1: -size, 2: size})
            assert found.metric >= 0.0
            assert found.raw >= 0.0


@pytest.mark.parametrize("power", [6, 9, 12])
@pytest.mark.parametrize("case", ["GMLVQ of rank 1", "LGMLVQ of rank 2"])
@thorough
@given(seed=seeds)
def test_rounding_is_allowed_for(case: str, power: int, seed: int) -> None:
    """Far out where the metric does not look, products of large numbers cancel, but not quite."""
    model = learnt(case, 4)
    row = some_reading(model, seed)
    blind = np.linalg.eigh(model.metric(0, raw=False))[1][:, 0] * unit(model)
    row += 10.0**power * blind
    found = certificate(model, as_reading(model, row))
    directions = attacks(model, row, found.label, seed)
    lengths = np.linalg.norm(directions, axis=1)
    steps = scaled(model, directions, lengths, 0.999 * found.raw)
    assert labels_after(model, row, steps) == {found.label}


def test_prototypes_in_the_same_place_certify_nothing() -> None:
    model = streamlvq.GMLVQ(rehearsal=0)
    for label in ("a", "b"):
        model.learn_one({"x": 1.0, "y": 1.0}, label)
    model.observe_one({"x": 2.0, "y": 5.0})
    found = certificate(model, {"x": 3.0, "y": 3.0})
    assert (found.metric, found.raw) == (0.0, 0.0)


def test_constants_are_those_of_the_kernels() -> None:
    """They are written down twice, because importing the kernels takes a while."""
    from streamlvq.kernels import distance, statistics

    assert robustness.MAX_DISTANCE == distance.MAX_DISTANCE
    assert robustness.TINY == statistics.TINY


def test_a_certificate_changes_nothing() -> None:
    model = learnt("LGMLVQ", 4)
    before = model._engine.state.floats.tobytes(), model._engine.state.ints.tobytes()
    x = as_reading(model, some_reading(model, 1))
    assert certificate(model, x) == certificate(model, x)
    assert before == (model._engine.state.floats.tobytes(), model._engine.state.ints.tobytes())


def test_certificates_are_frozen() -> None:
    found = certificate(two_classes(), {"a": 1.0})
    with pytest.raises(AttributeError):
        found.raw = 2.0  # type: ignore[misc]


# --- balls ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A winner, a runner-up and their metric."""

    winner: Array
    runner_up: Array
    metric: Array

    def length(self, steps: Array) -> Array:
        return np.sqrt(((steps @ self.metric) * steps).sum(axis=-1))

    @property
    def apart(self) -> float:
        return float(self.length(self.runner_up - self.winner))

    def on_the_line(self, offset: float) -> Array:
        return self.winner + offset / self.apart * (self.runner_up - self.winner)

    def relsim(self, points: Array) -> Array:
        """Signed: negative where the runner-up would have won."""
        near = self.length(points - self.winner) ** 2
        far = self.length(points - self.runner_up) ** 2
        return (far - near) / (far + near)

    def to_border(self, points: Array) -> Array:
        near = self.length(points - self.winner) ** 2
        far = self.length(points - self.runner_up) ** 2
        return np.abs(far - near) / (2 * self.apart)


def some_pair(random: np.random.Generator, d: int) -> Pair:
    omega = random.normal(size=(d, d))
    winner, runner_up = random.normal(size=(2, d)) * 10.0 ** random.uniform(-1, 1)
    return Pair(winner, runner_up, omega.T @ omega / (omega**2).sum())


def some_points(random: np.random.Generator, pair: Pair, reach: float, n: int = 400) -> Array:
    """Around a pair, in all directions and at all lengths up to `reach`."""
    directions = random.normal(size=(n, len(pair.winner)))
    directions /= pair.length(directions)[:, None]
    points: Array = pair.winner + directions * random.uniform(0, reach, size=(n, 1))
    return points


@thorough
@given(seed=seeds, threshold=thresholds, d=st.integers(2, 5))
def test_the_ball_holds_what_is_accepted(seed: int, threshold: float, d: int) -> None:
    random = np.random.default_rng(seed)
    pair = some_pair(random, d)
    ball = acceptance_ball(threshold, pair.apart)
    points = some_points(random, pair, 1.5 * ball.away)
    from_centre = pair.length(points - pair.on_the_line(ball.centre))
    accepted = pair.relsim(points) >= threshold
    clear = np.abs(from_centre - ball.radius) > 1e-9 * ball.radius
    assert np.array_equal(accepted[clear], from_centre[clear] <= ball.radius)
    assert 0 < accepted.sum() < len(points)


@thorough
@given(seed=seeds, threshold=thresholds)
def test_the_ends_of_the_ball(seed: int, threshold: float) -> None:
    pair = some_pair(np.random.default_rng(seed), 3)
    ball = acceptance_ball(threshold, pair.apart)
    k = math.sqrt((1 - threshold) / (1 + threshold))
    assert ball.towards == pytest.approx(k * pair.apart / (1 + k))
    assert ball.away == pytest.approx(k * pair.apart / (1 - k))
    assert ball.centre == pytest.approx(-(k**2) * pair.apart / (1 - k**2))
    assert ball.radius == pytest.approx(k * pair.apart / (1 - k**2))
    ends = np.array([pair.on_the_line(ball.towards), pair.on_the_line(-ball.away)])
    assert pair.relsim(ends) == pytest.approx([threshold, threshold])


@given(distance=st.floats(0, 1e9))
def test_extreme_thresholds(distance: float) -> None:
    assert acceptance_ball(1.0, distance) == (0.0, 0.0, 0.0, 0.0)
    assert acceptance_ball(0.0, distance) == (distance / 2, math.inf, -math.inf, math.inf)


def test_balls_of_small_thresholds_keep_their_digits() -> None:
    """The ball grows as 1 / threshold."""
    assert acceptance_ball(1e-12, 1.0).radius * 1e-12 == pytest.approx(0.5, rel=1e-9)
    assert acceptance_ball(1e-12, 1.0).away * 1e-12 == pytest.approx(1.0, rel=1e-9)


# --- what a threshold rejects --------------------------------------------------------------------


def lambda_plus(threshold: float) -> float:
    return (threshold - 1 + math.sqrt(1 - threshold**2)) / (2 * threshold)


@thorough
@given(seed=seeds, threshold=thresholds, d=st.integers(2, 5))
def test_readings_close_to_the_border_are_rejected(seed: int, threshold: float, d: int) -> None:
    random = np.random.default_rng(seed)
    pair = some_pair(random, d)
    points = some_points(random, pair, pair.apart)
    close = pair.to_border(points) < pair.apart * (0.5 - lambda_plus(threshold))
    assert (np.abs(pair.relsim(points[close])) < threshold).all()


@pytest.mark.parametrize("case", SHARED)
@modest
@given(seed=seeds, threshold=thresholds)
def test_readings_close_to_any_border_are_rejected(case: str, seed: int, threshold: float) -> None:
    """A border lies somewhere on the way between two readings that are given unlike labels."""
    model = learnt(case, 4)
    prototypes = model.prototypes()
    smallest = min(
        prototype_distance(model, p.index, q.index)
        for p in prototypes
        for q in prototypes
        if p.label != q.label
    )
    row = some_reading(model, seed)
    found = certificate(model, as_reading(model, row))
    directions = np.array(straight_lines(seen(model, row), found.label))
    lengths = longest(seen(model, row), directions)
    steps = scaled(model, directions, lengths, smallest * (0.5 - lambda_plus(threshold)))
    if labels_after(model, row, steps) != {found.label}:
        assert model.explain_one(as_reading(model, row)).relsim < threshold


@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
@pytest.mark.parametrize("case", SHARED)
@modest
@given(seed=seeds, threshold=thresholds)
def test_outliers_are_rejected(case: str, missing: float, seed: int, threshold: float) -> None:
    model = learnt(case, 4)
    x = as_reading(model, some_reading(model, seed, missing))
    e = model.explain_one(x)
    between = prototype_distance(model, e.winner.index, e.runner_up.index, x)
    if is_outlier(threshold, e.distance, between):
        assert e.relsim < threshold
    beyond = 1.0001 * acceptance_ball(threshold, between).away
    assert is_outlier(threshold, beyond**2, between) == (between > 0.0)


def test_no_outliers_where_nothing_tells_classes_apart() -> None:
    assert not is_outlier(0.5, 100.0, 0.0)
    assert not is_outlier(0.0, 100.0, 1.0)


def test_squared_lengths_would_claim_too_much_about_borders() -> None:
    """The corollary as printed, with squared distances, fails for prototypes far apart."""
    random = np.random.default_rng(43)
    pair = Pair(np.zeros(2), np.array([4.0, 0.0]), np.eye(2))
    threshold = 0.3
    points = some_points(random, pair, pair.apart)
    share = 0.5 - lambda_plus(threshold)
    claimed = pair.to_border(points) < pair.apart**2 * share
    assert (pair.relsim(points[claimed]) >= threshold).any()
    claimed = pair.to_border(points) ** 2 < pair.apart**2 * share
    assert (pair.relsim(points[claimed]) >= threshold).any()


def test_squared_lengths_would_claim_too_much_about_outliers() -> None:
    random = np.random.default_rng(44)
    pair = Pair(np.zeros(2), np.array([1.0, 0.0]), np.eye(2))
    threshold = 0.3
    away = acceptance_ball(threshold, pair.apart).away / pair.apart
    points = some_points(random, pair, 1.2 * away, n=2000)
    squared = pair.length(points - pair.winner) ** 2
    claimed = squared > pair.apart**2 * away
    assert (pair.relsim(points[claimed]) >= threshold).any()
    outliers = [is_outlier(threshold, value, pair.apart) for value in squared]
    assert any(outliers)
    assert (pair.relsim(points[outliers]) < threshold).all()


# --- lengths between prototypes ------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.25], ids=["complete", "gaps"])
def test_prototype_distance_is_that_of_a_reading_in_its_place(name: str, missing: float) -> None:
    X, y = blobs(100, 4, 3, seed=45, missing=missing)
    model = MODELS[name]()
    model.learn_array(X, y)
    inverse = 1.0 / np.array(list(model.scales().values()))
    x = as_reading(model, X[0])
    for p in model.prototypes():
        for q in model.prototypes():
            z = np.array(list(q.values.values())) - np.array(list(p.values.values()))
            lam = model.metric(p.index, raw=False)
            expected = math.sqrt(naive.distance(lam, z * inverse))
            # A low rank leaves a root of rounding errors where there is no distance.
            found = prototype_distance(model, p.index, q.index)
            assert found == pytest.approx(expected, abs=1e-7)
            z[np.isnan(X[0])] = np.nan
            expected = math.sqrt(naive.distance(lam, z * inverse))
            found = prototype_distance(model, p.index, q.index, x)
            assert found == pytest.approx(expected, abs=1e-7)


def test_prototypes_with_nothing_in_common() -> None:
    """Their distance is that of an average reading, as in the models."""
    model = two_classes()
    assert prototype_distance(model, 0, 1, {}) == 1.0
    assert prototype_distance(model, 0, 0, {"a": 1.0}) == 0.0


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan, math.inf, "0.5", None, True])
def test_impossible_thresholds(threshold: Any) -> None:
    for ask in (acceptance_ball, lambda t, d: is_outlier(t, 1.0, d)):
        with pytest.raises(ValueError, match="expected a number from 0 to 1, got"):
            ask(threshold, 1.0)


@pytest.mark.parametrize("distance", [-1.0, math.nan, math.inf, "1"])
def test_impossible_distances(distance: Any) -> None:
    with pytest.raises(ValueError, match=r"acceptance_ball\(distance.*of at least 0, got"):
        acceptance_ball(0.5, distance)
    with pytest.raises(ValueError, match=r"is_outlier\(squared_distance.*of at least 0, got"):
        is_outlier(0.5, distance, 1.0)


@pytest.mark.parametrize(
    "model",
    [
        streamlvq.RSLVQ(),
        streamlvq.MRSLVQ(),
        streamlvq.LMRSLVQ(),
        streamlvq.LVQCommittee(),
        object(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_that_decide_otherwise(model: Any) -> None:
    got = f"decides by the closest prototype, got {type(model).__name__}"
    with pytest.raises(TypeError, match=got):
        certificate(model, {"a": 1.0})


def test_before_learning() -> None:
    model = streamlvq.GLVQ()
    for _ in range(2):
        with pytest.raises(NotLearntYetError, match="learnt nothing yet"):
            certificate(model, {"a": 1.0})
        with pytest.raises(NotLearntYetError, match="learnt nothing yet"):
            prototype_distance(model, 0, 1)
        model.observe_one({"a": 1.0})


def test_no_such_prototype() -> None:
    model = two_classes()
    for indices in ((0, 2), (-1, 0)):
        with pytest.raises(IndexError, match="expected a prototype index from 0 to 1, got"):
            prototype_distance(model, *indices)


def test_readings_are_checked() -> None:
    for bad in ("high", math.inf):
        with pytest.raises(ValueError, match="feature 'a': expected a"):
            certificate(two_classes(), {"a": bad, "b": 0.0})
