"""Models from released sums: post-processing, which costs no privacy however it is done."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from streamlvq.arrays import Array, Floats, Label, Rows
from streamlvq.estimator import EstimatorState, parameters_of
from streamlvq.kernels import layout as at
from streamlvq.models import GMLVQ, LGMLVQ
from streamlvq.models.validation import NAMES, StateSizes, all_sizes, shape_of
from streamlvq.privacy.vector import Sums

LEAST_VARIANCE = 0.02  # of a standardised reading, along any direction
LEAST_COUNT = 1.0
WHOLE = ("label", "buffer_y", "buffer_right", "buffer_wrong")  # arrays of integers
OWN_SHARE = 0.75  # of a class's own covariance in its metric
LEAST_VARIANCE_SHARE = 0.1  # of the usual variance, that any feature has


@dataclass(frozen=True)
class ReleasedModel:
    """Class statistics and metrics in standardised space.

    Parameters
    ----------
    counts
        Readings of each class, noisy.
    means, variances
        Of each class.
    metrics
        One for all classes or one for each: distance `|metric u - prototype|^2`.
    prototypes
        Of each class, after its metric.

    """

    counts: Floats
    means: Rows
    variances: Rows
    metrics: Floats
    prototypes: Rows


def fit_scales(first: Floats, second: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return mean and deviation of each feature from noisy means of it and its square.

    All between -1 and 1. Where noise hides how variances differ, they are drawn to their mean.
    """
    mean = np.clip(first, -1.0, 1.0)
    variance = second - first**2 + noise**2
    usual = max(float(variance.mean()), noise / math.sqrt(len(variance)))
    doubt = noise**2 * (1.0 + 4.0 * float(np.mean(np.clip(first**2 - noise**2, 0.0, 1.0))))
    kept = max(0.0, 1.0 - doubt / max(float(variance.var()), 1e-12))
    shrunk = usual + kept * (variance - usual)
    return mean, np.sqrt(np.clip(shrunk, usual * LEAST_VARIANCE_SHARE, 1.0))


def fit_model(
    sums: Sums, noise: float, readings: float, radius: float, step: float, local: bool
) -> ReleasedModel:
    """Return class means and metrics by maximum likelihood of Gaussians, corrected for the noise.

    Parameters
    ----------
    sums
        Running sums as released.
    noise
        Standard deviation of each number of them, in units of a block's largest norm.
    readings
        How many readings they remember.
    radius
        Largest norm of a reading.
    step
        How far the sum of gradients moves prototypes.
    local
        A metric for each class.

    """
    counts = np.maximum(sums.counts, LEAST_COUNT)
    shares = counts / counts.sum()
    means, uncertain = _shrunk_means(sums.sums, counts, shares, noise * radius)
    scatter = noise * radius**2
    outer = means[:, :, None] * means[:, None, :]
    if local:
        total = sums.moments.sum(axis=0)
        within = total / readings - np.einsum("c,cij->ij", shares, outer)
        within = _positive(within, scatter * np.sqrt(len(counts)) / readings) + uncertain
        own = sums.moments / counts[:, None, None] - outer
        metrics = _local_metrics(own, within, scatter / counts, uncertain)
    else:
        within = sums.moments[0] / readings - np.einsum("c,cij->ij", shares, outer)
        within = _positive(within, scatter / readings) + uncertain
        metrics = _whitening(within)[None]
    prototypes = np.einsum(
        "cij,cj->ci", np.broadcast_to(metrics, (len(counts), *within.shape)), means
    )
    prototypes = prototypes + step * sums.gradient
    variances = np.broadcast_to(np.diag(within), means.shape).copy()
    return ReleasedModel(counts, means, variances, metrics, np.ascontiguousarray(prototypes))


def _shrunk_means(sums: Rows, counts: Floats, shares: Floats, noise: float) -> tuple[Rows, Floats]:
    """Return class means drawn to their centre where noise exceeds their spread.

    By empirical Bayes in the principal directions of the means; also the covariance of what is left
    uncertain.
    """
    means = sums / np.maximum(counts, noise / 4.0)[:, None]
    variance = (noise / counts) ** 2
    centre = shares @ means
    away = means - centre
    usual = float(np.median(variance))
    values, directions = np.linalg.eigh(away.T @ away / len(away))
    spread = np.maximum(values - usual, 0.0)
    kept = spread / (spread + variance[:, None] + 1e-12)
    shrunk = centre + (away @ directions * kept) @ directions.T
    left = spread * usual / (spread + usual + 1e-12)
    return shrunk, (directions * left) @ directions.T


def _positive(matrix: Floats, noise: float) -> Floats:
    """Return a covariance of which noise was no more than its floor.

    The norm of a symmetric matrix of noise is about the root of twice its size.
    """
    values, directions = np.linalg.eigh(matrix)
    floor = noise * np.sqrt(len(matrix)) + LEAST_VARIANCE
    lifted: Floats = (directions * (np.maximum(values, 0.0) + floor)) @ directions.T
    return lifted


def _whitening(covariance: Floats) -> Floats:
    """Return the symmetric W with `W W` the inverse of a covariance.

    Symmetric, because a sum of gradients in whitened space needs axes that stay where they are.
    """
    values, directions = np.linalg.eigh(covariance)
    whitening: Floats = np.ascontiguousarray((directions / np.sqrt(values)) @ directions.T)
    return whitening


def _local_metrics(own: Floats, within: Floats, noise: Floats, uncertain: Floats) -> Floats:
    """Return a whitening for each class, of its covariance drawn to the common one.

    All of one norm, as metrics of LVQ are: how wide a class is does not speak against it.
    """
    metrics = np.empty_like(own)
    for c, matrix in enumerate(own):
        lifted = _positive(matrix, float(noise[c])) + uncertain
        mixed = OWN_SHARE * lifted + (1.0 - OWN_SHARE) * within
        metrics[c] = np.linalg.inv(np.linalg.cholesky(mixed))  # cheaper than the symmetric one
    norms = np.linalg.norm(metrics, axis=(1, 2), keepdims=True)
    alike: Floats = metrics * (norms.mean() / norms)
    return alike


# --- as a model that fusion knows ----------------------------------------------------------------


def public_state(
    model: ReleasedModel,
    centre: Floats,
    scale: Floats,
    features: Sequence[Hashable],
    labels: Sequence[Label],
) -> EstimatorState:
    """Return the state of a GMLVQ or LGMLVQ that decides by the released prototypes and metrics.

    Parameters
    ----------
    model
        In standardised space.
    centre, scale
        Of each feature, in sensor units.
    features, labels
        Their names.

    """
    local = len(model.metrics) > 1
    kind = LGMLVQ if local else GMLVQ
    blank = kind(rank=None, max_prototypes_per_class=1, class_weight=None)
    spec, d, n = blank.spec(), len(features), len(labels)
    counts = np.rint(np.maximum(model.counts, 0.0))
    sizes = StateSizes(
        slots=max(4, n),
        prototypes=n,
        classes=max(4, n),
        buffer=spec.buffer,
        stored=0,
        samples=max(n, int(counts.sum())),
        random=1 + spec.seed % 2147483646,
        seed=spec.seed,
    )
    shapes = all_sizes(sizes, spec, d) | {at.BUFFER: 0, at.RANGES: 0}
    arrays: dict[str, Array] = {
        name: np.zeros(shape_of(name, shapes), np.int64 if name in WHOLE else np.float64)
        for name in NAMES
    }
    _fill(arrays, model, centre, scale, counts, spec.start_metric(d))
    extra = {
        "features": list(features),
        "classes": list(labels),
        "columns": None,
        "sizes": msgspec.structs.asdict(sizes),
    }
    arrays = {name: array for name, array in arrays.items() if array.size}
    return EstimatorState(kind.__name__, parameters_of(blank), arrays, extra)


def _fill(
    arrays: dict[str, Array],
    model: ReleasedModel,
    centre: Floats,
    scale: Floats,
    counts: Floats,
    start: Rows,
) -> None:
    n = len(counts)
    points = np.array(
        [np.linalg.solve(_of(model.metrics, c), model.prototypes[c]) for c in range(n)]
    )
    shares = counts / max(counts.sum(), 1.0)
    arrays["mean"][...] = centre + scale * (shares @ model.means)
    arrays["variance"][...] = scale**2
    arrays["peak"][...] = scale
    arrays["weight"][...] = counts.sum()
    arrays["inverse"][...] = 1.0 / scale
    arrays["varies"][...] = 1.0
    arrays["start"][...] = start
    arrays["omega"][...] = start
    for c, metric in enumerate(model.metrics):
        arrays["omega"][c] = metric / np.linalg.norm(metric)
    arrays["w"][...] = np.nan
    arrays["w"][:n] = centre + scale * points
    arrays["label"][...] = -1
    arrays["label"][:n] = np.arange(n)
    arrays["wins"][:n] = counts
    arrays["class_count"][:n] = counts
    arrays["class_weight"][:n] = counts[:, None]
    arrays["class_mean"][:n] = centre + scale * model.means
    arrays["class_variance"][:n] = scale**2 * model.variances
    arrays["calibration"][at.TEMPERATURE] = 2.0


def _of(metrics: Floats, c: int) -> Floats:
    metric: Floats = metrics[c if len(metrics) > 1 else 0]
    return metric
