"""How much noise a promise needs, and where it cannot be kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamlvq.errors import ParameterError
from streamlvq.privacy.accountant import compose_gaussian, gaussian_mu, poisson_sigma
from streamlvq.privacy.factor import ToeplitzFactor
from streamlvq.privacy.noise import MAX_SIGMA, rounding_allowance
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.vector import GRADIENT_WEIGHT, GRID, SUM_WEIGHT, BatchVector

MAX_RELEASES = 2**24  # 136 years of one batch of 256 readings every 256 seconds
MAX_ENCODED = 2.0**49  # an encoder's sum of four floats below it errs by less than 1/2


@dataclass(frozen=True)
class NoisePlan:
    """Noise of the releases that one model makes, in units of the grid.

    Parameters
    ----------
    factor
        How noise is correlated over the releases after the first.
    mu
        What all releases cost together, as a Gaussian trade-off.
    scale_sigma
        Noise of the first release, which tells the scale of each feature.
    sigma
        Noise of each number of each release after it.
    warmup
        Labelled readings of the second release.
    releases
        Largest number of releases after the first.

    """

    factor: ToeplitzFactor
    mu: float
    scale_sigma: float
    sigma: float
    warmup: int
    releases: int

    @classmethod
    def of(cls, privacy: Privacy, vector: BatchVector) -> NoisePlan:
        """Plan the noise for a promise; raises `ParameterError` if it cannot be kept."""
        warmup, releases = schedule_of(privacy)
        memory = math.inf if privacy.horizon is None else float(releases)
        factor = ToeplitzFactor.fitted(privacy.forget, memory)
        return cls.with_factor(privacy, vector, factor, warmup, releases)

    @classmethod
    def with_factor(
        cls,
        privacy: Privacy,
        vector: BatchVector,
        factor: ToeplitzFactor,
        warmup: int,
        releases: int,
    ) -> NoisePlan:
        """Plan the noise for the factor in fact used."""
        mu = gaussian_mu(privacy.epsilon, privacy.delta)
        length = privacy.longest
        # A unit may lie partly in the first release, which counts like readings of one batch. The
        # norm of the parts is at most that of the whole, unless more than one batch is needed.
        apart = 1.0 if length <= max(privacy.batch, warmup) else math.sqrt(2.0)
        norm = apart * unit_norm(factor, length, privacy.batch, warmup)
        rounding = rounding_allowance(vector.size, releases)
        sigma = (vector.sensitivity * GRID * norm + rounding) / mu
        plan = cls(factor, mu, apart * length * GRID / mu, sigma, warmup, releases)
        if not sigma <= MAX_SIGMA:
            raise ParameterError(
                "Privacy",
                "epsilon" if length == 1 else "segment",
                f"expected a promise with noise up to {MAX_SIGMA / GRID:g}, got {sigma / GRID:g}: "
                "protect a smaller unit or raise epsilon",
            )
        plan._check_exact(privacy)
        plan._check_useful(privacy, vector)
        return plan

    def _check_exact(self, privacy: Privacy) -> None:
        """Refuse sums that are too large for the encoder to round them to the right integer."""
        first = max(self.warmup - privacy.batch, 0)  # readings more than in a batch
        readings = privacy.batch * self.factor.total() + first
        if readings * GRID > MAX_ENCODED:
            raise ParameterError(
                "Privacy",
                "batch",
                "expected batches and a horizon whose sums are exact, up to "
                f"{MAX_ENCODED / GRID:.0f} readings, got {readings:.0f} (batch times "
                f"{self.factor.total():.4g} for {self.releases} releases): use smaller batches, "
                "a shorter horizon or a half_life",
            )

    def _check_useful(self, privacy: Privacy, vector: BatchVector) -> None:
        """Refuse a unit that only noise could hide which drowns all that is remembered."""
        lost = self.sigma / GRID * self.factor.error() / self.factor.norm() / SUM_WEIGHT
        remembered = self.warmup + privacy.batch * self.releases
        if privacy.half_life is not None:
            remembered = min(remembered, self.warmup + int(privacy.batch / (1.0 - privacy.forget)))
        if lost * vector.classes > remembered:
            raise ParameterError(
                "Privacy",
                "epsilon" if privacy.longest == 1 else "segment",
                f"expected noise worth less than {remembered / vector.classes:.3g} readings "
                f"(a class's share of the {remembered} remembered), got {lost:.3g}: "
                "protect a smaller unit, remember longer, or raise epsilon",
            )


SCALE_SHARE, STATISTICS_SHARE = 0.15, 0.7  # of the mu of a recorded log
LOG_STEPS = 200
LOG_BATCH = 96.0  # readings of a stream that a step moves prototypes like
LOG_RATE = 0.1  # share of the log in a step


@dataclass(frozen=True)
class LogPlan:
    """Noise of what is released of a recorded log, in units of the grid.

    Parameters
    ----------
    scale_sigma, statistics_sigma, step_sigma
        Noise of the features' scales, of class statistics, and of the gradient of each step.
    rate
        Probability of each reading to be part of a step.
    steps
        Number of steps.

    """

    scale_sigma: float
    statistics_sigma: float
    step_sigma: float
    rate: float = LOG_RATE
    steps: int = LOG_STEPS

    @classmethod
    def of(cls, privacy: Privacy, vector: BatchVector) -> LogPlan:
        """Plan the noise for a promise."""
        mu = gaussian_mu(privacy.epsilon, privacy.delta)
        others = compose_gaussian([SCALE_SHARE * mu, STATISTICS_SHARE * mu])
        sigma = poisson_sigma(privacy.epsilon, privacy.delta, LOG_RATE, LOG_STEPS, mu=others)
        return cls(
            GRID / (SCALE_SHARE * mu),
            vector.statistics_sensitivity * GRID / (STATISTICS_SHARE * mu),
            GRADIENT_WEIGHT * GRID * sigma,
        )

    def gain(self, readings: int) -> float:
        """Return the factor of a step's sum of gradients: as if it were a batch of a stream."""
        return LOG_BATCH / (self.rate * readings)


def unit_norm(factor: ToeplitzFactor, length: int, batch: int, warmup: int) -> float:
    """Return the norm of what `length` readings of one unit change, wherever batches cut them.

    As long as one batch can hold them all, that is the worst place for them: norms add up.
    """
    if length <= max(batch, warmup):
        return length * factor.norm()
    first = warmup * factor.norm()
    return min(length * factor.norm(), first + factor.norm_of_run(length - warmup, batch))


def schedule_of(privacy: Privacy) -> tuple[int, int]:
    """Return the readings of the warm-up and the number of releases with and after it."""
    if privacy.horizon is None:
        return privacy.warmup, MAX_RELEASES
    total = privacy.horizon * privacy.batch
    warmup = min(privacy.warmup, max(privacy.batch, total // 2))
    return warmup, 1 + (total - warmup) // privacy.batch


def batch_length(privacy: Privacy, number: int) -> int:
    """Return the number of readings that a release is made of."""
    warmup, _ = schedule_of(privacy)
    return (privacy.scale_batch, warmup, privacy.batch)[min(number, 2)]
