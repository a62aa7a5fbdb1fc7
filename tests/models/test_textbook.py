"""Every model against its rule, written anew from the publication, with `textbook`.

Each step is taken from the state that the model has, so that errors do not add up; then the rules
go on alone for a few hundred steps. Where a publication leaves a constant factor to the learning
rate, `RULES` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamlvq.kernels import layout as at
from streamlvq.models.parameters import TEXTBOOK
from streamlvq.snapshot import Snapshot
from support.samples import GROWTH, MODELS, PAIRS, knowledge

Array = npt.NDArray[np.float64]

# --- what a rule sees -----------------------------------------------------------------------------


@dataclass
class Textbook:
    """Prototypes, their labels, and metrics: one for all, one each, or none."""

    w: Array
    c: npt.NDArray[np.int64]
    omega: Array
    rates: Array

    @classmethod
    def of(cls, model: Any) -> Textbook:
        state = model.engine.state
        n = state.size(at.N_PROTOTYPES)
        local = len(state["omega"]) > 1
        omega = state["omega"][:n] if local else state["omega"]
        return cls(
            *(a.copy() for a in (state["w"][:n], state["label"][:n], omega, state["rate"][:n]))
        )

    def metric(self, j: int) -> Array:
        """Omega of prototype j; the identity where a metric is not learnt."""
        if len(self.omega) == 0:
            return np.eye(self.w.shape[1])
        return self.omega[j if len(self.omega) > 1 else 0]

    def difference(self, x: Array, j: int) -> Array:
        return np.asarray(x - self.w[j])

    def distances(self, x: Array, weigh: Callable[[int], Array] | None = None) -> Array:
        weigh = weigh or self.metric
        return np.array(
            [np.sum((weigh(j) @ self.difference(x, j)) ** 2) for j in range(len(self.w))]
        )

    def move(self, j: int, way: Array) -> None:
        self.w[j] = self.w[j] + way


def closest(d: Array, among: npt.NDArray[np.bool_]) -> int:
    return int(np.flatnonzero(among)[np.argmin(d[among])])


def normalised(omega: Array) -> Array:
    """(2.20): the squares of a metric's entries sum up to one."""
    return np.array([m / np.sqrt((m**2).sum()) for m in omega])


# --- the rules, from the publications -------------------------------------------------------------


def lvq1(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Kohonen (1990); thesis (2.10)."""
    j = int(np.argmin(s.distances(x)))
    s.move(j, (1 if s.c[j] == y else -1) * p.learning_rate * s.difference(x, j))


def olvq1(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Kohonen et al. (1996): each prototype has a rate a / (1 + s a), never above the first one."""
    j = int(np.argmin(s.distances(x)))
    sign = 1 if s.c[j] == y else -1
    s.rates[j] = min(p.learning_rate, s.rates[j] / (1 + sign * s.rates[j]))
    s.move(j, sign * s.rates[j] * s.difference(x, j))


def lvq21(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Kohonen (1990): one right and one wrong of the two closest, x in the window between them."""
    d = np.sqrt(s.distances(x))
    i, j = np.argsort(d)[:2]
    inside = d[i] / d[j] > (1 - p.window) / (1 + p.window)
    if inside and (s.c[i] == y) != (s.c[j] == y):
        for k in (i, j):
            s.move(k, (1 if s.c[k] == y else -1) * p.learning_rate * s.difference(x, k))


def lvq3(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Kohonen (1990): LVQ2.1, and both move a little way if both are right."""
    i, j = np.argsort(s.distances(x))[:2]
    if s.c[i] == y and s.c[j] == y:
        for k in (i, j):
            s.move(k, p.epsilon * p.learning_rate * s.difference(x, k))
    else:
        lvq21(s, x, y, p)


def glvq_slopes(d: Array, right: int, wrong: int) -> dict[int, float]:
    """(2.12), (2.13): d mu / d d of both distances, with the identity as activation."""
    total = (d[right] + d[wrong]) ** 2
    return {right: 2 * d[wrong] / total, wrong: -2 * d[right] / total}


def glvq(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Thesis (2.12) to (2.14); Sato and Yamada (1996) print a quarter of this gradient."""
    d = s.distances(x)
    slopes = glvq_slopes(d, closest(d, s.c == y), closest(d, s.c != y))
    for j, slope in slopes.items():
        s.move(j, -p.learning_rate * slope * -2 * s.difference(x, j))


def grlvq(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Hammer and Villmann (2002): relevances, moved down their gradient, positive, of sum one."""
    d = s.distances(x, lambda j: np.diag(s.metric(j)[0]))
    relevances, gradient = s.omega**2, np.zeros_like(s.omega)
    for j, slope in glvq_slopes(d, closest(d, s.c == y), closest(d, s.c != y)).items():
        m = j if len(s.omega) > 1 else 0
        gradient[m, 0] += slope * s.difference(x, j) ** 2
        s.move(j, p.learning_rate * slope * 2 * relevances[m, 0] * s.difference(x, j))
    relevances = np.maximum(relevances - p.metric_learning_rate * gradient, 0)
    s.omega = np.sqrt(relevances / relevances.sum(axis=2, keepdims=True))


def gmlvq(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Schneider et al. (2009); thesis (2.12) to (2.20).

    With local metrics (2.22), and twice (2.23) and (2.24), which print half of the gradient.
    """
    d = s.distances(x)
    gradient, before = np.zeros_like(s.omega), deepcopy(s)
    for j, slope in glvq_slopes(d, closest(d, s.c == y), closest(d, s.c != y)).items():
        z, omega = before.difference(x, j), before.metric(j)
        gradient[j if len(s.omega) > 1 else 0] += slope * 2 * np.outer(omega @ z, z)
        s.move(j, -p.learning_rate * slope * -2 * omega.T @ omega @ z)
    s.omega = normalised(s.omega - p.metric_learning_rate * gradient)


def assignments(d: Array, right: npt.NDArray[np.bool_], variance: float) -> Array:
    """P_y(j | x) - P(j | x) of the mixture."""
    density = np.exp(-(d - d.min()) / (2 * variance))
    own = np.exp(np.where(right, -(d - d[right].min()) / (2 * variance), -np.inf))
    return np.asarray(own / own.sum() - density / density.sum())


def rslvq(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Seo and Obermayer (2003), rate alpha / variance; `sigma` is the variance by feature."""
    variance = p.sigma * len(x)
    for j, share in enumerate(assignments(s.distances(x), s.c == y, variance)):
        s.move(j, p.learning_rate / variance * share * s.difference(x, j))


def mrslvq(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Schneider et al. (2009), Neural Computation 21, 2942: global and local metrics."""
    gradient, before = np.zeros_like(s.omega), deepcopy(s)
    for j, share in enumerate(assignments(s.distances(x), s.c == y, p.sigma)):
        z, omega = before.difference(x, j), before.metric(j)
        gradient[j if len(s.omega) > 1 else 0] += share / p.sigma * np.outer(omega @ z, z)
        s.move(j, p.learning_rate * share / p.sigma * omega.T @ omega @ z)
    s.omega = normalised(s.omega - p.metric_learning_rate * gradient)


def pairwise(s: Textbook, x: Array, y: int, p: Any) -> None:
    """Thesis 4.4: a GMLVQ for each pair of classes, which learns the samples of both."""
    for k in range(len(s.c) // 2):
        pair = slice(2 * k, 2 * k + 2)
        if y in s.c[pair]:
            part = Textbook(s.w[pair], s.c[pair], s.omega[k : k + 1], s.rates[pair])
            gmlvq(part, x, y, p)
            s.w[pair], s.omega[k] = part.w, part.omega[0]


Rule = Callable[[Textbook, Array, int, Any], None]
RULES: dict[str, Rule] = {
    "LVQ1": lvq1, "OLVQ1": olvq1, "LVQ21": lvq21, "LVQ3": lvq3,
    "GLVQ": glvq, "GRLVQ": grlvq, "LGRLVQ": grlvq, "GMLVQ": gmlvq, "LGMLVQ": gmlvq,
    "RSLVQ": rslvq, "MRSLVQ": mrslvq, "LMRSLVQ": mrslvq, "PairwiseLVQ": pairwise,
}  # fmt: skip

# --- the models against them ----------------------------------------------------------------------

D, STEPS = 5, 300


def samples(n: int, seed: int = 1) -> list[tuple[dict[str, float], Array, int]]:
    """Overlapping classes in raw units; one feature is constant at first, another always."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(3, D))
    found = []
    for k in range(n):
        y = k % 3 if k < 9 else int(random.integers(3))
        x = centres[y] + random.normal(size=D)
        x[1] = 0.5 if k < 40 else x[1]
        x[3] = 2.0
        found.append(({f"f{i}": float(v) for i, v in enumerate(x)}, x, y))
    return found


def textbook(name: str, **parameters: Any) -> Any:
    if name not in PAIRS:
        parameters["prototypes_per_class"] = 2
    model = MODELS[name]
    accepted = signature(model).parameters
    return model.textbook(**{k: v for k, v in parameters.items() if k in accepted})


GENTLE = {"learning_rate": 0.02, "metric_learning_rate": 0.005, "sigma": 0.3}
# Prototypes leave their classes, and steps are longer than half of the way to a sample.
WILD = {"learning_rate": 0.9, "metric_learning_rate": 0.8, "sigma": 0.1, "window": 0.6}
CASES = [{}, GENTLE, WILD, {**GENTLE, "rank": 2, "epsilon": 0.5}, {**GENTLE, "rank": None}]


def test_every_model_has_a_rule() -> None:
    assert RULES.keys() == MODELS.keys()


def check(model: Any, expected: Textbook) -> None:
    actual = Textbook.of(model)
    np.testing.assert_allclose(actual.w, expected.w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(actual.rates, expected.rates, rtol=1e-9)
    if actual.omega.size:
        np.testing.assert_allclose(actual.omega, expected.omega, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("parameters", CASES, ids=str)
@pytest.mark.parametrize("name", RULES)
def test_a_step_is_the_published_one(name: str, parameters: dict[str, Any]) -> None:
    model, moved = textbook(name, **parameters), 0
    for x, row, y in samples(STEPS):
        before = Textbook.of(model) if model.engine is not None else None
        model.learn_one(x, y)
        after = Textbook.of(model)
        if before is None or len(before.w) < len(after.w):
            assert model.samples <= 9, "only the first samples of a class become prototypes"
            continue
        expected = deepcopy(before)
        RULES[name](expected, row, y, model)
        check(model, expected)
        moved += bool((after.w != before.w).any())
        if np.abs(after.w).max() > 1e6:  # so far off that a double has no 1e-9 left
            break
    assert moved > 20


@pytest.mark.parametrize("name", RULES)
def test_hundreds_of_steps_are_the_published_ones(name: str) -> None:
    model = textbook(name, **GENTLE)
    stream = samples(STEPS)
    for x, _, y in stream[:9]:
        model.learn_one(x, y)
    alone = Textbook.of(model)
    for x, row, y in stream[9:]:
        model.learn_one(x, y)
        RULES[name](alone, row, y, model)
    check(model, alone)


@pytest.mark.parametrize("name", RULES)
def test_defaults_are_not_the_published_rule(name: str) -> None:
    """Or the tests above would show nothing."""
    model, differs = MODELS[name](seed=1), 0
    for x, row, y in samples(100):
        before = Textbook.of(model) if model.engine is not None else None
        model.learn_one(x, y)
        if before is not None and len(before.w) == len(Textbook.of(model).w):
            RULES[name](before, row, y, model)
            differs += not np.allclose(before.w, Textbook.of(model).w, rtol=1e-6)
    assert differs > 20


def test_a_published_sigmoid_is_a_factor_of_the_rate() -> None:
    """Ours has slope one at the border; with the sigmoid of the publications it is slope / 4."""
    model = textbook("GLVQ", **GENTLE, activation="sigmoid", slope=5.0)
    stream = samples(60)
    for x, _, y in stream[:9]:
        model.learn_one(x, y)
    for x, row, y in stream[9:]:
        before = Textbook.of(model)
        model.learn_one(x, y)
        d = before.distances(row)
        right, wrong = closest(d, before.c == y), closest(d, before.c != y)
        s = 1 / (1 + np.exp(-5.0 * (d[right] - d[wrong]) / (d[right] + d[wrong])))
        published = 5.0 * s * (1 - s)
        for j, slope in glvq_slopes(d, right, wrong).items():
            rate = model.learning_rate * 4 / 5.0
            before.move(j, rate * published * slope * 2 * before.difference(row, j))
        check(model, before)


@pytest.mark.parametrize("name", RULES)
def test_switches_of_the_mode(name: str) -> None:
    model = textbook(name)
    for parameter, value in TEXTBOOK.items():
        if parameter == "step":
            assert getattr(model, parameter, value) == value  # Kohonen's models have none
        elif name not in PAIRS or parameter not in GROWTH:
            assert getattr(model, parameter) == value
    assert MODELS[name].textbook(rehearsal=3).rehearsal == 3


@pytest.mark.parametrize("name", RULES)
def test_a_restored_model_goes_on(name: str) -> None:
    model, stream = textbook(name, **GENTLE), samples(60)
    for x, _, y in stream[:30]:
        model.learn_one(x, y)
    restored = Snapshot.from_bytes(Snapshot.of(model).to_bytes()).classifier()
    for x, row, y in stream[30:]:
        before = Textbook.of(restored)
        for each in (model, restored):
            each.learn_one(x, y)
        RULES[name](before, row, y, model)
        check(restored, before)
    assert knowledge(restored) == knowledge(model)


@pytest.mark.parametrize("name", ["GRLVQ", "GMLVQ", "LGMLVQ", "MRSLVQ"])
def test_a_feature_that_comes_later_has_its_share_at_once(name: str) -> None:
    model, stream = textbook(name, **GENTLE, rank=None), samples(60)
    for x, _, y in stream[:30]:
        model.learn_one({f: v for f, v in x.items() if f != "f4"}, y)
    learnt = Textbook.of(model).omega
    for x, row, y in stream[30:]:
        before = Textbook.of(model)
        model.learn_one(x, y)
        if before.w.shape[1] == D and not np.isnan(before.w).any():
            RULES[name](before, row, y, model)
            check(model, before)
    omega = Textbook.of(model).omega
    np.testing.assert_allclose((omega**2).sum(axis=(1, 2)), 1.0)
    assert (np.abs(omega[:, :, 4]).max(axis=1) > 0.1).all()
    assert not np.allclose(omega[:, : learnt.shape[1], :4], learnt)


@pytest.mark.parametrize("name", ["RSLVQ", "MRSLVQ", "LMRSLVQ"])
def test_steps_without_bound_leave_every_coordinate_finite(name: str) -> None:
    """A step is the distance times rate / variance: overlapping classes throw prototypes away."""
    model, random = MODELS[name].textbook(learning_rate=0.9), np.random.default_rng(1)
    farthest = 0.0
    for k in range(1500):
        row = 50.0 * random.normal(size=2) + 20.0 * (k % 3)
        model.learn_one({"a": float(row[0]), "b": float(row[1])}, k % 3)
        if k >= 3:
            w = Textbook.of(model).w
            assert np.isfinite(w).all(), k
            farthest = max(farthest, float(np.abs(w).max()))
            assert farthest <= at.LARGEST_VALUE
    assert farthest > 1e50, "or the bound was never needed"
    shares = model.predict_proba_one({"a": 10.0, "b": 10.0})
    assert sum(shares.values()) == pytest.approx(1.0)
