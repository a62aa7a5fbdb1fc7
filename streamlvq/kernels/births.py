"""Growth: new prototypes for new classes and after errors."""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper
from streamlvq.kernels.steps import clear
from streamlvq.kernels.views import metric_number, metric_of, row, vector


@helper
def least_useful(floats, ints, c):
    """Return the prototype of class c with the fewest decayed wins minus errors."""
    labels = vector(ints, ints, at.LABEL, ints[at.SLOTS])
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.SLOTS])
    worst = -1
    for p in range(ints[at.PROTOTYPES]):
        if labels[p] == c and (worst < 0 or usefulness[p] < usefulness[worst]):
            worst = p
    return worst


@helper
def copy(source, target):
    for i in range(source.shape[0]):
        target[i] = source[i]


@helper
def inherit_metric(floats, ints, p, parent):
    """Copy the metric of the parent; a new class starts with the initial metric."""
    d, m = ints[at.FEATURES], ints[at.RANK]
    source = vector(floats, ints, at.START, m * d)
    if parent >= 0:
        source = metric_of(floats, ints, parent)
    copy(source, metric_of(floats, ints, p))
    number = metric_number(ints, p)
    clear(row(floats, ints, at.ROW_MOMENT, number, m))
    clear(row(floats, ints, at.COLUMN_MOMENT, number, d))
    vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])[number] = 0.0


@helper
def count_gaps(values):
    gaps = 0
    for i in range(values.shape[0]):
        if values[i] != values[i]:
            gaps += 1
    return gaps


@helper
def settle(floats, ints, x, c, p):
    """Initialise slot p with a new prototype of class c at x."""
    d, slots = ints[at.FEATURES], ints[at.SLOTS]
    copy(x, row(floats, ints, at.W, p, d))
    ints[at.GAPS] += count_gaps(x)
    clear(row(floats, ints, at.W_MOMENT, p, d))
    vector(ints, ints, at.LABEL, slots)[p] = c
    vector(floats, ints, at.USEFULNESS, slots)[p] = 0.0
    vector(floats, ints, at.WINS, slots)[p] = 1.0
    vector(floats, ints, at.BORN, slots)[p] = ints[at.SAMPLES]
    vector(floats, ints, at.RATE, slots)[p] = floats[at.LEARNING_RATE]


@helper
def give_birth(floats, ints, x, c, p, parent):
    """Place a prototype of class c on the sample, in slot p."""
    if ints[at.METRICS] > 1 and p != parent:
        inherit_metric(floats, ints, p, parent)
    if p == ints[at.PROTOTYPES]:
        ints[at.PROTOTYPES] += 1
        vector(ints, ints, at.CLASS_SIZE, ints[at.CLASSES])[c] += 1
    else:
        ints[at.GAPS] -= count_gaps(row(floats, ints, at.W, p, ints[at.FEATURES]))
    settle(floats, ints, x, c, p)
    ints[at.KNOWN] = max(ints[at.KNOWN], c + 1)


@helper
def birth_place(floats, ints, c, wrong):
    """Return the slot for a new prototype of class c; -1 if none is to be added."""
    if c >= ints[at.KNOWN]:
        return ints[at.PROTOTYPES]
    size = vector(ints, ints, at.CLASS_SIZE, ints[at.CLASSES])[c]
    if size < ints[at.INITIAL] or (wrong and size < ints[at.LIMIT]):
        return ints[at.PROTOTYPES]
    if wrong and ints[at.RENEW] == 1:
        return least_useful(floats, ints, c)
    return -1
