"""Trials of corrections, the paper's plain shift, residuals of metrics, models of logarithms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion.class_tables import ClassTables
from streamlvq.fusion.corrections import get_correction
from streamlvq.fusion.fuse import fusion_run
from streamlvq.fusion.sharing import components
from streamlvq.fusion.trials import (
    LEAST_PROBABILITY,
    MAX_CLASSES,
    TRIAL_MAX_NODES,
    TRIAL_PROBES_PER_CLASS,
    TURNS,
    UNTESTABLE,
    DriftChoice,
    Turn,
    choose_correction,
    hidden_classes,
    trial_nodes,
    trimmed_loss,
)

NAMES = ["heat", "noise", "current"]
CENTRES = {"idle": [2.0, 3.0, 5.0], "busy": [4.0, 5.0, 6.0], "worn": [5.0, 8.0, 9.0]}
TRIED = ["none", "least_squares", "scale_shift"]


def readings(
    gain: Any, shift: Any, count: int, seed: int, labels: Any = tuple(CENTRES)
) -> tuple[Any, list[str]]:
    random = np.random.default_rng(seed)
    y = random.choice(list(labels), count)
    X = np.array([CENTRES[label] for label in y]) * random.lognormal(0.0, 0.1, (count, 3))
    return X * gain + shift, y.tolist()


def learnt(model: Any, X: Any, y: Any) -> Any:
    model.learn_array(X, y, features=NAMES)
    return model


def fleet(shifts: Any, kind: str = "GMLVQ", **options: Any) -> list[Snapshot]:
    """Nodes whose sensors are off by these shifts."""
    return [
        Snapshot.of(
            learnt(getattr(streamlvq, kind)(**options), *readings(1.0, shift, 150, i)),
            f"n{i}",
            readings=False,
        )
        for i, shift in enumerate(shifts)
    ]


def tables(held: Any, shift: Any = 0.0) -> ClassTables:
    """Class statistics of nodes, of classes that are ten deviations apart in one feature."""
    held = np.array(held, bool)
    n, c = held.shape
    count = np.where(held, 50.0, 0.0)[:, :, None]
    mean = 10.0 * np.arange(c)[None, :, None] + np.broadcast_to(shift, n)[:, None, None]
    names = [f"n{i}" for i in range(n)]
    return ClassTables(names, count[:, :, 0], count, mean, np.ones((n, c, 1)), np.ones((c, 1)))


def oracle(known: ClassTables) -> Any:
    """Answer like a fused model would: by the nearest class mean in common coordinates."""

    def answers(drift: str, turn: Turn) -> dict[int, Any]:
        seen = known.only(turn.visible(known.held.shape))
        alignment = get_correction(drift).estimate(seen)
        place = np.where(seen.held[:, :, None], alignment.align(seen.mean), np.nan)
        centre = np.nanmean(place, axis=0)[:, 0]
        found = {}
        for i, rows in turn.probes.items():
            z = (rows[:, 0] - alignment.shift[i, 0]) / alignment.gain[i, 0]
            p = np.exp(-0.5 * np.minimum((z[:, None] - centre) ** 2, 1400.0))
            found[i] = p / p.sum(axis=1, keepdims=True)
        return found

    return answers


def choice(known: ClassTables, answers: Any = None) -> DriftChoice:
    cluster = np.zeros(len(known.nodes), int)
    return choose_correction(known, cluster, TRIED, answers or oracle(known))


# --- the rule -------------------------------------------------------------------------------------


def test_shifts_are_found_and_nothing_is_corrected_where_sensors_agree() -> None:
    found = choice(tables(np.ones((5, 4)), [0.0, 8.0, -7.0, 3.0, 12.0]))
    assert found.drift == "least_squares"
    assert found.losses["least_squares"] < 0.01 < found.losses["none"]
    assert "classes hidden" in found.why and "without a correction" in found.why
    found = choice(tables(np.ones((5, 4))))
    assert found.drift == "none" and found.why.startswith("no correction")


def test_the_simplest_of_about_equal_losses_is_taken() -> None:
    known = tables(np.ones((4, 3)))

    def uneven(by: dict[str, float]) -> Any:
        """Be sure of the right class for so many of twelve probes, else of a wrong one."""

        def answers(drift: str, turn: Turn) -> dict[int, Any]:
            found = {}
            for i, origin in turn.origin.items():
                right = np.arange(len(origin)) % 12 < 12 * by[drift]
                found[i] = np.full((len(origin), 3), 0.05)
                found[i][np.arange(len(origin)), np.where(right, origin, (origin + 1) % 3)] = 0.9
            return found

        return answers

    close = {"none": 0.75, "least_squares": 0.75, "scale_shift": 0.75}
    assert choice(known, uneven(close)).drift == "none"
    assert choice(known, uneven(close | {"scale_shift": 0.9})).drift == "scale_shift"
    assert choice(known, uneven(close | {"least_squares": 0.9})).drift == "least_squares"


def test_ties_are_settled_by_the_means_of_hidden_classes() -> None:
    def sure(drift: str, turn: Turn) -> dict[int, Any]:
        return {i: np.eye(3)[origin] for i, origin in turn.origin.items()}

    found = choice(tables(np.ones((5, 3)), [0.0, 2.0, -2.0, 1.0, 3.0]), sure)
    assert found.drift == "least_squares" and max(found.losses.values()) < 0.02
    assert "puts the means of classes hidden from nodes to 0.00 deviations" in found.why
    assert choice(tables(np.ones((5, 3)), [0.0, 0.2, -0.2, 0.1, 0.3]), sure).drift == "none"


@pytest.mark.parametrize(
    "held", [[[1, 0], [1, 0]], [[1, 1], [0, 0]], [[1, 1, 0], [0, 1, 1]], [[1]], [[1, 1]]]
)
def test_where_nothing_can_be_hidden_nothing_is_corrected(held: Any) -> None:
    assert choice(tables(held)) == ({}, "none", UNTESTABLE)


def test_one_node_that_answers_nonsense_decides_nothing() -> None:
    known = tables(np.ones((5, 4)), [0.0, 8.0, -7.0, 3.0, 12.0])
    honest, fair = oracle(known), choice(known)

    def lying(drift: str, turn: Turn) -> dict[int, Any]:
        found = honest(drift, turn)
        if 2 in found and drift != "none":
            found[2] = np.roll(found[2], 1, axis=1)
        return found

    found = choice(known, lying)
    assert found.drift == fair.drift
    for name, loss in found.losses.items():
        assert loss == pytest.approx(fair.losses[name], abs=0.2)


def tempered_losses(said: list[tuple[list[float], int]]) -> list[float]:
    """Return the mean log loss of answers at temperatures from 1/32 to 13, in plain Python."""
    found = []
    for step in range(-20, 16):
        losses = []
        for answer, right in said:
            powers = [max(p, 1e-300) ** (2.0 ** (step / 4)) for p in answer]
            total = sum(powers)
            losses.append(
                -math.log(max(powers[right] / total, LEAST_PROBABILITY)) if total else 6.9
            )
        found.append(sum(losses) / len(losses))
    return found


def test_losses_are_those_of_plain_python() -> None:
    known = tables(np.ones((4, 3)), [0.0, 6.0, -5.0, 3.0])
    said: dict[int, list[tuple[list[float], int]]] = {}
    answers = oracle(known)

    def spy(drift: str, turn: Turn) -> dict[int, Any]:
        found = answers(drift, turn)
        for i, rows in found.items() if drift == "none" else ():
            pairs = zip(rows.tolist(), turn.origin[i].tolist(), strict=True)
            said.setdefault(i, []).extend(pairs)
        return found

    found = choice(known, spy).losses["none"]
    # Every turn has as many probes, so the mean of means is the mean of all.
    losses = [tempered_losses(pairs) for pairs in said.values()]
    by_temperature = [trimmed_loss(each) for each in zip(*losses, strict=True)]
    assert found == pytest.approx(min(by_temperature), abs=0.01)


# --- who is asked about what ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_hidden_classes_stay_with_somebody_and_nodes_stay_connected(seed: int) -> None:
    held = np.random.default_rng(seed).random((6, 5)) < 0.6
    for turn in range(TURNS):
        hidden = hidden_classes(held, turn)
        left = held.copy()
        for i, k in hidden.items():
            assert held[i, k] and held[i].sum() > 1
            left[i, k] = False
        assert (left.any(axis=0) == held.any(axis=0)).all()
        assert np.array_equal(components(left), components(held))


def test_trials_are_bounded() -> None:
    known = tables(np.ones((400, 80)))
    asked = []

    def counting(drift: str, turn: Turn) -> dict[int, Any]:
        asked.append(turn)
        return {i: np.full((len(o), 80), 1 / 80) for i, o in turn.origin.items()}

    choice(known, counting)
    assert len(asked) == TURNS * len(TRIED)
    for turn in asked:
        assert len(turn.nodes) == TRIAL_MAX_NODES
        for i, k in turn.hidden.items():
            assert k in turn.origin[i]
            assert len(turn.origin[i]) <= TRIAL_PROBES_PER_CLASS * (MAX_CLASSES + 1)


def test_those_with_most_classes_are_asked_and_each_cluster_has_its_share() -> None:
    held = np.ones((40, 3), bool)
    held[5:, 2] = False
    (nodes,) = trial_nodes(held, np.zeros(40, int))
    assert set(range(5)) <= set(nodes.tolist()) and len(nodes) == TRIAL_MAX_NODES
    cluster = np.repeat([0, 1], [30, 10])
    large, small = trial_nodes(held, cluster)
    assert (cluster[large] == 0).all() and (cluster[small] == 1).all()
    assert len(large) + len(small) <= TRIAL_MAX_NODES and len(small) >= 2
    held[3] = False
    assert 3 not in trial_nodes(held, np.zeros(40, int))[0]


# --- of real models -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GLVQ", "GMLVQ", "LGMLVQ", "PairwiseLVQ"])
def test_the_choice_is_a_function_of_the_set_of_snapshots(kind: str) -> None:
    nodes = fleet([0.0, 3.0, -3.0, 6.0], kind)
    first, again = fuse(nodes), fuse([*reversed(nodes), nodes[1]])
    assert first.choice == again.choice
    assert first.report.drift != "none"


def test_nodes_with_a_transform_are_asked_in_its_units() -> None:
    nodes = []
    for i, gain in enumerate([1.0, 1.5, 0.6, 1.2]):
        model = streamlvq.FeatureTransform(streamlvq.GMLVQ(), "log")
        nodes.append(Snapshot.of(learnt(model, *readings(gain, 0.0, 200, i)), f"n{i}"))
    assert fuse(nodes).report.drift == "least_squares"


def test_who_was_vetted_away_is_not_asked() -> None:
    nodes = fleet([0.0, 3.0, -3.0, 6.0, 1.0])
    state = nodes[2].estimator_state()
    omega = state.arrays["omega"] * 0.01
    forged = replace(state, arrays={**state.arrays, "omega": omega})
    run = fusion_run([*nodes[:2], Snapshot(forged, "n2", readings=False), *nodes[3:]])
    assert 2 in run.refused
    asked: list[Turn] = []
    answers = run._answers

    def spy(drift: str, turn: Turn) -> dict[int, Any]:
        asked.append(turn)
        return answers(drift, turn)

    found = choose_correction(run.tables, run.clusters.number, TRIED, spy)
    assert found == run.frame.choice and found.drift == "least_squares"
    assert all(2 not in turn.nodes for turn in asked)


# --- the paper's formula --------------------------------------------------------------------------


def test_the_published_shift_counts_all_shared_classes_alike() -> None:
    known = tables([[1, 1, 1], [1, 1, 0]], [0.0, 4.0])
    known.samples[1, 0] = known.count[1, 0] = 2.0  # hardly reliable
    known.mean[1, 0] += 3.0
    shift = {
        name: get_correction(name).estimate(known).shift[:, 0] for name in ("published", "tree")
    }
    assert shift["published"][1] - shift["published"][0] == pytest.approx((7.0 + 4.0) / 2)
    assert 4.0 < shift["tree"][1] - shift["tree"][0] < 4.5
    assert not get_correction("published").automatic


def test_without_noise_all_shifts_are_the_same() -> None:
    known = tables([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [0.0, 4.0, -2.0])
    found = [
        get_correction(name).estimate(known).shift
        for name in ("published", "tree", "least_squares")
    ]
    assert found[0] == pytest.approx(found[1]) and found[1] == pytest.approx(found[2])


# --- residuals of metrics -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["GRLVQ", "GMLVQ", "LGMLVQ"])
def test_metrics_of_one_model_agree_and_opposite_ones_do_not(kind: str) -> None:
    def node(name: str, feature: int) -> Snapshot:
        random = np.random.default_rng(0)
        y = random.integers(0, 2, 400)
        X = random.normal(size=(400, 3))
        X[:, feature] += 6.0 * y
        model = learnt(getattr(streamlvq, kind)(), X, y.tolist())
        return Snapshot.of(model, name, readings=False)

    same = fuse([node(name, 0) for name in "abc"], drift="none").report
    assert same.metric_residual == pytest.approx(0.0, abs=1e-6)
    other = fuse([node("a", 0), node("b", 0), node("c", 1)], drift="none", screen=False).report
    each = {name: found.metric_residual for name, found in other.nodes.items()}
    assert other.metric_residual is not None and other.metric_residual > 0.4
    assert max(each, key=lambda name: each[name] or 0.0) == "c"
    assert min(v or 0.0 for v in each.values()) >= 0.0 and max(v or 0.0 for v in each.values()) <= 1
    assert "metrics      " in str(other) and "c " in str(other)


def test_residuals_of_metrics_do_not_depend_on_gains_that_are_corrected() -> None:
    nodes = [
        Snapshot.of(learnt(streamlvq.GMLVQ(), *readings(gain, 0.0, 300, 1)), name, readings=False)
        for name, gain in {"a": 1.0, "b": 3.0}.items()
    ]
    assert (fuse(nodes, drift="scale_shift").report.metric_residual or 0.0) < 0.02


def test_without_metrics_there_is_no_residual() -> None:
    report = fuse(fleet([0.0, 1.0], "GLVQ")).report
    assert report.metric_residual is None
    assert all(node.metric_residual is None for node in report.nodes.values())
    assert "metrics" not in str(report)


def test_metrics_with_nothing_in_common_are_warned_of() -> None:
    nodes = []
    for i, name in enumerate("abc"):
        random = np.random.default_rng(i)
        y = random.integers(0, 2, 400)
        X = random.normal(size=(400, 3))
        X[:, i] += 8.0 * y
        nodes.append(Snapshot.of(learnt(streamlvq.GRLVQ(), X, y.tolist()), name, readings=False))
    report = fuse(nodes, drift="none", screen=False).report
    assert report.metric_residual is not None and report.metric_residual > 0.8
    assert any("metrics of different nodes have little in common" in w for w in report.warnings)


# --- models of logarithms -------------------------------------------------------------------------


def test_models_of_transformed_readings_are_a_candidate_if_asked_for() -> None:
    local, given = {}, []
    for i, gain in enumerate([40.0, 100.0, 250.0]):
        labels = tuple(CENTRES)[: 2 if i == 2 else 3]
        local[f"n{i}"] = learnt(streamlvq.GMLVQ(), *readings(gain, 0.0, 200, i, labels))
        given.append(Snapshot.of(local[f"n{i}"], f"n{i}"))
    fused = fuse(given)
    usual = fused.for_node("n2", local["n2"], max_candidates=None)
    assert not any(name.startswith("transformed") for name in usual.candidates)
    pool = fused.for_node("n2", local["n2"], max_candidates=None, candidates=["transformed"])
    assert set(pool.candidates) == {f"transformed {drift}" for drift in TRIED}
    X, y = readings(250.0, 0.0, 300, 9)
    shifted = pool.candidates["transformed least_squares"]
    assert np.mean(shifted.predict_array(X, features=NAMES) == y) > 0.95
    assert np.mean(pool.predict_array(X, features=NAMES) == y) > 0.9
    rows = [dict(zip(NAMES, row, strict=True)) for row in X[:20].tolist()]
    whole = pool.predict_proba_array(X[:20], NAMES)
    for x, chances in zip(rows, whole, strict=True):
        one = pool.predict_proba_one(x)
        assert [one[label] for label in pool.classes] == pytest.approx(chances.tolist())


def test_a_pool_with_transformed_models_survives_a_file() -> None:
    local = {f"n{i}": learnt(streamlvq.GMLVQ(), *readings(i + 1.0, 0.0, 150, i)) for i in range(2)}
    fused = fuse([Snapshot.of(model, name) for name, model in local.items()])
    pool = fused.for_node("n0", local["n0"], candidates=["fused", "transformed"])
    again = Snapshot.from_bytes(Snapshot.of(pool, "n0").to_bytes()).classifier()
    X, _ = readings(1.0, 0.0, 50, 5)
    assert np.array_equal(again.predict_proba_array(X, NAMES), pool.predict_proba_array(X, NAMES))


def test_models_of_transformed_readings_need_those_of_all_nodes() -> None:
    local = {f"n{i}": learnt(streamlvq.GMLVQ(), *readings(1.0, 0.0, 100, i)) for i in range(2)}
    fused = fuse([Snapshot.of(model, name, readings=False) for name, model in local.items()])
    pool = fused.for_node("n0", local["n0"], candidates=["transformed"])
    assert not pool.candidates
