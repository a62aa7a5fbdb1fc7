"""How unlike everything learnt a reading is, by ranks among earlier readings.

Two scores say how strange a reading is for the class of its closest prototype: how near the border
it lies (1 / RelSim), and the squared distance to the nearest stored reading of that class. The
p-value of a score is the share of earlier readings of the class that were at least as strange,
the reading itself included, so that a known reading has a p-value below any p with probability p
at most. Minus the logarithms of both are added (Fisher's way to combine tests), and the rank of
this sum among those of all earlier readings is a p-value again: the two need not be independent.
Scores are taken before their reading is learnt.

`scores` are two rings for each class, `sums` are the sums of earlier readings of all classes: with
both scores in the first row, and in the second with the first alone, which counts where no readings
are stored. `counts` says how many scores each class ever got, and last how many sums there were.
"""

from __future__ import annotations

from math import exp, inf, log, nan, sqrt

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, inner, kernel
from streamlvq.kernels.distance import (
    MAX_DISTANCE,
    closest_two,
    ordinary,
    relative_difference,
    separation,
)
from streamlvq.kernels.internals import borrowed
from streamlvq.kernels.views import table, vector

ENOUGH_SUMS = 100
BLOCK = 16  # features between two looks at the bound
SEARCHED = 256  # stored readings of a class that are compared, evenly spread over time

BORDER, DISTANCE = 0, 1  # scores of a class
BOTH, BORDER_ONLY = 0, 1  # sums

# Results of `measure_novelty`; `CLASS` to `OUT_BORDER_ONLY` are for `add_scores`, once the label is
# known. Of no earlier reading (`OUT_EARLIER`) there is nothing that novelty could be compared with.
NOVELTY, OUT_COMPARED, CLASS, OUT_BORDER, OUT_DISTANCE, OUT_BOTH, OUT_BORDER_ONLY = range(7)
OUT_EARLIER = 7

TAIL = 4  # power of the squared distance with which its p-value falls beyond all known ones
MIN_RELSIM = 1e-9
MIN_SCORE_P = 1e-9
MAX_SUM = 42.0  # minus two logarithms of the smallest
MIN_P = 1e-6  # a novelty has six digits and stays below 1
SMALL_DISTANCE = 0.01  # squared: a tenth of a deviation per feature is near in any class

# --- the ball ------------------------------------------------------------------------------------

BALL_RELSIM = 0.2
# Distance to the winner, over that between the closest prototypes, beyond which RelSim is lower.
_SHRINK = sqrt((1.0 - BALL_RELSIM) / (1.0 + BALL_RELSIM))
BALL_RADIUS = _SHRINK / (1.0 - _SHRINK)


@kernel("int64(float64[::1], int64[::1], float64[::1])")
def beyond_ball(floats, ints, work):
    """Return 1 if the last predicted reading is farther from its winner than RelSim allows."""
    near, other, winner, runner_up = closest_two(ints, work)
    if ints[at.PAIRS] > 0 or runner_up < 0 or relative_difference(near, other) >= BALL_RELSIM:
        return 0
    between = separation(floats, ints, work, winner, runner_up)
    return 1 if between > 0.0 and sqrt(near) > BALL_RADIUS * between else 0


# --- scores --------------------------------------------------------------------------------------


@helper
def two_likeliest(p, known):
    """Return the two largest probabilities and the class of the first."""
    first, second, best = -1.0, -1.0, 0
    for c in range(known):
        if p[c] > first:
            first, second, best = p[c], first, c
        elif p[c] > second:
            second = p[c]
    return first, second, best


@helper
def closest_class(ints, work):
    """Return the closest class and RelSim; in a model of pairs, both by probability."""
    if ints[at.PAIRS] > 0:
        first, second, best = two_likeliest(views.probabilities(work, ints), ints[at.N_CLASSES])
        return best, relative_difference(second, first)
    near, other, winner, _ = closest_two(ints, work)
    return winner, relative_difference(near, other)


@inner
def squared_deviations(x, rows, p, inverse, bound):
    """Return the squared deviations from a stored reading, or any value above `bound`."""
    d = x.shape[0]
    whole = d - d % BLOCK
    total = 0.0
    for start in range(0, whole, BLOCK):
        for i in range(BLOCK):  # a loop of fixed length takes half the time
            z = (x[start + i] - rows[p, start + i]) * inverse[start + i]
            total += z * z
        if total > bound:
            return total
    for i in range(whole, d):
        z = (x[i] - rows[p, i]) * inverse[i]
        total += z * z
    return total


@helper
def distance_by_shared(x, y, inverse, varies, varying):
    """Return the mean squared difference of the features that both readings have; NaN for none."""
    total, shared = 0.0, 0.0
    for i in range(x.shape[0]):
        z = (x[i] - y[i]) * inverse[i]
        if z == z:
            total += z * z
            shared += varies[i] if varying > 0 else 1.0
    return total / shared if shared > 0.0 else nan


@helper
def positions_of_class(ints, c):
    """Return the positions of the stored readings of a class, without a branch per reading."""
    labels = vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])
    stored = min(ints[at.STORED], ints[at.BUFFER])
    found = np.empty(stored + 1, np.int64)
    count = 0
    for k in range(stored):
        found[count] = k
        count += 1 if labels[k] == c else 0
    return found[:count]


@kernel("float64(float64[::1], int64[::1], float64[::1], int64)")
def nearest_stored(floats, ints, work, c):
    """Return the mean squared deviation to the nearest stored reading of a class; NaN for none."""
    floats, ints, work = borrowed(floats), borrowed(ints), borrowed(work)
    d, varying = ints[at.N_FEATURES], ints[at.N_VARYING]
    positions = positions_of_class(ints, c)
    x = views.reading(work, ints)
    inverse, varies = vector(floats, ints, at.INVERSE, d), vector(floats, ints, at.VARIES, d)
    rows = table(floats, ints, at.BUFFER_X, ints[at.BUFFER], d)
    complete, scale = ordinary(x), 1.0 / max(varying, 1)
    nearest = inf
    for k in range(0, positions.shape[0], positions.shape[0] // SEARCHED + 1):
        p = positions[k]
        value = nan
        if complete:
            value = scale * squared_deviations(x, rows, p, inverse, nearest / scale)
        if value != value:
            value = distance_by_shared(x, rows[p], inverse, varies, varying)
        if value == value:
            nearest = min(nearest, value, MAX_DISTANCE)
    return nearest if nearest < inf else nan


@helper
def p_value(ring, stored, score):
    """Return the share of scores that are at least as high, this one included."""
    higher = 1.0
    for k in range(stored):
        higher += 1.0 if ring[k] >= score else 0.0
    return higher / (stored + 1.0)


@helper
def p_of_distance(ring, stored, distance):
    """Return the share of known distances that are at least as large; 1 for an unknown one.

    Beyond all of them it goes on falling: there is no end to how far a reading can be. Being on a
    border has one, and is no reason to take a reading for an outlier.
    """
    if distance != distance:
        return 1.0
    higher, known, top = 1.0, 1.0, SMALL_DISTANCE
    for k in range(stored):
        if ring[k] == ring[k]:
            known += 1.0
            higher += 1.0 if ring[k] >= distance else 0.0
            top = max(top, ring[k])
    p = higher / known
    if distance > top and known > 1.0:
        p *= (top / distance) ** TAIL
    return max(p, MIN_SCORE_P)


@helper
def p_of_sum(ring, stored, value):
    """Return the share of sums that are at least as high, this one included.

    A sum is minus a logarithm: beyond all of them, if they are enough to tell what is usual, the
    share goes on falling with its exponential.
    """
    higher, top = 1.0, 0.0
    for k in range(stored):
        higher += 1.0 if ring[k] >= value else 0.0
        top = max(top, ring[k])
    p = higher / (stored + 1.0)
    if value > top and stored >= ENOUGH_SUMS:
        p *= exp(top - value)
    return max(p, MIN_P)


@kernel(
    "float64(float64[::1], int64[::1], float64[::1], float64[:, :, ::1], float64[:, ::1], "
    "int64[::1], float64[::1])"
)
def measure_novelty(floats, ints, work, scores, sums, counts, out):
    """Return the novelty of the last predicted reading; two classes must be known."""
    c, relsim = closest_class(ints, work)
    distance = nearest_stored(floats, ints, work, c)
    border = 1.0 / max(relsim, MIN_RELSIM)
    first, both = 0.0, 0.0
    if c < scores.shape[0]:  # else none of the class came yet
        stored = min(counts[c], at.CLASS_SCORES)
        first -= log(p_value(scores[c, BORDER], stored, border))
        both = first - log(p_of_distance(scores[c, DISTANCE], stored, distance))
    summed = min(counts[counts.shape[0] - 1], at.SUMS)
    if distance == distance:
        p = p_of_sum(sums[BOTH], summed, both)
    else:
        p = p_of_sum(sums[BORDER_ONLY], summed, first)
    # Without a distance, or before it is known which ones are usual, novelty says too little.
    compared = distance == distance and summed >= ENOUGH_SUMS
    out[NOVELTY], out[OUT_COMPARED], out[CLASS] = 1.0 - p, 1.0 if compared else 0.0, c
    out[OUT_BORDER], out[OUT_DISTANCE] = border, distance
    out[OUT_BOTH], out[OUT_BORDER_ONLY], out[OUT_EARLIER] = both, first, summed
    return out[NOVELTY]


@kernel("void(float64[:, :, ::1], float64[:, ::1], int64[::1], float64[::1], int64)")
def add_scores(scores, sums, counts, out, c):
    """Remember what `measure_novelty` said of a reading of class c, which the model knew before."""
    last = counts.shape[0] - 1
    place = counts[last] % at.SUMS
    sums[BOTH, place] = out[OUT_BOTH]
    sums[BORDER_ONLY, place] = out[OUT_BORDER_ONLY]
    counts[last] += 1
    if int(out[CLASS]) == c:
        place = counts[c] % at.CLASS_SCORES
        scores[c, BORDER, place] = out[OUT_BORDER]
        scores[c, DISTANCE, place] = out[OUT_DISTANCE]
        counts[c] += 1
