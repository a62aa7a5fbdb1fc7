"""Squared distances between a reading and the prototypes.

All kinds of metric have trace one, so a distance is a mean over the features in units of their
scales: 1 is "one deviation off per feature". The Euclidean distance is the metric I / features.
"""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper
from streamlvq.kernels.views import metric_of, row, vector

FAR = 1e300


@helper
def has_gaps(floats, ints, x):
    """1 if a feature is missing in the reading or in any prototype, else 0."""
    if ints[at.GAPS] > 0:
        return 1
    for i in range(ints[at.FEATURES]):
        if x[i] != x[i]:
            return 1
    return 0


@helper
def subtract(x, w, inverse, z):
    for i in range(x.shape[0]):
        z[i] = (x[i] - w[i]) * inverse[i]


@helper
def blank_gaps(kind, omega, x, w, z):
    """Set unknown differences to zero; return the factor that makes up for what is missing.

    The factor is the metric's total weight over the weight of the features that are there, or -1
    when they carry no weight at all.
    """
    d = x.shape[0]
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
def quadratic(kind, omega, z, bound):
    """The squared length of z under the metric, or anything above `bound` once it exceeds that."""
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
        if total > bound:
            return total
    return total


@helper
def distance(floats, ints, x, p, inverse, z, bound, gaps):
    """The squared distance of a reading to prototype p; leaves the difference in z."""
    kind = ints[at.KIND]
    omega = metric_of(floats, ints, p)
    w = row(floats, ints, at.W, p, ints[at.FEATURES])
    subtract(x, w, inverse, z)
    if gaps == 0:
        return quadratic(kind, omega, z, bound)
    factor = blank_gaps(kind, omega, x, w, z)
    if factor < 0.0:
        return 1.0  # nothing in common: as far as an average reading
    return factor * quadratic(kind, omega, z, FAR)


@helper
def nearest_per_class(floats, ints, work, x, gaps):
    """Fill in, for each known class, its closest prototype and the distance to it."""
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    inverse = vector(floats, ints, at.INVERSE, ints[at.FEATURES])
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    z = views.difference(work, ints)
    for c in range(ints[at.KNOWN]):
        best[c] = FAR
        winner[c] = -1.0
    for p in range(ints[at.PROTOTYPES]):
        c = labels[p]
        value = distance(floats, ints, x, p, inverse, z, best[c], gaps)
        if value < best[c]:
            best[c] = value
            winner[c] = p


@helper
def closest_pair(ints, work, c):
    """From the distances of `nearest_per_class`: those to class c and to the closest other one."""
    best = views.class_distance(work, ints)
    winner = views.class_winner(work, ints)
    other = FAR
    wrong = -1
    for k in range(ints[at.KNOWN]):
        if k != c and best[k] < other:
            other = best[k]
            wrong = int(winner[k])
    return best[c], other, int(winner[c]), wrong


@helper
def nearest_pair(floats, ints, work, x, c, gaps):
    """The same pair found from the prototypes, giving up early on those that cannot be in it."""
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    inverse = vector(floats, ints, at.INVERSE, ints[at.FEATURES])
    z = views.difference(work, ints)
    near, other = FAR, FAR
    right, wrong = -1, -1
    for p in range(ints[at.PROTOTYPES]):
        same = labels[p] == c
        bound = near if same else other
        value = distance(floats, ints, x, p, inverse, z, bound, gaps)
        if value < bound:
            if same:
                near, right = value, p
            else:
                other, wrong = value, p
    return near, other, right, wrong
