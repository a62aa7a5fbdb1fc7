"""Sample-and-aggregate and centre of attention on Gaussians (thesis 3.5.2, figures 3.9 and B.5).

The thesis's bound of the change by one reading, sqrt(d), is too small on [-1, 1]^d: prototypes of
all classes may change, each from corner to corner, by 2 sqrt(classes d). Centre of attention has no
epsilon as printed; here it has the smooth sensitivity of Nissim et al. (2007) on disjoint bins, of
which a reading changes one: with s = 1, t0 = (m + s) / 2 + 1 and r(t) the smallest radius around a
bin's prototypes that holds those of t bins, `S = 2 max_l exp(-beta l) r(t0 + (l + 1) s)`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from common import Table, progress, verdict
from streamlvq.privacy.accountant import gaussian_epsilon, gaussian_mu
from streamlvq.privacy.aggregate import glvq_prototypes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASSES, DELTA = 3, 1e-5
DIMENSIONS, BINS = (2, 4, 8), (15, 30, 50)
EPSILONS = (0.5, 1.0, 1.25, 1.5, 2.0, 5.0, 10.0)
BOUND = 10.0  # of every feature: five deviations beyond the centres
DRAWS = 10  # of noise for each log
ENOUGH = 0.01  # error up to which a budget suffices: the classes are nearly apart


def gaussians(d: int, per_class: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Return readings scaled to [-1, 1]: the thesis's clusters, five units from the origin."""
    centres = np.zeros((CLASSES, d))
    if d == 2:
        centres[:] = [(5, 0), (-5, 0), (0, 5)]
    else:
        centres[np.arange(CLASSES), np.arange(CLASSES)] = 5
    y = np.repeat(np.arange(CLASSES), per_class)
    X = (centres[y] + rng.normal(size=(len(y), d))) / BOUND
    return np.clip(X, -1, 1), y


def split_prototypes(X: Floats, y: Ints, bins: int, rng: np.random.Generator) -> Floats:
    """Return prototypes of GLVQ on disjoint bins, moved into the bounds."""
    number = rng.integers(bins, size=len(X))
    found = [glvq_prototypes(X[number == k], y[number == k], CLASSES) for k in range(bins)]
    return np.clip(np.nan_to_num(np.array(found)), -1, 1)


def noisy_mean(bins: Floats, epsilon: float, sensitivity: float, rng: Any) -> Floats:
    """Return the mean over bins with Gaussian noise for this sensitivity of their sum."""
    sigma = sensitivity / gaussian_mu(epsilon, DELTA)
    return np.asarray((bins.sum(axis=0) + sigma * rng.normal(size=bins.shape[1:])) / len(bins))


def centre_of_attention(bins: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the noisy bin amid a majority; the prototypes of all classes are one point."""
    m, classes, d = bins.shape
    points = bins.reshape(m, -1)
    size = points.shape[1]
    alpha = epsilon / (5 * math.sqrt(2 * math.log(2 / DELTA)))
    beta = epsilon / (4 * (size + math.log(2 / DELTA)))
    radii = np.sort(cdist(points, points), axis=1)  # of 1, 2, ... bins around each
    t0 = math.floor((m + 1) / 2 + 1)
    centre = points[radii[:, t0 - 1].argmin()]
    smallest = np.append(radii.min(axis=0), 2 * math.sqrt(size))  # beyond all bins: the whole box
    later = smallest[t0:]  # r(t0 + 1), r(t0 + 2), ...
    sensitivity = 2 * np.max(np.exp(-beta * np.arange(len(later))) * later)
    noise = sensitivity / alpha * rng.normal(size=size)
    return np.asarray((centre + noise).reshape(classes, d))


def share_wrong(w: Floats, X: Floats, y: Ints) -> float:
    return float(np.mean(cdist(X, w).argmin(axis=1) != y))


def aggregate(
    per_class: Sequence[int] = (3000, 10_000),
    seeds: int = 5,
    epsilons: Sequence[float] = EPSILONS,
) -> Iterator[Table]:
    """Errors of sample-and-aggregate, as published and corrected, and of centre of attention."""
    yield guarantees()
    for count in per_class:
        errors = Table(
            f"Three Gaussians of {count} readings each: error, mean of {seeds} logs",
            ["features, bins, way", *map("{:g}".format, epsilons)],
        )
        enough: dict[int, float] = {}
        for d in DIMENSIONS:
            for m in progress((*BINS, 400), f"{count} {d}"):
                found = np.array([_errors(d, m, count, seed, epsilons) for seed in range(seeds)])
                means = found.mean(axis=0)  # way, epsilon
                ways = ("published", "corrected", "centre of attention")
                for way, row in zip(ways, means, strict=True):
                    errors.add(f"{d}, {m}, {way}", *(f"{each:.3f}" for each in row))
                if m == BINS[-1]:
                    good = [e for e, each in zip(epsilons, means[0], strict=True) if each < ENOUGH]
                    enough[d] = min(good, default=math.inf)
        yield errors
        if count == 3000:
            figures = Table(
                f"Smallest epsilon of those with an error below {ENOUGH:g}, 50 bins, as published",
                ["features", "thesis", "measured", "figure"],
            )
            for d, epsilon in enough.items():
                figures.add(str(d), "above 1.25", f"{epsilon:g}", verdict(epsilon <= 1.5))
            yield figures


def guarantees() -> Table:
    """What a claimed epsilon of 1 is, by classes: the sensitivity is 2 sqrt(classes) too small."""
    table = Table("Sample and aggregate with sensitivity sqrt(d), epsilon 1", ["classes", "truly"])
    for classes in (1, 3, 10):
        mu = 2 * math.sqrt(classes) * gaussian_mu(1.0, DELTA)
        table.add(str(classes), f"{gaussian_epsilon(mu, DELTA):.2f}")
    return table


def _errors(d: int, m: int, count: int, seed: int, epsilons: Sequence[float]) -> Floats:
    """Return errors by way and epsilon, each the mean of `DRAWS` draws of noise."""
    rng = np.random.default_rng([seed, d, m, count])
    bins = split_prototypes(*gaussians(d, count, rng), m, rng)
    test = gaussians(d, 500, rng)
    found = np.empty((3, len(epsilons), DRAWS))
    for e, epsilon in enumerate(epsilons):
        for k in range(DRAWS):
            ways = (
                noisy_mean(bins, epsilon, math.sqrt(d), rng),
                noisy_mean(bins, epsilon, 2 * math.sqrt(CLASSES * d), rng),
                centre_of_attention(bins, epsilon, rng),
            )
            found[:, e, k] = [share_wrong(w, *test) for w in ways]
    return np.asarray(found.mean(axis=2))
