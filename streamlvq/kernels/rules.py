"""Learning rules: updates of prototypes and metrics by one labelled sample."""

from __future__ import annotations

from math import exp, sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper
from streamlvq.kernels.distance import FAR, blank_gaps, subtract
from streamlvq.kernels.steps import (
    add_metric_gradient,
    apply_metric,
    clear,
    differences,
    fill_gaps,
    project_both,
    step_collected,
    step_metric_both,
    step_own_metric,
    step_prototype,
    step_prototype_of,
)
from streamlvq.kernels.views import metric_number, metric_of, row, table, vector

TINY = 1e-12
CLOSEST = 1e-70  # the fourth power of smaller distances would underflow
NEGLIGIBLE = 1e-6  # smaller responsibilities are ignored


@helper
def shares_metric(ints):
    """Return whether the prototypes that learn from one sample share a metric."""
    return ints[at.METRICS] == 1 or ints[at.PAIRS] > 0


@helper
def move(floats, ints, work, x, p, slope, gaps):
    """Move prototype p down the gradient `slope` * its distance.

    Its own metric is moved as well; for a shared one the gradient is accumulated in `work`.
    """
    d = ints[at.FEATURES]
    kind = ints[at.KIND]
    z = views.difference(work, ints)
    w = row(floats, ints, at.W, p, d)
    omega = metric_of(floats, ints, p)
    subtract(x, w, vector(floats, ints, at.INVERSE, d), z)
    if gaps == 1:
        slope *= make_up(floats, ints, x, p, z)
    projection = views.projection(work, ints)
    pull = views.pull(work, ints)
    apply_metric(kind, omega, z, projection, pull)
    if shares_metric(ints):
        gradient = views.metric_gradient(work, ints)
        add_metric_gradient(kind, omega, z, projection, slope, gradient)
    elif ints[at.METRICS] > 1:
        step_own_metric(floats, ints, work, p, slope)
    step_prototype(floats, ints, x, p, slope, pull)


@helper
def move_both(floats, ints, work, x, right, wrong, pull_slope, push_slope, gaps):
    """Move two prototypes that share a matrix, and the matrix, in few passes over it.

    Passes whole tables rather than single rows, because creating an array view costs as much as a
    loop over it.
    """
    d, rank, metrics = ints[at.FEATURES], ints[at.RANK], ints[at.METRICS]
    inverse = vector(floats, ints, at.INVERSE, d)
    w = table(floats, ints, at.W, ints[at.SLOTS], d)
    moments = table(floats, ints, at.W_MOMENT, ints[at.SLOTS], d)
    omega = table(floats, ints, at.OMEGA, metrics * rank, d)
    rows = table(floats, ints, at.ROW_MOMENT, metrics, rank)
    columns = table(floats, ints, at.COLUMN_MOMENT, metrics, d)
    total = vector(floats, ints, at.TOTAL_MOMENT, metrics)
    z, y = views.difference(work, ints), views.other_difference(work, ints)
    first, second = views.projection(work, ints), views.other_projection(work, ints)
    pull, push = views.pull(work, ints), views.other_pull(work, ints)
    if gaps == 1:
        pull_slope *= make_up(floats, ints, x, right, z)
        push_slope *= make_up(floats, ints, x, wrong, y)
    m = metric_number(ints, right)
    decay, rate = floats[at.STEP_DECAY], floats[at.LEARNING_RATE]
    differences(x, w, right, wrong, inverse, z, y)
    project_both(omega, m, rank, z, y, first, second, pull, push)
    step_prototype_of(x, w, moments, right, inverse, pull, pull_slope, rate, decay)
    step_prototype_of(x, w, moments, wrong, inverse, push, push_slope, rate, decay)
    for r in range(rank):
        first[r] *= 2.0 * pull_slope
        second[r] *= 2.0 * push_slope
    rate = floats[at.METRIC_RATE] / sqrt(d)
    step_metric_both(omega, m, rank, first, second, z, y, rate, decay, rows, columns, total)


@helper
def make_up(floats, ints, x, p, z):
    """Compute the difference z, 0 where a feature is missing; return the factor for that."""
    d = ints[at.FEATURES]
    subtract(x, row(floats, ints, at.W, p, d), vector(floats, ints, at.INVERSE, d), z)
    return max(0.0, blank_gaps(ints[at.KIND], metric_of(floats, ints, p), z))


@helper
def glvq(floats, ints, work, x, near, other, right, wrong, gaps):
    """Take a gradient step on Phi((d+ - d-) / (d+ + d-)).

    The sigmoid is scaled to slope one at the border, so that its steepness determines which samples
    count, not the step size.
    """
    total = near + other
    if right < 0 or wrong < 0 or total < CLOSEST:
        return
    slope = 1.0
    steepness = floats[at.SLOPE]
    if steepness > 0.0:
        s = 1.0 / (1.0 + exp(-steepness * (near - other) / total))
        slope = 4.0 * s * (1.0 - s)
    pull, push = slope * 2.0 * other / (total * total), -slope * 2.0 * near / (total * total)
    if shares_metric(ints) and ints[at.KIND] == at.MATRIX and ints[at.ADAPTIVE] == 1:
        move_both(floats, ints, work, x, right, wrong, pull, push, gaps)
        return
    if shares_metric(ints):
        clear(views.metric_gradient(work, ints))
    move(floats, ints, work, x, right, pull, gaps)
    move(floats, ints, work, x, wrong, push, gaps)
    if shares_metric(ints):
        step_collected(floats, ints, work, metric_number(ints, right))


@helper
def rslvq(floats, ints, work, x, c, gaps):
    """Take a gradient step on -log p(c, x) / p(x) of a mixture, one component per prototype.

    Expects the distance of every prototype in `slot_distance`.
    """
    precision = 0.5 / floats[at.SIGMA]
    count = ints[at.PROTOTYPES]
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    distances = views.slot_distance(work, ints)
    # Each sum is relative to its own largest term, because the right class may be far away.
    closest, closest_own = FAR, FAR
    for p in range(count):
        closest = min(closest, distances[p])
        if labels[p] == c:
            closest_own = min(closest_own, distances[p])
    everyone, own = 0.0, 0.0
    for p in range(count):
        everyone += exp(precision * (closest - distances[p]))
        if labels[p] == c:
            own += exp(precision * (closest_own - distances[p]))
    if ints[at.METRICS] == 1:
        clear(views.metric_gradient(work, ints))
    for p in range(count):
        responsibility = -exp(precision * (closest - distances[p])) / everyone
        if labels[p] == c:
            responsibility += exp(precision * (closest_own - distances[p])) / own
        if abs(responsibility) > NEGLIGIBLE:
            move(floats, ints, work, x, p, precision * responsibility, gaps)
    if ints[at.METRICS] == 1:
        step_collected(floats, ints, work, 0)


@helper
def attract(floats, ints, x, p, rate):
    """Move a fraction of the way to the sample, or away from it if negative."""
    d = ints[at.FEATURES]
    w = row(floats, ints, at.W, p, d)
    for i in range(d):
        if x[i] == x[i] and w[i] == w[i]:
            w[i] += rate * (x[i] - w[i])


@helper
def two_nearest(ints, work):
    """Return the two closest prototypes, given all distances in `slot_distance`."""
    distances = views.slot_distance(work, ints)
    first, second = -1, -1
    for p in range(ints[at.PROTOTYPES]):
        if first < 0 or distances[p] < distances[first]:
            first, second = p, first
        elif second < 0 or distances[p] < distances[second]:
            second = p
    return first, second


@helper
def lvq1(floats, ints, x, near, other, right, wrong):
    """LVQ1 and OLVQ1: move the winner, in OLVQ1 at its own rate."""
    winner = right if near <= other else wrong
    sign = 1.0 if near <= other else -1.0
    if ints[at.RULE] == at.RULE_LVQ1:
        attract(floats, ints, x, winner, sign * floats[at.LEARNING_RATE])
        return
    rates = vector(floats, ints, at.RATE, ints[at.SLOTS])
    rate = min(floats[at.LEARNING_RATE], rates[winner] / max(TINY, 1.0 + sign * rates[winner]))
    rates[winner] = rate
    attract(floats, ints, x, winner, sign * rate)


@helper
def lvq2(floats, ints, work, x, c):
    """LVQ2.1 and LVQ3: move the two nearest prototypes if the sample lies between them."""
    first, second = two_nearest(ints, work)
    if second < 0:
        return
    distances = views.slot_distance(work, ints)
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    rate = floats[at.LEARNING_RATE]
    right_first, right_second = labels[first] == c, labels[second] == c
    if right_first and right_second:
        if ints[at.RULE] == at.RULE_LVQ3:
            attract(floats, ints, x, first, floats[at.EPSILON] * rate)
            attract(floats, ints, x, second, floats[at.EPSILON] * rate)
        return
    if not right_first and not right_second:
        return
    width = floats[at.WINDOW]
    if sqrt(distances[first]) < sqrt(distances[second]) * (1.0 - width) / (1.0 + width):
        return
    attract(floats, ints, x, first, rate if right_first else -rate)
    attract(floats, ints, x, second, rate if right_second else -rate)


@helper
def learn_from(floats, ints, work, x, c, near, other, right, wrong, gaps):
    """Learn one sample by the model's rule, given the closest pair of `distances`."""
    rule = ints[at.RULE]
    if gaps == 1 and right >= 0:
        fill_gaps(floats, ints, x, right)
    if rule == at.RULE_GLVQ:
        glvq(floats, ints, work, x, near, other, right, wrong, gaps)
    elif rule == at.RULE_RSLVQ:
        rslvq(floats, ints, work, x, c, gaps)
    elif rule == at.RULE_LVQ21 or rule == at.RULE_LVQ3:
        lvq2(floats, ints, work, x, c)
    else:
        lvq1(floats, ints, x, near, other, right, wrong)
