"""What a node publishes never shows fewer than k readings of a class."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamlvq
from streamlvq.estimator import EstimatorState, build_estimator
from streamlvq.fleet import PrivateKey
from streamlvq.fleet.held_back import Publication, members_of, next_publication
from streamlvq.models.pool import PoolWeights
from streamlvq.monitor import Monitor
from streamlvq.snapshot import Snapshot, capture
from streamlvq.wrappers.base import unwrap
from support.fleet_nodes import Node, config, memory
from support.fleets import node_readings

K = 10
MAKE: dict[str, Any] = {
    "GLVQ": streamlvq.GLVQ,
    "GMLVQ": streamlvq.GMLVQ,
    "GRLVQ": streamlvq.GRLVQ,
    "LGMLVQ": streamlvq.LGMLVQ,
    "OLVQ1": streamlvq.OLVQ1,
    "RSLVQ": streamlvq.RSLVQ,
    "PairwiseLVQ": streamlvq.PairwiseLVQ,
    "forgetful": lambda: streamlvq.LGMLVQ(half_life=30),
    "committee": lambda: streamlvq.LVQCommittee(members=["learner", "follower"]),
    "wrapped": lambda: streamlvq.RelSimRejector(
        streamlvq.TimeIntegrator(streamlvq.GMLVQ(), window=3), target_rate=0.1
    ),
}
D = 3
NAMES = [f"f{i}" for i in range(D)]


@pytest.fixture(params=list(MAKE))
def make(request: pytest.FixtureRequest) -> Any:
    return MAKE[request.param]


class Stream:
    """Labelled readings of three or more classes, some without a value."""

    def __init__(self, seed: int = 0, missing: float = 0.0) -> None:
        self.random, self.missing, self.learnt = np.random.default_rng(seed), missing, []

    def reading(self, label: int) -> dict[str, float]:
        x = self.random.normal(size=D) + 4.0 * np.eye(D + 3, D)[label % (D + 3)] * (1 + label // D)
        return {
            name: float(value)
            for name, value in zip(NAMES, x, strict=True)
            if self.random.random() >= self.missing
        }

    def teach(self, model: Any, *labels: int) -> None:
        for label in labels:
            x = self.reading(label)
            self.learnt.append((x, label))
            model.learn_one(x, label)


def publish(model: Any, before: Publication | None, k: int = K) -> Publication | None:
    state = capture(model, readings=False)
    return next_publication(None if before is None else before.state, state, k)


def class_of(state: EstimatorState, label: int) -> tuple[float, list[list[float]]] | None:
    """What is published of a class besides its place among the others, in units of sensors."""
    found: list[list[float]] = []
    count = 0.0
    for model in members_of(state).values():
        if label not in model.extra["classes"]:
            return None
        code, arrays = model.extra["classes"].index(label), model.arrays
        count = float(arrays["class_count"][code])
        for name in ("class_weight", "class_mean", "class_variance"):
            found.append(arrays[name][code].tolist())
        if "platt" in arrays:
            continue
        for p in np.flatnonzero(arrays["label"][: model.extra["sizes"]["prototypes"]] == code):
            found.append(arrays["w"][p].tolist())
            found.append([float(arrays[n][p]) for n in ("wins", "usefulness", "rate")])
            if len(arrays.get("omega", ())) > 1:
                metric = arrays["omega"][p] * arrays["inverse"]
                found += (metric / max(np.linalg.norm(metric), 1e-300)).tolist()
    return count, found


def same(one: list[list[float]], other: list[list[float]]) -> bool:
    return len(one) == len(other) and all(
        np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def shared_parts(state: EstimatorState) -> list[np.ndarray[Any, Any]]:
    """What classes share: temperatures, weights of members, directions of a metric."""
    found = [state.innermost.arrays["fitted"]] if "fitted" in state.innermost.arrays else []
    for model in members_of(state).values():
        found.append(model.arrays["calibration"])
        if len(model.arrays.get("omega", ())) == 1:
            metric = model.arrays["omega"][0] * model.arrays["inverse"]
            found.append(metric / max(np.linalg.norm(metric), 1e-300))
    return found


def counts_of(state: EstimatorState) -> dict[int, int]:
    model = next(iter(members_of(state).values()))
    if not model.arrays:
        return {}
    counts = model.arrays["class_count"]
    return {label: int(counts[code]) for code, label in enumerate(model.extra["classes"])}


def few_are_new(before: Publication | None, model: Any) -> bool:
    """Whether a class has learnt so few readings since that they must not show, by its count."""
    old = {} if before is None else counts_of(before.state)
    now = counts_of(capture(model, readings=False))
    new = [now.get(label, 0) - old.get(label, 0) for label in {*now, *old}]
    return any(count < 0 or 0 < count < K for count in new)


def check_start(state: EstimatorState) -> None:
    """Check that what classes share is as in a model that has learnt nothing."""
    if "fitted" in state.innermost.arrays:
        fitted, members = state.innermost.arrays["fitted"], len(members_of(state))
        np.testing.assert_allclose(fitted[:, 1 : 1 + members], 1.0 / members)
        assert not fitted[:, 0].any()
        assert not fitted[:, 1 + members :].any()
    for model in members_of(state).values():
        assert model.arrays["calibration"].tolist() in ([1.0, 0.0], [2.0, 0.0])
        if len(omega := model.arrays.get("omega", ())) == 1:
            start = np.ones((1, D)) if len(omega[0]) == 1 else np.eye(D)
            np.testing.assert_allclose(omega[0], start / np.linalg.norm(start))


def check_step(before: Publication | None, after: Publication, model: Any) -> None:
    """Check what changed from one publication to the next; `model` as the second was made."""
    if few_are_new(before, model):
        assert not after.shares_new
    Snapshot.from_bytes(Snapshot(after.state, readings=False).to_bytes())
    for part in members_of(after.state).values():
        assert min(part.arrays["class_count"][: len(part.extra["classes"])]) >= K
        assert part.extra["sizes"]["samples"] == part.arrays["class_count"].sum()
    if before is None:
        if few_are_new(before, model):
            check_start(after.state)
        return
    for label in counts_of(before.state):
        old, new = class_of(before.state, label), class_of(after.state, label)
        assert old is not None
        assert new is not None
        if new[0] == old[0]:
            assert same(old[1], new[1]), f"class {label} has no new reading, and differs"
        else:
            assert new[0] - old[0] >= K
    shares = zip(shared_parts(before.state), shared_parts(after.state), strict=True)
    if few_are_new(before, model) or not after.shares_new:
        assert all(np.allclose(a, b, rtol=1e-9) for a, b in shares)


# --- any sequence of readings and publications --------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(list(MAKE)),
    steps=st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(1, 14)), max_size=4),
        min_size=2,
        max_size=7,
    ),
    missing=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 99),
)
def test_publications_are_equal_in_a_class_or_k_readings_apart(
    name: str, steps: list[list[tuple[int, int]]], missing: float, seed: int
) -> None:
    model, stream = MAKE[name](), Stream(seed, missing)
    published: list[Publication] = []
    for step in steps:
        for label, count in step:
            stream.teach(model, *[label] * count)
        found = publish(model, published[-1] if published else None)
        if found is not None:
            check_step(published[-1] if published else None, found, model)
            if not missing and name != "forgetful":  # nothing waits longer than it must
                last = published[-1] if published else None
                assert found.shares_new != few_are_new(last, model)
            published.append(found)
    # Nor are any two of them fewer apart, in count or in the values of any single feature.
    for one, other in itertools.combinations(published, 2):
        for label in range(5):
            old, new = class_of(one.state, label), class_of(other.state, label)
            if old is not None and new is not None and name != "forgetful":
                apart = np.rint(np.subtract(new[1][0], old[1][0]))
                assert ((apart == 0) | (apart >= K)).all()


def test_whoever_is_new_decides_what_is_shared(make: Any) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[0, 1, 2] * 30)
    first = publish(model, None)
    assert first is not None
    assert first.shares_new
    stream.teach(model, *[0] * 30, *[1] * 9)
    second = publish(model, first)
    assert second is not None
    assert not second.shares_new
    check_step(first, second, model)
    changed = [class_of(second.state, y) != class_of(first.state, y) for y in range(3)]
    assert class_of(second.state, 0)[0] == 60  # type: ignore[index]
    assert changed[0]
    stream.teach(model, 1)
    third = publish(model, second)
    assert third is not None
    assert third.shares_new
    check_step(second, third, model)


def test_a_class_with_few_readings_is_not_published(make: Any) -> None:
    model, stream = make(), Stream()
    assert publish(model, None) is None
    stream.teach(model, *[0, 1] * 9)
    assert publish(model, None) is None
    stream.teach(model, 0, 1, *[2] * 9)
    first = publish(model, None)
    assert first is not None
    assert class_of(first.state, 2) is None
    assert class_of(first.state, 1) is not None
    classifier = build_estimator(first.state)
    assert set(classifier.predict_proba_one(stream.reading(0))) == {0, 1}


@pytest.mark.parametrize("published", [0, 30])
def test_the_only_other_class_does_not_show_before_it_has_enough(make: Any, published: int) -> None:
    """All that a model of two classes learns is how they differ."""
    payloads = []
    for value in (5.0, -7.0):
        model, stream = make(), Stream()
        stream.teach(model, *[0] * published)
        before = publish(model, None)
        stream.teach(model, *[0] * 30)
        model.learn_one(dict.fromkeys(NAMES, value), 1)
        after = publish(model, before)
        assert after is not None
        assert counts_of(after.state) == {0: published + 30}
        check_step(before, after, model)
        payloads.append(Snapshot(after.state, readings=False).to_bytes())
    assert payloads[0] == payloads[1]


def test_a_class_that_is_seen_no_more_does_not_stop_the_others(make: Any) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[2] * 3, *[0, 1] * 40)
    first = publish(model, None)
    assert first is not None
    check_step(None, first, model)
    stream.teach(model, *[0, 1] * 40)
    second = publish(model, first)
    assert second is not None
    check_step(first, second, model)
    assert counts_of(second.state) == {0: 80, 1: 80}
    for found in (first, second):
        receiver = build_estimator(found.state)
        right = [receiver.predict_one(stream.reading(y)) == y for y in [0, 1] * 50]
        assert np.mean(right) > 0.9


def test_a_new_class_begins_at_its_mean_while_others_wait() -> None:
    model, stream = streamlvq.LGMLVQ(), Stream()
    stream.teach(model, *[0, 1] * 30)
    first = publish(model, None)
    stream.teach(model, *[2] * 12, *[0] * 5)
    second = publish(model, first)
    assert second is not None
    arrays, sizes = second.state.arrays, second.state.extra["sizes"]
    (p,) = np.flatnonzero(arrays["label"][: sizes["prototypes"]] == 2)
    np.testing.assert_array_equal(arrays["w"][p], arrays["class_mean"][2])
    np.testing.assert_allclose(arrays["omega"][p], np.eye(D) / D**0.5)
    stream.teach(model, *[2] * 40)
    third = publish(model, second)
    assert third is not None
    p = np.flatnonzero(third.state.arrays["label"][: third.state.extra["sizes"]["prototypes"]] == 2)
    assert not np.allclose(third.state.arrays["w"][p], third.state.arrays["class_mean"][2])


def test_unlabelled_readings_are_in_no_publication(make: Any) -> None:
    model, twin = make(), make()
    for each in (model, twin):
        Stream().teach(each, *[0, 1, 2] * 20)
    for _ in range(3):
        twin.observe_one(dict.fromkeys([*NAMES, "new"], 50.0))
    one, other = (publish(each, None) for each in (model, twin))
    assert one is not None
    assert other is not None
    for a, b in zip(members_of(one.state).values(), members_of(other.state).values(), strict=True):
        assert a.extra["features"] == b.extra["features"] == NAMES
        for array in ("mean", "variance", "weight", "peak", "varies", "inverse", "w"):
            np.testing.assert_array_equal(a.arrays[array], b.arrays[array])
    Snapshot.from_bytes(Snapshot(other.state, readings=False).to_bytes())


def test_unlabelled_readings_alone_change_nothing(make: Any) -> None:
    model = make()
    Stream().teach(model, *[0, 1, 2] * 20)
    first = publish(model, None)
    for _ in range(3):
        model.observe_one(dict.fromkeys([*NAMES, "new"], 50.0))
    second = publish(model, first)
    assert first is not None
    assert second is not None
    one, other = (Snapshot(each.state, readings=False).to_bytes() for each in (first, second))
    assert one == other


def test_a_backup_that_learnt_other_readings_is_no_new_state(make: Any) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[0, 1] * 34)
    restored = build_estimator(model.state())
    stream.teach(model, 0, 1)
    first = publish(model, None)
    stream.teach(restored, 0, 1)  # as many as are published, but others
    second = publish(restored, first)
    assert first is not None
    assert second is not None
    assert first.shares_new
    assert not second.shares_new
    one, other = (Snapshot(each.state, readings=False).to_bytes() for each in (first, second))
    assert one == other


@pytest.mark.parametrize("rank", [None, 2])
def test_features_of_few_readings_have_no_name(rank: int | None) -> None:
    for make in (streamlvq.GMLVQ, streamlvq.LGMLVQ):
        model, stream = make(rank=rank), Stream()
        stream.teach(model, *[0, 1] * 20)
        for _ in range(9):
            model.learn_one(stream.reading(2) | {"secret": stream.random.random()}, 2)
        first = publish(model, None)
        assert first is not None
        assert first.state.extra["features"] == NAMES
        model.learn_one(stream.reading(2) | {"secret": 0.5}, 2)
        second = publish(model, first)
        assert second is not None
        assert second.state.extra["features"] == [*NAMES, "secret"]
        for each in (first, second):
            Snapshot.from_bytes(Snapshot(each.state, readings=False).to_bytes())


def test_words_of_held_back_readings_are_not_published() -> None:
    model = streamlvq.GMLVQ(absent="zero")
    for i in range(40):
        model.learn_one({"oil" if i % 2 else "coal": 1.0, "the": 1.0 + i % 3}, i % 2)
    model.learn_one({"secret": 1.0}, 2)
    first = publish(model, None)
    assert first is not None
    assert sorted(first.state.extra["features"]) == ["coal", "oil", "the"]
    empty = streamlvq.GMLVQ(absent="zero")
    for _ in range(20):
        empty.learn_one({"the": 0.0}, 0)
    empty.learn_one({"secret": 1.0}, 1)
    assert publish(empty, None) is None


def test_what_a_backup_has_forgotten_is_not_published_again(make: Any) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[0, 1] * 20)
    backup = model.state()
    stream.teach(model, *[0, 1] * 15)
    first = publish(model, None)
    restored = build_estimator(backup)
    stream.teach(restored, *[0, 1] * 20)  # 40 of each now, 35 are published
    second = publish(restored, first)
    assert first is not None
    assert second is not None
    assert class_of(second.state, 0)[0] == 35  # type: ignore[index]
    stream.teach(restored, *[0, 1] * 5)
    third = publish(restored, second)
    assert third is not None
    assert class_of(third.state, 0)[0] == 45  # type: ignore[index]


def test_another_half_life_is_no_new_beginning() -> None:
    model, stream = streamlvq.GLVQ(), Stream()
    stream.teach(model, *[0, 1] * 50)
    first = publish(model, None)
    model.mutate({"half_life": 20.0})
    stream.teach(model, 0)
    second = publish(model, first)
    assert first is not None
    assert second is not None
    assert class_of(second.state, 0) == class_of(first.state, 0)
    stream.teach(model, *[0, 1] * 30)
    third = publish(model, second)
    assert third is not None
    assert class_of(third.state, 0)[0] == 81  # type: ignore[index]


def test_new_features_and_other_models() -> None:
    model, stream = streamlvq.LGMLVQ(), Stream()
    stream.teach(model, *[0, 1] * 20)
    first = publish(model, None)
    for _ in range(12):
        model.learn_one(stream.reading(0) | {"new": 1.0 + stream.random.random()}, 0)
    model.learn_one(stream.reading(1) | {"new": 7.0}, 1)
    second = publish(model, first)
    assert second is not None
    assert second.state.extra["features"] == NAMES
    check_step(first, second, model)
    for _ in range(20):
        model.learn_one(stream.reading(0) | {"new": 1.0 + stream.random.random()}, 0)
    second = publish(model, first)
    assert second is not None
    assert second.state.extra["features"] == [*NAMES, "new"]
    assert counts_of(second.state) == {0: 52, 1: 20}
    check_step(first and Publication(_widened(first.state), True), second, model)
    other = streamlvq.GLVQ()
    stream.teach(other, *[0, 1] * 20)
    fresh = publish(other, second)  # another kind of model begins anew
    assert fresh is not None
    assert fresh.state.kind == "GLVQ"
    assert fresh.shares_new


def _widened(state: EstimatorState) -> EstimatorState:
    model = build_estimator(state)
    model.observe_one({"new": 1.0})
    return model.state(readings=False)  # type: ignore[no-any-return]


# --- attacks -------------------------------------------------------------------------------------


def totals(state: EstimatorState, label: int) -> tuple[float, np.ndarray[Any, Any], Any]:
    model = next(iter(members_of(state).values()))
    code, arrays = model.extra["classes"].index(label), model.arrays
    n, mean = arrays["class_weight"][code], arrays["class_mean"][code]
    return float(n[0]), n * mean, n * (arrays["class_variance"][code] + mean**2)


@pytest.mark.parametrize("few", [1, 2, 9])
def test_counts_and_means_recover_no_reading(make: Any, few: int) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[0, 1, 2] * 30)
    plain = [capture(model, readings=False)]
    first = publish(model, None)
    stream.teach(model, *[1] * few)
    plain.append(capture(model, readings=False))
    second = publish(model, first)
    assert first is not None
    assert second is not None
    secret = np.array([list(x.values()) for x, _ in stream.learnt[-few:]])
    # By hand there is no history: the attack works, as the docs say.
    (n0, s0, _), (n1, s1, _) = (totals(each, 1) for each in plain)
    if n1 - n0 == few:  # or it forgets, and the attack needs one line more
        np.testing.assert_allclose(s1 - s0, secret.sum(axis=0), atol=1e-8)
    # In what nodes publish, nothing of the class has changed, nor of all classes together.
    (n0, s0, q0), (n1, s1, q1) = (totals(each.state, 1) for each in (first, second))
    assert n0 == n1
    np.testing.assert_array_equal(s0, s1)
    np.testing.assert_array_equal(q0, q1)
    for a, b in zip(
        members_of(first.state).values(), members_of(second.state).values(), strict=True
    ):
        for name in ("mean", "variance", "weight", "peak", "inverse", "calibration"):
            np.testing.assert_array_equal(a.arrays[name], b.arrays[name])
        assert a.extra["sizes"] == b.extra["sizes"]
    payloads = [Snapshot(each.state, readings=False).to_bytes() for each in (first, second)]
    assert payloads[0] == payloads[1]


@pytest.mark.parametrize("name", ["GMLVQ", "LGMLVQ"])
def test_the_change_of_a_metric_tells_no_reading(name: str) -> None:
    def moved(states: list[EstimatorState]) -> bool:
        one, other = (s.arrays["omega"] for s in states)
        return not (one.shape == other.shape and np.array_equal(one, other))

    model, stream = MAKE[name](rehearsal=0), Stream()
    stream.teach(model, *[0, 1, 2] * 30)
    first = publish(model, None)
    plain = [capture(model, readings=False)]
    stream.teach(model, 0)
    plain.append(capture(model, readings=False))
    second = publish(model, first)
    assert first is not None
    assert second is not None
    assert moved(plain)
    assert not moved([first.state, second.state])


def test_no_birth_is_published(make: Any) -> None:
    model, stream = make(), Stream()
    stream.teach(model, *[0, 1, 2] * 30)
    found = publish(model, None)
    assert found is not None
    for part in members_of(found.state).values():
        assert not part.arrays["born"].any()


# --- a node --------------------------------------------------------------------------------------


def sent(node: Node) -> dict[str, int]:
    """The counts that others know of a node."""
    payload = node.fleet.writer.published(node.fleet.name)
    return {} if payload is None else Snapshot.from_bytes(payload).counts  # type: ignore[return-value]


def learnt_counts(node: Node) -> dict[str, int]:
    return Snapshot.of(node.monitor.local("")).counts  # type: ignore[return-value]


def holding(folder: Path, name: str, **fleet: Any) -> Node:
    settings = {"publish_after": 1, "publish_seconds": 20.0, "min_new_per_class": K, **fleet}
    return Node(config(folder, broker=name, **settings), folder)


def test_a_node_waits_until_a_class_has_enough(tmp_path: Path) -> None:
    memory("held back")
    node = holding(tmp_path, "held back")
    node.learn(node_readings("a", 12))
    node.turn(100.0)
    assert max(learnt_counts(node).values()) < K
    assert sent(node) == {}
    assert str(node.fleet.metrics.record().waiting) == (
        "labelled readings: nothing is published before a class has 10 (fleet.min_new_per_class)"
    )
    node.learn(node_readings("a", 30, first=12))
    node.turn(200.0)
    assert sent(node) == {y: n for y, n in learnt_counts(node).items() if n >= K}
    assert node.fleet.metrics.record().waiting is not None  # for other nodes
    node.link.close()


def test_a_node_holds_back_also_after_a_restart_and_with_another_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory("restarted")
    caplog.set_level("INFO")
    node = holding(tmp_path, "restarted")
    node.learn(node_readings("a", 120))
    node.turn(100.0)
    first = node.fleet.writer.published("a")
    assert first is not None
    assert sent(node) == learnt_counts(node)
    key = tmp_path / "new.key"
    PrivateKey.new().save(key)
    for more, key_file in ((1, None), (2, str(key))):
        node.link.close()
        state = node.monitor.checkpoint()
        node = holding(tmp_path, "restarted", key_file=key_file)
        node.processor.monitor = Monitor.restore(node.config, state)
        node.learn(node_readings("a", more, first=119 + more))
        node.turn(500.0)
        node.turn(1000.0)
        assert learnt_counts(node) != sent(node)
        assert node.fleet.writer.published("a") == first
    # With a new key it is sent again, with the same content.
    assert "had another key; it will be published again" in caplog.text
    last = node.fleet.writer.last("a")
    assert last is not None
    assert (len(last.signature), last.payload) == (64, first)
    node.learn(node_readings("a", 60, first=200))
    node.turn(2000.0)
    assert sent(node) == learnt_counts(node)
    node.link.close()


def test_what_is_held_back_is_not_sent_again_before_it_must_be(tmp_path: Path) -> None:
    memory("quiet")
    node = holding(tmp_path, "quiet")
    node.learn(node_readings("a", 120))
    node.turn(100.0)
    number = node.fleet.writer.last_header("a")
    node.learn(node_readings("a", 3, first=120))
    for now in (200.0, 300.0, 400.0):
        node.turn(now)
    assert node.fleet.writer.last_header("a") == number
    node.link.close()


def test_without_holding_back_everything_is_sent(tmp_path: Path) -> None:
    memory("open")
    node = holding(tmp_path, "open", min_new_per_class=1)
    node.learn(node_readings("a", 12))
    node.turn(100.0)
    assert sent(node) == learnt_counts(node)
    node.link.close()


def test_an_older_version_may_have_published_more(tmp_path: Path) -> None:
    """Its births and moments are not repeated."""
    memory("older")
    node = holding(tmp_path, "older")
    node.learn(node_readings("a", 120))
    *_, model = unwrap(node.monitor.local(""))
    whole = model.state()
    state = replace(whole, extra={**whole.extra, "sizes": {**whole.extra["sizes"], "stored": 0}})
    arrays = {name: array for name, array in state.arrays.items() if "buffer" not in name}
    told = Snapshot(replace(state, arrays=arrays), "a", readings=False)
    assert told.estimator_state().arrays["born"].any()
    clean = told.without_traces()
    assert not clean.estimator_state().arrays["born"].any()
    assert clean.counts == told.counts
    assert clean.without_traces() is clean
    node.link.close()


def test_published_weights_wait_for_all_classes(tmp_path: Path) -> None:
    memory("first weights")
    node = holding(tmp_path, "first weights")
    node.learn(node_readings("a", 30))
    counts = learnt_counts(node).values()
    assert min(counts) < K <= max(counts)
    first = node.fleet._next_payload(
        node.monitor.local(""), PoolWeights({"fused none": 0.5}, 1.0, -2.0)
    )
    assert first is not None
    assert Snapshot.from_bytes(first).pool_weights is None
    node.link.close()


def test_published_weights_change_only_with_what_classes_share(tmp_path: Path) -> None:
    memory("weights")
    node = holding(tmp_path, "weights")
    node.learn(node_readings("a", 120))
    local = node.monitor.local("")
    one, other = (PoolWeights({"fused none": w}, 1.0, -2.0) for w in (0.5, 0.75))
    first = node.fleet._next_payload(local, one)
    assert first is not None
    node.fleet.writer.write("a", first, 1.7e9)
    node.learn(node_readings("a", 1, first=120))
    held = node.fleet._next_payload(node.monitor.local(""), other)
    assert held == first
    node.learn(node_readings("a", 60, first=121))
    free = node.fleet._next_payload(node.monitor.local(""), other)
    assert free is not None
    assert Snapshot.from_bytes(free).pool_weights == other
    node.link.close()
