"""One kernel call over many readings: model, window and rejection decide, then the model learns.

Does what `streamlvq.wrappers` do for one reading, in the same order and with the same arithmetic;
`streamlvq.monitor.pipeline` handles the rare cases.
"""

from __future__ import annotations

from math import inf

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.answers import keep_answer
from streamlvq.kernels.calibration import to_probabilities
from streamlvq.kernels.closest import closest_two, relative_difference, separation
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.distance import has_gaps
from streamlvq.kernels.rejection import (
    accurate_threshold,
    cheapest_threshold,
    rate_threshold,
    remember,
)
from streamlvq.kernels.stream import learn_row, measure
from streamlvq.kernels.window import advance, combine

# --- targets that are not class numbers --------------------------------------------------------
UNLABELLED, AGAIN = -1, -2

# --- settings: kind of certainty, and rule of the threshold ------------------------------------
CERTAINTY, RULE, TARGET, WINDOWED = 0, 1, 2, 3
PROBABILITY, RELSIM = 0, 1
FIXED, TARGET_RATE, TARGET_ACCURACY, REJECT_COST = 0, 1, 2, 3

# --- columns of the measures --------------------------------------------------------------------
OUT_CERTAINTY, OUT_THRESHOLD, OUT_RELSIM, OUT_DISTANCE, OUT_SEPARATION = 0, 1, 2, 3, 4
OUT_COLUMNS = 5

# --- verdicts -----------------------------------------------------------------------------------
ACCEPTED, REJECTED, NO_MODEL = 0, 1, 2


@helper
def adaptive_threshold(rule, memory, seen, target):
    stored = min(seen, memory.shape[1])
    if rule == TARGET_RATE:
        return rate_threshold(memory, stored, target)
    if rule == TARGET_ACCURACY:
        return accurate_threshold(memory, stored, target)
    return cheapest_threshold(memory, stored, target)


@helper
def judge(floats, ints, work, by_relsim, best, p, found):
    """Return the certainty of a label; -1 before two classes are known."""
    if not by_relsim:
        return p[best]
    near, other, winner, runner_up = closest_two(ints, work)
    if runner_up < 0:
        return -1.0
    relsim = relative_difference(near, other)
    found[OUT_RELSIM], found[OUT_DISTANCE] = relsim, near
    return relsim if winner == best else 0.0


@helper
def separate(floats, ints, work, found):
    """Return the distance between the two closest prototypes; needed only for rejections."""
    _, _, winner, runner_up = closest_two(ints, work)
    found[OUT_SEPARATION] = separation(floats, ints, work, winner, runner_up)


@helper
def likeliest(p, known):
    best = 0
    for c in range(1, known):
        if p[c] > p[best]:
            best = c
    return best


@helper
def opinion(work, ints, logs, place, no_past, windowed, known, out):
    """Return the likeliest class, over the window if there is one; probabilities in `out`."""
    p = views.probabilities(work, ints)[:known]
    if windowed:
        return combine(logs[place] if place >= 0 else no_past, p, out)
    for c in range(known):
        out[c] = p[c]
    return likeliest(out, known)


@kernel(
    "int64(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], int64, int64, "
    "int64[::1], int64[::1], float64[:, :, ::1], int64[::1], float64[::1], float64[::1], "
    "float64[:, ::1], int64[::1], float64[::1], int64[::1], int64[::1], int64[::1], "
    "float64[:, ::1], float64[:, ::1])"
)
def watch(
    floats,
    ints,
    work,
    rows,
    kinds,
    start,
    end,
    places,
    fresh,
    logs,
    counts,
    settings,
    thresholds,
    memory,
    seen,
    scratch,
    codes,
    verdicts,
    versions,
    found,
    probabilities,
):
    """Process rows from `start` to `end`; return the row at which a slot was needed, or the end.

    `kinds` are class numbers, UNLABELLED or AGAIN. `places` are the window slots of the devices, -1
    for none; `fresh` is 1 where a window starts. `thresholds` has one entry per class; `memory` and
    `seen` belong to an adaptive threshold.
    """
    by_relsim = settings[CERTAINTY] == RELSIM
    windowed = settings[WINDOWED] == 1.0
    rule = int(settings[RULE])
    moving = inf
    no_past = np.zeros((1, 1))
    stale = True
    x = views.reading(work, ints)
    for k in range(start, end):
        known = ints[at.KNOWN]
        for i in range(x.shape[0]):
            x[i] = rows[k, i]
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        keep_answer(ints, work, x)
        place = -1 if fresh[k] == 1 else places[k]
        best = opinion(work, ints, logs, place, no_past, windowed, known, probabilities[k])
        certainty = judge(floats, ints, work, by_relsim, best, probabilities[k], found[k])
        if rule == FIXED:
            threshold = thresholds[best]
        else:
            if stale:
                moving = adaptive_threshold(rule, memory, seen[0], settings[TARGET])
                stale = False
            threshold = moving
        codes[k] = best
        versions[k] = ints[at.SAMPLES]
        found[k, OUT_CERTAINTY] = max(certainty, 0.0)
        found[k, OUT_THRESHOLD] = threshold
        verdicts[k] = ACCEPTED
        if certainty < 0.0:
            verdicts[k] = NO_MODEL
        elif not certainty >= threshold:
            verdicts[k] = REJECTED
            if by_relsim:
                separate(floats, ints, work, found[k])
        if kinds[k] == AGAIN:
            continue
        p = views.probabilities(work, ints)
        for c in range(known):
            scratch[c] = p[c]
        if kinds[k] >= 0 and learn_row(floats, ints, work, x, kinds[k]) == at.NEEDS_SLOT:
            return k
        if windowed:
            window = logs[places[k]]
            if fresh[k] == 1:
                window[:, :] = 0.0
                counts[places[k]] = 0
            advance(window, scratch[:known])
            counts[places[k]] = min(counts[places[k]] + 1, logs.shape[1] - 1)
        if rule != FIXED and certainty >= 0.0 and (kinds[k] >= 0 or rule == TARGET_RATE):
            remember(memory, seen[0], certainty, 1.0 if best == kinds[k] else 0.0)
            seen[0] += 1
            stale = True
    return end
