"""Forest of randomised trees on a window of recent samples: growing, counting, predicting.

A model passes `floats` (see `sharpening`, and the weight of the sample), `ints` (sizes, limits and
counters), `work` (the reading, probabilities and scores of the classes, what they are about), the
window (`window_x`: features x samples, `window_y`, `window_w`; rings of the last samples) and the
trees: `nodes` (trees x nodes x NODE_COLUMNS), `cuts` (trees x nodes) and `counts` (trees x leaves
x classes), and `class_count` (samples learnt of each class). Node 0 is the root; the children of a
node are neighbours and come after it.
"""

from __future__ import annotations

from math import log

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.growth import MODULUS, random_unit
from streamlvq.kernels.internals import call_integer
from streamlvq.kernels.prototypes import infinite_feature
from streamlvq.kernels.sharpening import (
    FIT_NUMBERS,
    fit_exponent,
    is_answered,
    remember_answer,
    to_chances,
)

# Numbers of `ints` beside those that all models have: features, classes, samples, random state.
TREES_GROWN, OLDEST, COUNTDOWN = (
    29,
    30,
    31,
)  # trees in use, the next to be regrown, samples until then
SHORTEST, REGROW_EVERY, MAX_DEPTH, MIN_LEAF, TRIES = 32, 33, 34, 35, 36
FOREST_HEADER = 37

GIVEN_WEIGHT = FIT_NUMBERS  # position of the sample's weight in `floats`
FOREST_NUMBERS = FIT_NUMBERS + 1

# Columns of `nodes`. A leaf has no children: its FIRST_CHILD is 0, which is the root.
FEATURE, FIRST_CHILD, GAP_SIDE, LEAF = 0, 1, 2, 3  # GAP_SIDE: the child for missing values, 0 or 1
NODE_COLUMNS = 4

MAX_CUTS = 7  # thresholds tried for a feature
SMOOTHING = 0.3  # samples, spread over all classes, that every leaf has seen
LAST_RANDOM = MODULUS - 1  # states of the generator are 1 to this
MIN_GAIN = 1e-9  # share of a node's purity that a cut must add


# --- asking --------------------------------------------------------------------------------------


@helper
def leaf_of(nodes, cuts, tree, x):
    """Return the leaf of a tree that a reading comes to."""
    node = 0
    while nodes[tree, node, FIRST_CHILD] != 0:
        value = x[nodes[tree, node, FEATURE]]
        if value <= cuts[tree, node]:
            side = 0
        elif value > cuts[tree, node]:
            side = 1
        else:  # missing
            side = nodes[tree, node, GAP_SIDE]
        node = nodes[tree, node, FIRST_CHILD] + side
    return nodes[tree, node, LEAF]


@helper
def ask_trees(floats, ints, x, nodes, cuts, counts, p, score):
    """Compute probabilities from the mean of smoothed frequencies in the leaves of a reading."""
    known, trees = ints[at.N_CLASSES], ints[TREES_GROWN]
    for c in range(known):
        score[c] = 0.0
    for tree in range(trees):
        leaf = leaf_of(nodes, cuts, tree, x)
        total = SMOOTHING
        for c in range(known):
            total += counts[tree, leaf, c]
        share = SMOOTHING / known
        for c in range(known):
            score[c] += (counts[tree, leaf, c] + share) / total
    for c in range(known):
        score[c] = log(score[c] / trees) if trees > 0 else 0.0
    to_chances(score, known, floats, p)


# --- growing -------------------------------------------------------------------------------------


@helper
def place_among(values, count, value):
    """Return how many of the sorted values are less than this one."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def bin_of(cuts, value):
    """Return how many of the sorted cuts are less than a value; those not in use are infinite."""
    b = 4 if cuts[3] < value else 0
    b += 2 if cuts[b + 1] < value else 0
    return b + 1 if cuts[b] < value else b


@helper
def draw_cuts(ints, window_x, order, start, end, feature, drawn, cuts):
    """Draw values of a feature from a node; return the number of cuts between them, in order."""
    count = 0
    wanted = min(MAX_CUTS + 1, end - start)
    for k in range(wanted):
        sample = start + k  # a small node: every sample
        if end - start > MAX_CUTS + 1:
            sample = start + int(random_unit(ints) * (end - start))
        value = window_x[feature, order[sample]]
        if value == value:
            place = place_among(drawn, count, value)
            if place == count or drawn[place] != value:
                for j in range(count, place, -1):
                    drawn[j] = drawn[j - 1]
                drawn[place] = value
                count += 1
    for k in range(count - 1):
        middle = 0.5 * (drawn[k] + drawn[k + 1])
        cuts[k] = middle if middle < drawn[k + 1] else drawn[k]
    for k in range(max(0, count - 1), MAX_CUTS):
        cuts[k] = np.inf
    return max(0, count - 1)


@helper
def sort_into_bins(
    window_x, order, start, end, feature, cuts, n_cuts, bins, starts, sorted_samples
):
    """Sort the samples of a node by the cuts between which they lie; missing ones come last.

    `starts` receives where each of the `n_cuts + 2` bins begins in `sorted_samples`, and its end.
    """
    for b in range(n_cuts + 3):
        starts[b] = 0
    for k in range(start, end):
        value = window_x[feature, order[k]]
        b = bin_of(cuts, value) if value == value else n_cuts + 1
        bins[k] = b
        starts[b + 1] += 1
    for b in range(n_cuts + 2):
        starts[b + 1] += starts[b]
    for k in range(start, end):
        b = bins[k]
        sorted_samples[starts[b]] = order[k]
        starts[b] += 1
    for b in range(n_cuts + 1, -1, -1):
        starts[b + 1] = starts[b]
    starts[0] = 0


@helper
def best_cut(ints, y, w, samples, starts, n_cuts, whole, left, right, gaps, best):
    """Find the cut after which the two sides are purest; return its number, -1 if `best` is better.

    Purity is the sum over both sides of squared class weights over their sum. `best` holds purity
    and side for missing values, `whole` the class weights of the node. `gaps` are zeros.
    """
    weight_left, weight_right, weight_gaps = 0.0, 0.0, 0.0
    square_left, square_right, square_gaps = 0.0, 0.0, 0.0  # of class weights
    cross_left, cross_right = 0.0, 0.0  # products of class weights with those of missing values
    present, end = starts[n_cuts + 1], starts[n_cuts + 2]
    for k in range(present, end):
        c, weight = y[samples[k]], w[samples[k]]
        square_gaps += weight * (2.0 * gaps[c] + weight)
        gaps[c] += weight
        weight_gaps += weight
    for c in range(ints[at.N_CLASSES]):
        left[c], right[c] = 0.0, whole[c] - gaps[c]
        weight_right += right[c]
        square_right += right[c] * right[c]
        cross_right += right[c] * gaps[c]
    found = -1
    for cut in range(n_cuts):
        for k in range(starts[cut], starts[cut + 1]):
            c, weight = y[samples[k]], w[samples[k]]
            square_left += weight * (2.0 * left[c] + weight)
            square_right -= weight * (2.0 * right[c] - weight)
            cross_left += weight * gaps[c]
            cross_right -= weight * gaps[c]
            left[c] += weight
            right[c] -= weight
            weight_left += weight
            weight_right -= weight
        if min(starts[cut + 1], present - starts[cut + 1]) < ints[MIN_LEAF]:
            continue
        if weight_left <= 0.0 or weight_right <= 0.0:
            continue
        with_left = (square_left + 2.0 * cross_left + square_gaps) / (weight_left + weight_gaps)
        with_right = (square_right + 2.0 * cross_right + square_gaps) / (weight_right + weight_gaps)
        with_left += square_right / weight_right
        with_right += square_left / weight_left
        side = 0.0 if with_left > with_right else 1.0
        if with_left == with_right and weight_left >= weight_right:
            side = 0.0  # nothing was missing: go the way of the majority
        purity = max(with_left, with_right)
        if purity > best[0]:
            best[0], best[1], found = purity, side, cut
    for k in range(present, end):
        gaps[y[samples[k]]] = 0.0
    return found


@helper
def purity_of(y, w, order, start, end, weights):
    """Compute the class weights of a node; return their squares over their sum, and their sum."""
    total, square = 0.0, 0.0
    weights[:] = 0.0
    for k in range(start, end):
        c, weight = y[order[k]], w[order[k]]
        square += weight * (2.0 * weights[c] + weight)
        weights[c] += weight
        total += weight
    return square / total, total


@helper
def divide(window_x, order, start, end, feature, cut, gap_side, spare):
    """Put the samples of the first child first, in their order; return where the others begin."""
    middle, rest = start, 0
    for k in range(start, end):
        value = window_x[feature, order[k]]
        first = value <= cut if value == value else gap_side == 0
        if first:
            order[middle] = order[k]
            middle += 1
        else:
            spare[rest] = order[k]
            rest += 1
    for k in range(rest):
        order[middle + k] = spare[k]
    return middle


@helper
def draw_window(ints, capacity):
    """Return how many of the last samples a tree is grown on."""
    stored = min(ints[at.SAMPLES], capacity)
    shortest = min(stored, ints[SHORTEST])
    return shortest + int(random_unit(ints) * (stored - shortest + 1))


@helper
def grow_tree(ints, tree, window_x, window_y, window_w, nodes, cuts, counts):
    """Grow a tree on a bootstrap of the last samples, then let all of these count in its leaves."""
    d, capacity = window_x.shape
    n = draw_window(ints, capacity)
    newest = ints[at.SAMPLES] - 1
    order = np.empty(n, np.int64)
    for k in range(n):
        order[k] = (newest - int(random_unit(ints) * n)) % capacity
    shuffled = np.arange(d)
    starts, ends = np.empty(nodes.shape[1], np.int64), np.empty(nodes.shape[1], np.int64)
    depths = np.zeros(nodes.shape[1], np.int64)
    bins, samples = np.empty(n, np.int64), np.empty(n, np.int64)
    bin_starts = np.empty(MAX_CUTS + 3, np.int64)
    drawn, tried = np.empty(MAX_CUTS + 1), np.empty(MAX_CUTS)
    left, right = np.zeros(counts.shape[2]), np.zeros(counts.shape[2])
    whole, gaps = np.zeros(counts.shape[2]), np.zeros(counts.shape[2])
    best = np.zeros(2)
    starts[0], ends[0] = 0, n
    used, leaves = 1, 0
    for node in range(nodes.shape[1]):
        if node == used:
            break
        start, end = starts[node], ends[node]
        nodes[tree, node, FIRST_CHILD] = 0
        cuts[tree, node] = 0.0
        purity, total = purity_of(window_y, window_w, order, start, end, whole)
        splittable = end - start >= 2 * ints[MIN_LEAF] and depths[node] < ints[MAX_DEPTH]
        if splittable and purity < total * (1.0 - MIN_GAIN) and used + 2 <= nodes.shape[1]:
            best[0] = purity + MIN_GAIN * total
            usable = 0
            for k in range(d):
                if usable == ints[TRIES]:
                    break
                other = k + int(random_unit(ints) * (d - k))
                feature = shuffled[other]
                shuffled[other] = shuffled[k]
                shuffled[k] = feature
                n_cuts = draw_cuts(ints, window_x, order, start, end, feature, drawn, tried)
                if n_cuts == 0:
                    continue
                usable += 1
                sort_into_bins(
                    window_x, order, start, end, feature, tried, n_cuts, bins, bin_starts, samples
                )
                found = best_cut(
                    ints,
                    window_y,
                    window_w,
                    samples,
                    bin_starts,
                    n_cuts,
                    whole,
                    left,
                    right,
                    gaps,
                    best,
                )
                if found >= 0:
                    nodes[tree, node, FEATURE] = feature
                    nodes[tree, node, FIRST_CHILD] = used
                    nodes[tree, node, GAP_SIDE] = int(best[1])
                    cuts[tree, node] = tried[found]
        if nodes[tree, node, FIRST_CHILD] == 0:
            nodes[tree, node, FEATURE] = nodes[tree, node, GAP_SIDE] = 0
            nodes[tree, node, LEAF] = leaves
            for c in range(counts.shape[2]):
                counts[tree, leaves, c] = 0.0
            leaves += 1
        else:
            nodes[tree, node, LEAF] = 0
            middle = divide(
                window_x,
                order,
                start,
                end,
                nodes[tree, node, FEATURE],
                cuts[tree, node],
                nodes[tree, node, GAP_SIDE],
                samples,
            )
            starts[used], ends[used], depths[used] = start, middle, depths[node] + 1
            starts[used + 1], ends[used + 1], depths[used + 1] = middle, end, depths[node] + 1
            used += 2
    for k in range(n):
        sample = (newest - k) % capacity
        counts[tree, leaf_of(nodes, cuts, tree, window_x[:, sample]), window_y[sample]] += window_w[
            sample
        ]


@helper
def regrow(ints, window_x, window_y, window_w, nodes, cuts, counts):
    """Regrow the oldest tree; while there are few samples, more often than later."""
    trees = nodes.shape[0]
    grow_tree(ints, ints[OLDEST], window_x, window_y, window_w, nodes, cuts, counts)
    ints[OLDEST] = (ints[OLDEST] + 1) % trees
    ints[TREES_GROWN] = min(trees, ints[TREES_GROWN] + 1)
    ints[COUNTDOWN] = max(1, min(ints[REGROW_EVERY], ints[at.SAMPLES] // trees))


# --- one reading ---------------------------------------------------------------------------------

FOREST_ARRAYS = (
    "float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], float64[::1], "
    "int32[:, :, ::1], float64[:, ::1], float64[:, :, ::1], float64[::1]"
)


@kernel(f"int64({FOREST_ARRAYS}, int64)")
def learn_forest(
    floats, ints, work, window_x, window_y, window_w, nodes, cuts, counts, class_count, c
):
    """Predict the reading in `work`, then learn it; c == N_CLASSES is new. Return a status."""
    d = ints[at.N_FEATURES]
    x = work[:d]
    infinite = infinite_feature(x)
    if infinite:
        return infinite
    known, weight = ints[at.N_CLASSES], floats[GIVEN_WEIGHT]
    p, score = work[d:], work[d + counts.shape[2] :]
    answered = work[d + 2 * counts.shape[2] :]
    if known > 0 and not is_answered(x, answered):
        ask_trees(floats, ints, x, nodes, cuts, counts, p, score)
    answered[0] = 0.0
    if c == known:
        ints[at.N_CLASSES] += 1
    else:
        fit_exponent(score, known, floats, p, c, weight)
    for tree in range(ints[TREES_GROWN]):
        counts[tree, leaf_of(nodes, cuts, tree, x), c] += weight
    place = ints[at.SAMPLES] % window_x.shape[1]
    for i in range(d):
        window_x[i, place] = x[i]
    window_y[place], window_w[place] = c, weight
    class_count[c] += 1.0
    ints[at.SAMPLES] += 1
    ints[COUNTDOWN] -= 1
    if ints[COUNTDOWN] <= 0:
        regrow(ints, window_x, window_y, window_w, nodes, cuts, counts)
    return at.DONE


@kernel(f"int64({FOREST_ARRAYS})")
def predict_forest(
    floats, ints, work, window_x, window_y, window_w, nodes, cuts, counts, class_count
):
    """Compute the probabilities of the reading in `work`; return a status."""
    d = ints[at.N_FEATURES]
    infinite = infinite_feature(work[:d])
    if infinite == 0:
        p, score = work[d:], work[d + counts.shape[2] :]
        ask_trees(floats, ints, work[:d], nodes, cuts, counts, p, score)
        remember_answer(work[:d], work[d + 2 * counts.shape[2] :])
    return infinite


# --- many readings -------------------------------------------------------------------------------


@kernel(f"void({FOREST_ARRAYS}, float64[:, ::1], int64[::1], float64[::1], float64[:, ::1], int64)")
def learn_forest_rows(
    floats,
    ints,
    work,
    window_x,
    window_y,
    window_w,
    nodes,
    cuts,
    counts,
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
        arrays = (floats, ints, work, window_x, window_y, window_w, nodes, cuts, counts)
        call_integer(learn, (*arrays, class_count, classes[k]))
        if before.shape[0] > 0 and classes[k] < known and known > 1:
            before[k, :known] = work[d : d + known]


@kernel(f"void({FOREST_ARRAYS}, float64[:, ::1], float64[:, ::1])")
def predict_forest_rows(
    floats, ints, work, window_x, window_y, window_w, nodes, cuts, counts, class_count, rows, out
):
    """Compute the probabilities of each row."""
    d, classes = ints[at.N_FEATURES], counts.shape[2]
    score, answered = work[d + classes :], work[d + 2 * classes :]
    answered[0] = 0.0
    for k in range(rows.shape[0]):
        ask_trees(floats, ints, rows[k], nodes, cuts, counts, out[k], score)
