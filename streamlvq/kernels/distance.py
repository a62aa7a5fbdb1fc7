"""Squared distances between a reading and the prototypes.

All kinds of metric have trace one, so a distance is a mean over the features in units of their
scales: 1 means one deviation per feature. The Euclidean distance is the metric I / features.
"""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, inner
from streamlvq.kernels.views import metric_of, row, table, vector

FAR = 1e300
OVERFLOW = 1.7e248  # its product with anything beyond `LARGEST` is infinite
FARTHEST = 1e200  # replaces distances that overflow
BLOCK = 64  # features summed between two checks of the bound


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
def blank_gaps(kind, omega, z):
    """Set missing differences to zero; return the factor that compensates for them.

    The factor is the metric's total weight over the weight of the present features, or -1 if these
    have no weight.
    """
    d = z.shape[0]
    total = 0.0
    known = 0.0
    for i in range(d):
        share = 1.0
        if kind != at.EUCLIDEAN:
            share = 0.0
            for k in range(i, omega.shape[0], d):
                share += omega[k] * omega[k]
        total += share
        if z[i] == z[i]:
            known += share
        else:
            z[i] = 0.0
    if known <= 0.0:
        return -1.0
    return total / known


@helper
def quadratic(kind, omega, z):
    """Return the squared length of z in the metric."""
    d = z.shape[0]
    total = 0.0
    if kind == at.EUCLIDEAN:
        for i in range(d):
            total += z[i] * z[i]
        return total / d
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
    d = ints[at.FEATURES]
    kind = ints[at.KIND]
    omega = metric_of(floats, ints, p)
    w = row(floats, ints, at.W, p, d)
    z = views.difference(work, ints)
    subtract(x, w, vector(floats, ints, at.INVERSE, d), z)
    factor = blank_gaps(kind, omega, z)
    if factor < 0.0:
        return 1.0  # no feature in common: the distance of an average reading
    return factor * quadratic(kind, omega, z)


@inner
def euclidean(x, w, p, inverse, bound):
    """Return the squared distance, or any value above `bound` once it is exceeded."""
    d = x.shape[0]
    total = 0.0
    for start in range(0, d, BLOCK):
        for i in range(start, min(start + BLOCK, d)):
            z = (x[i] - w[p, i]) * inverse[i]
            total += z * z
        if total > bound * d:
            break
    return total / d


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
    prototypes are abandoned early, the earlier the better the guesses (prototypes, or -1). Rules
    that need every distance pass c == -2 and find them in `slot_distance`.
    """
    d, slots, rank = ints[at.FEATURES], ints[at.SLOTS], ints[at.RANK]
    kind = ints[at.KIND]
    local = 1 if ints[at.METRICS] > 1 else 0
    labels = vector(ints, ints, at.LABEL, slots)
    inverse = vector(floats, ints, at.INVERSE, d)
    w = table(floats, ints, at.W, slots, d)
    omega = table(floats, ints, at.OMEGA, ints[at.METRICS] * rank, d)
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    every = views.slot_distance(work, ints)
    z = views.difference(work, ints)
    near, other, right, wrong = FAR, FAR, -1, -1
    if c < 0:
        for k in range(ints[at.KNOWN]):
            best[k] = FAR
            winner[k] = -1.0
    for k in range(-2, ints[at.PROTOTYPES]):
        p = k
        if k < 0:
            p = guess_right if k == -2 else guess_wrong
            if p < 0:
                continue
        elif k == guess_right or k == guess_wrong:
            continue
        label = labels[p]
        bound = FAR
        if c >= 0:
            bound = near if label == c else other
        elif c == -1:
            bound = best[label]
        if gaps == 1:
            value = distance_with_gaps(floats, ints, work, x, p)
        elif kind == at.EUCLIDEAN:
            value = euclidean(x, w, p, inverse, bound)
        elif kind == at.DIAGONAL:
            value = diagonal(x, w, p, inverse, omega, p * local)
        else:
            value = matrix(x, w, p, inverse, omega, p * local * rank, rank, z, bound)
        if not value < FARTHEST:
            value = FARTHEST
        if c < 0:
            if c == -2:
                every[p] = value
            if value < best[label]:
                best[label] = value
                winner[label] = p
        elif value < bound:
            if label == c:
                near, right = value, p
            else:
                other, wrong = value, p
    return near, other, right, wrong


@helper
def closest_pair(ints, work, c):
    """Return distance and prototype of class c and of the closest other class."""
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    other = FAR
    wrong = -1
    for k in range(ints[at.KNOWN]):
        if k != c and best[k] < other:
            other = best[k]
            wrong = int(winner[k])
    return best[c], other, int(winner[c]), wrong
