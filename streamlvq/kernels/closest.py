"""RelSim: the two classes closest to the last predicted reading."""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.distance import FAR, blank_gaps, quadratic, subtract
from streamlvq.kernels.views import metric_of, row, vector


@helper
def closest_two(ints, work):
    """Return the two closest classes and their squared distances; -1 where there is none."""
    distance = views.class_distance(work, ints)
    near, other, winner, runner_up = FAR, FAR, -1, -1
    for c in range(ints[at.KNOWN]):
        if distance[c] < near:
            near, other, winner, runner_up = distance[c], near, c, winner
        elif distance[c] < other:
            other, runner_up = distance[c], c
    return near, other, winner, runner_up


@helper
def relative_difference(near, other):
    total = near + other
    return (other - near) / total if total > 0.0 else 0.0


@kernel("float64(int64[::1], float64[::1], int64)")
def relsim(ints, work, c):
    """Return RelSim; -1 before two classes are known.

    With a class c >= 0 it is 0 if the reading is closer to another class.
    """
    near, other, winner, runner_up = closest_two(ints, work)
    if runner_up < 0:
        return -1.0
    return relative_difference(near, other) if c < 0 or c == winner else 0.0


@kernel("Tuple((float64, float64, float64, int64, int64))(int64[::1], float64[::1])")
def closest_classes(ints, work):
    """Return RelSim, both distances and both classes; -1 for a class that does not exist."""
    near, other, winner, runner_up = closest_two(ints, work)
    return relative_difference(near, other), near, other, winner, runner_up


@kernel("float64(float64[::1], int64[::1], float64[::1], int64, int64)")
def separation(floats, ints, work, winner, runner_up):
    """Return the distance (not squared) between the closest prototypes of two classes.

    Uses the metric of the winner and only features that the reading has; 0 if none is known.
    """
    d = ints[at.FEATURES]
    closest = views.class_winner(work, ints)
    first, second = int(closest[winner]), int(closest[runner_up])
    x = views.reading(work, ints)
    z = views.difference(work, ints)
    w, other = row(floats, ints, at.W, first, d), row(floats, ints, at.W, second, d)
    subtract(other, w, vector(floats, ints, at.INVERSE, d), z)
    for i in range(d):
        if x[i] != x[i]:
            z[i] = x[i]
    omega = metric_of(floats, ints, first)
    factor = blank_gaps(ints[at.KIND], omega, z)
    return sqrt(factor * quadratic(ints[at.KIND], omega, z)) if factor > 0.0 else 0.0
