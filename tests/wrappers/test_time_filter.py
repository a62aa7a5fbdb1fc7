"""TimeIntegrator with an adaptive window: a filter that learns how much the past is worth."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from river import naive_bayes, preprocessing

import naive
import streamlvq
from streamlvq import TimeIntegrator
from streamlvq.errors import SnapshotError
from streamlvq.kernels import layout as at
from streamlvq.models.parameters import ParameterError
from support.samples import blobs, frozen, image_segments, readings, river_checks

steady = settings(
    derandomize=True,
    max_examples=60,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
DEVICES = ("x", "y")


class Parrot(naive_bayes.GaussianNB):
    """Gives the features of a reading as its probabilities."""

    def learn_one(self, x: Any, y: Any) -> None:
        pass

    def predict_proba_one(self, x: Any) -> Any:
        return dict(x)


def small() -> streamlvq.LGMLVQ:
    return streamlvq.LGMLVQ(rank=4, rehearsal=2, buffer_size=50)


# --- River ---------------------------------------------------------------------------------------

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "model": lambda: TimeIntegrator(streamlvq.GLVQ(rehearsal=2)),
    "behind-scaler": lambda: preprocessing.StandardScaler() | TimeIntegrator(small()),
    "around-river": lambda: TimeIntegrator(naive_bayes.GaussianNB()),
    "around-committee": lambda: TimeIntegrator(streamlvq.LVQCommittee()),
}


@pytest.mark.parametrize("make, check", river_checks(ESTIMATORS))
def test_river_check(make: Callable[[], Any], check: Callable[[Any], None]) -> None:
    check(make())


# --- against the oracle --------------------------------------------------------------------------


@st.composite
def streams(draw: st.DrawFn) -> list[tuple[str, dict[str, float], str | None]]:
    """Device, opinion and label (None: not known) of a classifier that gets to know classes."""
    known, stream = 2, []
    for _ in range(draw(st.integers(1, 25))):
        known = min(4, known + draw(st.sampled_from([0, 0, 0, 1])))
        raw = [draw(st.sampled_from([0.0, 0.01, 0.3, 1.0])) for _ in range(known)]
        raw[draw(st.integers(0, known - 1))] += 0.5
        opinion = {"abcd"[c]: p / sum(raw) for c, p in enumerate(raw)}
        label = draw(st.sampled_from([None, *opinion]))
        stream.append((draw(st.sampled_from(DEVICES)), opinion, label))
    return stream


def fitted(model: TimeIntegrator) -> dict[str, Any]:
    """What a model has learnt from labels, in the words of the oracle."""
    arrays, _ = model.memory_state()
    numbers = arrays["fitted"]
    aa, ab, bb = numbers[at.PAST_CURVATURE : at.READING_CURVATURE + 1]
    return {
        "a": numbers[at.PAST_WEIGHT],
        "b": numbers[at.READING_WEIGHT],
        "curvature": np.array([[aa, ab], [ab, bb]]),
        "changes": numbers[at.LABEL_CHANGES],
        "pairs": numbers[at.LABEL_PAIRS],
    }


@steady
@given(streams(), st.integers(0, 3), st.floats(0, 2), st.floats(0.2, 1.5))
def test_filter(
    stream: list[tuple[str, dict[str, float], str | None]], delay: int, a: float, b: float
) -> None:
    """Predictions and what labels teach are those of the oracle, wherever it starts."""
    model, oracle = TimeIntegrator(Parrot(), delay=delay), naive.Filter(delay, a, b)
    start(model, a, b)
    for device, p, y in stream:
        expected = oracle.predict(p, device)
        answer = model.integrated_one(p, device=device)
        assert (answer is None) == (expected is None)
        if answer is not None:
            assert answer.probabilities == pytest.approx(expected, rel=1e-6, abs=1e-12)
            assert sum(answer.probabilities.values()) == pytest.approx(1.0)
            assert answer.probabilities[answer.label] == max(answer.probabilities.values())
            assert model.predict_proba_one(p, device=device) == answer.probabilities
            assert answer.delay == delay
        evidence = oracle.evidence(p, device)
        oracle.advance(p, device)
        if y is None:
            model.observe_one(p, device=device)
        else:
            model.learn_one(p, y, device=device)
            oracle.learn(evidence, y, device)
        for name, value in fitted(model).items():
            assert value == pytest.approx(getattr(oracle, name), rel=1e-6, abs=1e-9), name
    for device in DEVICES:
        past = oracle.devices.get(device, naive.Past())
        late = model.finish(device)
        assert [answer.delay for answer in late] == list(range(len(past.recent)))[::-1]
        for k, answer in enumerate(late):
            opinions = [
                {c: p[c] if c in p else 1 / len(p) for c in answer.probabilities}
                for p in past.recent
            ]
            expected = oracle.smoothed(past, opinions, k)
            assert answer.probabilities == pytest.approx(expected, rel=1e-6, abs=1e-12)


def start(model: TimeIntegrator, a: float, b: float, change: float = 0.5) -> None:
    """Set what labels would have taught."""
    assert model._filter is not None
    model._filter.fitted[[at.PAST_WEIGHT, at.READING_WEIGHT]] = a, b
    model._filter.fitted[at.LABEL_CHANGES] = change * model._filter.fitted[at.LABEL_PAIRS]


def late_fit(evidence: Any, y: int, a: float, b: float) -> tuple[Any, Any]:
    """The step of a and b, and their curvature, that one label causes."""
    model = TimeIntegrator(Parrot())
    model.observe_one(dict.fromkeys("abc", 1 / 3))
    start(model, a, b)
    model.record_label(evidence, "abc"[y])
    after = fitted(model)
    return np.array([after["a"] - a, after["b"] - b]), after["curvature"]


@pytest.mark.parametrize("seed", range(5))
def test_weights_follow_the_gradient_of_the_log_loss(seed: int) -> None:
    """Finite differences of first and second order give the same step of Newton's method."""
    random = np.random.default_rng(seed)
    evidence, y = np.log(random.dirichlet(np.ones(3), 2)), int(random.integers(3))
    at_start = random.uniform(0.5, 1.0, 2)

    def loss(weights: Any) -> float:
        scores = np.exp(weights @ evidence)
        return -math.log(scores[y] / scores.sum())

    h, units = 1e-4, np.eye(2)
    ahead, behind = ([loss(at_start + sign * h * e) for e in units] for sign in (1, -1))
    gradient = (np.array(ahead) - np.array(behind)) / (2 * h)
    curvature = np.array(
        [
            [
                (
                    loss(at_start + h * (e + f))
                    - loss(at_start + h * (e - f))
                    - loss(at_start - h * (e - f))
                    + loss(at_start - h * (e + f))
                )
                / (4 * h * h)
                for f in units
            ]
            for e in units
        ]
    )
    step, found = late_fit(evidence, y, *at_start)
    assert found == pytest.approx(curvature, abs=1e-5)
    expected = np.linalg.solve(curvature + np.diag([20.0, 100.0]), -gradient)
    assert step == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("delay", [0, 2])
def test_a_late_label_teaches_what_an_early_one_teaches(delay: int) -> None:
    """Evidence kept from the prediction is as good as a label that comes with the reading."""
    soon, late = TimeIntegrator(Parrot(), delay=delay), TimeIntegrator(Parrot(), delay=delay)
    random = np.random.default_rng(1)
    for p in random.dirichlet([0.5, 0.5, 0.5], 200):
        opinion = dict(zip("abc", p.tolist(), strict=True))
        y, device = "abc"[random.integers(3)], str(random.integers(3))
        assert soon.predict_proba_one(opinion, device=device) == late.predict_proba_one(
            opinion, device=device
        )
        evidence = late.last_evidence()
        late.observe_one(opinion, device=device)
        late.record_label(evidence, y, device=device)
        soon.learn_one(opinion, y, device=device)
    assert fitted(soon)["a"] != 0.0
    assert frozen_memory(soon) == frozen_memory(late)


def frozen_memory(model: TimeIntegrator) -> Any:
    arrays, extra = model.memory_state()
    return {name: repr(array.tolist()) for name, array in arrays.items()}, extra


def test_labels_of_a_device_that_is_forgotten_still_fit_the_weights() -> None:
    model = TimeIntegrator(Parrot())
    for _ in range(2):
        model.predict_one({"a": 0.9, "b": 0.1}, device="x")
        evidence = model.last_evidence()
        model.observe_one({"a": 0.9, "b": 0.1}, device="x")
    model.reset("x")
    before = fitted(model)
    model.record_label(evidence, "a", device="x")
    after = fitted(model)
    assert after["b"] > before["b"]
    assert (after["changes"], after["pairs"]) == (before["changes"], before["pairs"])


@pytest.mark.parametrize("bad", [np.zeros(2), np.zeros((3, 2)), np.full((2, 2), np.nan)])
def test_evidence_that_is_none(bad: Any) -> None:
    model = TimeIntegrator(Parrot())
    model.observe_one({"a": 0.9, "b": 0.1})
    with pytest.raises(ValueError, match="expected the result of last_evidence"):
        model.record_label(bad, "a")


def test_a_fixed_window_learns_nothing_from_labels() -> None:
    model = TimeIntegrator(Parrot(), window=3)
    model.observe_one({"a": 0.9, "b": 0.1})
    model.predict_one({"a": 0.9, "b": 0.1})
    assert model.last_evidence() is None
    before = frozen(model)
    model.record_label(None, "a")
    assert frozen(model) == before


# --- what it is ----------------------------------------------------------------------------------


def test_without_labels_it_is_the_classifier_alone() -> None:
    """Before the first label the past counts for nothing."""
    model = TimeIntegrator(small())
    for x, y in image_segments(100):
        model.classifier.learn_one(x, y)
    for x, _ in image_segments(200)[100:]:
        alone = model.classifier.predict_proba_one(x)
        assert model.predict_proba_one(x) == pytest.approx(alone, abs=1e-5)
        model.observe_one(x, scales=False)


def taught_filter(**parameters: Any) -> tuple[TimeIntegrator, list[Any]]:
    """A filter that has seen states that last, and the readings."""
    random, truth, stream = np.random.default_rng(2), 0, []
    model = TimeIntegrator(Parrot(), **parameters)
    for _ in range(2000):
        truth = int(random.integers(3)) if random.random() < 0.05 else truth
        raw = random.dirichlet(np.ones(3)) + 0.5 * np.eye(3)[truth]
        x = dict(zip("abc", (raw / raw.sum()).tolist(), strict=True))
        stream.append((x, "abc"[truth]))
    for x, y in stream[:1000]:
        model.learn_one(x, y)
    return model, stream[1000:]


def score(model: TimeIntegrator, stream: list[Any]) -> tuple[float, float]:
    """Accuracy and log loss of the decisions on a stream, late ones included."""
    right, loss = [], []
    for k, (x, y) in enumerate(stream):
        if k >= model.delay:
            p = model.predict_proba_one(x)
            about = stream[k - model.delay][1]
            right.append(max(p, key=p.__getitem__) == about)
            loss.append(-math.log(p[about]))
        model.learn_one(x, y)
    return float(np.mean(right)), float(np.mean(loss))


def test_it_pays_where_states_last_and_harms_nowhere_else() -> None:
    lasting, stream = taught_filter()
    late, _ = taught_filter(delay=2)
    alone = score(TimeIntegrator(Parrot(), window=1), stream)
    now, later = score(lasting, stream), score(late, stream)
    assert now[0] > alone[0] + 0.03
    assert now[1] < alone[1] - 0.1
    assert later[0] > now[0] + 0.02
    assert later[1] < now[1] - 0.05
    random = np.random.default_rng(3)
    shuffled = [stream[k] for k in random.permutation(len(stream))]
    alone, mixed = score(TimeIntegrator(Parrot(), window=1), shuffled), TimeIntegrator(Parrot())
    found = score(mixed, shuffled)
    assert found[0] > alone[0] - 0.005
    assert found[1] < alone[1] + 0.005
    assert fitted(mixed)["changes"] / fitted(mixed)["pairs"] > 0.5


def test_labels_do_not_enter_the_posterior() -> None:
    """With all that labels teach held fixed, they leave no trace in what devices remember."""
    one, stream = taught_filter()
    other = copy.deepcopy(one)
    assert one._filter is not None
    assert other._filter is not None
    held = one._filter.fitted.copy()
    for k, (x, y) in enumerate(stream[:200]):
        assert one.predict_proba_one(x) == other.predict_proba_one(x)
        one.learn_one(x, y)
        other.learn_one(x, "abc"[k % 3])
        one._filter.fitted[:], other._filter.fitted[:] = held, held
    assert np.array_equal(one.memory_state()[0]["logs"], other.memory_state()[0]["logs"])


def test_devices_keep_to_themselves() -> None:
    """Once fitted, the order in which devices report does not matter."""
    model, stream = taught_filter()
    by_device = {device: stream[k::3] for k, device in enumerate("pqr")}

    def answers(order: list[str]) -> dict[str, list[Any]]:
        each, found = copy.deepcopy(model), {device: [] for device in by_device}
        todo = {device: iter(part) for device, part in by_device.items()}
        for device in order:
            x, _ = next(todo[device])
            found[device].append(each.predict_proba_one(x, device=device))
            each.observe_one(x, device=device)
        return found

    order = [device for device, part in by_device.items() for _ in part]
    expected = answers(order)
    for seed in range(3):
        assert answers(np.random.default_rng(seed).permutation(order).tolist()) == expected


def test_a_new_class_gets_its_share() -> None:
    """A past that could not know a class counts as the mean for it."""
    model, stream = taught_filter()
    for x, _ in stream[:20]:
        model.observe_one(x)
    known = model.predict_proba_one(dict.fromkeys("abc", 1 / 3))
    p = model.predict_proba_one({**dict.fromkeys("abc", 0.25), "d": 0.25})
    assert sum(p.values()) == pytest.approx(1.0)
    assert min(known.values()) < p["d"] < max(known.values())
    new = {"a": 0.02, "b": 0.02, "c": 0.02, "d": 0.94}
    for _ in range(5):
        model.learn_one(new, "d")
    assert model.predict_one(new) == "d"


def test_the_first_reading_of_a_segment_speaks_for_itself() -> None:
    model = TimeIntegrator(Parrot(), max_gap=10)
    start(model, 1.0, 1.0, change=0.1)
    x = {"a": 0.2, "b": 0.5, "c": 0.3}
    assert model.predict_proba_one(x, device="new", t=0.0) == pytest.approx(x)
    model.observe_one({"a": 0.9, "b": 0.05, "c": 0.05}, device="new", t=0.0)
    assert model.predict_proba_one(x, device="new", t=5.0) != pytest.approx(x, rel=0.01)
    answer = model.integrated_one(x, device="new", t=11.0)
    assert answer is not None
    assert answer.probabilities == pytest.approx(x)
    assert answer.readings == 1
    assert model.last_evidence() is None


def taught_with_gaps(**parameters: Any) -> TimeIntegrator:
    model = TimeIntegrator(small(), max_gap=10, **parameters)
    for t, (x, y) in enumerate(image_segments(120)):
        model.learn_one(x, y, device=t % 2, t=t)
    return model


@pytest.mark.parametrize("ask", ["predict_one", "predict_proba_one", "integrated_one"])
@pytest.mark.parametrize("delay", [0, 2])
def test_predictions_are_pure(ask: str, delay: int) -> None:
    model = taught_with_gaps(delay=delay)
    before, pickled = frozen(model), pickle.dumps(model)
    for x, _ in image_segments(10):
        getattr(model, ask)(x, device=1, t=125)
        model.last_evidence()
    assert frozen(model) == before
    assert pickle.dumps(model) == pickled


@pytest.mark.parametrize("value", [math.inf, "text"])
@pytest.mark.parametrize("make", [small, streamlvq.LVQCommittee])
def test_a_refused_reading_leaves_no_trace(value: Any, make: Callable[[], Any]) -> None:
    model = TimeIntegrator(make())
    for x, y in image_segments(40):
        model.learn_one(x, y)
    before = frozen(model)
    bad = dict(x, **{next(iter(x)): value})
    for act in (model.predict_one, model.observe_one, model.integrated_one):
        with pytest.raises(ValueError, match="feature"):
            act(bad)
    for label in (y, "new"):
        with pytest.raises(ValueError, match="feature"):
            model.learn_one(bad, label)
    assert frozen(model) == before


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.from_state(m.state())],
)
@pytest.mark.parametrize("delay", [0, 2])
def test_copies_go_on_where_it_stopped(copied: Callable[[Any], Any], delay: int) -> None:
    model = taught_with_gaps(delay=delay)
    twin = copied(model)
    for t, (x, y) in enumerate(image_segments(200)[120:], 120):
        answer = model.integrated_one(x, device=t % 2, t=t)
        assert twin.integrated_one(x, device=t % 2, t=t) == answer
        model.learn_one(x, y, device=t % 2, t=t)
        twin.learn_one(x, y, device=t % 2, t=t)
    assert frozen_memory(twin) == frozen_memory(model)
    assert twin.finish(0) == model.finish(0)
    assert len(model.finish(1)) == delay


def test_clones_have_learnt_nothing() -> None:
    clone = taught_with_gaps(delay=2).clone()
    assert (clone.window, clone.delay, clone.max_gap) == ("adaptive", 2, 10)
    assert clone.predict_proba_one(image_segments(1)[0][0], t=1.0) == {}
    assert fitted(clone)["a"] == 0.0
    fixed = clone.clone({"window": 7, "delay": None, "centered": True})
    assert fixed.delay == 3
    assert fixed.clone({"window": 9}).delay == 4


def test_another_model_takes_the_posteriors_over() -> None:
    """Columns follow their classes; what labels have taught stays, a class that is new has none."""
    model, stream = taught_filter()
    before = model.predict_proba_one({"a": 0.3, "b": 0.3, "c": 0.4})
    X, y = blobs(90, 3, 3, seed=3)
    other, mine = streamlvq.GLVQ(rehearsal=0), streamlvq.GLVQ(rehearsal=0)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        mine.learn_one(x, "abc"[c])
        other.learn_one(x, "xcba"[3 - c] if c else "c")
    around = TimeIntegrator(mine)
    for x, c in zip(readings(X), y.tolist(), strict=True):
        around.learn_one(x, "abc"[c], device=c % 2)
    moved = around.moved_to(other)
    assert fitted(moved)["a"] == fitted(around)["a"]
    ours, theirs = around.memory_state()[0], moved.memory_state()[0]
    for label in other.classes:
        new = other.classes.index(label)
        old = around.classes.index(label) if label in around.classes else None
        count = 0.0 if old is None else ours["fitted"][at.CLASS_COUNTS + old]
        assert theirs["fitted"][at.CLASS_COUNTS + new] == count
        column = -1 if old is None else old
        assert np.array_equal(theirs["logs"][:, :, new], ours["logs"][:, :, column])
        for k, last in enumerate(ours["last_labels"].tolist()):
            assert (theirs["last_labels"][k] == new) == (old is not None and last == old)
    assert sum(moved.predict_proba_one(x, device=0).values()) == pytest.approx(1.0)
    assert before
    assert stream


def test_the_device_silent_longest_is_forgotten() -> None:
    model = TimeIntegrator(Parrot(), max_devices=2)
    start(model, 1.0, 1.0, change=0.1)
    strong, even = {"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.5}
    for device in ("x", "y", "x", "z"):
        model.observe_one(strong, device=device)
        model.predict_one(even, device="y")  # asking is not speaking
    known = [d for d in "xyz" if model.predict_proba_one(even, device=d) != pytest.approx(even)]
    assert known == ["x", "z"]


# --- forged states -------------------------------------------------------------------------------

FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "weight": lambda a: a["fitted"].__setitem__(at.PAST_WEIGHT, 50.0),
    "negative weight": lambda a: a["fitted"].__setitem__(at.READING_WEIGHT, -0.1),
    "curvature": lambda a: a["fitted"].__setitem__(at.PAST_CURVATURE, -1.0),
    "cross": lambda a: a["fitted"].__setitem__(at.CROSS_CURVATURE, 1e9),
    "changes": lambda a: a["fitted"].__setitem__(at.LABEL_CHANGES, 1e9),
    "pairs": lambda a: a["fitted"].__setitem__(at.LABEL_PAIRS, 0.0),
    "counts": lambda a: a["fitted"].__setitem__(at.CLASS_COUNTS, 1e9),
    "negative count": lambda a: a["fitted"].__setitem__(at.CLASS_COUNTS, -1.0),
    "nan": lambda a: a["fitted"].__setitem__(at.CLASS_COUNTS, np.nan),
    "shorter": lambda a: a.__setitem__("fitted", a["fitted"][:-1].copy()),
    "last label": lambda a: a["last_labels"].__setitem__(0, 7),
    "below any label": lambda a: a["last_labels"].__setitem__(0, -2),
    "last labels": lambda a: a.__setitem__("last_labels", a["last_labels"][:-1].copy()),
    "no reading": lambda a: a["counts"].__setitem__(0, 0),
    "readings": lambda a: a["counts"].__setitem__(0, -1),
    "impossible": lambda a: a["logs"].__setitem__((0, 0, 0), 1.0),
    "too small": lambda a: a["logs"].__setitem__((0, 0, 0), -1e9),
    "missing": lambda a: a.pop("fitted"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_states_are_refused(forgery: str) -> None:
    state = taught_with_gaps().state()
    assert TimeIntegrator.from_state(state).classes
    state = copy.deepcopy(state)
    arrays = dict(state.arrays)
    FORGERIES[forgery](arrays)
    with pytest.raises(SnapshotError):
        TimeIntegrator.from_state(replace(state, arrays=arrays))


def test_states_of_fixed_windows_are_those_from_before_there_was_a_delay() -> None:
    state = TimeIntegrator(small(), window=5, centered=True).state()
    assert state.parameters.keys() == {"window", "centered", "max_gap", "max_devices"}
    assert state.arrays.keys() == {"logs", "counts", "times"}
    assert TimeIntegrator.from_state(state).delay == 2
    adaptive = TimeIntegrator(small(), delay=2).state()
    assert adaptive.parameters["delay"] == 2
    parameters = {k: v for k, v in adaptive.parameters.items() if k != "delay"}
    with pytest.raises(SnapshotError, match="differs in"):
        TimeIntegrator.from_state(replace(adaptive, parameters=parameters))
    with pytest.raises(SnapshotError, match="delay"):
        TimeIntegrator.from_state(replace(state, parameters={**state.parameters, "delay": 1}))


def test_states_without_readings_start_afresh() -> None:
    model = TimeIntegrator.from_state(taught_with_gaps().state(readings=False))
    assert model.tracked_devices == 0
    assert fitted(model)["a"] == 0.0


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, message",
    [
        ({"window": "all"}, "expected 'adaptive' or a whole number of at least 1, got 'all'"),
        ({"delay": -1}, r"delay=...\): expected a whole number from 0 to 1000, got -1"),
        ({"delay": 1.5}, "got 1.5"),
        ({"delay": 2000}, "got 2000"),
        ({"centered": True}, "which has a middle, got 'adaptive'; use delay"),
        ({"window": 5, "delay": 1}, r"delay=...\): expected window='adaptive', or centered=True"),
        ({"window": 5, "delay": 1, "centered": True}, "for half a window, got 1"),
    ],
)
def test_impossible_parameters(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        TimeIntegrator(Parrot(), **params)


def test_rejectors_that_need_the_latest_reading_refuse_late_decisions() -> None:
    late = TimeIntegrator(small(), delay=2)
    with pytest.raises(ParameterError, match="RelSim is known"):
        streamlvq.RelSimRejector(late, threshold=0.1)
    with pytest.raises(ParameterError, match="target_accuracy"):
        streamlvq.ProbabilityRejector(late, target_accuracy=0.9)
    assert streamlvq.ProbabilityRejector(late, threshold=0.5).predict_one({"a": 1.0}) is None
