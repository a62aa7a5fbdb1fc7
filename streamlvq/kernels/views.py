"""Views of the named arrays of a model for the kernels, see `layout`."""

from __future__ import annotations

from streamlvq.kernels.compile import helper
from streamlvq.kernels.layout import (
    CLASS_CAPACITY,
    METRIC_RANK,
    METRICS,
    N_CLASSES,
    N_FEATURES,
    OMEGA,
    PAIRS,
    PROTOTYPE_CAPACITY,
    SECTION_STARTS,
)


@helper
def vector(data, ints, section, length):
    start = ints[SECTION_STARTS + section]
    return data[start : start + length]


@helper
def row(data, ints, section, number, length):
    start = ints[SECTION_STARTS + section] + number * length
    return data[start : start + length]


@helper
def table(data, ints, section, rows, columns):
    """Return all rows at once; unlike `row` without a reference count per row."""
    start = ints[SECTION_STARTS + section]
    return data[start : start + rows * columns].reshape((rows, columns))


@helper
def metric_number(ints, prototype):
    """Return the index of a prototype's metric: shared by all, by a pair of classes, or its own."""
    if ints[PAIRS] > 0:
        return prototype // 2
    return prototype if ints[METRICS] > 1 else 0


@helper
def metric_of(floats, ints, prototype):
    """Return the metric of a prototype, row by row."""
    size = ints[METRIC_RANK] * ints[N_FEATURES]
    start = ints[SECTION_STARTS + OMEGA] + metric_number(ints, prototype) * size
    return floats[start : start + size]


# `work` starts with the reading, so that it can be packed directly, then results, then scratch
# space. The positions depend only on the sizes.
@helper
def reading(work, ints):
    return work[: ints[N_FEATURES]]


@helper
def probabilities(work, ints):
    d, c = ints[N_FEATURES], ints[CLASS_CAPACITY]
    return work[d : d + c]


@helper
def class_distance(work, ints):
    d, c = ints[N_FEATURES], ints[CLASS_CAPACITY]
    return work[d + c : d + 2 * c]


@helper
def class_winner(work, ints):
    d, c = ints[N_FEATURES], ints[CLASS_CAPACITY]
    return work[d + 2 * c : d + 3 * c]


@helper
def class_score(work, ints):
    d, c = ints[N_FEATURES], ints[CLASS_CAPACITY]
    return work[d + 3 * c : d + 4 * c]


@helper
def difference(work, ints):
    """Return scratch space for a reading minus a prototype, in feature scales."""
    start = 4 * ints[CLASS_CAPACITY] + ints[N_FEATURES]
    return work[start : start + ints[N_FEATURES]]


@helper
def pull(work, ints):
    """Return scratch space for the metric applied to the difference."""
    start = 4 * ints[CLASS_CAPACITY] + 2 * ints[N_FEATURES]
    return work[start : start + ints[N_FEATURES]]


@helper
def column_factor(work, ints):
    start = 4 * ints[CLASS_CAPACITY] + 3 * ints[N_FEATURES]
    return work[start : start + ints[N_FEATURES]]


@helper
def projection(work, ints):
    start = 4 * ints[CLASS_CAPACITY] + 4 * ints[N_FEATURES]
    return work[start : start + ints[METRIC_RANK]]


@helper
def gradient_start(ints):
    return 4 * ints[CLASS_CAPACITY] + 4 * ints[N_FEATURES] + ints[METRIC_RANK]


@helper
def metric_gradient(work, ints):
    start = gradient_start(ints)
    return work[start : start + ints[METRIC_RANK] * ints[N_FEATURES]]


@helper
def other_difference(work, ints):
    """Return scratch space for a second prototype, in place of the metric gradient."""
    start = gradient_start(ints)
    return work[start : start + ints[N_FEATURES]]


@helper
def other_pull(work, ints):
    start = gradient_start(ints) + ints[N_FEATURES]
    return work[start : start + ints[N_FEATURES]]


@helper
def other_projection(work, ints):
    start = gradient_start(ints) + 2 * ints[N_FEATURES]
    return work[start : start + ints[METRIC_RANK]]


@helper
def slot_distance(work, ints):
    end = slots_end(ints)
    return work[end - ints[PROTOTYPE_CAPACITY] : end]


@helper
def slots_end(ints):
    d, m = ints[N_FEATURES], ints[METRIC_RANK]
    return gradient_start(ints) + max(m * d, 2 * d + m) + ints[PROTOTYPE_CAPACITY]


@helper
def last_answered(work, ints):
    """Return the cache: 1 or 0 for valid, then the reading of the results in `work`.

    A reading is usually predicted and then learnt, which starts with the same computation.
    """
    start = slots_end(ints)
    return work[start : start + 1 + ints[N_FEATURES]]


@helper
def pairs_start(ints):
    return slots_end(ints) + 1 + ints[N_FEATURES]


@helper
def pair_probabilities(work, ints):
    """Return pairwise probabilities: P(row's class | row's or column's class)."""
    start = pairs_start(ints)
    known = ints[N_CLASSES]
    return work[start : start + known * known].reshape((known, known))


@helper
def pair_counts(work, ints):
    c, known = ints[CLASS_CAPACITY], ints[N_CLASSES]
    start = pairs_start(ints) + c * c
    return work[start : start + known * known].reshape((known, known))


@helper
def coupling_scratch(work, ints):
    return work[pairs_start(ints) + 2 * ints[CLASS_CAPACITY] * ints[CLASS_CAPACITY] :]
