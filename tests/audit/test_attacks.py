"""Attacks on snapshots: exact where they say so, silent where nothing can be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq.audit import AuditReport, AuditVerdict, audit_snapshots
from streamlvq.audit.class_statistics import single_reading, two_readings
from streamlvq.audit.membership import area_under_curve
from streamlvq.audit.publications import ClassChange
from streamlvq.audit.updates import rank_one_direction
from streamlvq.snapshot import Snapshot
from support.publications import FEATURES, gaussians, published, truth_of

STATISTICS = ["counts-and-means", "pair-from-spread", "feature-means"]
UPDATES = ["gradient-lines", "metric-change", "sign-of-beta"]
PLAIN: dict[str, Any] = {"rehearsal": 0, "seed": 1}


def audited(
    model: Any, attacks: list[str], first: int = 150, count: int = 190, every: int = 1
) -> AuditReport:
    rows, labels = gaussians(count)
    if not model.standardize:  # digits are lost where units differ and nothing scales them
        rows = rows / rows.std(axis=0)
    snapshots = list(published(model, rows, labels, first, every))
    return audit_snapshots(snapshots, truth_of(rows, labels), attacks=attacks)


def as_state(snapshot: Snapshot, **arrays: Any) -> Snapshot:
    """The snapshot with other arrays."""
    state = snapshot.estimator_state()
    return Snapshot(replace(state, arrays={**state.arrays, **arrays}), snapshot.node)


# --- statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("half_life", [None, 60])
def test_one_reading_between_publications_comes_out_exactly(half_life: int | None) -> None:
    report = audited(streamlvq.GLVQ(half_life=half_life), STATISTICS)
    for attack in ("counts-and-means", "feature-means"):
        found = report[attack]
        assert found.verdict is AuditVerdict.EXACT
        assert found.figures["exact"] >= 40
        assert all(one.error is not None and one.error < 1e-9 for one in found.shown)
        assert all(one.mean_error is not None and one.mean_error > 0.1 for one in found.shown)


@pytest.mark.parametrize("half_life", [None, 60])
def test_two_readings_of_a_class_come_out_as_a_pair(half_life: int | None) -> None:
    model = streamlvq.GLVQ(half_life=half_life)
    rows, labels = gaussians(160)
    rows = np.concatenate([rows, rows[:2] + 0.5])
    labels = [*labels, "c1", "c1"]
    snapshots = list(published(model, rows, labels, 160, 2))
    report = audit_snapshots(snapshots, truth_of(rows, labels), attacks=STATISTICS)
    found = report["pair-from-spread"]
    assert found.verdict is (AuditVerdict.EXACT if half_life is None else AuditVerdict.CLOSE)
    pair = next(one for one in found.shown if one.publication == 2)
    low, high = pair.values, pair.other
    assert high is not None
    wanted, near = np.sort(rows[-2:], axis=0), 1e-6 if half_life is None else 0.02
    assert np.allclose([low[name] for name in FEATURES], wanted[0], rtol=near)
    assert np.allclose([high[name] for name in FEATURES], wanted[1], rtol=near)


def test_a_reading_without_a_label_is_what_the_classes_leave_over() -> None:
    model = streamlvq.GLVQ()
    rows, labels = gaussians(120)
    before = next(published(model, rows, labels, 120))
    secret = dict(zip(FEATURES, (rows[0] * 1.1).tolist(), strict=True))
    model.observe_one(secret)
    for row, label in zip(rows[:7], labels[:7], strict=True):
        model.learn_one(dict(zip(FEATURES, row.tolist(), strict=True)), label)
    report = audit_snapshots([before, Snapshot.of(model, node="n1")], attacks=["feature-means"])
    found = report["feature-means"]
    assert found.figures["unlabelled"] == 1
    assert found.shown[0].values == pytest.approx(secret, rel=1e-6)


def test_missing_values_stay_missing() -> None:
    model = streamlvq.GLVQ()
    rows, labels = gaussians(60)
    before = next(published(model, rows, labels, 60))
    model.learn_one({"f0": 0.125, "f5": 321.0}, "c1")
    report = audit_snapshots([before, Snapshot.of(model, node="n1")], attacks=STATISTICS)
    (found,) = report["counts-and-means"].shown
    assert found.values == pytest.approx({"f0": 0.125, "f5": 321.0})


def test_a_lone_snapshot_tells_classes_of_one_reading() -> None:
    model = streamlvq.GLVQ()
    rows, labels = gaussians(40)
    labels[7] = "rare"
    (snapshot,) = published(model, rows, labels, 40)
    found = audit_snapshots([snapshot], truth_of(rows, labels))["counts-and-means"]
    assert found.figures["exact"] == 1
    assert found.shown[0].label == "rare"
    assert found.shown[0].error == pytest.approx(0.0, abs=1e-12)


def test_nothing_is_claimed_of_three_readings_or_of_none() -> None:
    model = streamlvq.GLVQ()
    rows, labels = gaussians(150)
    labels[-3:] = ["c0"] * 3
    snapshots = list(published(model, rows, labels, 147, 3))
    report = audit_snapshots(snapshots, attacks=STATISTICS)
    assert not report.succeeded
    again = audit_snapshots([snapshots[-1], snapshots[-1]], attacks=[*STATISTICS, *UPDATES])
    for attack in UPDATES:
        assert again[attack].verdict is AuditVerdict.NOT_APPLICABLE
    assert not again.succeeded


def test_a_variance_that_disagrees_is_no_reading() -> None:
    one = np.ones(2)
    good = ClassChange("a", (2, 3), (2 * one, 3 * one), (4 * one, 5 * one), (one, 8 / 3 * one))
    assert single_reading(good) == pytest.approx(7.0 * one)
    assert single_reading(replace(good, variance=(one, 3.0 * one))) is None
    assert single_reading(replace(good, seen=(2 * one, 2 * one))) is None
    pair = ClassChange("a", (0, 2), (0 * one, 2 * one), (0 * one, 4 * one), (0 * one, one))
    found = two_readings(pair)
    assert found is not None
    assert found[0] == pytest.approx(3.0 * one) and found[1] == pytest.approx(5.0 * one)
    assert two_readings(replace(pair, variance=(0 * one, -one))) is None


def test_rounded_statistics_are_no_success() -> None:
    rows, labels = gaussians(150)
    first, second = published(streamlvq.GLVQ(), rows, labels, 149)
    arrays = second.estimator_state().arrays
    coarse = as_state(second, class_mean=arrays["class_mean"].astype(np.float32).astype(float))
    found = audit_snapshots([first, coarse], truth_of(rows, labels), attacks=["counts-and-means"])
    assert found["counts-and-means"].figures["exact"] == 0


# --- prototypes -----------------------------------------------------------------------------------


def test_prototypes_are_nearest_to_their_birth_and_unmoved_ones_are_it() -> None:
    rows, labels = gaussians(200)
    model = streamlvq.LGMLVQ(rank=3, **PLAIN)
    (snapshot,) = published(model, rows, labels, 200)
    found = audit_snapshots([snapshot], truth_of(rows, labels))["nearest-to-born"]
    figures = found.figures
    assert figures["near"] >= 0.9 * figures["born"] > 10 * figures["expected_near"]
    assert "indices of birth are published" in found.measure
    assert found.verdict.succeeded
    if figures["exact"]:
        assert found.shown[0].error == 0.0


def test_prototypes_of_other_readings_are_no_success() -> None:
    rows, labels = gaussians(200)
    (snapshot,) = published(streamlvq.GLVQ(max_prototypes_per_class=1), rows, labels, 200)
    others, _ = gaussians(200, seed=5)
    found = audit_snapshots([snapshot], truth_of(others, labels))["nearest-to-born"]
    assert found.verdict is AuditVerdict.NOTHING


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "attack"),
    [
        (streamlvq.GLVQ(**PLAIN), "gradient-lines"),
        (streamlvq.GLVQ(step="constant", learning_rate=0.01, **PLAIN), "gradient-lines"),
        (streamlvq.GLVQ.textbook(learning_rate=0.01, seed=1), "gradient-lines"),
        (streamlvq.RSLVQ(**PLAIN), "gradient-lines"),
        (streamlvq.GMLVQ(rank=4, **PLAIN), "metric-change"),
        (streamlvq.LGMLVQ(rank=3, **PLAIN), "metric-change"),
        (streamlvq.LGMLVQ(rank=3, step="constant", learning_rate=0.01, **PLAIN), "metric-change"),
        (streamlvq.LMRSLVQ(rank=3, **PLAIN), "metric-change"),
    ],
    ids=str,
)
def test_a_step_gives_its_reading_away(model: Any, attack: str) -> None:
    report = audited(model, UPDATES)
    found = report[attack]
    assert found.verdict is AuditVerdict.EXACT
    assert found.figures["exact"] >= 0.4 * found.figures["readings"]
    assert found.shown[0].error is not None and found.shown[0].error < 1e-7
    signs = report["sign-of-beta"]
    assert signs.verdict is AuditVerdict.EXACT
    assert signs.figures["right"] >= 0.95 * signs.figures["judged"] > 0


def test_without_mean_squares_adaptive_steps_hide_directions() -> None:
    rows, labels = gaussians(190)
    snapshots = [
        as_state(each, w_moment=np.zeros_like(each.estimator_state().arrays["w_moment"]))
        for each in published(streamlvq.GLVQ(**PLAIN), rows, labels, 150)
    ]
    report = audit_snapshots(snapshots, truth_of(rows, labels), attacks=UPDATES)
    assert not report.succeeded


def test_many_readings_in_one_step_are_no_success() -> None:
    report = audited(streamlvq.LGMLVQ(rank=3), UPDATES, every=20)
    assert not report.succeeded


def test_two_features_are_too_few_for_lines() -> None:
    rows, labels = gaussians(160)
    model, snapshots = streamlvq.GLVQ(**PLAIN), []
    for row, label in zip(rows, labels, strict=True):
        model.learn_one({"f0": row[0], "f1": row[1]}, label)
        snapshots.append(Snapshot.of(model, node="n1"))
    found = audit_snapshots(snapshots[-9:], attacks=["gradient-lines"])["gradient-lines"]
    assert found.verdict is AuditVerdict.NOT_APPLICABLE


def test_the_direction_of_a_change_of_rank_one_is_exact() -> None:
    random = np.random.default_rng(3)
    metric = random.standard_normal((3, 20))
    metric /= np.linalg.norm(metric)
    direction = random.standard_normal(20)
    direction /= np.linalg.norm(direction)
    after = metric - 0.02 * np.outer(metric @ direction, direction)
    found = rank_one_direction(metric, after / np.linalg.norm(after))
    assert found is not None
    assert min(abs(found - direction).max(), abs(found + direction).max()) < 1e-12
    other = after - 0.02 * np.outer(random.standard_normal(3), random.standard_normal(20))
    assert rank_one_direction(metric, other) is None
    turned = metric - 0.02 * np.outer(random.standard_normal(3), direction)
    assert rank_one_direction(metric, turned) is None  # of rank one, but no step of ours


# --- the others -----------------------------------------------------------------------------------


def test_stored_readings_are_counted() -> None:
    rows, labels = gaussians(120)
    model = streamlvq.GLVQ()
    (snapshot,) = published(model, rows, labels, 120)
    assert audit_snapshots([snapshot])["stored"].figures["exact"] == 120
    bare = Snapshot.of(model, readings=False)
    assert audit_snapshots([bare])["stored"].verdict is AuditVerdict.NOTHING


def test_membership_of_an_overfitted_model_shows() -> None:
    rows, labels = gaussians(300)
    rows[:, :] = np.random.default_rng(1).standard_normal(rows.shape)  # nothing to learn but them
    model = streamlvq.LGMLVQ(rank=6, max_prototypes_per_class=100)
    (snapshot,) = published(model, rows, labels, 300)
    truth = truth_of(rows, labels)
    assert audit_snapshots([snapshot], truth)["membership"].verdict is AuditVerdict.CLOSE
    (small,) = published(streamlvq.GLVQ(max_prototypes_per_class=1), *gaussians(300), 300)
    fair = audit_snapshots([small], truth_of(*gaussians(300)))["membership"]
    assert fair.verdict is AuditVerdict.NOTHING
    assert audit_snapshots([snapshot])["membership"].verdict is AuditVerdict.NOT_APPLICABLE


def test_area_under_curve_counts_ties_half() -> None:
    scores = np.array([0.0, 1.0, 1.0, 2.0])
    positive = np.array([False, True, False, True])
    pairs = [(a, b) for a in scores[positive] for b in scores[~positive]]
    wanted = np.mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert area_under_curve(scores, positive) == pytest.approx(wanted)
