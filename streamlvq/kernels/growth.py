"""Growth of a model, by new classes and after errors, and the buffer of rehearsed samples."""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels.compile import helper
from streamlvq.kernels.features import restrict_metric
from streamlvq.kernels.learning import clear
from streamlvq.kernels.statistics import observe, observe_class
from streamlvq.kernels.views import metric_number, metric_of, row, vector

# --- new prototypes ------------------------------------------------------------------------------

SAME_PLACE_SHARE = 0.01  # of the squared distance to the own class
TOUCHING_DISTANCE = 1e-6  # squared
SPARSE_READINGS = 100.0  # of a class for each prototype that it gets after errors, if sparse
EVICTED = -2  # in place of a slot: the prototype on the sample has to leave


@helper
def least_useful(floats, ints, c):
    """Return the prototype of class c with the fewest decayed wins minus errors."""
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.PROTOTYPE_CAPACITY])
    worst = -1
    for p in range(ints[at.N_PROTOTYPES]):
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
    d, m = ints[at.N_FEATURES], ints[at.METRIC_RANK]
    source = vector(floats, ints, at.START, m * d)
    if parent >= 0:
        source = metric_of(floats, ints, parent)
    copy(source, metric_of(floats, ints, p))
    number = metric_number(ints, p)
    clear(row(floats, ints, at.ROW_MOMENT, number, m))
    clear(row(floats, ints, at.COLUMN_MOMENT, number, d))
    vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])[number] = 0.0
    if parent < 0:
        restrict_metric(floats, ints, number)


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
    d, slots = ints[at.N_FEATURES], ints[at.PROTOTYPE_CAPACITY]
    copy(x, row(floats, ints, at.W, p, d))
    ints[at.GAPS] += count_gaps(x)
    clear(row(floats, ints, at.W_MOMENT, p, d))
    vector(ints, ints, at.LABEL, slots)[p] = c
    vector(floats, ints, at.USEFULNESS, slots)[p] = 0.0
    vector(floats, ints, at.WINS, slots)[p] = 1.0
    vector(floats, ints, at.BORN, slots)[p] = ints[at.SAMPLES]
    vector(floats, ints, at.RATE, slots)[p] = floats[at.LEARNING_RATE]


@helper
def add_prototype(floats, ints, x, c, p, parent):
    """Place a prototype of class c on the sample, in slot p."""
    if ints[at.METRICS] > 1 and p != parent:
        inherit_metric(floats, ints, p, parent)
    size = vector(ints, ints, at.CLASS_SIZE, ints[at.CLASS_CAPACITY])
    size[c] += 1
    if p == ints[at.N_PROTOTYPES]:
        ints[at.N_PROTOTYPES] += 1
    else:
        size[vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])[p]] -= 1
        ints[at.GAPS] -= count_gaps(row(floats, ints, at.W, p, ints[at.N_FEATURES]))
    settle(floats, ints, x, c, p)
    ints[at.N_CLASSES] = max(ints[at.N_CLASSES], c + 1)


@helper
def is_occupied(near, other):
    """Return whether a prototype of another class is as good as on the sample."""
    return other <= max(SAME_PLACE_SHARE * near, TOUCHING_DISTANCE)


@helper
def prototype_slot(floats, ints, c, wrong):
    """Return the slot for a new prototype of class c; -1 if none is to be added."""
    if c >= ints[at.N_CLASSES]:
        return ints[at.N_PROTOTYPES]
    size = vector(ints, ints, at.CLASS_SIZE, ints[at.CLASS_CAPACITY])[c]
    if ints[at.SPARSE] == 1:
        count = vector(floats, ints, at.CLASS_COUNT, ints[at.CLASS_CAPACITY])[c]
        wrong = wrong and count >= SPARSE_READINGS * size
    if size < ints[at.INITIAL] or (wrong and size < ints[at.PROTOTYPE_LIMIT]):
        return ints[at.N_PROTOTYPES]
    if wrong and ints[at.RENEW] == 1:
        return least_useful(floats, ints, c)
    return -1


@helper
def contested_slot(floats, ints, c, near, wrong):
    """Return the slot for a prototype of class c where one of another class is; -1 for none.

    Two of different classes on one place would decide by chance there, for ever. The other one
    stays if it is useful or among the first of its class. Else it becomes one of class c, or is
    EVICTED if that class has as many as it may have.
    """
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    size = vector(ints, ints, at.CLASS_SIZE, ints[at.CLASS_CAPACITY])
    useful = vector(floats, ints, at.USEFULNESS, ints[at.PROTOTYPE_CAPACITY])[wrong] >= 1.0
    if size[c] >= ints[at.INITIAL]:
        if useful:
            return -1
        if size[labels[wrong]] > ints[at.INITIAL]:
            return wrong if size[c] < ints[at.PROTOTYPE_LIMIT] else EVICTED
    return prototype_slot(floats, ints, c, near > TOUCHING_DISTANCE)


@helper
def evict(floats, ints, p):
    """Move a prototype that is of no use to the most useful other one of its class."""
    labels = vector(ints, ints, at.LABEL, ints[at.PROTOTYPE_CAPACITY])
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.PROTOTYPE_CAPACITY])
    best = -1
    for q in range(ints[at.N_PROTOTYPES]):
        if labels[q] == labels[p] and q != p and (best < 0 or usefulness[q] > usefulness[best]):
            best = q
    place = row(floats, ints, at.W, best, ints[at.N_FEATURES])
    add_prototype(floats, ints, place, labels[p], p, best)


# --- rehearsal -----------------------------------------------------------------------------------

REHEARSAL_MIN_SAMPLES = 10  # samples in the buffer before rehearsal starts
RARE = 3.0  # a class with less than a third of a fair share of the samples is rare
MAX_RARITY = 50.0  # a class this rare or rarer weighs the same
RELEVANCE_EVIDENCE = 0.1  # weight for each of its samples: few would turn relevances for all
MODULUS, MULTIPLIER = 2147483647, 48271  # Park-Miller generator, exact in 64-bit integers


@helper
def random_unit(ints):
    ints[at.RANDOM] = (ints[at.RANDOM] * MULTIPLIER) % MODULUS
    return ints[at.RANDOM] / MODULUS


@helper
def pick_rehearsed(floats, ints):
    """Return a stored sample: of two draws that favour recent ones, the one with larger margin."""
    stored = min(ints[at.STORED], ints[at.REACH])
    margin = vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])
    chosen = -1
    for _ in range(2):
        age = int(float(stored) ** (random_unit(ints) ** 0.5)) - 1
        age = min(stored - 1, max(0, age))
        position = (ints[at.STORED] - 1 - age) % ints[at.BUFFER]
        if chosen < 0 or margin[position] > margin[chosen]:
            chosen = position
    return chosen


@helper
def set_margin(floats, ints, position, near, other):
    """Set the margin of a stored sample: -1 is clearly right, 1 clearly wrong."""
    total = near + other
    margin = (near - other) / total if total > 0.0 else 0.0
    vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])[position] = margin


@helper
def fair_share(floats, ints):
    """Return the mean number of samples of a class; 0 if classes weigh the same, rare or not."""
    return floats[at.CLASS_TOTAL] / ints[at.N_CLASSES] if ints[at.BALANCE] > 0 else 0.0


@helper
def class_factor(floats, ints, c, fair):
    """Return the weight of a class: that of the user, times one that makes up for its rarity.

    Numbers are read without a view of their section, which would cost more.
    """
    factor = floats[ints[at.SECTION_STARTS + at.CLASS_FACTOR] + c]
    if fair > 0.0:
        count = max(1.0, floats[ints[at.SECTION_STARTS + at.CLASS_COUNT] + c])
        if ints[at.BALANCE] == at.BALANCE_ALL:
            factor *= min(MAX_RARITY, fair / count)
        elif RARE * count < fair:
            limit = MAX_RARITY
            if ints[at.METRIC_KIND] == at.DIAGONAL:
                limit = min(limit, 1.0 + RELEVANCE_EVIDENCE * count)
            factor *= min(limit, fair / (RARE * count))
    return factor


@helper
def rehearsed_weight(floats, ints, position, c, fair):
    """Return the weight of a stored sample."""
    weight = floats[ints[at.SECTION_STARTS + at.BUFFER_WEIGHT] + position]
    return weight * class_factor(floats, ints, c, fair)


@helper
def store(floats, ints, x, c, weight):
    position = ints[at.STORED] % ints[at.BUFFER]
    copy(x, row(floats, ints, at.BUFFER_X, position, ints[at.N_FEATURES]))
    vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position] = c
    set_margin(floats, ints, position, 1.0, 0.0)
    floats[ints[at.SECTION_STARTS + at.BUFFER_WEIGHT] + position] = weight
    vector(ints, ints, at.BUFFER_RIGHT, ints[at.BUFFER])[position] = -1
    vector(ints, ints, at.BUFFER_WRONG, ints[at.BUFFER])[position] = -1
    ints[at.STORED] += 1


@helper
def remember(floats, ints, x, c, weight):
    """Update scales, class statistics and the rehearsal buffer."""
    ints[at.SAMPLES] += 1
    if ints[at.PASSIVE] == 0:
        observe(floats, ints, x)
        observe_class(floats, ints, x, c)
    if ints[at.BUFFER] > 0:
        store(floats, ints, x, c, weight)


@helper
def rounds_of_learning(ints):
    """Return the number of samples to learn: the new one and the rehearsed ones."""
    return 1 + (ints[at.REHEARSAL] if ints[at.STORED] >= REHEARSAL_MIN_SAMPLES else 0)
