"""Features without spread: no share in any metric until they move, then a small one that grows.

A feature varies if its deviation is more than the rounding error of its mean. The others say
nothing: their columns in a metric are zero, and its norm of one is that of the features that vary.
A feature that starts to move after many readings meets a metric that was learnt without it, so it
gets a small part of a fair share and steps as long as those of the others.
"""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper
from streamlvq.kernels.views import row, vector

RELATIVE_ROUNDING = 1e-20  # square of the rounding error of a mean
STILL_WEIGHT = 10.0  # readings for which all still ones count once a feature moves
MIN_LATE_SHARE = 0.05  # smallest part of a fair share that a feature starts with


@helper
def has_spread(floats, ints, i):
    """Return whether feature i varies by more than rounding errors."""
    d = ints[at.N_FEATURES]
    mean = vector(floats, ints, at.MEAN, d)[i]
    peak = floats[at.SCALE_FLOOR] * vector(floats, ints, at.MAX_DEVIATION, d)[i]
    squared = max(vector(floats, ints, at.VARIANCE, d)[i], peak * peak)
    return squared > RELATIVE_ROUNDING * mean * mean


@helper
def late_root(weight, still):
    """Return the root of a late feature's part of a fair share, given its readings."""
    return sqrt(max(MIN_LATE_SHARE, weight / still))


@helper
def note_first_moves(floats, ints, x):
    """Let the past of a feature that moves for the first time count as a few readings."""
    d = ints[at.N_FEATURES]
    varies, mean = vector(floats, ints, at.VARIES, d), vector(floats, ints, at.MEAN, d)
    weight, still = vector(floats, ints, at.WEIGHT, d), vector(floats, ints, at.STILL, d)
    for i in range(d):
        if varies[i] == 0.0 and weight[i] > STILL_WEIGHT:
            delta = x[i] - mean[i]
            if delta * delta > RELATIVE_ROUNDING * mean[i] * mean[i]:  # False if missing
                still[i] = max(still[i], weight[i])
                weight[i] = STILL_WEIGHT


@helper
def used_metrics(ints):
    """Return the number of metrics that prototypes use."""
    if ints[at.PAIRS] > 0:
        return ints[at.N_PROTOTYPES] // 2
    return ints[at.N_PROTOTYPES] if ints[at.METRICS] > 1 else ints[at.METRICS]


@helper
def add_columns(floats, ints, m):
    """Give features that start to vary their columns in metric m.

    A fair share, or after n > STILL_WEIGHT still readings about STILL_WEIGHT / n of it.
    """
    d, rank = ints[at.N_FEATURES], ints[at.METRIC_RANK]
    omega, start = (
        row(floats, ints, at.OMEGA, m, rank * d),
        vector(floats, ints, at.START, rank * d),
    )
    varies, still = vector(floats, ints, at.VARIES, d), vector(floats, ints, at.STILL, d)
    columns = row(floats, ints, at.COLUMN_MOMENT, m, d)
    rows = row(floats, ints, at.ROW_MOMENT, m, rank)
    before = 0.0
    for i in range(d):
        if varies[i] == 1.0:
            for k in range(i, rank * d, d):
                before += start[k] * start[k]
    fair = 1.0 / sqrt(before) if before > 0.0 else 1.0
    usual = vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])[m] / max(ints[at.N_VARYING], 1)
    for i in range(d):
        if varies[i] == 0.0 and has_spread(floats, ints, i):
            late = still[i] > STILL_WEIGHT
            share = fair * late_root(STILL_WEIGHT, still[i]) if late else fair
            for k in range(i, rank * d, d):
                omega[k] = share * start[k]
            columns[i] = usual if late else 0.0
            if late:
                for r in range(rank):
                    rows[r] = rows[r] if rows[r] > 0.0 else usual


@helper
def restrict_metric(floats, ints, m):
    """Scale metric m to norm one over the features that vary; the others have no share.

    Without standardisation the others keep their initial weight outside of the norm: they are
    equal in all readings learnt, but a reading in which one is not must be far away.
    """
    d, rank = ints[at.N_FEATURES], ints[at.METRIC_RANK]
    omega, start = (
        row(floats, ints, at.OMEGA, m, rank * d),
        vector(floats, ints, at.START, rank * d),
    )
    varies = vector(floats, ints, at.VARIES, d)
    visible = 1.0 if ints[at.STANDARDIZE] == 0 or ints[at.N_VARYING] == 0 else 0.0
    norm = 0.0
    for r in range(rank):
        for i in range(d):
            norm += varies[i] * omega[r * d + i] * omega[r * d + i]
    factor = 1.0 / sqrt(norm) if norm > 0.0 else 1.0
    for r in range(rank):
        for i in range(d):
            k = r * d + i
            omega[k] = factor * omega[k] if varies[i] == 1.0 else visible * start[k]


@helper
def shorten_late_steps(floats, ints):
    """Let prototypes step along a feature that moves late as they do along the others.

    Their squared gradients start as if it had always had its small share: without any, the first
    steps would be as long as they can be. The share is in the metric, or in the scale if that
    does not learn.
    """
    d = ints[at.N_FEATURES]
    varies, still = vector(floats, ints, at.VARIES, d), vector(floats, ints, at.STILL, d)
    for p in range(ints[at.N_PROTOTYPES]):
        moment = row(floats, ints, at.W_MOMENT, p, d)
        total = 0.0
        for i in range(d):
            total += varies[i] * moment[i]
        usual = total / max(ints[at.N_VARYING], 1)
        for i in range(d):
            if varies[i] == 0.0 and still[i] > STILL_WEIGHT and has_spread(floats, ints, i):
                part = 1.0
                if ints[at.METRIC_KIND] != at.EUCLIDEAN:
                    part = late_root(STILL_WEIGHT, still[i]) ** 4
                moment[i] = max(moment[i], part * usual)


@helper
def update_varying(floats, ints):
    """Update which features vary, and with them the metrics.

    In a metric that does not learn, a feature that moves late gets its full weight only after as
    many readings as it was still before.
    """
    d = ints[at.N_FEATURES]
    varies, still = vector(floats, ints, at.VARIES, d), vector(floats, ints, at.STILL, d)
    varying, changed = 0, 0
    for i in range(d):
        spread = 1 if has_spread(floats, ints, i) else 0
        varying += spread
        changed += 1 if varies[i] != spread else 0
    if changed > 0:
        for m in range(used_metrics(ints)):
            add_columns(floats, ints, m)
        shorten_late_steps(floats, ints)
        for i in range(d):
            varies[i] = 1.0 if has_spread(floats, ints, i) else 0.0
        ints[at.N_VARYING] = varying
        for m in range(used_metrics(ints)):
            restrict_metric(floats, ints, m)
    settled = varying
    if ints[at.METRIC_KIND] == at.EUCLIDEAN:
        inverse, weight = vector(floats, ints, at.INVERSE, d), vector(floats, ints, at.WEIGHT, d)
        for i in range(d):
            if varies[i] == 1.0 and weight[i] < still[i]:
                inverse[i] *= late_root(weight[i], still[i])
                settled -= 1
    ints[at.ALL_SETTLED] = 1 if 0 < settled == d else 0
