"""Learning rules, and the update steps of prototypes and metrics that they take.

Adaptive steps divide a gradient by the root of its running mean square (AdaGrad with forgetting).
For metrics the mean squares are factored into one number per row and one per column: the
gradient of one sample is an outer product, so little is lost, and memory and time are those of a
plain gradient step.
"""

from __future__ import annotations

from math import exp, sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper
from streamlvq.kernels.distance import START_DISTANCE, blank_gaps, subtract
from streamlvq.kernels.features import restrict_metric
from streamlvq.kernels.views import metric_number, metric_of, row, table, vector

# --- update steps --------------------------------------------------------------------------------

TINY = 1e-12
MAX_CONSTANT_STEP = 0.5  # a constant step goes at most this fraction of the way
MAX_GRADIENT = 1e150  # larger gradients are ignored: their square would overflow


@helper
def clear(values):
    for i in range(values.shape[0]):
        values[i] = 0.0


@helper
def apply_metric(kind, omega, varying, z, projection, pull):
    """Compute the projection Omega z and the pull Lambda z; `varying` features have a share."""
    d = z.shape[0]
    if kind == at.EUCLIDEAN:
        for i in range(d):
            pull[i] = z[i] / varying
        return
    if kind == at.DIAGONAL:
        for i in range(d):
            pull[i] = omega[i] * omega[i] * z[i]
        return
    for i in range(d):
        pull[i] = 0.0
    for r in range(projection.shape[0]):
        start = r * d
        dot = 0.0
        for i in range(d):
            dot += omega[start + i] * z[i]
        projection[r] = dot
        for i in range(d):
            pull[i] += dot * omega[start + i]


@helper
def add_metric_gradient(ints, omega, z, projection, slope, gradient):
    """Add slope * d(z' Omega' Omega z) / d Omega to the gradient.

    Relevances as published are learnt themselves, not their roots Omega.
    """
    d = z.shape[0]
    if ints[at.METRIC_KIND] == at.DIAGONAL:
        if ints[at.STEPS] == at.PUBLISHED_STEPS:
            for i in range(d):
                gradient[i] += slope * z[i] * z[i]
            return
        for i in range(d):
            gradient[i] += 2.0 * slope * omega[i] * z[i] * z[i]
        return
    for r in range(projection.shape[0]):
        factor = 2.0 * slope * projection[r]
        start = r * d
        for i in range(d):
            gradient[start + i] += factor * z[i]


@helper
def step_prototype(floats, ints, x, p, slope, pull):
    """Move prototype p by the gradient `slope` * d(distance)/dw, given the pull of the sample.

    Missing features and features constant so far do not move, nor does a coordinate that would
    land where no reading can be.
    """
    d = ints[at.N_FEATURES]
    w = row(floats, ints, at.W, p, d)
    inverse = vector(floats, ints, at.INVERSE, d)
    rate = floats[at.LEARNING_RATE]
    if ints[at.STEPS] != at.ADAGRAD_STEPS:
        share = 2.0 * rate * slope
        if ints[at.STEPS] == at.CONSTANT_STEPS:
            rows = max(ints[at.N_VARYING], 1)
            if ints[at.METRIC_KIND] == at.MATRIX:
                rows = min(rows, ints[at.METRIC_RANK])
            share = min(MAX_CONSTANT_STEP, max(-MAX_CONSTANT_STEP, share)) * rows
        for i in range(d):
            usable = inverse[i] > 0.0 and x[i] == x[i] and w[i] == w[i]
            moved = w[i] + share * pull[i] / inverse[i]
            # Published steps have no bound: a large rate would throw prototypes ever farther away.
            w[i] = moved if usable and abs(moved) <= at.LARGEST_VALUE else w[i]
        return
    moment = row(floats, ints, at.W_MOMENT, p, d)
    decay = floats[at.STEP_DECAY]
    for i in range(d):
        usable = inverse[i] > 0.0 and x[i] == x[i] and w[i] == w[i]
        gradient = -2.0 * slope * pull[i]
        usable = usable and abs(gradient) <= MAX_GRADIENT
        gradient = gradient if usable else 0.0
        kept = decay if usable else 1.0
        moment[i] = kept * moment[i] + gradient * gradient
        step = rate * gradient / ((sqrt(moment[i]) + TINY) * (inverse[i] if usable else 1.0))
        w[i] -= step


@helper
def fill_gaps(floats, ints, x, p):
    """Copy features that a prototype has never seen from the first sample that has them."""
    d = ints[at.N_FEATURES]
    w = row(floats, ints, at.W, p, d)
    for i in range(d):
        if w[i] != w[i] and x[i] == x[i]:
            w[i] = x[i]
            ints[at.GAPS] -= 1


@helper
def squared_norm(values):
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k] * values[k]
    return total


@helper
def normalise(omega):
    """Scale a metric to Frobenius norm one."""
    total = squared_norm(omega)
    if total > 0.0:
        factor = 1.0 / sqrt(total)
        for k in range(omega.shape[0]):
            omega[k] *= factor


@helper
def step_metric_constant(omega, gradient, rate, longest):
    length = rate * sqrt(squared_norm(gradient))
    if not length <= MAX_GRADIENT:
        return
    if length > longest:
        rate *= longest / length
    for k in range(omega.shape[0]):
        omega[k] -= rate * gradient[k]


@helper
def step_relevances(omega, gradient, rate):
    """Move relevances, the squares of omega, by their own gradient; none becomes negative."""
    for i in range(omega.shape[0]):
        relevance = omega[i] * omega[i] - rate * gradient[i]
        omega[i] = sqrt(relevance) if relevance > 0.0 else 0.0


@helper
def step_metric_adaptive(omega, gradient, rate, decay, rows, columns, total, m, factor):
    """Take a step divided by the factored root mean square v_ri = rows_r * columns_i / total."""
    d = columns.shape[0]
    steep = 0.0
    for k in range(gradient.shape[0]):
        steep += gradient[k] * gradient[k]
    if not steep <= MAX_GRADIENT * MAX_GRADIENT:
        return
    for i in range(d):
        columns[i] *= decay
    total[m] *= decay
    for r in range(rows.shape[0]):
        start = r * d
        row_sum = 0.0
        for i in range(d):
            square = gradient[start + i] * gradient[start + i]
            row_sum += square
            columns[i] += square
        rows[r] = decay * rows[r] + row_sum
        total[m] += row_sum
    scale = rate * sqrt(total[m])
    for i in range(d):
        factor[i] = 1.0 / (sqrt(columns[i]) + TINY)
    for r in range(rows.shape[0]):
        start = r * d
        row_scale = scale / (sqrt(rows[r]) + TINY)
        for i in range(d):
            omega[start + i] -= row_scale * factor[i] * gradient[start + i]


@helper
def step_metric_outer(omega, projection, z, slope, rate, decay, rows, columns, total, m, factor):
    """Take `step_metric_adaptive` for the gradient 2 slope projection z' without forming it.

    This is the step of a single prototype's metric. Sums over the whole matrix become products of
    two short sums; most of the time is spent here.
    """
    d = z.shape[0]
    length = 4.0 * slope * slope
    z_norm, u_norm = squared_norm(z), length * squared_norm(projection)
    if not u_norm * z_norm <= MAX_GRADIENT * MAX_GRADIENT:
        return
    total[m] = decay * total[m] + u_norm * z_norm
    scale = 2.0 * slope * rate * sqrt(total[m])
    for i in range(d):
        columns[i] = decay * columns[i] + u_norm * z[i] * z[i]
        factor[i] = z[i] / (sqrt(columns[i]) + TINY)
    norm = 0.0
    for r in range(projection.shape[0]):
        start = r * d
        rows[r] = decay * rows[r] + length * projection[r] * projection[r] * z_norm
        step = scale * projection[r] / (sqrt(rows[r]) + TINY)
        for i in range(d):
            value = omega[start + i] - step * factor[i]
            omega[start + i] = value
            norm += value * value
    if norm > 0.0:
        shrink = 1.0 / sqrt(norm)
        for k in range(omega.shape[0]):
            omega[k] *= shrink


@helper
def step_prototype_of(x, w, moments, p, inverse, pull, slope, rate, decay):
    """Take the adaptive part of `step_prototype` for one row of a table."""
    for i in range(x.shape[0]):
        usable = inverse[i] > 0.0 and x[i] == x[i] and w[p, i] == w[p, i]
        gradient = -2.0 * slope * pull[i]
        usable = usable and abs(gradient) <= MAX_GRADIENT
        gradient = gradient if usable else 0.0
        kept = decay if usable else 1.0
        moments[p, i] = kept * moments[p, i] + gradient * gradient
        unit = inverse[i] if usable else 1.0
        w[p, i] -= rate * gradient / ((sqrt(moments[p, i]) + TINY) * unit)


@helper
def differences(x, w, right, wrong, inverse, z, y):
    """Compute the differences of a reading to two prototypes; 0 where a feature is missing."""
    for i in range(x.shape[0]):
        a = (x[i] - w[right, i]) * inverse[i]
        b = (x[i] - w[wrong, i]) * inverse[i]
        z[i] = a if a == a else 0.0
        y[i] = b if b == b else 0.0


@helper
def project_both(omega, m, rank, z, y, first, second, pull, push):
    """Apply matrix m to two differences in one pass, see `apply_metric`."""
    d = z.shape[0]
    for i in range(d):
        pull[i] = 0.0
        push[i] = 0.0
    for r in range(rank):
        a, b = 0.0, 0.0
        for i in range(d):
            a += omega[m * rank + r, i] * z[i]
            b += omega[m * rank + r, i] * y[i]
        first[r] = a
        second[r] = b
        for i in range(d):
            pull[i] += a * omega[m * rank + r, i]
            push[i] += b * omega[m * rank + r, i]


@helper
def step_metric_both(omega, m, rank, first, second, z, y, rate, decay, rows, columns, total):
    """Take `step_metric_adaptive` for the gradient first z' + second y' without forming it.

    Sums of squares of two outer products have a closed form along rows and columns. All four
    vectors are overwritten.
    """
    d = z.shape[0]
    zz, zy, yy = 0.0, 0.0, 0.0
    for i in range(d):
        zz += z[i] * z[i]
        zy += z[i] * y[i]
        yy += y[i] * y[i]
    steep = 0.0
    for r in range(rank):
        steep += first[r] * first[r] * zz + second[r] * second[r] * yy
    if not steep <= MAX_GRADIENT * MAX_GRADIENT:
        return
    uu, uv, vv, grown = 0.0, 0.0, 0.0, 0.0
    for r in range(rank):
        u, v = first[r], second[r]
        uu += u * u
        uv += u * v
        vv += v * v
        square = max(0.0, u * u * zz + 2.0 * u * v * zy + v * v * yy)
        rows[m, r] = decay * rows[m, r] + square
        grown += square
    total[m] = decay * total[m] + grown
    for i in range(d):
        square = max(0.0, uu * z[i] * z[i] + 2.0 * uv * z[i] * y[i] + vv * y[i] * y[i])
        columns[m, i] = decay * columns[m, i] + square
        factor = 1.0 / (sqrt(columns[m, i]) + TINY)
        z[i] *= factor
        y[i] *= factor
    scale = rate * sqrt(total[m])
    for r in range(rank):  # roots in a separate loop are vectorised
        factor = scale / (sqrt(rows[m, r]) + TINY)
        first[r] *= factor
        second[r] *= factor
    norm = 0.0
    for r in range(rank):
        u, v = first[r], second[r]
        for i in range(d):
            value = omega[m * rank + r, i] - u * z[i] - v * y[i]
            omega[m * rank + r, i] = value
            norm += value * value
    if norm > 0.0:
        shrink = 1.0 / sqrt(norm)
        for r in range(m * rank, (m + 1) * rank):
            for i in range(d):
                omega[r, i] *= shrink


@helper
def keep_constant(floats, ints, m):
    """Restore the weights of features without spread, which only unscaled features have."""
    if ints[at.STANDARDIZE] == 0 and ints[at.N_VARYING] < ints[at.N_FEATURES]:
        restrict_metric(floats, ints, m)


@helper
def step_collected(floats, ints, work, m):
    """Move metric m by the gradient accumulated in `work` and keep its norm."""
    d = ints[at.N_FEATURES]
    omega = row(floats, ints, at.OMEGA, m, ints[at.METRIC_RANK] * d)
    gradient = views.metric_gradient(work, ints)
    rate = floats[at.METRIC_RATE]
    if ints[at.STEPS] == at.CONSTANT_STEPS:
        step_metric_constant(omega, gradient, rate, MAX_CONSTANT_STEP)
    elif ints[at.STEPS] == at.PUBLISHED_STEPS:
        if ints[at.METRIC_KIND] == at.DIAGONAL:
            step_relevances(omega, gradient, rate)
        else:
            step_metric_constant(omega, gradient, rate, MAX_GRADIENT)
    else:
        rows = row(floats, ints, at.ROW_MOMENT, m, ints[at.METRIC_RANK])
        columns = row(floats, ints, at.COLUMN_MOMENT, m, d)
        total = vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])
        factor = views.column_factor(work, ints)
        decay, features = floats[at.STEP_DECAY], sqrt(max(ints[at.N_VARYING], 1))
        step_metric_adaptive(
            omega, gradient, rate / features, decay, rows, columns, total, m, factor
        )
    normalise(omega)
    keep_constant(floats, ints, m)


@helper
def step_own_metric(floats, ints, work, p, slope):
    """Move the own metric of prototype p, given difference and projection in `work`."""
    d = ints[at.N_FEATURES]
    omega = metric_of(floats, ints, p)
    z, projection = views.difference(work, ints), views.projection(work, ints)
    if ints[at.METRIC_KIND] == at.MATRIX and ints[at.STEPS] == at.ADAGRAD_STEPS:
        rows = row(floats, ints, at.ROW_MOMENT, p, ints[at.METRIC_RANK])
        columns = row(floats, ints, at.COLUMN_MOMENT, p, d)
        total = vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])
        rate = floats[at.METRIC_RATE] / sqrt(max(ints[at.N_VARYING], 1))
        decay = floats[at.STEP_DECAY]
        factor = views.column_factor(work, ints)
        step_metric_outer(omega, projection, z, slope, rate, decay, rows, columns, total, p, factor)
        keep_constant(floats, ints, p)
        return
    gradient = views.metric_gradient(work, ints)
    clear(gradient)
    add_metric_gradient(ints, omega, z, projection, slope, gradient)
    step_collected(floats, ints, work, p)


# --- ranges of classes ---------------------------------------------------------------------------
#
# Nothing holds a prototype along directions that its metric ignores: it would wander to where no
# sensor can read. A prototype stays among the readings of its class, feature by feature.


@helper
def widen_range(floats, ints, x, c):
    """Let the range of class c include a reading."""
    d = ints[at.N_FEATURES]
    low, high = row(floats, ints, at.CLASS_LOW, c, d), row(floats, ints, at.CLASS_HIGH, c, d)
    for i in range(d):
        if x[i] == x[i]:
            low[i] = low[i] if low[i] <= x[i] else x[i]  # NaN before the first
            high[i] = high[i] if high[i] >= x[i] else x[i]


@helper
def stay_in_range(floats, ints, p):
    """Bring prototype p back into the range of its class."""
    d = ints[at.N_FEATURES]
    c = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])[p]
    low, high = row(floats, ints, at.CLASS_LOW, c, d), row(floats, ints, at.CLASS_HIGH, c, d)
    w = row(floats, ints, at.W, p, d)
    for i in range(d):
        value = low[i] if w[i] < low[i] else w[i]
        w[i] = high[i] if value > high[i] else value


# --- sparse readings -----------------------------------------------------------------------------
#
# A single text holds few of the words of its topic: as a prototype it would be close to no other.


@helper
def start_half_way(floats, ints, c, p):
    """Move a new prototype of class c half-way to the mean of its class."""
    d = ints[at.N_FEATURES]
    w, mean = row(floats, ints, at.W, p, d), row(floats, ints, at.CLASS_MEAN, c, d)
    weight = row(floats, ints, at.CLASS_WEIGHT, c, d)
    for i in range(d):
        if w[i] == w[i] and weight[i] > 0.0:
            w[i] = 0.5 * (w[i] + mean[i])


@helper
def follow_mean(floats, ints, x, c, p):
    """Move prototype p of class c as far towards a reading as the mean of the class moves."""
    d = ints[at.N_FEATURES]
    w, weight = row(floats, ints, at.W, p, d), row(floats, ints, at.CLASS_WEIGHT, c, d)
    for i in range(d):
        if x[i] == x[i] and w[i] == w[i]:
            w[i] += (x[i] - w[i]) / (floats[at.FORGET] * weight[i] + 1.0)


# --- learning rules ------------------------------------------------------------------------------
#
# A rule learns a sample x of class c, given distance and number of the closest prototype of its
# class (`near`, `right`) and of the others (`other`, `wrong`).

SMALLEST_DISTANCE = 1e-70  # the fourth power of smaller distances would underflow
MIN_RESPONSIBILITY = 1e-6  # smaller responsibilities are ignored


@helper
def shares_metric(ints):
    """Return whether the prototypes that learn from one sample share a metric."""
    return ints[at.METRICS] == 1 or ints[at.PAIRS] > 0


@helper
def move(floats, ints, work, x, p, slope, gaps):
    """Move prototype p down the gradient `slope` * its distance.

    Its own metric is moved as well; for a shared one the gradient is accumulated in `work`.
    """
    d = ints[at.N_FEATURES]
    kind = ints[at.METRIC_KIND]
    z = views.difference(work, ints)
    w = row(floats, ints, at.W, p, d)
    omega = metric_of(floats, ints, p)
    subtract(x, w, vector(floats, ints, at.INVERSE, d), z)
    if gaps == 1:
        slope *= make_up(floats, ints, x, p, z)
    projection = views.projection(work, ints)
    pull = views.pull(work, ints)
    apply_metric(kind, omega, max(ints[at.N_VARYING], 1), z, projection, pull)
    if shares_metric(ints):
        gradient = views.metric_gradient(work, ints)
        add_metric_gradient(ints, omega, z, projection, slope, gradient)
    elif ints[at.METRICS] > 1:
        step_own_metric(floats, ints, work, p, slope)
    step_prototype(floats, ints, x, p, slope, pull)


@helper
def move_both(floats, ints, work, x, right, wrong, pull_slope, push_slope, gaps):
    """Move two prototypes that share a matrix, and the matrix, in few passes over it.

    Passes whole tables rather than single rows, because creating an array view costs as much as a
    loop over it.
    """
    d, rank, metrics = ints[at.N_FEATURES], ints[at.METRIC_RANK], ints[at.METRICS]
    inverse = vector(floats, ints, at.INVERSE, d)
    w = table(floats, ints, at.W, ints[at.PROTOTYPE_CAPACITY], d)
    moments = table(floats, ints, at.W_MOMENT, ints[at.PROTOTYPE_CAPACITY], d)
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
    rate = floats[at.METRIC_RATE] / sqrt(max(ints[at.N_VARYING], 1))
    step_metric_both(omega, m, rank, first, second, z, y, rate, decay, rows, columns, total)
    keep_constant(floats, ints, m)


@helper
def make_up(floats, ints, x, p, z):
    """Compute the difference z, 0 where a feature is missing; return the factor for that."""
    d = ints[at.N_FEATURES]
    subtract(x, row(floats, ints, at.W, p, d), vector(floats, ints, at.INVERSE, d), z)
    varies, varying = vector(floats, ints, at.VARIES, d), ints[at.N_VARYING]
    omega = metric_of(floats, ints, p)
    return max(0.0, blank_gaps(ints[at.METRIC_KIND], omega, varies, varying, z))


@helper
def move_in_turn(floats, ints, work, x, right, wrong, pull, push, gaps):
    """Move two prototypes, then the metric if they share one."""
    if shares_metric(ints):
        clear(views.metric_gradient(work, ints))
    move(floats, ints, work, x, right, pull, gaps)
    move(floats, ints, work, x, wrong, push, gaps)
    if shares_metric(ints):
        step_collected(floats, ints, work, metric_number(ints, right))


@helper
def move_with_matrix(floats, ints, work, x, right, wrong, pull, push, gaps):
    """Move two prototypes that share a matrix, and the matrix."""
    if ints[at.STEPS] == at.ADAGRAD_STEPS:
        move_both(floats, ints, work, x, right, wrong, pull, push, gaps)
    else:
        move_in_turn(floats, ints, work, x, right, wrong, pull, push, gaps)


def glvq_by(move_pair):
    """Return the rule of GLVQ with this way to move two prototypes."""

    @helper
    def glvq(floats, ints, work, x, c, near, other, right, wrong, gaps):
        """Take a gradient step on Phi((d+ - d-) / (d+ + d-)).

        The sigmoid is scaled to slope one at the border, so that its steepness determines which
        samples count, not the step size.
        """
        total = near + other
        if right < 0 or wrong < 0 or total < SMALLEST_DISTANCE:
            return
        slope = floats[at.SAMPLE_WEIGHT]
        steepness = floats[at.SLOPE]
        if steepness > 0.0:
            s = 1.0 / (1.0 + exp(-steepness * (near - other) / total))
            slope *= 4.0 * s * (1.0 - s)
        pull, push = slope * 2.0 * other / (total * total), -slope * 2.0 * near / (total * total)
        move_pair(floats, ints, work, x, right, wrong, pull, push, gaps)
        if ints[at.RANGES] > 0:
            stay_in_range(floats, ints, right)
            stay_in_range(floats, ints, wrong)

    return glvq


@helper
def rslvq(floats, ints, work, x, c, near, other, right, wrong, gaps):
    """Take a gradient step on -log p(c, x) / p(x) of a mixture, one component per prototype.

    Expects the distance of every prototype in `slot_distance`.
    """
    precision = 0.5 / floats[at.SIGMA]
    least = 0.0 if ints[at.STEPS] == at.PUBLISHED_STEPS else MIN_RESPONSIBILITY
    count = ints[at.N_PROTOTYPES]
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    distances = views.slot_distance(work, ints)
    # Each sum is relative to its own largest term, because the right class may be far away.
    closest, closest_own = START_DISTANCE, START_DISTANCE
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
        if abs(responsibility) > least:
            slope = floats[at.SAMPLE_WEIGHT] * precision * responsibility
            move(floats, ints, work, x, p, slope, gaps)
    if ints[at.METRICS] == 1:
        step_collected(floats, ints, work, 0)


@helper
def attract(floats, ints, x, p, rate):
    """Move a fraction of the way to the sample, or away from it if negative."""
    d = ints[at.N_FEATURES]
    w = row(floats, ints, at.W, p, d)
    for i in range(d):
        if x[i] == x[i] and w[i] == w[i]:
            w[i] += rate * (x[i] - w[i])


@helper
def two_nearest(ints, work):
    """Return the two closest prototypes, given all distances in `slot_distance`."""
    distances = views.slot_distance(work, ints)
    first, second = -1, -1
    for p in range(ints[at.N_PROTOTYPES]):
        if first < 0 or distances[p] < distances[first]:
            first, second = p, first
        elif second < 0 or distances[p] < distances[second]:
            second = p
    return first, second


@helper
def lvq1(floats, ints, work, x, c, near, other, right, wrong, gaps):
    """LVQ1 and OLVQ1: move the winner, in OLVQ1 at its own rate."""
    winner = right if near <= other else wrong
    sign = 1.0 if near <= other else -1.0
    weight = floats[at.SAMPLE_WEIGHT]
    if ints[at.RULE] == at.RULE_LVQ1:
        attract(floats, ints, x, winner, sign * min(1.0, weight * floats[at.LEARNING_RATE]))
        return
    rates = vector(floats, ints, at.RATE, ints[at.PROTOTYPE_CAPACITY])
    rate = min(floats[at.LEARNING_RATE], rates[winner] / max(TINY, 1.0 + sign * rates[winner]))
    rates[winner] = rate
    attract(floats, ints, x, winner, sign * min(1.0, weight * rate))


@helper
def lvq2(floats, ints, work, x, c, near, other, right, wrong, gaps):
    """LVQ2.1 and LVQ3: move the two nearest prototypes if the sample lies between them."""
    first, second = two_nearest(ints, work)
    if second < 0:
        return
    distances = views.slot_distance(work, ints)
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    rate = min(1.0, floats[at.SAMPLE_WEIGHT] * floats[at.LEARNING_RATE])
    right_first, right_second = labels[first] == c, labels[second] == c
    if right_first and right_second:
        if ints[at.RULE] == at.RULE_LVQ3:
            attract(floats, ints, x, first, floats[at.EPSILON] * rate)
            attract(floats, ints, x, second, floats[at.EPSILON] * rate)
        return
    if not right_first and not right_second:
        return
    width = floats[at.WINDOW_WIDTH]
    if sqrt(distances[first]) < sqrt(distances[second]) * (1.0 - width) / (1.0 + width):
        return
    attract(floats, ints, x, first, rate if right_first else -rate)
    attract(floats, ints, x, second, rate if right_second else -rate)
