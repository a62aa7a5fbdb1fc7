"""The kernels that Python calls: learn, observe and predict, one reading or an array of them."""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.calibration import (
    calibrate,
    score_by_distance,
    score_by_likelihood,
    to_probabilities,
)
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.distance import closest_pair, distances, has_gaps, ordinary
from streamlvq.kernels.rules import learn_from
from streamlvq.kernels.scaling import observe, observe_class
from streamlvq.kernels.steps import clear
from streamlvq.kernels.views import metric_of, reading, row, vector

REPLAY_AFTER = 10  # samples in the buffer before rehearsal starts
MODULUS, MULTIPLIER = 2147483647, 48271  # Park and Miller's generator: exact in 64-bit integers


@helper
def infinite_feature(x):
    """0 if all is finite or missing, else 1 + the index of a value that is not."""
    if not ordinary(x):
        for i in range(x.shape[0]):
            if abs(x[i]) > at.LARGEST:
                return i + 1
    return 0


@helper
def random_unit(ints):
    ints[at.RANDOM] = (ints[at.RANDOM] * MULTIPLIER) % MODULUS
    return ints[at.RANDOM] / MODULUS


@helper
def needs_every_distance(ints):
    """LVQ2.1, LVQ3 and RSLVQ look at more than the closest prototype of a class."""
    rule = ints[at.RULE]
    return rule == at.RULE_RSLVQ or rule == at.RULE_LVQ21 or rule == at.RULE_LVQ3


@helper
def measure(floats, ints, work, x, gaps):
    """Distances and scores of the reading, for every known class."""
    which = -2 if needs_every_distance(ints) else -1
    distances(floats, ints, work, x, gaps, which, -1, -1)
    if ints[at.RULE] == at.RULE_RSLVQ:
        score_by_likelihood(floats, ints, work)
    else:
        score_by_distance(ints, work)


@helper
def least_useful(floats, ints, c):
    """The prototype of class c with the fewest decayed wins minus errors."""
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
    """A new prototype measures as its parent does, a new class as the first one did."""
    d, m = ints[at.FEATURES], ints[at.RANK]
    source = vector(floats, ints, at.START, m * d)
    if parent >= 0:
        source = metric_of(floats, ints, parent)
    copy(source, metric_of(floats, ints, p))
    clear(row(floats, ints, at.ROW_MOMENT, p, m))
    clear(row(floats, ints, at.COLUMN_MOMENT, p, d))
    vector(floats, ints, at.TOTAL_MOMENT, ints[at.METRICS])[p] = 0.0


@helper
def count_gaps(values):
    gaps = 0
    for i in range(values.shape[0]):
        if values[i] != values[i]:
            gaps += 1
    return gaps


@helper
def give_birth(floats, ints, x, c, p, parent):
    """Put a prototype of class c on the sample, in slot p."""
    d, slots = ints[at.FEATURES], ints[at.SLOTS]
    w = row(floats, ints, at.W, p, d)
    if ints[at.METRICS] > 1 and p != parent:
        inherit_metric(floats, ints, p, parent)
    if p == ints[at.PROTOTYPES]:
        ints[at.PROTOTYPES] += 1
        vector(ints, ints, at.CLASS_SIZE, ints[at.CLASSES])[c] += 1
    else:
        ints[at.GAPS] -= count_gaps(w)
    copy(x, w)
    ints[at.GAPS] += count_gaps(w)
    clear(row(floats, ints, at.W_MOMENT, p, d))
    vector(ints, ints, at.LABEL, slots)[p] = c
    vector(floats, ints, at.USEFULNESS, slots)[p] = 0.0
    vector(floats, ints, at.WINS, slots)[p] = 1.0
    vector(floats, ints, at.BORN, slots)[p] = ints[at.SAMPLES]
    vector(floats, ints, at.RATE, slots)[p] = floats[at.LEARNING_RATE]
    ints[at.KNOWN] = max(ints[at.KNOWN], c + 1)


@helper
def birth_place(floats, ints, c, wrong):
    """The slot for a new prototype of class c, or -1 if none is to be born."""
    if c >= ints[at.KNOWN]:
        return ints[at.PROTOTYPES]
    size = vector(ints, ints, at.CLASS_SIZE, ints[at.CLASSES])[c]
    if size < ints[at.INITIAL] or (wrong and size < ints[at.LIMIT]):
        return ints[at.PROTOTYPES]
    if wrong and ints[at.RENEW] == 1:
        return least_useful(floats, ints, c)
    return -1


@helper
def credit(floats, ints, winner, correct):
    """Remember who decided, and how useful that was."""
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.SLOTS])
    if ints[at.RENEW] == 1:
        for p in range(ints[at.PROTOTYPES]):
            usefulness[p] *= floats[at.FORGET]
    usefulness[winner] += 1.0 if correct else -1.0
    if correct:
        vector(floats, ints, at.WINS, ints[at.SLOTS])[winner] += 1.0


@helper
def pick_rehearsed(floats, ints):
    """A stored sample: of two draws that favour recent ones, the one that is further from safe."""
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
    """How far a stored sample is on the wrong side: -1 is safe, 1 is lost."""
    total = near + other
    margin = (near - other) / total if total > 0.0 else 0.0
    vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])[position] = margin


@helper
def store(floats, ints, x, c):
    position = ints[at.STORED] % ints[at.BUFFER]
    copy(x, row(floats, ints, at.BUFFER_X, position, ints[at.FEATURES]))
    vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position] = c
    set_margin(floats, ints, position, 1.0, 0.0)
    vector(ints, ints, at.BUFFER_RIGHT, ints[at.BUFFER])[position] = -1
    vector(ints, ints, at.BUFFER_WRONG, ints[at.BUFFER])[position] = -1
    ints[at.STORED] += 1


@helper
def find_pair(floats, ints, work, x, c, gaps, position):
    """Closest prototype of the class of a stored sample and of any other.

    The sample remembers them, because next time they will be good guesses.
    """
    last_right = vector(ints, ints, at.BUFFER_RIGHT, ints[at.BUFFER])
    last_wrong = vector(ints, ints, at.BUFFER_WRONG, ints[at.BUFFER])
    if needs_every_distance(ints):
        distances(floats, ints, work, x, gaps, -2, -1, -1)
        return closest_pair(ints, work, c)
    near, other, right, wrong = distances(
        floats, ints, work, x, gaps, c, last_right[position], last_wrong[position]
    )
    last_right[position] = right
    last_wrong[position] = wrong
    return near, other, right, wrong


@helper
def remember(floats, ints, x, c):
    """Scales, class statistics and the rehearsal buffer."""
    ints[at.SAMPLES] += 1
    if ints[at.PASSIVE] == 0:
        observe(floats, ints, x)
        observe_class(floats, ints, x, c)
    if ints[at.BUFFER] > 0:
        store(floats, ints, x, c)


@helper
def learn_row(floats, ints, work, x, c):
    """Learn one sample of class c, then rehearse; c == KNOWN announces a new class."""
    gaps = has_gaps(ints, x)
    known = ints[at.KNOWN]
    near, other, right, wrong = 1.0, 0.0, -1, -1
    if known > 0:
        measure(floats, ints, work, x, gaps)
    if c < known:
        near, other, right, wrong = closest_pair(ints, work, c)
    place = birth_place(floats, ints, c, other <= near)
    if place == ints[at.SLOTS]:
        return at.NEEDS_SLOT
    if right >= 0:
        if wrong >= 0 and ints[at.PASSIVE] != at.SILENT:
            to_probabilities(floats, ints, work)
            calibrate(floats, ints, work, c)
        credit(floats, ints, right if near < other else wrong, near < other)
    if place >= 0:
        give_birth(floats, ints, x, c, place, right)
        wrong = -1  # it has learnt all there is to learn
    rounds = 1
    if ints[at.STORED] >= REPLAY_AFTER:
        rounds += ints[at.REHEARSAL]
    sample, label = x, c
    for k in range(rounds):
        if k > 0:
            position = pick_rehearsed(floats, ints)
            sample = row(floats, ints, at.BUFFER_X, position, ints[at.FEATURES])
            label = vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position]
            gaps = has_gaps(ints, sample)
            near, other, right, wrong = find_pair(floats, ints, work, sample, label, gaps, position)
            set_margin(floats, ints, position, near, other)
        if wrong >= 0:
            learn_from(floats, ints, work, sample, label, near, other, right, wrong, gaps)
        if k == 0:
            remember(floats, ints, x, c)
    return at.DONE


@kernel("int64(float64[::1], int64[::1], float64[::1], int64)")
def learn(floats, ints, work, c):
    """Learn the reading in `work`. 0: done; see `layout` for the other answers."""
    x = reading(work, ints)
    infinite = infinite_feature(x)
    if infinite > 0:
        return infinite
    return learn_row(floats, ints, work, x, c)


@kernel(
    "int64(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], int64, "
    "float64[:, ::1])"
)
def learn_array(floats, ints, work, rows, classes, start, before):
    """Learn rows from `start` on; returns how far it came before it needed another slot.

    `before`, if it has rows, is given the probabilities of each sample before it was learnt; they
    stay as they are for samples that cannot be judged, such as the first of a class.
    """
    for k in range(start, rows.shape[0]):
        known = ints[at.KNOWN]
        if learn_row(floats, ints, work, rows[k], classes[k]) == at.NEEDS_SLOT:
            return k
        if before.shape[0] > 0 and classes[k] < known and known > 1:
            p = views.probabilities(work, ints)
            for c in range(known):
                before[k, c] = p[c]
    return rows.shape[0]


@kernel("int64(float64[::1], int64[::1], float64[::1])")
def observe_reading(floats, ints, work):
    x = reading(work, ints)
    infinite = infinite_feature(x)
    if infinite == 0:
        observe(floats, ints, x)
    return infinite


@kernel("void(float64[::1], int64[::1], float64[:, ::1])")
def observe_array(floats, ints, rows):
    for k in range(rows.shape[0]):
        observe(floats, ints, rows[k])


@kernel("int64(float64[::1], int64[::1], float64[::1])")
def predict(floats, ints, work):
    """Probabilities, distances and winners of every class, left in `work`."""
    x = reading(work, ints)
    infinite = infinite_feature(x)
    if infinite > 0:
        return infinite
    measure(floats, ints, work, x, has_gaps(ints, x))
    to_probabilities(floats, ints, work)
    return at.DONE


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], float64[:, ::1])")
def predict_array(floats, ints, work, rows, out):
    """The probabilities of every known class for each row."""
    p = views.probabilities(work, ints)
    for k in range(rows.shape[0]):
        x = rows[k]
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        for c in range(ints[at.KNOWN]):
            out[k, c] = p[c]


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1])")
def calibrate_array(floats, ints, work, rows, classes):
    """Fit the temperature on samples that were not learnt."""
    for k in range(rows.shape[0]):
        x = rows[k]
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        calibrate(floats, ints, work, classes[k])


@kernel("void(float64[::1], int64[::1], float64[:, ::1], int64[::1])")
def count_classes(floats, ints, rows, classes):
    """Class statistics alone."""
    for k in range(rows.shape[0]):
        observe_class(floats, ints, rows[k], classes[k])
