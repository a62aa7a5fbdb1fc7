"""Forward filter: what the past of a device says about the class of its next reading.

Before a reading, the class is expected with the probability

    prior = (1 - h) * posterior of the reading before + h * class frequencies,

where h is how often successive labels differ. With the classifier's probabilities p of the reading,

    posterior ~ prior ** a * p ** b.

The weights a and b tell how much past and reading are worth: successive readings resemble each
other, so that neither counts in full. `fitted` holds what labels teach, all of it before the
reading is learnt. The first reading of a device has no past: its posterior is p.

`logs` is the memory of a device, with a column per class and one more for all classes that were
unknown then, which get the mean. Row 0 is the log posterior of the last reading that is not among
the others, which are the logs of p of the newest readings, newest last: so many as decisions are
late. `count` is the number of readings since its segment began.

`evidence` is what a label is compared with: the logs of prior (NaN without a past) and of p.
"""

from __future__ import annotations

from math import exp, inf, log, nan

import numpy as np

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.pipeline import UNLABELLED, floored_log

MAX_EXPONENT = 5.0  # of a and b
FILTER_DECAY = 0.999  # of everything fitted, per label
PAST_STIFFNESS, READING_STIFFNESS = 20.0, 100.0  # added curvature: few labels move little
MAX_COUNT = 1.0 / (1.0 - FILTER_DECAY)  # where a decayed count of labels ends up

UNKNOWN_CLASS = -3  # target: a label that the classifier did not know before the reading
PAST, READING = 0, 1  # rows of evidence


# --- steps ---------------------------------------------------------------------------------------


@helper
def normalise_logs(out, known):
    """Turn log scores into probabilities in place; return the likeliest class."""
    top, best = -inf, 0
    for c in range(known):
        if out[c] > top:
            top, best = out[c], c
    total = 0.0
    for c in range(known):
        out[c] = exp(out[c] - top)
        total += out[c]
    for c in range(known):
        out[c] /= total
    return best


@helper
def class_total(fitted, known):
    """Return the number of labels that frequencies are shares of; classes begin with one each."""
    total = float(known)
    for k in range(at.CLASS_COUNTS, min(fitted.shape[0], at.CLASS_COUNTS + known)):
        total += fitted[k]
    return total


@helper
def class_share(fitted, total, c):
    k = at.CLASS_COUNTS + c
    return ((fitted[k] if k < fitted.shape[0] else 0.0) + 1.0) / total


@helper
def weigh(fitted, evidence, known, out):
    """Compute the posterior from evidence; return the likeliest class."""
    for c in range(known):
        out[c] = (
            fitted[at.PAST_WEIGHT] * evidence[PAST, c]
            + fitted[at.READING_WEIGHT] * evidence[READING, c]
        )
    return normalise_logs(out, known)


@helper
def take_step(fitted, has_past, evidence, known, out):
    """Replace the posterior of the reading before by that of the reading in `evidence`."""
    if not has_past:
        for c in range(known):
            evidence[PAST, c] = nan
            out[c] = evidence[READING, c]
        return normalise_logs(out, known)
    h = fitted[at.LABEL_CHANGES] / fitted[at.LABEL_PAIRS]
    total = class_total(fitted, known)
    for c in range(known):
        evidence[PAST, c] = floored_log((1.0 - h) * out[c] + h * class_share(fitted, total, c))
    return weigh(fitted, evidence, known, out)


@helper
def load_posterior(logs, known, out):
    """Read the log posterior in row 0."""
    unknown, total = logs.shape[1] - 1, 0.0
    for c in range(known):
        out[c] = exp(logs[0, min(c, unknown)])
        total += out[c]
    for c in range(known):
        out[c] /= total


@helper
def load_reading(logs, row, known, evidence):
    unknown = logs.shape[1] - 1
    for c in range(known):
        evidence[READING, c] = logs[row, min(c, unknown)]


@helper
def walk(logs, count, fitted, end, known, evidence, out):
    """Step through the readings in `logs` before row `end`; return whether there are any."""
    rows = logs.shape[0]
    has_past = count >= rows  # more readings than the rows after row 0
    if has_past:
        load_posterior(logs, known, out)
    for r in range(max(1, rows - count), end):
        load_reading(logs, r, known, evidence)
        take_step(fitted, has_past, evidence, known, out)
        has_past = True
    return has_past


# --- readings ------------------------------------------------------------------------------------


@helper
def store_posterior(logs, known, out):
    for c in range(known):
        logs[0, c] = floored_log(out[c])
    logs[0, known] = -log(known)


@helper
def store_reading(logs, known, evidence):
    """Append a reading; the oldest is gone."""
    rows = logs.shape[0]
    for r in range(1, rows - 1):
        for c in range(known + 1):
            logs[r, c] = logs[r + 1, c]
    for c in range(known):
        logs[rows - 1, c] = evidence[READING, c]
    logs[rows - 1, known] = -log(known)


@kernel(
    "int64(float64[:, ::1], int64, float64[::1], float64[::1], int64, float64[:, ::1], "
    "float64[::1])"
)
def filter_reading(logs, count, fitted, p, moves_on, evidence, out):
    """Compute posterior and evidence of a reading; return the likeliest class.

    If `moves_on` is 1, the reading is added to `logs`, which must have a column per class.
    """
    known, rows = p.shape[0], logs.shape[0]
    is_full = moves_on == 1 and rows > 1 and count >= rows - 1
    if is_full:
        walk(logs, count, fitted, 2, known, evidence, out)
        oldest = out[:known].copy()
    has_past = walk(logs, count, fitted, rows, known, evidence, out)
    for c in range(known):
        evidence[READING, c] = floored_log(p[c])
    best = take_step(fitted, has_past, evidence, known, out)
    if moves_on == 1:
        if rows == 1:
            store_posterior(logs, known, out)
        else:
            if is_full:  # the oldest reading moves into row 0
                store_posterior(logs, known, oldest)
            store_reading(logs, known, evidence)
    return best


@kernel(
    "int64(float64[:, ::1], int64, float64[::1], float64[::1], int64, int64, float64[:, ::1], "
    "float64[::1])"
)
def smooth_reading(logs, count, fitted, p, current, ago, evidence, out):
    """Compute the posterior of an earlier reading, `ago` before the latest, with those after it.

    The latest has the probabilities `p`; if `current` is 0 it is the newest in `logs` instead. What
    the later ones say about the class is filtered backward as the past is forward, and counts for
    as much: it is the same chain, read from the other end. `evidence` is that of the filter.
    """
    known, rows = p.shape[0], logs.shape[0]
    row = rows - 1 + current - ago  # of the reading; the current one would be in row `rows`
    has_past = walk(logs, count, fitted, row, known, evidence, out)
    load_reading(logs, row, known, evidence)
    take_step(fitted, has_past, evidence, known, out)
    h, total = fitted[at.LABEL_CHANGES] / fitted[at.LABEL_PAIRS], class_total(fitted, known)
    future = np.zeros(known)  # log of how much likelier than its frequency the future makes a class
    scores = np.empty(known)
    for r in range(rows - 1 + current, row, -1):
        unknown = logs.shape[1] - 1
        for c in range(known):
            seen = floored_log(p[c]) if r == rows else logs[r, min(c, unknown)]
            scores[c] = fitted[at.READING_WEIGHT] * seen + fitted[at.PAST_WEIGHT] * future[c]
        normalise_logs(scores, known)
        for c in range(known):
            share = class_share(fitted, total, c)
            future[c] = floored_log((1.0 - h) * scores[c] + h * share) - log(share)
    for c in range(known):
        out[c] = fitted[at.PAST_WEIGHT] * future[c]
        if has_past:
            out[c] += fitted[at.PAST_WEIGHT] * evidence[PAST, c]
            out[c] += fitted[at.READING_WEIGHT] * evidence[READING, c]
        else:
            out[c] += evidence[READING, c]
    return normalise_logs(out, known)


# --- labels --------------------------------------------------------------------------------------


@helper
def fit_weights(fitted, evidence, code, out):
    """Take one Newton step of a and b on the log loss."""
    known = evidence.shape[1]
    weigh(fitted, evidence, known, out)
    past, reading, past_square, reading_square, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for c in range(known):
        past += out[c] * evidence[PAST, c]
        reading += out[c] * evidence[READING, c]
        past_square += out[c] * evidence[PAST, c] * evidence[PAST, c]
        reading_square += out[c] * evidence[READING, c] * evidence[READING, c]
        product += out[c] * evidence[PAST, c] * evidence[READING, c]
    fitted[at.PAST_CURVATURE] = FILTER_DECAY * fitted[at.PAST_CURVATURE] + max(
        0.0, past_square - past * past
    )
    fitted[at.READING_CURVATURE] = FILTER_DECAY * fitted[at.READING_CURVATURE] + max(
        0.0, reading_square - reading * reading
    )
    fitted[at.CROSS_CURVATURE] = (
        FILTER_DECAY * fitted[at.CROSS_CURVATURE] + product - past * reading
    )
    along_a, along_b = evidence[PAST, code] - past, evidence[READING, code] - reading
    aa, bb, ab = (
        fitted[at.PAST_CURVATURE] + PAST_STIFFNESS,
        fitted[at.READING_CURVATURE] + READING_STIFFNESS,
        fitted[at.CROSS_CURVATURE],
    )
    det = aa * bb - ab * ab
    step_a = (bb * along_a - ab * along_b) / det
    step_b = (aa * along_b - ab * along_a) / det
    fitted[at.PAST_WEIGHT] = min(MAX_EXPONENT, max(0.0, fitted[at.PAST_WEIGHT] + step_a))
    fitted[at.READING_WEIGHT] = min(MAX_EXPONENT, max(0.0, fitted[at.READING_WEIGHT] + step_b))


@kernel("int64(float64[::1], float64[:, ::1], int64, int64[::1], int64, float64[::1])")
def learn_filter(fitted, evidence, code, last, place, out):
    """Fit the filter to the label of a reading; return the label's code.

    `last` holds the last label of each device and `place` is that of this one, -1 if it is no
    longer kept. An UNLABELLED reading changes nothing; a label of an UNKNOWN_CLASS is not compared
    with the one before, since it had to differ.
    """
    if code == UNLABELLED:
        return code
    if 0 <= code < evidence.shape[1] and evidence[PAST, 0] == evidence[PAST, 0]:
        fit_weights(fitted, evidence, code, out)
    if place >= 0:
        if last[place] >= 0 and code >= 0:
            fitted[at.LABEL_CHANGES] = FILTER_DECAY * fitted[at.LABEL_CHANGES] + (
                last[place] != code
            )
            fitted[at.LABEL_PAIRS] = FILTER_DECAY * fitted[at.LABEL_PAIRS] + 1.0
        last[place] = max(code, UNLABELLED)
    if code >= 0:
        for k in range(at.CLASS_COUNTS, fitted.shape[0]):
            fitted[k] *= FILTER_DECAY
        fitted[at.CLASS_COUNTS + code] += 1.0
    return code
