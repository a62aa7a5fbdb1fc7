"""Batch step over many readings: model, window of a device, and rejector with its thresholds.

`step_batch` does what `streamlvq.wrappers` do for one reading, in the same order and with the same
arithmetic; `streamlvq.monitor.pipeline` handles the rare cases. The model's kernels and the rule of
an adaptive threshold are called by address, so that they are compiled once, when first used.

A window is the product of the class probabilities of successive readings, as sums of logs.
`logs` is the window of a device: one row per reading, the newest last, and their sums in row 0, so
that a prediction needs one addition per class. Unused rows are zero. The columns after those of the
known classes, at least one, are for classes that were unknown when a reading arrived: they get its
mean probability, 1 / the number of classes known then.
"""

from __future__ import annotations

from math import inf, log, nan

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.distance import closest_two, relative_difference
from streamlvq.kernels.internals import call_float, call_integer
from streamlvq.kernels.novelty import OUT_COMPARED, add_scores, beyond_ball

# --- windows -------------------------------------------------------------------------------------

PROBABILITY_FLOOR = 1e-6  # smallest probability; also replaces NaN
LOG_PROBABILITY_FLOOR = log(PROBABILITY_FLOOR)


@helper
def floored_log(p):
    return log(p) if p > PROBABILITY_FLOOR else LOG_PROBABILITY_FLOOR


@kernel("int64(float64[:, ::1], float64[::1], float64[::1])")
def combine(logs, p, out):
    """Combine a window and a reading into probabilities; return the likeliest class."""
    unknown = logs.shape[1] - 1
    top = -inf
    for c in range(p.shape[0]):
        out[c] = floored_log(p[c]) + logs[0, min(c, unknown)]
        top = max(top, out[c])
    total = 0.0
    for c in range(p.shape[0]):
        out[c] = np.exp(out[c] - top)
        total += out[c]
    best = 0
    for c in range(p.shape[0]):
        out[c] /= total
        if out[c] > out[best]:
            best = c
    return best


@kernel("void(float64[:, ::1], float64[::1])")
def advance(logs, p):
    """Add a reading to a window with a column per class and drop the oldest.

    The sums are recomputed, because repeated adding and subtracting would accumulate errors.
    """
    rows, columns, known = logs.shape[0], logs.shape[1], p.shape[0]
    if rows < 2:  # a window of one reading stores nothing
        return
    for r in range(1, rows - 1):
        for c in range(columns):
            logs[r, c] = logs[r + 1, c]
    for c in range(columns):
        logs[rows - 1, c] = floored_log(p[c]) if c < known else -log(known)
    for c in range(columns):
        total = 0.0
        for r in range(1, rows):
            total += logs[r, c]
        logs[0, c] = total


# --- adaptive thresholds -------------------------------------------------------------------------
#
# `memory` holds recent certainties in four rows: certainties in order of arrival and whether each
# decision was right (1 or 0), then the same two sorted by certainty. It is a ring buffer: reading
# `seen` replaces the oldest.

CAME, CAME_RIGHT, SORTED, SORTED_RIGHT = 0, 1, 2, 3


@helper
def take_out(memory, stored, certainty, right):
    """Remove one of the sorted certainties."""
    gap = 0
    while memory[SORTED, gap] != certainty or memory[SORTED_RIGHT, gap] != right:
        gap += 1
    for k in range(gap, stored - 1):
        memory[SORTED, k] = memory[SORTED, k + 1]
        memory[SORTED_RIGHT, k] = memory[SORTED_RIGHT, k + 1]


@kernel("void(float64[:, ::1], int64, float64, float64)")
def remember(memory, seen, certainty, right):
    """Add a certainty (not NaN); drop the oldest one if the buffer is full."""
    room = memory.shape[1]
    place, stored = seen % room, seen
    if seen >= room:
        take_out(memory, room, memory[CAME, place], memory[CAME_RIGHT, place])
        stored = room - 1
    memory[CAME, place] = certainty
    memory[CAME_RIGHT, place] = right
    k = stored
    while k > 0 and memory[SORTED, k - 1] > certainty:
        memory[SORTED, k] = memory[SORTED, k - 1]
        memory[SORTED_RIGHT, k] = memory[SORTED_RIGHT, k - 1]
        k -= 1
    memory[SORTED, k] = certainty
    memory[SORTED_RIGHT, k] = right


@helper
def separates(memory, k):
    """Return whether a threshold can separate the sorted certainties from k on from the rest."""
    return k == 0 or memory[SORTED, k - 1] < memory[SORTED, k]


@helper
def first_above(memory, stored, certainty, equal):
    """Return how many sorted certainties are below a value, or (if `equal`) not above it."""
    low, high = 0, stored
    while low < high:
        middle = (low + high) // 2
        value = memory[SORTED, middle]
        if value < certainty or (equal and value == certainty):
            low = middle + 1
        else:
            high = middle
    return low


# A certainty of 0 is none: it is never accepted, not even by a threshold of 0.

GOLDEN_RATIO = 0.6180339887498949  # multiples of it, without their whole part, fall evenly anywhere

# A rule gets the memory, how many certainties are in it, its target, and how many were ever seen.


@kernel("float64(float64[:, ::1], int64, float64, int64)")
def rate_threshold(memory, stored, share, seen):
    """Return the threshold that rejects this share, for the next reading.

    Of readings of equal certainty so many are rejected that the share holds, spread evenly over
    them. If more than the share have no certainty at all, exactly those are rejected.
    """
    wanted = share * stored
    rejected = int(wanted + 1e-9)  # 0.29 * 100 is a little less than 29
    if rejected == 0:
        return 0.0  # also accepts certainties below all those seen
    if rejected >= stored:
        return inf
    certainty = memory[SORTED, rejected]
    if certainty == 0.0:
        return 0.0
    fewer = first_above(memory, stored, certainty, False)
    more = first_above(memory, stored, certainty, True)
    if more - fewer == 1 or (seen * GOLDEN_RATIO) % 1.0 >= (wanted - fewer) / (more - fewer):
        return certainty
    return memory[SORTED, more] if more < stored else inf


@kernel("float64(float64[:, ::1], int64, float64, int64)")
def accurate_threshold(memory, stored, target, seen):
    """Return the lowest threshold that reaches the accuracy; infinite if there is none."""
    threshold, right = inf, 0.0
    for k in range(stored - 1, -1, -1):
        right += memory[SORTED_RIGHT, k]
        if separates(memory, k) and right / (stored - k) >= target:
            threshold = memory[SORTED, k]
    return threshold


@kernel("float64(float64[:, ::1], int64, float64, int64)")
def cheapest_threshold(memory, stored, cost, seen):
    """Return the lowest threshold that minimises errors + cost * rejections."""
    threshold, least, errors = inf, cost * stored, 0.0
    for k in range(stored - 1, -1, -1):
        errors += 1.0 - memory[SORTED_RIGHT, k]
        total = errors + cost * k
        if separates(memory, k) and total <= least:
            threshold, least = memory[SORTED, k], total
    return threshold


# --- the batch step -----------------------------------------------------------------------------

# Targets that are not class numbers.
UNLABELLED, DUPLICATE = -1, -2

# Settings: kind of certainty, rule of the threshold, and novelty of an outlier.
CERTAINTY, RULE, TARGET, WINDOWED, NOVELTY_LIMIT = 0, 1, 2, 3, 4
PROBABILITY, RELSIM = 0, 1
FIXED, TARGET_RATE, TARGET_ACCURACY, REJECT_COST = 0, 1, 2, 3

# Columns of the measures.
OUT_CERTAINTY, OUT_THRESHOLD, OUT_OUTLIER, OUT_NOVELTY = 0, 1, 2, 3
MEASURES = OUT_NOVELTY + at.STRANGENESS_COUNT  # from the novelty on as `novelty` has them

# What says that a reading is an outlier.
NO_OUTLIER, BY_NOVELTY, BY_BALL = 0, 1, 2

# Verdicts.
ACCEPTED, REJECTED, NO_MODEL, NO_FEATURE = 0, 1, 2, 3


@helper
def judge(ints, work, by_relsim, codes, best, p, own):
    """Return the certainty of a label; -1 before two classes are known.

    `codes` are the labels that the classes of the model are; empty if they are the same. Where the
    model speaks for a pool that decided otherwise, the lead of the pool's probability counts.
    """
    if not by_relsim:
        return p[best]
    near, other, winner, runner_up = closest_two(ints, work)
    if runner_up < 0:
        return -1.0
    label = codes[winner] if codes.shape[0] > 0 else winner
    if label == best:
        return relative_difference(near, other)
    return lead(own, best) if codes.shape[0] > 0 else 0.0


@helper
def lead(p, label):
    """Return by how much a label is more probable than any other; 0 if it is not."""
    most = 0.0
    for c in range(p.shape[0]):
        if c != label:
            most = max(most, p[c])
    return max(p[label] - most, 0.0)


@helper
def likeliest(p, known):
    best = 0
    for c in range(1, known):
        if p[c] > p[best]:
            best = c
    return best


@helper
def opinion(p, logs, counts, place, no_past, windowed, fitted, evidence, by_filter, out):
    """Return the likeliest class, over the window if there is one; probabilities in `out`."""
    if by_filter != 0:
        past = logs[place] if place >= 0 else no_past
        count = counts[place] if place >= 0 else 0
        return call_integer(by_filter, (past, count, fitted, p, 0, evidence, out))
    if windowed:
        return combine(logs[place] if place >= 0 else no_past, p, out)
    for c in range(p.shape[0]):
        out[c] = p[c]
    return likeliest(out, p.shape[0])


@kernel(
    "int64(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], float64[:, ::1], "
    "int64[::1], int64[::1], int64, int64, int64[::1], int64[::1], float64[:, :, ::1], "
    "int64[::1], int64[::1], float64[::1], int64[::1], float64[:, :, ::1], float64[::1], "
    "float64[::1], float64[:, ::1], int64[::1], float64[:, :, ::1], float64[:, ::1], int64[::1], "
    "float64[::1], int64[::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], int64, "
    "int64, int64, int64, int64, int64)"
)
def step_batch(
    floats,
    ints,
    work,
    rows,
    targets,
    given,
    given_codes,
    given_empty,
    start,
    end,
    places,
    fresh,
    logs,
    counts,
    last_labels,
    fitted,
    label_codes,
    evidence,
    settings,
    thresholds,
    memory,
    seen,
    scores,
    sums,
    scored,
    scratch,
    codes,
    verdicts,
    versions,
    measures,
    probabilities,
    predict,
    learn,
    adapt,
    novelty,
    by_filter,
    learn_by_filter,
):
    """Process rows from `start` to `end`; return the row at which a slot was needed, or the end.

    `targets` are class numbers, UNLABELLED or DUPLICATE. `places` are the window slots of the
    devices, -1 for none; `fresh` is 1 where a window starts. `thresholds` has one entry per class;
    `memory` and `seen` belong to an adaptive threshold; `scores`, `sums` and `scored` to novelty.
    In a pool, whose probabilities are `given`, the model is the one that speaks for it:
    `given_codes` are the classes of the pool that its classes are, and `given_empty` is 1 where no
    model of the pool has a feature of the reading. `given` has no rows for any other model.
    `predict` and `learn` are the addresses of the model's kernels, `adapt` that of the rule of an
    adaptive threshold, `novelty` that of `measure_novelty`, or 0 where it is not measured, and the
    last two those of a filter, if the window is one. `last_labels`, `fitted` and `evidence` are
    the filter's, see `streamlvq.kernels.filtering`; `label_codes` are the labels that it learns.
    """
    pooled = given.shape[0] > 0
    by_relsim = settings[CERTAINTY] == RELSIM
    windowed = settings[WINDOWED] == 1.0
    rule = int(settings[RULE])
    measured = novelty != 0
    moving = inf
    no_past = np.zeros((1, 1))
    stale = True
    x = views.reading(work, ints)
    for k in range(start, end):
        known = given.shape[1] if pooled else ints[at.N_CLASSES]
        blank = True
        for i in range(x.shape[0]):
            x[i] = rows[k, i]
            blank = blank and x[i] != x[i]
        call_integer(predict, (floats, ints, work))
        empty = given_empty[k] == 1 if pooled else blank
        own = given[k] if pooled else views.probabilities(work, ints)[:known]
        place = -1 if fresh[k] == 1 else places[k]
        best = opinion(
            own,
            logs,
            counts,
            place,
            no_past,
            windowed,
            fitted,
            evidence[k if by_filter != 0 else 0],
            by_filter,
            probabilities[k],
        )
        certainty = judge(ints, work, by_relsim, given_codes, best, probabilities[k], own)
        verdicts[k] = ACCEPTED if certainty >= 0.0 else NO_MODEL
        if empty and certainty >= 0.0:
            verdicts[k] = NO_FEATURE
            certainty = -1.0
        if rule == FIXED:
            threshold = thresholds[best]
        else:
            if stale:
                stored = min(seen[0], memory.shape[1])
                moving = call_float(adapt, (memory, stored, settings[TARGET], seen[0]))
                stale = False
            threshold = moving
        codes[k] = best
        versions[k] = ints[at.SAMPLES]
        measures[k, OUT_CERTAINTY] = max(certainty, 0.0)
        measures[k, OUT_THRESHOLD] = threshold
        strange = measures[k, OUT_NOVELTY:]
        strange[0] = nan
        if verdicts[k] == ACCEPTED:
            if not (certainty >= threshold and certainty > 0.0):
                verdicts[k] = REJECTED
            if measured and not blank:
                call_float(novelty, (floats, ints, work, scores, sums, scored, strange))
            outlier = NO_OUTLIER
            new = measured and strange[0] >= settings[NOVELTY_LIMIT]
            if measured and strange[OUT_COMPARED] == 1.0:
                outlier = BY_NOVELTY if new else NO_OUTLIER
            elif new or (verdicts[k] == REJECTED and (by_relsim or measured)):
                far = not blank and beyond_ball(floats, ints, work) == 1
                outlier = BY_BALL if far else NO_OUTLIER
            measures[k, OUT_OUTLIER] = outlier
            if outlier != NO_OUTLIER:
                verdicts[k] = REJECTED
        if targets[k] == DUPLICATE:
            continue
        for c in range(known):
            scratch[c] = own[c]
        if targets[k] >= 0:
            status = call_integer(learn, (floats, ints, work, targets[k]))
            if status == at.NEEDS_SLOT:
                return k
            if strange[0] == strange[0]:
                add_scores(scores, sums, scored, strange, targets[k])
        if windowed:
            window = logs[places[k]]
            if fresh[k] == 1:
                window[:, :] = 0.0
                counts[places[k]] = 0
            if by_filter == 0:
                advance(window, scratch[:known])
                counts[places[k]] = min(counts[places[k]] + 1, logs.shape[1] - 1)
            else:
                if fresh[k] == 1:
                    last_labels[places[k]] = UNLABELLED
                seen_before, p = evidence[k], scratch[:known]
                moved = (window, counts[places[k]], fitted, p, 1, seen_before, probabilities[k])
                call_integer(by_filter, moved)
                counts[places[k]] += 1
                labelled = (fitted, seen_before, label_codes[k], last_labels, places[k], scratch)
                call_integer(learn_by_filter, labelled)
        if rule != FIXED and certainty >= 0.0 and (targets[k] >= 0 or rule == TARGET_RATE):
            remember(memory, seen[0], certainty, 1.0 if best == targets[k] else 0.0)
            seen[0] += 1
            stale = True
    return end
