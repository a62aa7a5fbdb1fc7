"""Audits of a private mechanism: does it hide what it promises to hide?

They run the mechanism, canary readings included, and see all of its releases, as the promise says
anybody may. Whatever else was learnt is known to them: a promise holds against that as well. A
reading that is missing leaves its place in its batch empty.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, norm

from streamlvq.arrays import Bools, Floats, Ints, Rows
from streamlvq.audit.attack import Attack
from streamlvq.audit.bounds import least_mu, noise_scale, one_run_epsilon
from streamlvq.audit.findings import AuditVerdict, Finding, not_applicable
from streamlvq.audit.membership import progress_bar
from streamlvq.kernels import kernels
from streamlvq.privacy import Privacy, PrivateLVQ, Spending
from streamlvq.privacy.accountant import gaussian_epsilon
from streamlvq.privacy.budget import unit_norm
from streamlvq.privacy.engine import PrivateEngine
from streamlvq.privacy.vector import GRID
from streamlvq.text import number, percent

ALPHA = 1e-3  # chance that an audit accuses a mechanism that keeps its promise
NOISE_ALPHA = 1e-6
RUNS = 1500  # of each of two worlds
LATER_RELEASES = 10  # that a canary is followed through: noise is correlated over time
CANARIES = 3000  # of a run; each is in it or not by a coin
DIFFERENT_CANARIES = 40
ONE_RUN_ALPHA = 1e-2  # chance to accuse: one run has little to show
GUESSED_SHARE = 0.1  # of them, half of it at either end
FOLLOWED = 3  # releases after a canary that one run uses
NOISE_NUMBERS = 8000
TRIED_CANARIES = 400
RECONSTRUCTED = 60
RADIUS_LIMIT = 1e3  # in deviations
COLUMN_TERMS = 200_000  # of a column of the factor that are added up
MECHANISM_ADVICE = "do not use this mechanism: its noise does not hide single readings as promised"
NOT_PRIVATE = "needs a private model"


class LastRelease:
    """Ledger that keeps nothing but the newest release: noise of an audit protects nobody."""

    head = b"audit"

    def __init__(self) -> None:
        self.released: Ints = np.empty(0, np.int64)

    def reserve(self, number: int, spending: Spending) -> None:
        """Do nothing."""

    def record(self, number: int, released: Ints) -> None:
        """Keep what was released, without the seal at its end."""
        self.released = released[:-1]

    def recorded(self, number: int) -> Ints | None:
        """Return None: nothing is released twice."""
        return None

    def is_reserved(self, number: int, series: str) -> bool:
        """Return False: nothing is released twice."""
        return False


class Trials:
    """Runs of a private mechanism after a beginning that is the same in all of them.

    The beginning (scales and warm-up) holds no canary. That its noise is the same in all runs
    changes nothing: a promise holds whatever was released before.
    """

    def __init__(self, make: Callable[[], PrivateLVQ], seed: int) -> None:
        self.random = np.random.default_rng(seed)
        model = make()
        model.use_ledger(LastRelease())
        assert isinstance(model.privacy, Privacy)
        self.privacy = model.privacy
        self.classes = len(self.privacy.classes)
        low, high = np.array([self.privacy.bounds[name] for name in self.privacy.features]).T
        self.low, self.high = low, high
        self.filler = (0.5 * (low + high))[None]  # a known reading, for batches that need one
        self._teach(model, self.privacy.scale_batch)
        engine = model.engine
        assert engine is not None
        self._teach(model, engine.plan.warmup)
        self._start = engine
        self.length = kernels(engine.module).LENGTH
        rows, codes = self.worst_readings(1)
        self.canary, self.code = rows[0], int(codes[0])

    def _teach(self, model: PrivateLVQ, count: int) -> None:
        codes = self.random.integers(0, self.classes, count)
        labels = [self.privacy.classes[c] for c in codes]
        model.learn_array(self.readings(codes), labels, features=self.privacy.features)

    def readings(self, codes: Ints) -> Rows:
        """Return readings of these classes, see `made_up_readings`."""
        return made_up_readings(self.privacy, codes, self.random)

    def extreme_readings(self, count: int) -> tuple[Rows, Ints]:
        """Return readings in corners of the bounds, of any class: their vectors are longest."""
        corner = self.random.integers(0, 2, (count, len(self.low)))
        codes = self.random.integers(0, self.classes, count)
        rows: Rows = np.where(corner == 1, self.high, self.low)
        return rows, codes

    @property
    def room(self) -> int:
        """Number of releases that a run may make after the beginning."""
        return self._start.plan.releases + 1 - self._start.number

    def begin(self) -> PrivateEngine:
        """Return an engine after the beginning, independent of others."""
        engine = copy.deepcopy(self._start)
        engine.ledger = LastRelease()
        return engine

    def worst_readings(self, count: int) -> tuple[Rows, Ints]:
        """Return the readings, of many in corners, that add the longest vectors."""
        rows, codes = self.extreme_readings(TRIED_CANARIES)
        sizes = [
            float(np.linalg.norm(added(self._start, rows[k : k + 1], codes[k : k + 1])))
            for k in range(len(rows))
        ]
        worst = np.argsort(sizes)[-count:]
        return rows[worst], codes[worst]

    def sigma_needed(self) -> float:
        """Noise of a number of a release that the promise needs, computed here once more."""
        engine, length = self._start, self.privacy.longest
        column = engine.plan.factor.coefficients(
            int(min(engine.plan.factor.releases, COLUMN_TERMS))
        )
        own = math.sqrt(float(column @ column))
        if length > max(self.privacy.batch, engine.plan.warmup):
            factor = engine.plan.factor
            own = unit_norm(factor, length, self.privacy.batch, engine.plan.warmup) * math.sqrt(2)
        else:
            own *= length
        return engine.vector.sensitivity * GRID * own / self.mu()

    def mu(self) -> float:
        """The promise as a Gaussian trade-off, computed here once more."""
        epsilon, delta = self.privacy.epsilon, self.privacy.delta

        def excess(log_mu: float) -> float:
            mu = math.exp(log_mu)
            a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
            return float(norm.cdf(a) - math.exp(epsilon + norm.logcdf(b))) - delta

        return math.exp(brentq(excess, math.log(1e-6), math.log(1e4), xtol=1e-12))


def added(engine: PrivateEngine, rows: Rows, codes: Ints) -> Floats:
    """Return what readings add to the vector of the current batch."""
    sums = np.zeros(engine.vector.size)
    floats, _, work, _, _, *released = engine.memory
    rows, codes = np.ascontiguousarray(rows), np.ascontiguousarray(codes)
    add = kernels(engine.module).add_private_rows
    add(floats, rows, codes, *released, work.copy(), sums)
    return sums


def made_up_readings(privacy: Privacy, codes: Ints, random: np.random.Generator) -> Rows:
    """Return readings within public bounds, of classes in corners of their own."""
    low, high = np.array([privacy.bounds[name] for name in privacy.features]).T
    corner = np.random.default_rng(1).integers(0, 2, (len(privacy.classes), len(low)))
    middle = low + (high - low) * (0.3 + 0.4 * corner[codes])
    rows: Rows = middle + 0.1 * (high - low) * random.standard_normal(middle.shape)
    return np.clip(rows, low, high)


class Watcher:
    """Somebody who knows all readings but the canaries, and takes them away from releases."""

    def __init__(self, trials: Trials) -> None:
        self.trials, self.engine = trials, trials.begin()
        series = self.engine.series
        self._decay = np.array(series.factor.decay)[:, None]
        self._weight = np.array(series.factor.weight)
        self._known = series.encoder.copy()

    def release(self, rows: Rows, codes: Ints, canaries: Rows, labels: Ints) -> Floats:
        """Let a batch be released; return what known readings do not explain."""
        engine = self.engine
        known = added(engine, rows, codes)
        engine.ints[self.trials.length] = len(rows) + len(canaries)
        engine.learn_rows(np.concatenate([rows, canaries]), np.concatenate([codes, labels]))
        expected = np.rint(known + self._weight @ self._known)
        self._known = self._decay * self._known + known
        assert isinstance(engine.ledger, LastRelease)
        rest: Floats = np.asarray(engine.ledger.released, np.float64) - expected
        return rest

    def follow(self, filler: Rows, canaries: Rows, labels: Ints) -> Floats:
        """Release a batch with canaries and later ones without; return what they say of them.

        Each release counts as its noise, which is correlated over time, wants it.
        """
        count = min(LATER_RELEASES + 1, self.trials.room)
        code, column = np.zeros(1, np.int64), self.engine.plan.factor.coefficients(count)
        said = self.release(filler, code, canaries, labels)
        for weight in column[1:]:
            rest = self.release(filler, code, canaries[:0], labels[:0])
            said = said + weight * rest
        told: Floats = said / float(column @ column)
        return told


class _MechanismAudit(Attack):
    """Base of audits that need a private mechanism to run."""

    def finding(self) -> Finding:
        if self.case.private is None:
            return not_applicable(NOT_PRIVATE)
        return self._audit(Trials(self.case.private, self.case.seed))

    def _audit(self, trials: Trials) -> Finding:
        raise NotImplementedError


class TwoWorlds(_MechanismAudit):
    """Two worlds, with and without one canary: how well can its releases tell them apart?

    The canary is the reading that changes releases most. What its batch and the later ones say
    about it is one number, and half of what it should be is the border between the worlds.
    """

    runs = RUNS

    def _audit(self, trials: Trials) -> Finding:
        errors = [0, 0]
        for _ in progress_bar(range(self.runs), "two worlds", self.case.progress):
            for inside in (0, 1):
                score = self._score(trials, bool(inside))
                errors[inside] += (score > 0.5) != bool(inside)
        mu = least_mu(errors[0], errors[1], self.runs, ALPHA)
        epsilon = gaussian_epsilon(mu, trials.privacy.delta)
        promised = trials.privacy.epsilon
        broken = epsilon > promised
        share = 1.0 - sum(errors) / (2 * self.runs)
        measure = (
            f"right in {percent(share)} of {number(2 * self.runs)} runs: epsilon is at least "
            f"{epsilon:.2f}, promised {promised:g}"
        )
        return Finding(
            AuditVerdict.BROKEN if broken else AuditVerdict.NOTHING,
            measure,
            f"all releases and all other readings; false alarms: {ALPHA:g}",
            MECHANISM_ADVICE if broken else "",
            figures={"epsilon": epsilon, "promised": promised, "mu": mu, "right": share},
        )

    @staticmethod
    def _score(trials: Trials, inside: bool) -> float:
        """Return what releases say about the canary: 1 on average if it is there, else 0."""
        watcher, count = Watcher(trials), trials.privacy.longest
        canaries = np.repeat(trials.canary[None], count if inside else 0, axis=0)
        labels = np.full(len(canaries), trials.code, np.int64)
        mark = count * added(watcher.engine, trials.canary[None], np.array([trials.code]))
        said = watcher.follow(trials.filler, canaries, labels)
        return float(said @ mark) / float(mark @ mark)


class KnownOthers(_MechanismAudit):
    """The one reading that an outsider does not know, from the releases it took part in.

    All others are known and taken away; what is left is that reading and noise.
    """

    def _audit(self, trials: Trials) -> Finding:
        errors, mean_errors = [], []
        codes = trials.random.integers(0, trials.classes, RECONSTRUCTED)
        rows = trials.readings(codes)
        for row, code in zip(rows, codes, strict=True):
            watcher = Watcher(trials)
            engine = watcher.engine
            true = np.clip((row - engine.centre) * engine.inverse, -RADIUS_LIMIT, RADIUS_LIMIT)
            mean = engine.missing[code]
            said = watcher.follow(trials.filler, row[None], np.array([code]))
            found = engine.vector.unpack(said).sums[code]
            errors.append(float(np.sqrt(np.mean((found - true) ** 2))))
            mean_errors.append(float(np.sqrt(np.mean((mean - true) ** 2))))
        nearer = sum(a < b for a, b in zip(errors, mean_errors, strict=True))
        close = binomtest(nearer, RECONSTRUCTED, 0.5, alternative="greater").pvalue < ALPHA
        error, mean_error = float(np.median(errors)), float(np.median(mean_errors))
        measure = (
            f"off by {error:.1f} deviations, the class mean by {mean_error:.1f}; nearer than it in "
            f"{nearer} of {RECONSTRUCTED} runs"
        )
        return Finding(
            AuditVerdict.CLOSE if close else AuditVerdict.NOTHING,
            measure,
            "all releases and all other readings",
            "a smaller epsilon hides single readings better" if close else "",
            figures={"error": error, "mean_error": mean_error, "nearer": nearer},
        )


class OneRun(_MechanismAudit):
    """One run with many canaries, each in it or not by a coin: how many coins can be guessed?"""

    def _audit(self, trials: Trials) -> Finding:
        canaries = min(CANARIES, trials.room)
        coins, scores = self._run(trials, canaries)
        guesses = max(2, int(GUESSED_SHARE * canaries))
        order = np.argsort(scores)
        right = int((~coins[order[: guesses // 2]]).sum() + coins[order[-(guesses // 2) :]].sum())
        privacy = trials.privacy
        epsilon = one_run_epsilon(canaries, guesses, right, privacy.delta, ONE_RUN_ALPHA)
        broken = epsilon > privacy.epsilon
        measure = (
            f"{right} of {guesses} guesses right: epsilon is at least {epsilon:.2f}, promised "
            f"{privacy.epsilon:g}"
        )
        return Finding(
            AuditVerdict.BROKEN if broken else AuditVerdict.NOTHING,
            measure,
            "all releases of one run; sees little above epsilon 4; false alarms: "
            f"{ONE_RUN_ALPHA:g}",
            MECHANISM_ADVICE if broken else "",
            figures={"epsilon": epsilon, "promised": privacy.epsilon, "right": right},
        )

    def _run(self, trials: Trials, canaries: int) -> tuple[Bools, Floats]:
        coins = trials.random.random(canaries) < 0.5
        rows, codes = trials.worst_readings(DIFFERENT_CANARIES)
        which = trials.random.integers(0, len(rows), canaries)
        rows, codes = rows[which], codes[which]
        watcher = Watcher(trials)
        weights = watcher.engine.plan.factor.coefficients(FOLLOWED + 1)
        other = trials.filler
        marks: list[Floats] = []
        scores = np.zeros(canaries)
        for k in progress_bar(range(canaries), "one run", self.case.progress):
            marks = [*marks, added(watcher.engine, rows[k : k + 1], codes[k : k + 1])]
            marks = marks[-FOLLOWED - 1 :]
            inside = slice(k, k + 1 if coins[k] else k)
            rest = watcher.release(other, np.zeros(1, np.int64), rows[inside], codes[inside])
            for lag, mark in enumerate(reversed(marks)):
                rest = rest - 0.5 * weights[lag] * mark  # each canary counts half, on average
            for lag, mark in enumerate(reversed(marks)):
                scores[k - lag] += weights[lag] * float(rest @ mark)
        return coins, scores


class NoiseScale(_MechanismAudit):
    """The noise of batches without a canary, by chi-square against what the promise needs."""

    def _audit(self, trials: Trials) -> Finding:
        other = trials.filler
        nobody, none = np.empty((0, other.shape[1])), np.empty(0, np.int64)
        needed, parts = trials.sigma_needed(), []
        for k in range(math.ceil(NOISE_NUMBERS / trials.begin().vector.size)):
            if k % trials.room == 0:
                watcher = Watcher(trials)  # nothing is released any more: once again
            rest = watcher.release(other, np.zeros(1, np.int64), nobody, none)
            parts.append(rest / needed)
        noise = np.concatenate(parts)
        scale, low, high = noise_scale(noise, NOISE_ALPHA)
        wrong = not low <= 1.0 <= high
        measure = (
            f"noise is {scale:.3f} times what the promise needs ({low:.3f} to {high:.3f}, "
            f"{len(noise)} numbers)"
        )
        advice = (
            MECHANISM_ADVICE if high < 1.0 else "less noise would keep the promise" if wrong else ""
        )
        return Finding(
            AuditVerdict.BROKEN if wrong else AuditVerdict.NOTHING,
            measure,
            f"all releases and all readings; false alarms: {NOISE_ALPHA:g}",
            advice,
            figures={"scale": scale, "low": low, "high": high},
        )
