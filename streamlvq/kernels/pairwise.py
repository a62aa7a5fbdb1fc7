"""Pairwise models: two prototypes, a metric and a sigmoid for every pair of classes.

Pairs are numbered so that those of a new class come last: classes l < m form pair k =
m (m - 1) / 2 + l, with prototypes in slots 2 k (class l) and 2 k + 1 (class m). The score of a
pair is the signed relative similarity of its classes, from -1 (on the prototype of m) to 1 (on
the prototype of l).
"""

from __future__ import annotations

from math import exp, log, nan

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, inner
from streamlvq.kernels.coupling import couple_row
from streamlvq.kernels.distance import (
    MAX_DISTANCE,
    distance_with_gaps,
    drop_cached_prediction,
    has_cached_prediction,
    has_gaps,
)
from streamlvq.kernels.growth import (
    class_factor,
    copy,
    fair_share,
    inherit_metric,
    pick_rehearsed,
    rehearsed_weight,
    remember,
    rounds_of_learning,
    settle,
)
from streamlvq.kernels.learning import attract, clear, fill_gaps, glvq_by, move_with_matrix
from streamlvq.kernels.statistics import calibrate, to_probabilities
from streamlvq.kernels.views import row, table, vector

SAFE_SCORE = 0.9  # a pair does not learn from samples with at least this score on the right side
ALL_SCORES = 2.0  # a score is at most 1
SAFE_REHEARSED_SCORE = 0.4  # lower limit for rehearsed samples
YOUNG_SAMPLES = 10  # samples of a class during which its prototypes also follow the class mean
START_SLOPE = -4.0
SIGMOID_PRIOR = 1.0  # initial curvature of a sigmoid fit, in samples
SIGMOID_DECAY = 0.999
STEEPEST, FLATTEST = -100.0, -0.01
SIGMOID_MAX_OFFSET = 30.0
TINY = 1e-12

glvq = glvq_by(move_with_matrix)


@helper
def pair_number(one, other):
    return one * (one - 1) // 2 + other if one > other else other * (other - 1) // 2 + one


@helper
def measure_complete(x, w, inverse, omega, rank, known, c, z, y, squares):
    """Compute `measure_pairs` for a reading without gaps.

    A single function, because passing arrays to a helper for each pair would take as long as the
    computation. Four rows at a time: eight independent sums take little longer than one.
    """
    d = x.shape[0]
    for m in range(1, known):
        for low in range(m):
            if c >= 0 and c != low and c != m:
                continue
            k = m * (m - 1) // 2 + low
            for i in range(d):
                z[i] = (x[i] - w[2 * k, i]) * inverse[i]
                y[i] = (x[i] - w[2 * k + 1, i]) * inverse[i]
            first, second = 0.0, 0.0
            r, end = k * rank, (k + 1) * rank
            while r + 3 < end:
                a0, a1, a2, a3, b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for i in range(d):
                    a0 += omega[r, i] * z[i]
                    a1 += omega[r + 1, i] * z[i]
                    a2 += omega[r + 2, i] * z[i]
                    a3 += omega[r + 3, i] * z[i]
                    b0 += omega[r, i] * y[i]
                    b1 += omega[r + 1, i] * y[i]
                    b2 += omega[r + 2, i] * y[i]
                    b3 += omega[r + 3, i] * y[i]
                first += a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3
                second += b0 * b0 + b1 * b1 + b2 * b2 + b3 * b3
                r += 4
            while r < end:
                a0, b0 = 0.0, 0.0
                for i in range(d):
                    a0 += omega[r, i] * z[i]
                    b0 += omega[r, i] * y[i]
                first += a0 * a0
                second += b0 * b0
                r += 1
            squares[2 * k] = first if first < MAX_DISTANCE else MAX_DISTANCE
            squares[2 * k + 1] = second if second < MAX_DISTANCE else MAX_DISTANCE


@helper
def measure_pairs(floats, ints, work, x, gaps, c):
    """Compute distances in the pairs of class c (-1: in all pairs), into `slot_distance`."""
    d, rank, known = ints[at.N_FEATURES], ints[at.METRIC_RANK], ints[at.N_CLASSES]
    squares = views.slot_distance(work, ints)
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    if gaps == 0:
        inverse = vector(floats, ints, at.INVERSE, d)
        w = table(floats, ints, at.W, ints[at.PROTOTYPE_CAPACITY], d)
        omega = table(floats, ints, at.OMEGA, ints[at.METRICS] * rank, d)
        z, y = views.difference(work, ints), views.pull(work, ints)
        measure_complete(x, w, inverse, omega, rank, known, c, z, y, squares)
        return
    for p in range(ints[at.N_PROTOTYPES]):
        k = p // 2
        if c < 0 or c == labels[2 * k] or c == labels[2 * k + 1]:
            square = distance_with_gaps(floats, ints, work, x, p)
            squares[p] = square if square < MAX_DISTANCE else MAX_DISTANCE


@inner
def pair_score(squares, k):
    total = squares[2 * k] + squares[2 * k + 1]
    return (squares[2 * k + 1] - squares[2 * k]) / total if total > 0.0 else 0.0


@helper
def score_by_pairs(floats, ints, work):
    """Couple the sigmoids of all pairs; the score of a class is its log probability."""
    known = ints[at.N_CLASSES]
    platt = table(floats, ints, at.PLATT, ints[at.PAIRS], at.PLATT_COUNT)
    squares = views.slot_distance(work, ints)
    r = views.pair_probabilities(work, ints)
    for m in range(1, known):
        for low in range(m):
            k = m * (m - 1) // 2 + low
            s = platt[k, at.PLATT_SLOPE] * pair_score(squares, k) + platt[k, at.PLATT_OFFSET]
            odds = exp(s)  # of m; finite, because slope, score and offset are bounded
            r[low, m] = 1.0 / (1.0 + odds)
            r[m, low] = odds / (1.0 + odds)
    counts = views.pair_counts(work, ints)
    if ints[at.COUPLING] == at.HT:
        count_pairs(vector(floats, ints, at.CLASS_COUNT, ints[at.CLASS_CAPACITY]), counts)
    p = views.probabilities(work, ints)[:known]
    couple_row(r, counts, ints[at.COUPLING], views.coupling_scratch(work, ints), p)
    score = views.class_score(work, ints)
    for c in range(known):
        score[c] = log(p[c] + TINY)


@helper
def count_pairs(class_count, counts):
    """Compute the number of samples that each pair was learnt from."""
    for c in range(counts.shape[0]):
        for k in range(counts.shape[0]):
            counts[c, k] = max(class_count[c] + class_count[k], 1.0)


@helper
def fit_sigmoid(platt, k, score, first, weight):
    """Take one Newton step on the log loss of a score taken before its sample was learnt.

    The targets are Platt's: (n + 1) / (n + 2) for a class seen n times.
    """
    s = platt[k, at.PLATT_SLOPE] * score + platt[k, at.PLATT_OFFSET]
    p = 1.0 / (1.0 + exp(s))
    seen = at.PLATT_FIRST if first else at.PLATT_SECOND
    sure = (platt[k, seen] + 1.0) / (platt[k, seen] + 2.0)
    platt[k, seen] += 1.0
    error = weight * ((sure if first else 1.0 - sure) - p)
    weight *= p * (1.0 - p)
    at_curvature = at.PLATT_CURVATURE
    platt[k, at_curvature] = SIGMOID_DECAY * platt[k, at_curvature] + weight * score * score
    platt[k, at_curvature + 1] = SIGMOID_DECAY * platt[k, at_curvature + 1] + weight * score
    platt[k, at_curvature + 2] = SIGMOID_DECAY * platt[k, at_curvature + 2] + weight
    slopes, mixed = platt[k, at_curvature] + SIGMOID_PRIOR, platt[k, at_curvature + 1]
    offsets = platt[k, at_curvature + 2] + SIGMOID_PRIOR
    scale = error / (slopes * offsets - mixed * mixed)
    slope = platt[k, at.PLATT_SLOPE] - scale * (offsets * score - mixed)
    offset = platt[k, at.PLATT_OFFSET] - scale * (slopes - mixed * score)
    platt[k, at.PLATT_SLOPE] = min(FLATTEST, max(STEEPEST, slope))
    platt[k, at.PLATT_OFFSET] = min(SIGMOID_MAX_OFFSET, max(-SIGMOID_MAX_OFFSET, offset))


@helper
def calibrate_pairs(floats, ints, work, c):
    """Fit the sigmoids of all pairs of class c, with distances in `slot_distance`."""
    platt = table(floats, ints, at.PLATT, ints[at.PAIRS], at.PLATT_COUNT)
    squares = views.slot_distance(work, ints)
    for other in range(ints[at.N_CLASSES]):
        if other != c:
            k = pair_number(c, other)
            fit_sigmoid(platt, k, pair_score(squares, k), c < other, floats[at.SAMPLE_WEIGHT])


@helper
def class_mean(floats, ints, c, out):
    """Compute the mean reading of a class, NaN for features it never had."""
    d = ints[at.N_FEATURES]
    mean = row(floats, ints, at.CLASS_MEAN, c, d)
    weight = row(floats, ints, at.CLASS_WEIGHT, c, d)
    copy(mean, out)
    for i in range(d):
        if weight[i] == 0.0:
            out[i] = nan


@helper
def pair_up(floats, ints, work, x, c):
    """Pair a new class, at its first sample, with all others, at their means."""
    mean = views.difference(work, ints)
    for other in range(c):
        k = pair_number(c, other)
        class_mean(floats, ints, other, mean)
        settle(floats, ints, mean, other, 2 * k)
        settle(floats, ints, x, c, 2 * k + 1)
        inherit_metric(floats, ints, 2 * k, -1)
        platt = row(floats, ints, at.PLATT, k, at.PLATT_COUNT)
        clear(platt)
        platt[at.PLATT_SLOPE] = START_SLOPE
        vector(ints, ints, at.CLASS_SIZE, ints[at.CLASS_CAPACITY])[other] += 1
    vector(ints, ints, at.CLASS_SIZE, ints[at.CLASS_CAPACITY])[c] = c
    ints[at.N_CLASSES] = c + 1
    ints[at.N_PROTOTYPES] = c * (c + 1)


@inner
def side_of(squares, c, other):
    """Return the score of a sample for class c in a pair: 1 is clearly right, -1 clearly wrong."""
    score = pair_score(squares, pair_number(c, other))
    return score if c < other else -score


@helper
def teach_pair(floats, ints, work, x, c, other, gaps):
    """Learn a sample of class c in one of its pairs, given its distances."""
    k = pair_number(c, other)
    right, wrong = (2 * k, 2 * k + 1) if c < other else (2 * k + 1, 2 * k)
    squares = views.slot_distance(work, ints)
    if gaps == 1:
        fill_gaps(floats, ints, x, right)
    glvq(floats, ints, work, x, c, squares[right], squares[wrong], right, wrong, gaps)


@helper
def teach_pairs(floats, ints, work, x, c, gaps):
    """Learn a new sample of class c in all of its pairs with a score below `SAFE_SCORE`."""
    squares = views.slot_distance(work, ints)
    wins = vector(floats, ints, at.WINS, ints[at.PROTOTYPE_CAPACITY])
    count = vector(floats, ints, at.CLASS_COUNT, ints[at.CLASS_CAPACITY])[c]
    safe = SAFE_SCORE
    if ints[at.PASSIVE] > 0:
        count = YOUNG_SAMPLES  # epochs repeat samples that the means already include
    if ints[at.STEPS] == at.PUBLISHED_STEPS:
        count, safe = YOUNG_SAMPLES, ALL_SCORES
    for other in range(ints[at.N_CLASSES]):
        if other == c:
            continue
        side = side_of(squares, c, other)
        right = 2 * pair_number(c, other) + (0 if c < other else 1)
        if side > 0.0:
            wins[right] += 1.0
        if gaps == 1:
            fill_gaps(floats, ints, x, right)
        if count < YOUNG_SAMPLES:
            attract(floats, ints, x, right, 1.0 / (count + 1.0))
        if side < safe:
            teach_pair(floats, ints, work, x, c, other, gaps)


@helper
def rehearse(floats, ints, work, fair):
    """Learn a stored sample in the pair where its score is worst."""
    position = pick_rehearsed(floats, ints)
    x = row(floats, ints, at.BUFFER_X, position, ints[at.N_FEATURES])
    c = vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position]
    gaps = has_gaps(ints, x)
    measure_pairs(floats, ints, work, x, gaps, c)
    squares = views.slot_distance(work, ints)
    worst, side = -1, 1.0
    for other in range(ints[at.N_CLASSES]):
        if other != c and side_of(squares, c, other) < side:
            worst, side = other, side_of(squares, c, other)
    vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])[position] = -side
    floats[at.SAMPLE_WEIGHT] = rehearsed_weight(floats, ints, position, c, fair)
    if worst >= 0 and side < SAFE_REHEARSED_SCORE:
        teach_pair(floats, ints, work, x, c, worst, gaps)


@helper
def learn_in_pairs(floats, ints, work, x, c):
    """Learn one sample of class c, then rehearse; c == N_CLASSES adds a new class."""
    gaps = has_gaps(ints, x)
    known = ints[at.N_CLASSES]
    silent = ints[at.PASSIVE] == at.SILENT
    given = floats[at.SAMPLE_WEIGHT]
    if c >= known:
        pair_up(floats, ints, work, x, c)
    elif known > 1:
        weight = class_factor(floats, ints, c, fair_share(floats, ints))
        answered = has_cached_prediction(ints, work, x)
        if not answered:
            measure_pairs(floats, ints, work, x, gaps, c if silent else -1)
        if not silent:
            if not answered:
                score_by_pairs(floats, ints, work)
            to_probabilities(floats, ints, work)
            calibrate(floats, ints, work, c)
            floats[at.SAMPLE_WEIGHT] = given * weight
            calibrate_pairs(floats, ints, work, c)
        floats[at.SAMPLE_WEIGHT] = given * weight
        teach_pairs(floats, ints, work, x, c, gaps)
    drop_cached_prediction(ints, work)
    remember(floats, ints, x, c, given)
    fair = fair_share(floats, ints)
    for _ in range(1, rounds_of_learning(ints)):
        rehearse(floats, ints, work, fair)
    floats[at.SAMPLE_WEIGHT] = given
    return at.DONE
