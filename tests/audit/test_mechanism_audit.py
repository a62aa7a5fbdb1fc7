"""Audits of private mechanisms catch faulty noise and leave the right one alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, norm

import streamlvq
from streamlvq.audit import AuditReport, AuditVerdict, Case, audit_private, audit_snapshots
from streamlvq.audit.bounds import clopper_pearson, least_mu, noise_scale, one_run_epsilon
from streamlvq.audit.mechanism import KnownOthers, NoiseScale, OneRun, Trials, TwoWorlds
from streamlvq.privacy import Privacy, PrivateLVQ
from streamlvq.privacy.accountant import gaussian_mu
from streamlvq.privacy.budget import NoisePlan
from streamlvq.privacy.engine import PrivateEngine
from support.publications import FEATURES, gaussians, truth_of

Scale = Callable[[NoisePlan], float]
FAULTS = {
    "half the noise": lambda plan: 0.5,
    "no column norm": lambda plan: 1.0 / plan.factor.norm(),
    "a tenth less": lambda plan: 0.9,
    "a tenth more": lambda plan: 1.1,
}


def promise(epsilon: float, features: int = 4, **more: object) -> Privacy:
    bounds = {f"f{k}": (-1.0, 1.0) for k in range(features)}
    return Privacy(epsilon, bounds=bounds, classes=["a", "b", "c"], **more)  # type: ignore[arg-type]


def faulty(privacy: Privacy, share: Scale) -> Callable[[], PrivateLVQ]:
    """A model whose noise is a share of what it should be: a double, for tests alone."""

    class Faulty(PrivateLVQ):
        def _new_engine(self, features: int) -> PrivateEngine:
            engine = super()._new_engine(features)
            plan = engine.plan
            engine.plan = dataclasses.replace(plan, sigma=plan.sigma * share(plan))
            return engine

    return lambda: Faulty(privacy)


class FewerRuns(TwoWorlds):
    """The audit of two worlds with fewer runs; half the noise escapes it once in 5000 times."""

    runs = 500


class FewestRuns(TwoWorlds):
    """The audit of two worlds with hardly any runs."""

    runs = 100


def right(plan: NoisePlan) -> float:
    return 1.0


# --- what is caught -------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_wrong_noise_is_caught_by_its_scale(fault: Scale) -> None:
    found = NoiseScale(Case(private=faulty(promise(4.0), fault))).finding()
    assert found.verdict is AuditVerdict.BROKEN
    plan = NoisePlan.of(promise(4.0), PrivateLVQ(promise(4.0))._vector())
    assert found.figures["scale"] == pytest.approx(fault(plan), rel=0.04)


def test_half_the_noise_is_caught_by_two_worlds() -> None:
    found = FewerRuns(Case(private=faulty(promise(4.0), lambda plan: 0.5))).finding()
    assert found.verdict is AuditVerdict.BROKEN
    assert found.figures["epsilon"] > 4.0
    assert found.advice


def test_a_quarter_of_the_noise_is_caught_in_one_run() -> None:
    found = OneRun(Case(private=faulty(promise(1.0), lambda plan: 0.25))).finding()
    assert found.verdict is AuditVerdict.BROKEN
    assert found.figures["epsilon"] > 1.0


def test_without_noise_the_unknown_reading_comes_out() -> None:
    found = KnownOthers(Case(private=faulty(promise(4.0), lambda plan: 1e-6))).finding()
    assert found.verdict is AuditVerdict.CLOSE
    assert found.figures["error"] < 1e-3


# --- what is not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_right_mechanism_passes(epsilon: float) -> None:
    case = Case(private=faulty(promise(epsilon), right))
    for attack in (NoiseScale, OneRun, KnownOthers, FewestRuns):
        found = attack(case).finding()
        assert found.verdict is AuditVerdict.NOTHING, found.measure
    known = KnownOthers(case).finding().figures
    assert known["error"] > 2.0 * known["mean_error"]


@pytest.mark.parametrize("metric", ["shared", "local"])
def test_the_noise_of_other_promises_is_as_large_as_needed(metric: str) -> None:
    for privacy in (
        promise(2.0, unit="segment", segment=20),
        promise(2.0, half_life=None, horizon=100, warmup=300),
        promise(2.0, features=2, half_life=10),
    ):
        found = NoiseScale(Case(private=lambda p=privacy: PrivateLVQ(p, metric))).finding()
        assert found.verdict is AuditVerdict.NOTHING, found.measure


def test_what_the_promise_needs_is_computed_twice() -> None:
    trials = Trials(faulty(promise(3.0), right), 0)
    assert trials.mu() == pytest.approx(gaussian_mu(3.0, 1e-5), rel=1e-6)
    plan = NoisePlan.of(promise(3.0), PrivateLVQ(promise(3.0))._vector())
    assert trials.sigma_needed() == pytest.approx(plan.sigma, rel=2e-3)  # and rounding


# --- private snapshots ----------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_private_snapshots_give_no_reading_away(epsilon: float) -> None:
    rows, labels = gaussians(4000)
    low, high = rows.min(axis=0) - 1.0, rows.max(axis=0) + 1.0
    bounds = {name: (low[k], high[k]) for k, name in enumerate(FEATURES)}
    privacy = Privacy(
        epsilon, bounds=bounds, classes=["c0", "c1", "c2"], scale_batch=256, warmup=1024, batch=64
    )
    model, snapshots = PrivateLVQ(privacy), list[streamlvq.Snapshot]()
    for start in range(0, 4000, 64):
        part = slice(start, start + 64)
        model.learn_array(rows[part], labels[part], features=FEATURES)
        if model.releases > 1:
            snapshots.append(
                streamlvq.Snapshot.of(model.released_model(), node="n1", readings=False)
            )
    assert len(snapshots) > 30
    report = audit_snapshots(snapshots, truth_of(rows, labels))
    for found in report.findings:
        if found.attack != "membership":  # of an ordinary model trained on this log
            assert not found.verdict.succeeded, (found.attack, found.measure)
        for one in found.shown:
            assert one.error is not None and one.mean_error is not None
            assert one.error >= one.mean_error


# --- statistics -----------------------------------------------------------------------------------


def test_clopper_pearson_covers() -> None:
    for p in (0.01, 0.2, 0.7):
        low, high = np.array([clopper_pearson(k, 40, 0.05) for k in range(41)]).T
        chance = binom.pmf(np.arange(41), 40, p)
        assert chance[low > p].sum() <= 0.05 + 1e-12
        assert chance[high < p].sum() <= 0.05 + 1e-12
    assert clopper_pearson(0, 10, 0.01)[0] == 0.0
    assert clopper_pearson(10, 10, 0.01)[1] == 1.0


def test_least_mu_is_below_the_true_one() -> None:
    random, above = np.random.default_rng(2), 0
    for _ in range(400):
        false_alarms = int((random.standard_normal(300) > 0.5).sum())
        misses = int((random.standard_normal(300) + 1.0 <= 0.5).sum())
        above += least_mu(false_alarms, misses, 300, 0.05) > 1.0
    assert above <= 20
    many = 100_000
    errors = round(many * norm.cdf(-0.5))
    assert least_mu(errors, errors, many, 0.01) == pytest.approx(1.0, abs=0.03)


def test_one_run_bounds_randomised_response_and_no_more() -> None:
    epsilon = 1.0
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    random = np.random.default_rng(4)
    found = [
        one_run_epsilon(1000, 1000, int(random.binomial(1000, chance)), 0.0, 0.05)
        for _ in range(300)
    ]
    assert np.mean(np.array(found) > epsilon) <= 0.05 + 0.03
    assert np.median(found) == pytest.approx(0.88, abs=0.05)
    assert one_run_epsilon(1000, 200, 100, 1e-5, 0.05) == 0.0


def test_noise_scale_sees_a_tenth_in_2000_numbers() -> None:
    random, caught, alarms = np.random.default_rng(5), 0, 0
    for _ in range(100):
        noise = random.standard_normal(2000)
        low, high = noise_scale(noise, 1e-3)[1:]
        alarms += not low <= 1.0 <= high
        low, high = noise_scale(0.9 * noise, 1e-3)[1:]
        caught += high < 1.0
    assert alarms <= 2
    assert caught >= 95


def test_a_report_of_a_private_model() -> None:
    report: AuditReport = audit_private(lambda: PrivateLVQ(promise(4.0)), attacks=["noise-scale"])
    assert [each.attack for each in report.findings] == ["noise-scale"]
    assert report.failures() == []
    broken = audit_private(
        faulty(promise(4.0), lambda plan: 0.5), attacks=["noise-scale", "counts-and-means"]
    )
    assert broken.failures("exact") == ["noise-scale"]
    assert broken["counts-and-means"].verdict is AuditVerdict.NOT_APPLICABLE
