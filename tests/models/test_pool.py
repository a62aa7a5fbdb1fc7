"""`PoolClassifier` and `NodeEnsemble`: what they say and learn, and forged states of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from river import tree

import naive_candidates
import streamlvq
from streamlvq import Snapshot
from streamlvq.errors import SnapshotError
from streamlvq.estimator import EstimatorState, StateLimits, build_estimator
from streamlvq.kernels import kernels
from streamlvq.models.ensemble import NodeEnsemble
from streamlvq.models.pool import PoolClassifier, PoolWeights, unseen_offsets
from streamlvq.wrappers import FeatureTransform

CENTRES = {"ham": (0.0, 0.0), "spam": (3.0, 0.0), "egg": (0.0, 3.0), "toast": (3.0, 3.0)}
FEATURES = ["a", "b"]


def samples(labels: str, seed: int, count: int = 120) -> list[tuple[dict[str, float], str]]:
    random = np.random.default_rng(seed)
    names = labels.split()
    found = []
    for _ in range(count):
        label = names[random.integers(len(names))]
        a, b = np.array(CENTRES[label]) + 0.7 * random.normal(size=2)
        found.append(({"a": float(a), "b": float(b)}, label))
    return found


def taught(model: Any, labels: str, seed: int, count: int = 120) -> Any:
    for x, y in samples(labels, seed, count):
        model.learn_one(x, y)
    return model


def small_pool(local: Any = None, **changes: Any) -> PoolClassifier:
    """A local model without eggs and toasts beside two candidates, one of which knows both."""
    local = taught(streamlvq.GLVQ(), "ham spam", 1) if local is None else local
    candidates = {
        "fused none": taught(streamlvq.GMLVQ(), "ham spam egg toast", 2),
        "ensemble none": taught(streamlvq.GLVQ(), "egg spam ham", 3),
    }
    settings: dict[str, Any] = {
        "weights": PoolWeights({"fused none": 0.7, "ensemble none": 0.4}, 0.5, 0.3),
        "shares": {"ham": 0.4, "spam": 0.4, "egg": 0.15, "toast": 0.05},
    }
    return PoolClassifier(local, candidates, **(settings | changes))


# --- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_kernel_pools_like_the_oracle(seed: int) -> None:
    random = np.random.default_rng(seed)
    labels = [f"c{k}" for k in range(2 + seed)]
    known = random.random((3, len(labels))) < 0.7
    candidates = np.where(known[:, None], random.dirichlet(np.ones(len(labels)), (3, 7)), np.nan)
    local, held = random.dirichlet(np.ones(len(labels)), 7), random.integers(0, 2, len(labels))
    weights, unseen = random.uniform(0, 2, 3), random.normal(size=len(labels))
    out = np.empty((7, len(labels)))
    kernels("candidates").pool_candidates(
        np.ascontiguousarray(candidates), weights, local, held, 0.6, unseen, out
    )
    for k in range(7):
        opinions = [
            {label: candidates[m, k, c] for c, label in enumerate(labels) if known[m, c]}
            for m in range(3)
        ]
        own = {label: local[k, c] for c, label in enumerate(labels) if held[c]}
        mass = dict(zip(labels, unseen, strict=True))
        expected = naive_candidates.pooled(labels, opinions, weights.tolist(), own, 0.6, mass)
        assert out[k] == pytest.approx(list(expected.values()), abs=1e-12)


def test_pool_says_what_the_oracle_makes_of_its_models() -> None:
    pool = small_pool()
    labels = list(pool.classes)
    offsets = dict(zip(labels, unseen_offsets(labels, pool.shares), strict=True))
    for x, _ in samples("ham spam egg toast", 9, 20):
        expected = naive_candidates.pooled(
            labels,
            [model.predict_proba_one(x) for model in pool.candidates.values()],
            [0.7, 0.4],
            pool.local.predict_proba_one(x),
            0.5,
            {label: 0.3 + offsets[label] for label in labels},
        )
        found = pool.predict_proba_one(x)
        assert found == pytest.approx(expected, abs=1e-12)
        assert pool.predict_one(x) == max(expected, key=expected.__getitem__)


def test_arrays_and_single_readings_are_answered_alike() -> None:
    pool = small_pool()
    rows = [x for x, _ in samples("ham spam egg toast", 4, 30)]
    array = pool.predict_proba_array(np.array([[x["a"], x["b"]] for x in rows]), FEATURES)
    for k, x in enumerate(rows):
        assert list(pool.predict_proba_one(x).values()) == pytest.approx(array[k], abs=1e-12)


def test_rare_classes_have_less_mass_while_they_are_unseen() -> None:
    offsets = unseen_offsets(["a", "b", "c"], {"a": 0.9, "b": 0.09, "c": 0.01})
    assert offsets[0] > offsets[1] > offsets[2]
    assert offsets[2] == pytest.approx(0.5 * np.log(0.1))  # no rarer than a tenth of the average
    assert unseen_offsets(["a"], None).tolist() == [0.0]


def test_a_pool_without_candidates_is_its_local_model() -> None:
    local = taught(streamlvq.GLVQ(), "ham spam", 1)
    pool = PoolClassifier(local, {}, PoolWeights({}, 1.0, 0.0))
    for x, _ in samples("ham spam", 5, 20):
        assert pool.predict_one(x) == local.predict_one(x)


def test_before_anything_is_learnt_a_pool_says_nothing() -> None:
    pool = PoolClassifier(streamlvq.GLVQ(), {}, PoolWeights({}, 1.0, 0.0))
    assert pool.predict_proba_one({"a": 1.0}) == {}
    assert pool.predict_one({"a": 1.0}) is None


# --- what it learns -------------------------------------------------------------------------------


def test_only_the_local_model_learns() -> None:
    alone = taught(streamlvq.GLVQ(), "ham spam", 1)
    pool = small_pool(taught(streamlvq.GLVQ(), "ham spam", 1))
    before = {name: model.state() for name, model in pool.candidates.items()}
    for x, y in samples("ham spam egg", 6, 60):
        alone.learn_one(x, y)
        pool.learn_one(x, y)
    assert pool.local.state().same_as(alone.state())
    for name, model in pool.candidates.items():
        assert model.state().same_as(before[name])


def test_opinions_are_noted_before_a_reading_is_learnt() -> None:
    pool = small_pool()
    pool.learn_one({"a": 0.0, "b": 0.1}, "ham")  # the first run may belong to what came before
    x = {"a": 2.9, "b": 0.2}
    before = pool.local.predict_proba_one(x)
    pool.learn_one(x, "spam")
    (scored,) = pool.scored()
    places = [pool.classes.index(label) for label in before]
    assert scored.opinions[-1, places].tolist() == list(before.values())
    assert (scored.code, scored.run) == (pool.classes.index("spam"), 0)


def test_the_first_run_of_a_label_is_not_scored() -> None:
    pool = small_pool()
    for _ in range(5):
        pool.learn_one({"a": 0.0, "b": 0.1}, "ham")
    assert pool.scored() == ()
    for y in ("spam", "spam", "ham"):
        pool.learn_one({"a": 1.0, "b": 0.1}, y)
    assert [each.run for each in pool.scored()] == [0, 0, 1]


def test_scores_are_bounded_and_a_new_class_gets_a_column() -> None:
    pool = small_pool()
    for k in range(1200):
        pool.learn_one({"a": float(k % 3), "b": 0.0}, "ham" if k % 2 else "spam")
    assert len(pool.scored()) == 500
    pool.learn_one({"a": 9.0, "b": 9.0}, "tea")
    assert pool.classes[-1] == "tea"
    assert set(pool.predict_proba_one({"a": 9.0, "b": 9.0})) == set(pool.classes)
    assert pool.scored() == ()  # older opinions have no column for it


def test_weights_of_zero_teach_nothing() -> None:
    pool = small_pool()
    before = pool.local.samples
    pool.learn_one({"a": 0.0, "b": 0.0}, "ham", w=0.0)
    assert pool.local.samples == before


@pytest.mark.parametrize(
    "local",
    [
        lambda: taught(streamlvq.LVQCommittee(members=["learner", "bins"]), "ham spam", 1),
        lambda: taught(streamlvq.WindowForest(), "ham spam", 1),
        lambda: taught(tree.HoeffdingTreeClassifier(grace_period=20), "ham spam", 1),
    ],
    ids=["committee", "forest", "river"],
)
def test_any_classifier_can_be_the_local_one(local: Callable[[], Any]) -> None:
    pool = small_pool(local())
    x, egg = {"a": 0.1, "b": 3.1}, {"a": 0.0, "b": 0.2}
    assert pool.predict_one(x) == "egg"
    assert pool.predict_one(egg) == "ham"
    pool.learn_one(x, "egg")
    assert "egg" in pool.local.predict_proba_one(x)
    assert pool.predict_one(x) == "egg"


@pytest.mark.parametrize("bad", [float("inf"), "text"])
def test_bad_readings_raise_and_change_nothing(bad: Any) -> None:
    pool = small_pool()
    before, x = pool.state(), {"a": 0.5, "b": 0.5}
    said = pool.predict_proba_one(x)
    with pytest.raises(ValueError, match="'a'"):
        pool.predict_proba_one({"a": bad, "b": 1.0})
    with pytest.raises(ValueError, match="'a'"):
        pool.learn_one({"a": bad, "b": 1.0}, "ham")
    assert pool.state().same_as(before)
    assert pool.predict_proba_one(x) == said


# --- in wrappers ----------------------------------------------------------------------------------


def test_a_rejector_asks_the_speaker() -> None:
    pool = small_pool()
    assert pool.speaker is pool.candidates["fused none"]  # the heaviest with prototypes
    rejector = streamlvq.RelSimRejector(pool, threshold=0.2)
    decision = rejector.decide_one({"a": 0.0, "b": 3.0})
    assert (decision.label, decision.winner, decision.accepted) == ("egg", "egg", True)
    between = rejector.decide_one({"a": 1.5, "b": 1.5})
    assert not between.accepted
    assert pool.explain_one({"a": 0.0, "b": 3.0}).label == "egg"


def test_wrappers_of_the_local_model_move_to_the_pool() -> None:
    local = taught(FeatureTransform(streamlvq.GLVQ(), "asinh"), "ham spam", 1)
    pool = small_pool(local.classifier)
    moved = local.moved_to(pool)
    assert moved.predict_proba_one({"a": 1.0, "b": 0.5}) == pool.predict_proba_one(
        {"a": float(np.arcsinh(1.0)), "b": float(np.arcsinh(0.5))}
    )
    windowed = streamlvq.TimeIntegrator(small_pool(), window=3)
    assert windowed.predict_one({"a": 0.0, "b": 3.0}, device="d") == "egg"


# --- ensembles ------------------------------------------------------------------------------------


def small_ensemble(**changes: Any) -> NodeEnsemble:
    settings: dict[str, Any] = {
        "models": [
            taught(streamlvq.GLVQ(), "ham spam", 1),
            taught(streamlvq.GMLVQ(), "egg ham", 2),
        ],
        "gains": [np.ones(2), np.array([2.0, 0.5])],
        "shifts": [np.zeros(2), np.array([1.0, -1.0])],
        "features": FEATURES,
    }
    return NodeEnsemble(**(settings | changes))


@pytest.mark.parametrize("hidden", [None, [None, "ham"]])
def test_ensembles_average_over_the_holders_of_each_class(hidden: list[str | None] | None) -> None:
    ensemble = small_ensemble(hidden=hidden)
    for x, _ in samples("ham spam egg", 7, 15):
        opinions = []
        parts = zip(ensemble.models, ensemble.gains, ensemble.shifts, ensemble.hidden, strict=True)
        for model, gain, shift, away in parts:
            there = {
                name: float(g * x[name] + s)
                for name, g, s in zip(FEATURES, gain, shift, strict=True)
            }
            said = {k: p for k, p in model.predict_proba_one(there).items() if k != away}
            total = sum(said.values())
            opinions.append({k: p / total for k, p in said.items()})
        expected = naive_candidates.mean_of_holders(opinions)
        assert ensemble.predict_proba_one(x) == pytest.approx(expected, abs=1e-12)
    rows = np.array([[0.1, 0.2], [np.nan, 1.0]])
    one = [ensemble.predict_proba_one(dict(zip(FEATURES, row, strict=True))) for row in rows]
    array = ensemble.predict_proba_array(rows, FEATURES)
    assert [list(each.values()) for each in one] == [pytest.approx(row) for row in array]


def test_ensembles_do_not_learn() -> None:
    with pytest.raises(NotImplementedError, match="other nodes"):
        small_ensemble().learn_one({"a": 1.0}, "ham")


# --- states and forgeries -------------------------------------------------------------------------


def test_a_pool_survives_a_snapshot_bit_for_bit() -> None:
    pool = small_pool()
    pool = PoolClassifier(
        pool.local,
        {**pool.candidates, "ensemble more": small_ensemble(hidden=[None, "ham"])},
        PoolWeights({**pool.weights.candidates, "ensemble more": 0.2}, 0.5, 0.3),
        pool.shares,
    )
    data = Snapshot.of(pool, "n").to_bytes()
    pool, twin = (Snapshot.from_bytes(data).classifier() for _ in range(2))  # as it travels
    assert Snapshot.of(twin, "n").to_bytes() == data
    for x, y in samples("ham spam egg toast", 8, 40):
        assert twin.predict_proba_one(x) == pool.predict_proba_one(x)
        twin.learn_one(x, y)
        pool.learn_one(x, y)


def test_what_is_shared_of_a_pool_is_its_local_model_and_what_suits_it() -> None:
    """Not the weights in force: other nodes have a part in them, and would hear themselves."""
    fitted = PoolWeights({"fused none": 0.2, "ensemble none": 0.9}, 0.4, 0.1)
    pool = small_pool(fitted=fitted)
    assert pool.beside(None).fitted == fitted
    shared = Snapshot.from_bytes(Snapshot.of(pool, "n", readings=False).to_bytes())
    alone = Snapshot.of(pool.local, "n", readings=False)
    assert shared.estimator_state().same_as(alone.estimator_state())
    assert shared.pool_weights == fitted
    assert alone.pool_weights is None
    unfitted = Snapshot.of(small_pool(), "n", readings=False)
    assert unfitted.pool_weights is None


def _changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[EstimatorState], EstimatorState]:
    def forge(state: EstimatorState) -> EstimatorState:
        parts = {
            "arrays": dict(state.arrays), "extra": dict(state.extra), "parts": dict(state.parts)
        }  # fmt: skip
        change(parts)
        return replace(state, **parts)

    return forge


FORGED: dict[str, tuple[Callable[[EstimatorState], EstimatorState], str]] = {
    "a weight beyond its bound": (
        _changed(lambda s: s["arrays"].update(weights=np.array([9.0, 0.1, 0.1, 0.1]))),
        "weights from 0 to 3",
    ),
    "a weight that is NaN": (
        _changed(lambda s: s["arrays"].update(weights=np.array([np.nan, 0.1, 0.1, 0.1]))),
        "weights from 0 to 3",
    ),
    "too few weights": (
        _changed(lambda s: s["arrays"].update(weights=np.array([0.1]))), "expected 4 weights"
    ),
    "no weights": (_changed(lambda s: s["arrays"].pop("weights")), "arrays weights"),
    "own weights beyond their bound": (
        _changed(lambda s: s["arrays"].update(fitted=np.array([0.1, 0.1, 0.1, 9.0]))),
        "weights from 0 to 3",
    ),
    "a name twice": (
        _changed(lambda s: s["extra"].update(candidates=["fused none"] * 2)), "names of candidates"
    ),
    "a name that is none": (
        _changed(lambda s: s["extra"].update(candidates=["fused none", 2])), "names of candidates"
    ),
    "a share of two": (
        _changed(lambda s: s["arrays"].update(shares=np.array([2.0, 0, 0, 0]))), "shares"
    ),
    "a candidate less": (_changed(lambda s: s["parts"].pop("candidate1")), "expected the parts"),
    "a candidate more": (
        _changed(lambda s: s["parts"].update(candidate2=s["parts"]["candidate1"])), "the parts"
    ),
    "other classes": (_changed(lambda s: s["extra"].update(classes=["ham"])), "the classes"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_pools_are_refused(name: str) -> None:
    forge, words = FORGED[name]
    state = small_pool().state()
    build_estimator(state)
    with pytest.raises(SnapshotError, match=words):
        build_estimator(forge(state))


def test_all_candidates_together_have_the_room_of_one_model() -> None:
    """Else a small snapshot of many models could ask for any memory."""
    state = small_pool().beside(None).state()
    one = state.parts["candidate0"]
    room = 2**14
    for part in (one, state):
        build_estimator(part, limits=StateLimits(2 * room))
    build_estimator(one, limits=StateLimits(room))
    with pytest.raises(SnapshotError, match=f"at most {room // 2} numbers"):
        build_estimator(state, limits=StateLimits(room))


def test_forged_ensembles_are_refused() -> None:
    state = small_ensemble().state()
    build_estimator(state)
    for array in (
        np.full((2, 2), np.nan), np.full((2, 2), 1e308), np.zeros((2, 2)), np.ones((2, 2), int),
        np.ones((2, 3)), np.ones((1, 2)),
    ):  # fmt: skip
        with pytest.raises(SnapshotError, match=r"ensemble: expected .*gains"):
            build_estimator(replace(state, arrays={**state.arrays, "gains": array}))
    far = {**state.arrays, "shifts": np.full((2, 2), 1e300)}
    with pytest.raises(SnapshotError, match="shifts up to 1e"):
        build_estimator(replace(state, arrays=far))
    with pytest.raises(SnapshotError, match="expected gains and shifts, got"):
        build_estimator(replace(state, arrays={**state.arrays, "more": np.ones(1)}))
    for extra in ({}, {**state.extra, "hidden": []}, {**state.extra, "features": ["x", "y"]}):
        with pytest.raises(SnapshotError, match="ensemble: expected"):
            build_estimator(replace(state, extra=extra))
    with pytest.raises(SnapshotError, match="models by number"):
        build_estimator(replace(state, parts={}))


@pytest.mark.parametrize(
    "named", [{"local": 0.5}, {"local": 4.0, "unseen": 0.0}, {"local": 0.1, "unseen": 7.0},
              {"local": 0.1, "unseen": 0.0, "x": -1.0}, {"local": 0.1, "unseen": float("nan")}],
)  # fmt: skip
def test_published_weights_are_bounded(named: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weights from 0 to 3"):
        PoolWeights.from_names(named)


def test_a_class_that_only_the_local_model_knows_is_answered() -> None:
    local = taught(streamlvq.GLVQ(), "ham spam toast", 1)
    weights = PoolWeights({"fused none": 0.7, "ensemble none": 0.5}, 0.3, 0.3)
    candidates = {
        name: taught(streamlvq.GMLVQ(), "ham spam", seed)
        for seed, name in enumerate(weights.candidates)
    }
    pool = PoolClassifier(local, candidates, weights)
    tests = samples("ham spam toast", 7, 120)
    right = [pool.predict_one(x) == y for x, y in tests]
    alone = [local.predict_one(x) == y for x, y in tests]
    assert np.mean(right) >= np.mean(alone) - 0.05


class Fickle:
    """A classifier of River that names its classes in another order every time."""

    def __init__(self) -> None:
        self.turn = 0

    def predict_proba_one(self, x: Any) -> dict[str, float]:
        self.turn += 1
        found = {"ham": 0.9, "spam": 0.1}
        return dict(sorted(found.items(), reverse=self.turn % 2 == 0))


def test_a_local_model_may_name_its_classes_in_any_order() -> None:
    candidates = {"fused none": taught(streamlvq.GLVQ(), "ham spam", 2)}
    pool = PoolClassifier(Fickle(), candidates, PoolWeights({"fused none": 0.0}, 1.0, 0.0))
    for x, _ in samples("ham spam", 3, 6):
        assert pool.predict_proba_one(x) == pytest.approx({"ham": 0.9, "spam": 0.1})


class Grown(Fickle):
    """A classifier of River that comes to know a class."""

    def predict_proba_one(self, x: Any) -> dict[str, float]:
        self.turn += 1
        return {"ham": 1.0} if self.turn == 1 else {"ham": 0.2, "egg": 0.8}


def test_candidates_have_a_say_when_the_local_model_has_just_learnt_a_class() -> None:
    candidates = {"fused none": taught(streamlvq.GLVQ(), "ham spam", 2)}
    pool = PoolClassifier(Grown(), candidates, PoolWeights({"fused none": 0.5}, 0.5, 0.0))
    x, _ = samples("ham spam", 3, 6)[0]
    pool.predict_proba_one(x)
    assert pool.predict_proba_one(x) == pool.predict_proba_one(x)


def test_readings_at_the_edge_stay_within_what_models_read() -> None:
    model = taught(streamlvq.GLVQ(), "ham spam", 2)
    ensemble = NodeEnsemble([model], [np.full(2, 10.0)], [np.zeros(2)], ["a", "b"])
    assert sum(ensemble.predict_proba_one({"a": 5e59, "b": 1.0}).values()) == pytest.approx(1.0)
    assert ensemble.predict_proba_array(np.array([[5e59, 1.0]]), ["a", "b"]).shape == (1, 2)


def test_ensembles_of_sparse_models_take_what_is_not_mentioned_for_zero() -> None:
    model = streamlvq.GLVQ(absent="zero")
    for x, y in samples("ham spam egg", 5, 60):
        model.learn_one({name: v for name, v in x.items() if v > 1.0}, y)
    ensemble = NodeEnsemble([model], [np.ones(2)], [np.zeros(2)], list(model.features))
    for x in ({"a": 2.0}, {"b": 3.0}, {"a": 1.0, "b": 4.0}):
        assert ensemble.predict_proba_one(x) == pytest.approx(model.predict_proba_one(x))
