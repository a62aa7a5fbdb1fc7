"""Entry points of the prototype models: learn, observe and predict readings and arrays."""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels import views
from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.distance import (
    cache_prediction,
    closest_pair,
    distances,
    drop_cached_prediction,
    has_cached_prediction,
    has_gaps,
    ordinary,
)
from streamlvq.kernels.growth import (
    add_prototype,
    pick_rehearsed,
    prototype_slot,
    remember,
    rounds_of_learning,
    set_margin,
)
from streamlvq.kernels.learning import learn_from
from streamlvq.kernels.pairwise import (
    calibrate_pairs,
    learn_row_in_pairs,
    measure_pairs,
    score_by_pairs,
)
from streamlvq.kernels.statistics import (
    calibrate,
    observe,
    observe_class,
    score_by_distance,
    score_by_likelihood,
    to_probabilities,
)
from streamlvq.kernels.views import reading, row, vector


@helper
def infinite_feature(x):
    """Return 0 if all values are finite or missing, else 1 + the index of one that is not."""
    if not ordinary(x):
        for i in range(x.shape[0]):
            if abs(x[i]) > at.LARGEST_VALUE:
                return i + 1
    return 0


@helper
def needs_every_distance(ints):
    """Return whether the rule needs all distances: LVQ2.1, LVQ3 and RSLVQ."""
    rule = ints[at.RULE]
    return rule == at.RULE_RSLVQ or rule == at.RULE_LVQ21 or rule == at.RULE_LVQ3


@helper
def measure(floats, ints, work, x, gaps):
    """Compute distances and scores of the reading for every known class."""
    if ints[at.RULE] == at.RULE_PAIRWISE:
        measure_pairs(floats, ints, work, x, gaps, -1)
        score_by_pairs(floats, ints, work)
        return
    which = -2 if needs_every_distance(ints) else -1
    distances(floats, ints, work, x, gaps, which, -1, -1)
    if ints[at.RULE] == at.RULE_RSLVQ:
        score_by_likelihood(floats, ints, work)
    else:
        score_by_distance(ints, work)


@helper
def credit(floats, ints, winner, correct):
    """Update wins and usefulness of the prototype that decided."""
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.PROTOTYPE_CAPACITY])
    if ints[at.RENEW] == 1:
        for p in range(ints[at.N_PROTOTYPES]):
            usefulness[p] *= floats[at.FORGET]
    usefulness[winner] += 1.0 if correct else -1.0
    if correct:
        vector(floats, ints, at.WINS, ints[at.PROTOTYPE_CAPACITY])[winner] += 1.0


@helper
def find_pair(floats, ints, work, x, c, gaps, position):
    """Return the closest prototype of a stored sample's class and of any other class.

    They are stored with the sample as guesses for the next search.
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
def learn_row(floats, ints, work, x, c):
    """Learn one sample of class c, then rehearse; c == N_CLASSES adds a new class."""
    if ints[at.RULE] == at.RULE_PAIRWISE:
        return learn_row_in_pairs(floats, ints, work, x, c)
    gaps = has_gaps(ints, x)
    known = ints[at.N_CLASSES]
    near, other, right, wrong = 1.0, 0.0, -1, -1
    if known > 0 and not has_cached_prediction(ints, work, x):
        measure(floats, ints, work, x, gaps)
    drop_cached_prediction(ints, work)
    if c < known:
        near, other, right, wrong = closest_pair(ints, work, c)
    place = prototype_slot(floats, ints, c, other <= near)
    if place == ints[at.PROTOTYPE_CAPACITY]:
        return at.NEEDS_SLOT
    if right >= 0:
        if wrong >= 0 and ints[at.PASSIVE] != at.SILENT:
            to_probabilities(floats, ints, work)
            calibrate(floats, ints, work, c)
        credit(floats, ints, right if near < other else wrong, near < other)
    if place >= 0:
        add_prototype(floats, ints, x, c, place, right)
        wrong = -1  # this sample became a prototype: nothing left to learn
    sample, label = x, c
    for k in range(rounds_of_learning(ints)):
        if k > 0:
            position = pick_rehearsed(floats, ints)
            sample = row(floats, ints, at.BUFFER_X, position, ints[at.N_FEATURES])
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
    """Learn the reading in `work`; return a status code, see `layout`."""
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
    """Learn rows from `start` on; return the row at which another slot was needed, or the end.

    `before`, if it has rows, receives the probabilities of each sample before it is learnt; entries
    stay unchanged where there is no prediction, as for the first sample of a class.
    """
    for k in range(start, rows.shape[0]):
        known = ints[at.N_CLASSES]
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
        drop_cached_prediction(ints, work)
        observe(floats, ints, x)
    return infinite


@kernel("void(float64[::1], int64[::1], float64[:, ::1])")
def observe_array(floats, ints, rows):
    for k in range(rows.shape[0]):
        observe(floats, ints, rows[k])


@kernel("int64(float64[::1], int64[::1], float64[::1])")
def predict(floats, ints, work):
    """Compute probabilities, distances and winners of every class, in `work`."""
    x = reading(work, ints)
    infinite = infinite_feature(x)
    if infinite > 0:
        return infinite
    measure(floats, ints, work, x, has_gaps(ints, x))
    to_probabilities(floats, ints, work)
    cache_prediction(ints, work, x)
    return at.DONE


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], float64[:, ::1])")
def predict_array(floats, ints, work, rows, out):
    """Compute the probabilities of every known class for each row."""
    drop_cached_prediction(ints, work)
    p = views.probabilities(work, ints)
    for k in range(rows.shape[0]):
        x = rows[k]
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        for c in range(ints[at.N_CLASSES]):
            out[k, c] = p[c]


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1])")
def calibrate_array(floats, ints, work, rows, classes):
    """Fit temperature and sigmoids on held-out samples."""
    drop_cached_prediction(ints, work)
    for k in range(rows.shape[0]):
        x = rows[k]
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        calibrate(floats, ints, work, classes[k])
        if ints[at.RULE] == at.RULE_PAIRWISE:
            calibrate_pairs(floats, ints, work, classes[k])


@kernel("void(float64[::1], int64[::1], float64[:, ::1], int64[::1])")
def count_classes(floats, ints, rows, classes):
    """Update only the class statistics."""
    for k in range(rows.shape[0]):
        observe_class(floats, ints, rows[k], classes[k])
