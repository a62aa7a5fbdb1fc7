"""What a batch of readings adds to a private release, and decisions by a released model.

A reading x becomes `u = (x - centre) * inverse`, moved to its bounds before and, where it is
learnt, to the ball of `RADIUS` after. A labelled one adds to `out`, in this order: its u to the sum
of its class, 1 to the count of its class, the products `u_i u_j` for i <= j (off the diagonal times
sqrt 2, so that their norm is that of the whole matrix), and the clipped gradient of `log p(c | x)`
for each prototype. Each block is scaled so that its norm is at most its weight, and each number is
cut to an integer multiple of the grid, towards zero, so that norms only fall and sums are exact.
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.prototypes import infinite_feature

# Numbers of `floats`.
RADIUS, CLIP, GRID = 0, 1, 2
SUM_WEIGHT, COUNT_WEIGHT, SECOND_WEIGHT, GRADIENT_WEIGHT = 3, 4, 5, 6
SHARPNESS = 7  # of the mixture: p(c | x) is proportional to exp(-SHARPNESS d_c)
PRIVATE_NUMBERS = 8
# Numbers of `ints` after those of `layout`.
POSITION = at.SECTION_STARTS  # readings in the rows
LENGTH = POSITION + 1  # readings until the release
TAKEN = POSITION + 2  # readings of the batch, rows and sums
NUMBER = POSITION + 3  # of the next release
PRIVATE_HEADER = POSITION + 4

UNLIMITED = 1e200  # radius of readings that are decided on
SAFETY = 1.0 - 1e-9  # norms stay below their limit in spite of rounding


@helper
def standardised(x, low, high, centre, inverse, radius, missing, u):
    """Store `u` for a reading; missing values (NaN) are those of `missing`."""
    square = 0.0
    for i in range(u.shape[0]):
        value = (min(max(x[i], low[i]), high[i]) - centre[i]) * inverse[i]
        u[i] = value if x[i] == x[i] else missing[i]
        square += u[i] * u[i]
    if square > radius * radius:
        factor = SAFETY * radius / sqrt(square)
        for i in range(u.shape[0]):
            u[i] *= factor


@helper
def whitened(metric, u, out):
    """Store `metric u`."""
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(u.shape[0]):
            total += metric[i, j] * u[j]
        out[i] = total


@helper
def squared_distance(a, b):
    """Return the squared distance of two points."""
    total = 0.0
    for i in range(a.shape[0]):
        total += (a[i] - b[i]) * (a[i] - b[i])
    return total


@helper
def distances(metrics, prototypes, u, point, out):
    """Store the distance of each class; `point` is room for a projected reading."""
    if metrics.shape[0] == 1:
        whitened(metrics[0], u, point)
        for c in range(out.shape[0]):
            out[c] = squared_distance(point, prototypes[c])
    else:
        for c in range(out.shape[0]):
            whitened(metrics[c], u, point)
            out[c] = squared_distance(point, prototypes[c])


@helper
def to_posterior(distance, sharpness, p):
    """Store `exp(-sharpness d_c)`, normalised."""
    least = distance[0]
    for c in range(p.shape[0]):
        least = min(least, distance[c])
    total = 0.0
    for c in range(p.shape[0]):
        p[c] = exp(-sharpness * (distance[c] - least))
        total += p[c]
    for c in range(p.shape[0]):
        p[c] /= total


# --- what a batch adds ----------------------------------------------------------------------------


@helper
def add_moments(u, factor, out):
    """Add the products of u, packed; off the diagonal times sqrt 2."""
    place = 0
    for i in range(u.shape[0]):
        out[place] += np.trunc(factor * u[i] * u[i])
        place += 1
        scaled = 1.4142135623730950 * factor * u[i]
        rest = u.shape[0] - i - 1
        for j in range(rest):
            out[place + j] += np.trunc(scaled * u[i + 1 + j])
        place += rest


@helper
def add_gradient(floats, point, prototypes, p, c, out):
    """Add the gradient of `log p(c | x) / (2 sharpness)`, clipped to norm CLIP."""
    square = 0.0
    for k in range(p.shape[0]):
        share = (1.0 if k == c else 0.0) - p[k]
        square += share * share * squared_distance(point, prototypes[k])
    factor = SAFETY * floats[GRID] * floats[GRADIENT_WEIGHT]
    factor /= max(floats[CLIP], sqrt(square))
    d = point.shape[0]
    for k in range(p.shape[0]):
        share = factor * ((1.0 if k == c else 0.0) - p[k])
        for i in range(d):
            out[k * d + i] += np.trunc(share * (point[i] - prototypes[k, i]))


MODEL = "float64[::1], float64[::1], float64[::1], float64[::1], float64[:, ::1]"
METRIC = "float64[:, :, ::1], float64[:, ::1]"
LABELLED = "float64[::1], float64[:, ::1], int64[::1]"
STORE = "float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1]"
PRIVATE_ARRAYS = f"{STORE}, {MODEL}, {METRIC}"


@kernel(f"void({LABELLED}, {MODEL}, {METRIC}, float64[::1], float64[::1])")
def add_private_rows(
    floats,
    rows,
    codes,
    low,
    high,
    centre,
    inverse,
    missing,
    metrics,
    prototypes,
    work,
    out,
):
    """Add what labelled readings say to `out`; without prototypes they have no gradient."""
    d, n = rows.shape[1], missing.shape[0]
    u, point = work[:d], work[d : 2 * d]
    p, distance = work[2 * d : 2 * d + n], work[2 * d + n : 2 * d + 2 * n]
    packed = d * (d + 1) // 2
    local = out.shape[0] == n * d + n + n * packed
    grid, radius = floats[GRID], floats[RADIUS]
    for k in range(rows.shape[0]):
        c = codes[k]
        standardised(rows[k], low, high, centre, inverse, radius, missing[c], u)
        factor = SAFETY * grid * floats[SUM_WEIGHT] / radius
        for i in range(d):
            out[c * d + i] += np.trunc(factor * u[i])
        out[n * d + c] += np.trunc(grid * floats[COUNT_WEIGHT])
        second = n * d + n + (c * packed if local else 0)
        factor = SAFETY * grid * floats[SECOND_WEIGHT] / (radius * radius)
        add_moments(u, factor, out[second : second + packed])
        if not local and prototypes.shape[0] > 0:
            distances(metrics, prototypes, u, point, distance)
            to_posterior(distance, floats[SHARPNESS], p)
            add_gradient(floats, point, prototypes, p, c, out[n * d + n + packed :])


@kernel(f"void({LABELLED}, {MODEL}, {METRIC}, float64[::1], float64[::1])")
def add_gradient_rows(
    floats, rows, codes, low, high, centre, inverse, missing, metrics, prototypes, work, out
):
    """Add the gradients of labelled readings to `out`."""
    d, n = rows.shape[1], missing.shape[0]
    u, point = work[:d], work[d : 2 * d]
    p, distance = work[2 * d : 2 * d + n], work[2 * d + n : 2 * d + 2 * n]
    for k in range(rows.shape[0]):
        c = codes[k]
        standardised(rows[k], low, high, centre, inverse, floats[RADIUS], missing[c], u)
        distances(metrics, prototypes, u, point, distance)
        to_posterior(distance, floats[SHARPNESS], p)
        add_gradient(floats, point, prototypes, p, c, out)


@kernel("void(float64, float64[:, ::1], float64[::1], float64[::1], float64[::1])")
def add_scale_rows(grid, rows, low, high, out):
    """Add each feature and its square to `out`, from -1 to 1 between the bounds."""
    d = rows.shape[1]
    factor = grid / sqrt(2.0 * d)
    for k in range(rows.shape[0]):
        for i in range(d):
            x = rows[k, i]
            middle = 0.5 * (low[i] + high[i])
            value = (min(max(x, low[i]), high[i]) - middle) / (0.5 * (high[i] - low[i]))
            z = min(max(value, -1.0), 1.0) if x == x else 0.0
            out[i] += np.trunc(factor * z)
            out[d + i] += np.trunc(factor * z * z)


# --- one reading and many -------------------------------------------------------------------------


@kernel(f"int64({PRIVATE_ARRAYS}, int64)")
def learn_private(
    floats,
    ints,
    work,
    rows,
    codes,
    low,
    high,
    centre,
    inverse,
    missing,
    metrics,
    prototypes,
    c,
):
    """Keep a labelled reading, unless the rows or the batch would be full: NEEDS_SLOT."""
    d = ints[at.N_FEATURES]
    infinite = infinite_feature(work[:d])
    if infinite != 0:
        return infinite
    if ints[POSITION] + 1 >= rows.shape[0] or ints[TAKEN] + 1 >= ints[LENGTH]:
        return at.NEEDS_SLOT
    rows[ints[POSITION]] = work[:d]
    codes[ints[POSITION]] = c
    ints[POSITION] += 1
    ints[TAKEN] += 1
    ints[at.SAMPLES] += 1
    return at.DONE


@helper
def decide(floats, x, work, low, high, centre, inverse, metrics, prototypes, p):
    """Store the probability of each class; all are alike before the first model."""
    d, n = centre.shape[0], p.shape[0]
    if prototypes.shape[0] == 0:
        p[:] = 1.0 / n
        return
    zero, u, point, distance = work[:d], work[d:], work[2 * d :], work[3 * d :]
    zero[:] = 0.0
    standardised(x, low, high, centre, inverse, UNLIMITED, zero, u[:d])
    distances(metrics, prototypes, u[:d], point[:d], distance[:n])
    to_posterior(distance[:n], floats[SHARPNESS], p)


@kernel(f"int64({PRIVATE_ARRAYS})")
def predict_private(
    floats,
    ints,
    work,
    rows,
    codes,
    low,
    high,
    centre,
    inverse,
    missing,
    metrics,
    prototypes,
):
    """Compute the probabilities of the reading in `work`; return a status."""
    d, n = ints[at.N_FEATURES], missing.shape[0]
    infinite = infinite_feature(work[:d])
    if infinite == 0:
        decide(
            floats,
            work[:d],
            work[d + n :],
            low,
            high,
            centre,
            inverse,
            metrics,
            prototypes,
            work[d : d + n],
        )
    return infinite


@kernel(f"void({PRIVATE_ARRAYS}, float64[:, ::1], float64[:, ::1])")
def predict_private_rows(
    floats,
    ints,
    work,
    rows,
    codes,
    low,
    high,
    centre,
    inverse,
    missing,
    metrics,
    prototypes,
    readings,
    out,
):
    """Compute the probabilities of each row."""
    d, n = ints[at.N_FEATURES], missing.shape[0]
    for k in range(readings.shape[0]):
        decide(
            floats,
            readings[k],
            work[d + n :],
            low,
            high,
            centre,
            inverse,
            metrics,
            prototypes,
            out[k],
        )
