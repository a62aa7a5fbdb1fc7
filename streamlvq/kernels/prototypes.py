"""Entry points of the models: learn, observe and predict readings and arrays.

A family is a learning rule with its way to measure a reading. Each has two kernels, `learn_...` and
`predict_...`; kernels over arrays call them by address, so that nothing is compiled twice.
"""

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
    EVICTED,
    add_prototype,
    class_factor,
    contested_slot,
    copy,
    evict,
    fair_share,
    is_occupied,
    pick_rehearsed,
    prototype_slot,
    rehearsed_weight,
    remember,
    rounds_of_learning,
    set_margin,
)
from streamlvq.kernels.internals import borrowed, call_integer
from streamlvq.kernels.learning import (
    fill_gaps,
    follow_mean,
    glvq_by,
    lvq1,
    lvq2,
    move_in_turn,
    move_with_matrix,
    rslvq,
    start_half_way,
    widen_range,
)
from streamlvq.kernels.pairwise import (
    calibrate_pairs,
    learn_in_pairs,
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

MAX_USEFULNESS = 20.0  # net wins; more would take as many errors to undo

# --- one reading ---------------------------------------------------------------------------------


@helper
def infinite_feature(x):
    """Return 0 if all values are finite or missing, else 1 + the index of one that is not."""
    if not ordinary(x):
        for i in range(x.shape[0]):
            if abs(x[i]) > at.LARGEST_VALUE:
                return i + 1
    return 0


@helper
def credit(floats, ints, winner, correct):
    """Update wins and usefulness of the prototype that decided."""
    usefulness = vector(floats, ints, at.USEFULNESS, ints[at.PROTOTYPE_CAPACITY])
    if ints[at.RENEW] == 1:
        for p in range(ints[at.N_PROTOTYPES]):
            usefulness[p] *= floats[at.FORGET]
    change = 1.0 if correct else -1.0
    usefulness[winner] = min(MAX_USEFULNESS, usefulness[winner] + change)
    if correct:
        vector(floats, ints, at.WINS, ints[at.PROTOTYPE_CAPACITY])[winner] += 1.0


def learning(measure, find_pair, teach):
    """Return how a family learns a sample of class c, then rehearses; c == N_CLASSES is new.

    `measure` computes distances and scores of a reading for every known class, `find_pair` the
    closest prototypes of a stored sample, and `teach` is the learning rule.
    """

    @helper
    def learn_sample(floats, ints, work, x, c):
        gaps = has_gaps(ints, x)
        known = ints[at.N_CLASSES]
        near, other, right, wrong = 1.0, 0.0, -1, -1
        if known > 0 and not has_cached_prediction(ints, work, x):
            measure(floats, ints, work, x, gaps)
        drop_cached_prediction(ints, work)
        if c < known:
            near, other, right, wrong = closest_pair(ints, work, c)
        place = prototype_slot(floats, ints, c, other <= near)
        if wrong >= 0 and other <= near and is_occupied(near, other):
            place = contested_slot(floats, ints, c, near, wrong)
        if place == ints[at.PROTOTYPE_CAPACITY]:
            return at.NEEDS_SLOT
        if ints[at.RANGES] > 0 and ints[at.PASSIVE] == 0:
            widen_range(floats, ints, x, c)
        if right >= 0:
            if wrong >= 0 and ints[at.PASSIVE] != at.SILENT:
                to_probabilities(floats, ints, work)
                calibrate(floats, ints, work, c)
            credit(floats, ints, right if near < other else wrong, near < other)
        given, fair = floats[at.SAMPLE_WEIGHT], 0.0
        if c < known:
            floats[at.SAMPLE_WEIGHT] *= class_factor(floats, ints, c, fair_share(floats, ints))
        if place >= 0:
            add_prototype(floats, ints, x, c, place, right)
            if ints[at.SPARSE] == 1 and c < known:
                start_half_way(floats, ints, c, place)
            wrong = -1  # this sample became a prototype: nothing left to learn
        elif place == EVICTED:
            evict(floats, ints, wrong)
            wrong = -1
        sample, label = x, c
        for k in range(rounds_of_learning(ints)):
            if k > 0:
                position = pick_rehearsed(floats, ints)
                sample = row(floats, ints, at.BUFFER_X, position, ints[at.N_FEATURES])
                label = vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position]
                gaps = has_gaps(ints, sample)
                floats[at.SAMPLE_WEIGHT] = rehearsed_weight(floats, ints, position, label, fair)
                near, other, right, wrong = find_pair(
                    floats, ints, work, sample, label, gaps, position
                )
                set_margin(floats, ints, position, near, other)
            if wrong >= 0:
                if gaps == 1 and right >= 0:
                    fill_gaps(floats, ints, sample, right)
                teach(floats, ints, work, sample, label, near, other, right, wrong, gaps)
            if k == 0:
                if ints[at.SPARSE] == 1 and right >= 0 and place == -1:
                    follow_mean(floats, ints, x, c, right)
                remember(floats, ints, x, c, given)
                fair = fair_share(floats, ints)
        floats[at.SAMPLE_WEIGHT] = given
        return at.DONE

    return learning_with(learn_sample)


def learning_with(learn_sample):
    """Return how a family learns the reading in `work`; the result is a status, see `layout`."""

    @helper
    def learn_reading(floats, ints, work, c):
        floats, ints, work = borrowed(floats), borrowed(ints), borrowed(work)
        x = reading(work, ints)
        infinite = infinite_feature(x)
        if infinite > 0:
            return infinite
        return learn_sample(floats, ints, work, x, c)

    return learn_reading


def predicting(measure):
    """Return how a family predicts the reading in `work`: probabilities, distances and winners."""

    @helper
    def predict_reading(floats, ints, work):
        floats, ints, work = borrowed(floats), borrowed(ints), borrowed(work)
        x = reading(work, ints)
        infinite = infinite_feature(x)
        if infinite > 0:
            return infinite
        measure(floats, ints, work, x, has_gaps(ints, x))
        to_probabilities(floats, ints, work)
        cache_prediction(ints, work, x)
        return at.DONE

    return predict_reading


def predicting_rows(measure):
    """Return how a family computes the probabilities of every known class for each row.

    A short loop in which a call by address would be felt.
    """

    @helper
    def predict_rows(floats, ints, work, rows, out):
        floats, ints, work = borrowed(floats), borrowed(ints), borrowed(work)
        drop_cached_prediction(ints, work)
        p = views.probabilities(work, ints)
        for k in range(rows.shape[0]):
            x = rows[k]
            measure(floats, ints, work, x, has_gaps(ints, x))
            to_probabilities(floats, ints, work)
            for c in range(ints[at.N_CLASSES]):
                out[k, c] = p[c]

    return predict_rows


# --- rules that need the closest prototypes ------------------------------------------------------

LEARN = "int64(float64[::1], int64[::1], float64[::1], int64)"
PREDICT = "int64(float64[::1], int64[::1], float64[::1])"
PREDICT_ROWS = "void(float64[::1], int64[::1], float64[::1], float64[:, ::1], float64[:, ::1])"


@helper
def measure_closest(floats, ints, work, x, gaps):
    """Compute the distance of the closest prototype of every class, and scores by it."""
    distances(floats, ints, work, x, gaps, -1, -1, -1)
    score_by_distance(ints, work)


@helper
def find_closest(floats, ints, work, x, c, gaps, position):
    """Return the closest prototype of a stored sample's class and of any other class.

    They are stored with the sample as guesses for the next search.
    """
    last_right = vector(ints, ints, at.BUFFER_RIGHT, ints[at.BUFFER])
    last_wrong = vector(ints, ints, at.BUFFER_WRONG, ints[at.BUFFER])
    near, other, right, wrong = distances(
        floats, ints, work, x, gaps, c, last_right[position], last_wrong[position]
    )
    last_right[position] = right
    last_wrong[position] = wrong
    return near, other, right, wrong


predict_by_closest = predicting(measure_closest)
predict_rows_by_closest = predicting_rows(measure_closest)
learn_by_glvq = learning(measure_closest, find_closest, glvq_by(move_in_turn))
learn_by_shared_matrix = learning(measure_closest, find_closest, glvq_by(move_with_matrix))
learn_by_lvq1 = learning(measure_closest, find_closest, lvq1)


@kernel(PREDICT)
def predict_closest(floats, ints, work):
    return predict_by_closest(floats, ints, work)


@kernel(PREDICT_ROWS)
def predict_rows_closest(floats, ints, work, rows, out):
    predict_rows_by_closest(floats, ints, work, rows, out)


@kernel(LEARN)
def learn_glvq(floats, ints, work, c):
    return learn_by_glvq(floats, ints, work, c)


@kernel(LEARN)
def learn_shared_matrix(floats, ints, work, c):
    return learn_by_shared_matrix(floats, ints, work, c)


@kernel(LEARN)
def learn_lvq1(floats, ints, work, c):
    return learn_by_lvq1(floats, ints, work, c)


# --- rules that need the distance of every prototype ---------------------------------------------


@helper
def measure_every(floats, ints, work, x, gaps):
    """Compute `measure_closest` and the distance of every prototype."""
    distances(floats, ints, work, x, gaps, -2, -1, -1)
    score_by_distance(ints, work)


@helper
def measure_likelihood(floats, ints, work, x, gaps):
    """Compute the distance of every prototype, and scores by the likelihood of a mixture."""
    distances(floats, ints, work, x, gaps, -2, -1, -1)
    score_by_likelihood(floats, ints, work)


@helper
def find_among_all(floats, ints, work, x, c, gaps, position):
    """Return what `find_closest` does, with the distance of every prototype."""
    distances(floats, ints, work, x, gaps, -2, -1, -1)
    return closest_pair(ints, work, c)


predict_by_every = predicting(measure_every)
predict_rows_by_every = predicting_rows(measure_every)
predict_by_likelihood = predicting(measure_likelihood)
predict_rows_by_likelihood = predicting_rows(measure_likelihood)
learn_by_lvq2 = learning(measure_every, find_among_all, lvq2)
learn_by_rslvq = learning(measure_likelihood, find_among_all, rslvq)


@kernel(PREDICT)
def predict_every(floats, ints, work):
    return predict_by_every(floats, ints, work)


@kernel(PREDICT_ROWS)
def predict_rows_every(floats, ints, work, rows, out):
    predict_rows_by_every(floats, ints, work, rows, out)


@kernel(PREDICT)
def predict_likelihood(floats, ints, work):
    return predict_by_likelihood(floats, ints, work)


@kernel(PREDICT_ROWS)
def predict_rows_likelihood(floats, ints, work, rows, out):
    predict_rows_by_likelihood(floats, ints, work, rows, out)


@kernel(LEARN)
def learn_lvq2(floats, ints, work, c):
    return learn_by_lvq2(floats, ints, work, c)


@kernel(LEARN)
def learn_rslvq(floats, ints, work, c):
    return learn_by_rslvq(floats, ints, work, c)


# --- pairs of classes ----------------------------------------------------------------------------


@helper
def measure_in_pairs(floats, ints, work, x, gaps):
    """Compute the distances of all pairs, and scores by coupling them."""
    measure_pairs(floats, ints, work, x, gaps, -1)
    score_by_pairs(floats, ints, work)


predict_by_pairs = predicting(measure_in_pairs)
predict_rows_by_pairs = predicting_rows(measure_in_pairs)
learn_by_pairs = learning_with(learn_in_pairs)


@kernel(PREDICT)
def predict_pairs(floats, ints, work):
    return predict_by_pairs(floats, ints, work)


@kernel(PREDICT_ROWS)
def predict_rows_pairs(floats, ints, work, rows, out):
    predict_rows_by_pairs(floats, ints, work, rows, out)


@kernel(LEARN)
def learn_pairs(floats, ints, work, c):
    return learn_by_pairs(floats, ints, work, c)


# --- arrays --------------------------------------------------------------------------------------
#
# `learn` and `predict` are addresses of a family's kernels, which are not compiled once more.


@kernel(
    "int64(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], float64[::1], "
    "int64, float64[:, ::1], int64)"
)
def learn_array(floats, ints, work, rows, classes, weights, start, before, learn):
    """Learn rows from `start` on; return the row at which another slot was needed, or the end.

    `weights`, if there are any, are those of the rows.

    `before`, if it has rows, receives the probabilities of each sample before it is learnt; entries
    stay unchanged where there is no prediction, as for the first sample of a class.
    """
    x = reading(work, ints)
    for k in range(start, rows.shape[0]):
        known = ints[at.N_CLASSES]
        copy(rows[k], x)
        if weights.shape[0] > 0:
            floats[at.SAMPLE_WEIGHT] = weights[k]
        if call_integer(learn, (floats, ints, work, classes[k])) == at.NEEDS_SLOT:
            return k
        if before.shape[0] > 0 and classes[k] < known and known > 1:
            p = views.probabilities(work, ints)
            for c in range(known):
                before[k, c] = p[c]
    return rows.shape[0]


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], int64)")
def calibrate_array(floats, ints, work, rows, classes, predict):
    """Fit the temperature on held-out samples."""
    x = reading(work, ints)
    for k in range(rows.shape[0]):
        copy(rows[k], x)
        call_integer(predict, (floats, ints, work))
        calibrate(floats, ints, work, classes[k])
    drop_cached_prediction(ints, work)


@kernel("void(float64[::1], int64[::1], float64[::1], float64[:, ::1], int64[::1], int64)")
def calibrate_array_of_pairs(floats, ints, work, rows, classes, predict):
    """Fit temperature and sigmoids on held-out samples."""
    x = reading(work, ints)
    for k in range(rows.shape[0]):
        copy(rows[k], x)
        call_integer(predict, (floats, ints, work))
        calibrate(floats, ints, work, classes[k])
        fair = fair_share(floats, ints)
        floats[at.SAMPLE_WEIGHT] = class_factor(floats, ints, classes[k], fair)
        calibrate_pairs(floats, ints, work, classes[k])
        floats[at.SAMPLE_WEIGHT] = 1.0
    drop_cached_prediction(ints, work)


# --- statistics alone ----------------------------------------------------------------------------


@kernel("int64(float64[::1], int64[::1], float64[::1])")
def observe_reading(floats, ints, work):
    """Update the feature scales with the reading in `work`; return a status code."""
    x = reading(work, ints)
    infinite = infinite_feature(x)
    if infinite == 0:
        drop_cached_prediction(ints, work)
        observe(floats, ints, x)
    return infinite


@kernel("void(float64[::1], int64[::1], float64[:, ::1])")
def observe_array(floats, ints, rows):
    """Update the feature scales with each row."""
    for k in range(rows.shape[0]):
        observe(floats, ints, rows[k])


@kernel("void(float64[::1], int64[::1], float64[:, ::1], int64[::1])")
def count_classes(floats, ints, rows, classes):
    """Update only the class statistics."""
    for k in range(rows.shape[0]):
        observe_class(floats, ints, rows[k], classes[k])
        if ints[at.RANGES] > 0:
            widen_range(floats, ints, rows[k], classes[k])
