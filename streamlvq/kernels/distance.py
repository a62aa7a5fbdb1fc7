"""Distances between a reading and the prototypes, closest classes, and the cached prediction.

All kinds of metric have trace one, so a distance is a mean over the features in units of their
scales: 1 means one deviation per feature. The Euclidean distance is the metric I / features.
Features without spread have no share in a metric, see `features`.
"""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, inner, kernel
from streamlvq.kernels.views import metric_of, row, table, vector

START_DISTANCE = 1e300
OVERFLOW = 1.7e248  # its product with anything beyond `LARGEST_VALUE` is infinite
MAX_DISTANCE = 1e200  # replaces distances that overflow
BLOCK_FEATURES = 64  # features summed between two checks of the bound


# --- distances -----------------------------------------------------------------------------------


@helper
def ordinary(x):
    """Return whether no value is missing, infinite or too large; a branch-free loop."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * OVERFLOW - x[i] * OVERFLOW  # NaN or infinite unless ordinary
    return total == 0.0


@helper
def has_gaps(ints, x):
    """Return 1 if a feature is missing in the reading or in any prototype, else 0."""
    return 0 if ints[at.GAPS] == 0 and ordinary(x) else 1


@helper
def subtract(x, w, inverse, z):
    for i in range(x.shape[0]):
        z[i] = (x[i] - w[i]) * inverse[i]


@helper
def blank_gaps(kind, omega, varies, varying, z):
    """Set missing differences to zero; return the factor that compensates for them.

    The factor is the metric's total weight over the weight of the present features, or -1 if these
    have no weight. Before any feature varies all of them count.
    """
    d = z.shape[0]
    total = 0.0
    known = 0.0
    for i in range(d):
        counts = varies[i] if varying > 0 else 1.0
        share = counts
        if kind != at.EUCLIDEAN:
            share = 0.0
            for k in range(i, omega.shape[0], d):
                share += counts * omega[k] * omega[k]
        total += share
        if z[i] == z[i]:
            known += share
        else:
            z[i] = 0.0
    if known <= 0.0:
        return -1.0
    return total / known


@helper
def quadratic(kind, omega, varying, z):
    """Return the squared length of z in the metric; `varying` is the number of its features."""
    d = z.shape[0]
    total = 0.0
    if kind == at.EUCLIDEAN:
        for i in range(d):
            total += z[i] * z[i]
        return total / varying
    if kind == at.DIAGONAL:
        for i in range(d):
            total += omega[i] * omega[i] * z[i] * z[i]
        return total
    for start in range(0, omega.shape[0], d):
        dot = 0.0
        for i in range(d):
            dot += omega[start + i] * z[i]
        total += dot * dot
    return total


@helper
def distance_with_gaps(floats, ints, work, x, p):
    """Return the squared distance of a reading to prototype p if features are missing."""
    d = ints[at.N_FEATURES]
    kind = ints[at.METRIC_KIND]
    omega = metric_of(floats, ints, p)
    w = row(floats, ints, at.W, p, d)
    z = views.difference(work, ints)
    subtract(x, w, vector(floats, ints, at.INVERSE, d), z)
    factor = blank_gaps(kind, omega, vector(floats, ints, at.VARIES, d), ints[at.N_VARYING], z)
    if factor < 0.0:
        return 1.0  # no feature in common: the distance of an average reading
    return factor * quadratic(kind, omega, max(ints[at.N_VARYING], 1), z)


@inner
def euclidean(x, w, p, inverse, varying, bound):
    """Return the squared distance, or any value above `bound` once it is exceeded."""
    d = x.shape[0]
    total = 0.0
    for start in range(0, d, BLOCK_FEATURES):
        for i in range(start, min(start + BLOCK_FEATURES, d)):
            z = (x[i] - w[p, i]) * inverse[i]
            total += z * z
        if total > bound * varying:
            break
    return total / varying


@inner
def diagonal(x, w, p, inverse, omega, m):
    total = 0.0
    for i in range(x.shape[0]):
        z = (x[i] - w[p, i]) * inverse[i] * omega[m, i]
        total += z * z
    return total


@inner
def matrix(x, w, p, inverse, omega, first, rank, z, bound):
    """Return the squared distance, or any value above `bound` once it is exceeded."""
    d = x.shape[0]
    for i in range(d):
        z[i] = (x[i] - w[p, i]) * inverse[i]
    total = 0.0
    for r in range(first, first + rank):
        dot = 0.0
        for i in range(d):
            dot += omega[r, i] * z[i]
        total += dot * dot
        if total > bound:
            return total
    return total


@helper
def distances(floats, ints, work, x, gaps, c, guess_right, guess_wrong):
    """Compute distances of the reading to the prototypes.

    With c < 0: find the closest prototype of every class, into `class_distance` and `class_winner`.
    With a class c: only the closest of that class (returned first) and of the others. Other
    prototypes are abandoned early, the earlier the better the guesses (prototypes, or -1). Of
    equal distances the first counts, whatever was guessed. Rules that need every distance pass
    c == -2 and find them in `slot_distance`.
    """
    d, slots, rank = ints[at.N_FEATURES], ints[at.PROTOTYPE_CAPACITY], ints[at.METRIC_RANK]
    kind, varying = ints[at.METRIC_KIND], max(ints[at.N_VARYING], 1)
    local = 1 if ints[at.METRICS] > 1 else 0
    labels = vector(ints, ints, at.LABEL, slots)
    inverse = vector(floats, ints, at.INVERSE, d)
    w = table(floats, ints, at.W, slots, d)
    omega = table(floats, ints, at.OMEGA, ints[at.METRICS] * rank, d)
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    every = views.slot_distance(work, ints)
    z = views.difference(work, ints)
    near, other, right, wrong = START_DISTANCE, START_DISTANCE, -1, -1
    if c < 0:
        for k in range(ints[at.N_CLASSES]):
            best[k] = START_DISTANCE
            winner[k] = -1.0
    for k in range(-2, ints[at.N_PROTOTYPES]):
        p = k
        if k < 0:
            p = guess_right if k == -2 else guess_wrong
            if p < 0:
                continue
        elif k == guess_right or k == guess_wrong:
            continue
        label = labels[p]
        bound = START_DISTANCE
        if c >= 0:
            bound = near if label == c else other
        elif c == -1:
            bound = best[label]
        if gaps == 1:
            value = distance_with_gaps(floats, ints, work, x, p)
        elif kind == at.EUCLIDEAN:
            value = euclidean(x, w, p, inverse, varying, bound)
        elif kind == at.DIAGONAL:
            value = diagonal(x, w, p, inverse, omega, p * local)
        else:
            value = matrix(x, w, p, inverse, omega, p * local * rank, rank, z, bound)
        if not value < MAX_DISTANCE:
            value = MAX_DISTANCE
        if c < 0:
            if c == -2:
                every[p] = value
            if value < best[label]:
                best[label] = value
                winner[label] = p
        elif label == c:
            if value < near or (value == near and p < right):
                near, right = value, p
        elif value < other or (value == other and p < wrong):
            other, wrong = value, p
    return near, other, right, wrong


# --- closest classes -----------------------------------------------------------------------------


@helper
def closest_pair(ints, work, c):
    """Return distance and prototype of class c and of the closest other class."""
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    other = START_DISTANCE
    wrong = -1
    for k in range(ints[at.N_CLASSES]):
        if k != c and best[k] < other:
            other = best[k]
            wrong = int(winner[k])
    return best[c], other, int(winner[c]), wrong


@helper
def closest_two(ints, work):
    """Return the two closest classes and their squared distances; -1 where there is none."""
    distance = views.class_distance(work, ints)
    near, other, winner, runner_up = START_DISTANCE, START_DISTANCE, -1, -1
    for c in range(ints[at.N_CLASSES]):
        if distance[c] < near:
            near, other, winner, runner_up = distance[c], near, c, winner
        elif distance[c] < other:
            other, runner_up = distance[c], c
    return near, other, winner, runner_up


@helper
def relative_difference(near, other):
    total = near + other
    return (other - near) / total if total > 0.0 else 0.0


@kernel("float64(int64[::1], float64[::1], int64)")
def relsim(ints, work, c):
    """Return RelSim; -1 before two classes are known.

    With a class c >= 0 it is 0 if the reading is closer to another class.
    """
    near, other, winner, runner_up = closest_two(ints, work)
    if runner_up < 0:
        return -1.0
    return relative_difference(near, other) if c < 0 or c == winner else 0.0


@kernel("Tuple((float64, float64, float64, int64, int64))(int64[::1], float64[::1])")
def closest_classes(ints, work):
    """Return RelSim, both distances and both classes; -1 for a class that does not exist."""
    near, other, winner, runner_up = closest_two(ints, work)
    return relative_difference(near, other), near, other, winner, runner_up


@kernel("float64(float64[::1], int64[::1], float64[::1], int64, int64)")
def separation(floats, ints, work, winner, runner_up):
    """Return the distance (not squared) between the closest prototypes of two classes.

    Uses the metric of the winner and only features that the reading has; 0 if none is known.
    """
    d = ints[at.N_FEATURES]
    closest = views.class_winner(work, ints)
    first, second = int(closest[winner]), int(closest[runner_up])
    x = views.reading(work, ints)
    z = views.difference(work, ints)
    w, other = row(floats, ints, at.W, first, d), row(floats, ints, at.W, second, d)
    subtract(other, w, vector(floats, ints, at.INVERSE, d), z)
    for i in range(d):
        if x[i] != x[i]:
            z[i] = x[i]
    omega = metric_of(floats, ints, first)
    kind, varying = ints[at.METRIC_KIND], max(ints[at.N_VARYING], 1)
    factor = blank_gaps(kind, omega, vector(floats, ints, at.VARIES, d), ints[at.N_VARYING], z)
    return sqrt(factor * quadratic(kind, omega, varying, z)) if factor > 0.0 else 0.0


# --- cached prediction ---------------------------------------------------------------------------


@helper
def cache_prediction(ints, work, x):
    """Mark distances and scores in `work` as those of x."""
    last = views.last_answered(work, ints)
    last[0] = 1.0
    for i in range(x.shape[0]):
        last[1 + i] = x[i]


@helper
def drop_cached_prediction(ints, work):
    """Invalidate the cache; call it before the model or `work` changes."""
    views.last_answered(work, ints)[0] = 0.0


@helper
def has_cached_prediction(ints, work, x):
    """Return whether the cache holds x; never true if a feature is missing (NaN != NaN)."""
    last = views.last_answered(work, ints)
    same = last[0] == 1.0
    for i in range(x.shape[0]):
        same = same and last[1 + i] == x[i]
    return same
