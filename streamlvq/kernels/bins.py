"""Naive Bayes on bins that follow the quantiles of each feature: asking and counting.

A model passes `floats` (see `sharpening`, then weights), `ints` (sizes and counters), `work` (the
reading, probabilities and scores of the classes, what they are about), `prior` (weight of each
class), and for each feature `used` (number of bins), `lows` and `highs` (features x bins: the
values they span, in order), `masses` (features x bins), `counts` (features x bins x classes) and
`present` (features x classes: the weight of samples that had the feature). `class_count` counts
samples and forgets none.

To forget, the weight of a sample grows from one to the next instead of all others falling.
"""

from __future__ import annotations

from math import log

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.internals import call_integer
from streamlvq.kernels.prototypes import infinite_feature
from streamlvq.kernels.sharpening import (
    FIT_NUMBERS,
    fit_exponent,
    is_answered,
    remember_answer,
    to_chances,
)

# Numbers of `floats` after those of `sharpening`.
GIVEN_WEIGHT, UNIT, KEPT = FIT_NUMBERS, FIT_NUMBERS + 1, FIT_NUMBERS + 2
BINS_NUMBERS = FIT_NUMBERS + 3
BINS_HEADER = at.SECTION_STARTS

PRIOR_SAMPLES = 3.0  # a class is as if it had this many samples spread like those of all classes
HEAVY = 2.0  # a bin with this many times its fair share is split
SPLIT_MIN_SAMPLES = 4.0  # weight of a bin before it may be split
LARGEST_UNIT = 1e12
TOGETHER = 8  # features whose chances are multiplied before the logarithm is taken
LEAST_PRODUCT = 1e-300
LEAST_SHARE = 1e-6  # of a bin that is all but forgotten among those of its feature


# --- asking --------------------------------------------------------------------------------------


@helper
def bin_at_or_after(highs, feature, used, value):
    """Return the first bin that ends at or above a value; `used` if none does."""
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if highs[feature, middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def closest_bin(lows, highs, feature, used, place, value):
    """Return the bin that a value belongs to or, between two bins, is closer to."""
    if place == used:
        return used - 1
    if place > 0 and value - highs[feature, place - 1] < lows[feature, place] - value:
        return place - 1
    return place


@helper
def score_classes(floats, ints, x, prior, used, lows, highs, masses, counts, present, p, score):
    """Score each class by the logarithm of its prior and of the chances of all features."""
    known, unit = ints[at.N_CLASSES], floats[UNIT]
    total = 0.0
    for c in range(known):
        total += prior[c]
        p[c] = 1.0  # product of chances
    for c in range(known):
        score[c] = log((prior[c] + unit) / (total + known * unit))
    extra, waiting = PRIOR_SAMPLES * unit, 0
    for i in range(x.shape[0]):
        if x[i] != x[i] or used[i] == 0:
            continue
        place = bin_at_or_after(highs, i, used[i], x[i])
        b = closest_bin(lows, highs, i, used[i], place, x[i])
        total = 0.0
        for c in range(known):
            total += present[i, c]
        share = extra * max(LEAST_SHARE, masses[i, b] / total)
        for c in range(known):
            p[c] *= (counts[i, b, c] + share) / (present[i, c] + extra)
        waiting += 1
        if waiting == TOGETHER:
            for c in range(known):
                score[c] += log(max(LEAST_PRODUCT, p[c]))
                p[c] = 1.0
            waiting = 0
    for c in range(known):
        score[c] += log(max(LEAST_PRODUCT, p[c]))
    to_chances(score, known, floats, p)


# --- counting ------------------------------------------------------------------------------------


@helper
def copy_bin(lows, highs, masses, counts, feature, source, target):
    lows[feature, target] = lows[feature, source]
    highs[feature, target] = highs[feature, source]
    masses[feature, target] = masses[feature, source]
    for c in range(counts.shape[2]):
        counts[feature, target, c] = counts[feature, source, c]


@helper
def insert_bin(used, lows, highs, masses, counts, feature, place, value):
    """Insert an empty bin for one value."""
    for b in range(used[feature], place, -1):
        copy_bin(lows, highs, masses, counts, feature, b - 1, b)
    lows[feature, place] = highs[feature, place] = value
    masses[feature, place] = 0.0
    for c in range(counts.shape[2]):
        counts[feature, place, c] = 0.0
    used[feature] += 1


@helper
def merge_lightest(used, lows, highs, masses, counts, feature):
    """Merge the two neighbours that weigh least together; return the first."""
    lightest = 0
    for b in range(1, used[feature] - 1):
        weight = masses[feature, b] + masses[feature, b + 1]
        if weight < masses[feature, lightest] + masses[feature, lightest + 1]:
            lightest = b
    highs[feature, lightest] = highs[feature, lightest + 1]
    masses[feature, lightest] += masses[feature, lightest + 1]
    for c in range(counts.shape[2]):
        counts[feature, lightest, c] += counts[feature, lightest + 1, c]
    used[feature] -= 1
    for b in range(lightest + 1, used[feature]):
        copy_bin(lows, highs, masses, counts, feature, b + 1, b)
    return lightest


@helper
def split_bin(used, lows, highs, masses, counts, feature, place, value):
    """Split a bin at a value, or in the middle; half of its samples go to each side."""
    if used[feature] == lows.shape[1]:
        merged = merge_lightest(used, lows, highs, masses, counts, feature)
        if merged < place:
            place -= 1
    low, high = lows[feature, place], highs[feature, place]
    cut = value if low <= value < high else 0.5 * (low + high)
    insert_bin(used, lows, highs, masses, counts, feature, place + 1, cut)
    highs[feature, place + 1] = high
    highs[feature, place] = cut
    masses[feature, place] *= 0.5
    masses[feature, place + 1] = masses[feature, place]
    for c in range(counts.shape[2]):
        counts[feature, place, c] *= 0.5
        counts[feature, place + 1, c] = counts[feature, place, c]


@helper
def count_value(
    floats, ints, used, lows, highs, masses, counts, present, feature, value, c, weight
):
    """Count a value of a class in its bin; make a bin for it while there is room."""
    bins, n = lows.shape[1], used[feature]
    place = bin_at_or_after(highs, feature, n, value)
    inside = place < n and lows[feature, place] <= value
    if not inside and n < bins:
        insert_bin(used, lows, highs, masses, counts, feature, place, value)
    elif not inside:
        place = closest_bin(lows, highs, feature, n, place, value)
        lows[feature, place] = min(lows[feature, place], value)
        highs[feature, place] = max(highs[feature, place], value)
    masses[feature, place] += weight
    counts[feature, place, c] += weight
    present[feature, c] += weight
    if lows[feature, place] == highs[feature, place]:
        return
    mass = masses[feature, place]
    if mass < SPLIT_MIN_SAMPLES * floats[UNIT]:
        return
    total = 0.0
    for k in range(ints[at.N_CLASSES]):
        total += present[feature, k]
    if mass * bins > HEAVY * total:
        split_bin(used, lows, highs, masses, counts, feature, place, value)


@helper
def rescale(floats, prior, used, masses, counts, present):
    """Divide all weights by that of a sample, before they become too large."""
    unit = floats[UNIT]
    for c in range(prior.shape[0]):
        prior[c] /= unit
    for i in range(masses.shape[0]):
        total = 0.0
        for c in range(prior.shape[0]):
            present[i, c] /= unit
            total += present[i, c]
        if total == 0.0:  # not seen for so long that nothing is left
            used[i] = 0
        for b in range(masses.shape[1]):
            masses[i, b] /= unit
            for c in range(prior.shape[0]):
                counts[i, b, c] /= unit
    floats[UNIT] = 1.0


# --- one reading ---------------------------------------------------------------------------------

BINS_ARRAYS = (
    "float64[::1], int64[::1], float64[::1], float64[::1], int64[::1], float64[:, ::1], "
    "float64[:, ::1], float64[:, ::1], float64[:, :, ::1], float64[:, ::1], float64[::1]"
)


@kernel(f"int64({BINS_ARRAYS}, int64)")
def learn_bins(
    floats, ints, work, prior, used, lows, highs, masses, counts, present, class_count, c
):
    """Predict the reading in `work`, then learn it; c == N_CLASSES is new. Return a status."""
    d, known = ints[at.N_FEATURES], ints[at.N_CLASSES]
    x, p, score = work[:d], work[d:], work[d + prior.shape[0] :]
    infinite = infinite_feature(x)
    if infinite:
        return infinite
    answered = work[d + 2 * prior.shape[0] :]
    if known > 0 and not is_answered(x, answered):
        score_classes(floats, ints, x, prior, used, lows, highs, masses, counts, present, p, score)
    answered[0] = 0.0
    if c == known:
        ints[at.N_CLASSES] += 1
    else:
        fit_exponent(score, known, floats, p, c, floats[GIVEN_WEIGHT])
    floats[UNIT] /= floats[KEPT]
    if floats[UNIT] > LARGEST_UNIT:
        rescale(floats, prior, used, masses, counts, present)
    weight = floats[GIVEN_WEIGHT] * floats[UNIT]
    prior[c] += weight
    class_count[c] += 1.0
    for i in range(d):
        if x[i] == x[i]:
            count_value(
                floats, ints, used, lows, highs, masses, counts, present, i, x[i], c, weight
            )
    ints[at.SAMPLES] += 1
    return at.DONE


@kernel(f"int64({BINS_ARRAYS})")
def predict_bins(
    floats, ints, work, prior, used, lows, highs, masses, counts, present, class_count
):
    """Compute the probabilities of the reading in `work`; return a status."""
    d = ints[at.N_FEATURES]
    x, p, score = work[:d], work[d:], work[d + prior.shape[0] :]
    infinite = infinite_feature(x)
    if infinite == 0:
        score_classes(floats, ints, x, prior, used, lows, highs, masses, counts, present, p, score)
        remember_answer(x, work[d + 2 * prior.shape[0] :])
    return infinite


# --- many readings -------------------------------------------------------------------------------


@kernel(f"void({BINS_ARRAYS}, float64[:, ::1], int64[::1], float64[::1], float64[:, ::1], int64)")
def learn_bins_rows(
    floats,
    ints,
    work,
    prior,
    used,
    lows,
    highs,
    masses,
    counts,
    present,
    class_count,
    rows,
    classes,
    weights,
    before,
    learn,
):
    """Learn rows; `weights` and `before` may be empty, see `prototypes.learn_array`."""
    d = ints[at.N_FEATURES]
    for k in range(rows.shape[0]):
        known = ints[at.N_CLASSES]
        work[:d] = rows[k]
        if weights.shape[0] > 0:
            floats[GIVEN_WEIGHT] = weights[k]
        arrays = (floats, ints, work, prior, used, lows, highs, masses, counts, present)
        call_integer(learn, (*arrays, class_count, classes[k]))
        if before.shape[0] > 0 and classes[k] < known and known > 1:
            before[k, :known] = work[d : d + known]


@kernel(f"void({BINS_ARRAYS}, float64[:, ::1], float64[:, ::1])")
def predict_bins_rows(
    floats, ints, work, prior, used, lows, highs, masses, counts, present, class_count, rows, out
):
    """Compute the probabilities of each row."""
    d = ints[at.N_FEATURES]
    score, answered = work[d + prior.shape[0] :], work[d + 2 * prior.shape[0] :]
    answered[0] = 0.0
    for k in range(rows.shape[0]):
        score_classes(
            floats,
            ints,
            rows[k],
            prior,
            used,
            lows,
            highs,
            masses,
            counts,
            present,
            out[k],
            score,
        )
