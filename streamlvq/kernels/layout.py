"""Layout of a model's arrays: positions of sizes, sections and parameters.

Passing an array to a compiled function costs about as much as a dot product over a reading, so a
model passes only three: `floats`, `ints` and `work`. The first `HEADER` integers are the sizes and
the start of each section. `streamlvq.kernels.views` turns them into arrays for the kernels, and
`streamlvq.models.engine.ModelState` does so for Python.
"""

from __future__ import annotations

# --- integers: sizes, switches, counters, then the start of every section ------------------------
N_FEATURES = 0
METRIC_RANK = 1  # rows of a metric
METRICS = 2  # number of metrics: 0, 1 (shared) or one per slot (local)
METRIC_KIND = 3  # EUCLIDEAN, DIAGONAL or MATRIX
RULE = 4  # learning rule, one of RULE_*
PROTOTYPE_CAPACITY = 5  # capacity for prototypes
N_PROTOTYPES = 6  # prototypes in use
CLASS_CAPACITY = 7  # capacity for classes
N_CLASSES = 8  # classes learnt so far
BUFFER = 9  # capacity for rehearsed samples
STORED = 10  # samples ever stored in the buffer
REHEARSAL = 11  # samples replayed per sample learnt
INITIAL = 12  # prototypes that every class gets from its first samples
PROTOTYPE_LIMIT = 13  # largest number of prototypes per class
RENEW = 14  # 1: at the limit an error replaces the least useful prototype
STANDARDIZE = 15
RANDOM = 16  # state of the random number generator
GAPS = 17  # number of missing prototype coordinates
SAMPLES = 18  # labelled samples learnt
STEPS = 19  # of gradient models, one of *_STEPS
PASSIVE = 20  # epochs of `train`: SCORED or SILENT
REACH = 21  # samples that rehearsal looks back
PAIRS = 22  # capacity for pairs of classes; 0 unless the model is pairwise
COUPLING = 23  # method, see COUPLINGS
N_VARYING = 24  # features with spread
ALL_SETTLED = 25  # 1: all features have spread and their full weight
RANGES = 26  # capacity for ranges of classes; 0 unless prototypes stay within them
BALANCE = 27  # classes whose weight makes up for their rarity: 0, BALANCE_RARE or BALANCE_ALL
SPARSE = 28  # 1: a feature that a reading does not mention is zero
SECTION_STARTS = 29  # first of the section starts

# --- sections of `floats` ------------------------------------------------------------------------
PARAMETERS = 0
MEAN, VARIANCE, MAX_DEVIATION, WEIGHT, INVERSE = 1, 2, 3, 4, 5  # per feature
CALIBRATION = 6
W, W_MOMENT = 7, 8  # prototypes in raw units, squared gradients
USEFULNESS, WINS, BORN, RATE = 9, 10, 11, 12  # per prototype
OMEGA, ROW_MOMENT, COLUMN_MOMENT, TOTAL_MOMENT = 13, 14, 15, 16
START = 17  # initial metric
CLASS_COUNT, CLASS_WEIGHT, CLASS_MEAN, CLASS_VARIANCE = 18, 19, 20, 21
BUFFER_X, BUFFER_MARGIN = 22, 23
PLATT = 24  # per pair of classes, see below
VARIES = 25  # per feature: 1 if it has spread, else 0
STILL = 26  # per feature: readings without spread before it moved
BUFFER_WEIGHT = 27  # per stored sample
CLASS_FACTOR = 28  # per class: weight that the user gave it
CLASS_LOW, CLASS_HIGH = 29, 30  # per class and feature: range of its readings
FLOAT_SECTIONS = 31
# --- sections of `ints` --------------------------------------------------------------------------
LABEL, CLASS_SIZE, BUFFER_Y = 31, 32, 33
BUFFER_RIGHT, BUFFER_WRONG = 34, 35  # last known closest prototypes of a stored sample
ALL_SECTIONS = 36
HEADER_SIZE = SECTION_STARTS + ALL_SECTIONS

# --- parameters ----------------------------------------------------------------------------------
LEARNING_RATE = 0
METRIC_RATE = 1
SLOPE = 2  # 0: identity activation
STEP_DECAY = 3
FORGET = 4  # per sample; 1: never
SCALE_FLOOR = 5
WINDOW_WIDTH = 6  # LVQ2.1, LVQ3
EPSILON = 7  # LVQ3
SIGMA = 8  # RSLVQ: variance of the mixture components
SAMPLE_WEIGHT = 9  # of the sample that is learnt, times that of its class
CLASS_TOTAL = 10  # labelled samples of all classes, the sum of CLASS_COUNT
PARAMETER_COUNT = 11

# --- calibration ---------------------------------------------------------------------------------
TEMPERATURE = 0
CURVATURE = 1
CALIBRATION_COUNT = 2

# --- Platt's sigmoid of a pair: 1 / (1 + exp(slope * score + offset)) ----------------------------
PLATT_SLOPE, PLATT_OFFSET = 0, 1
PLATT_CURVATURE = 2  # three second derivatives: slope, mixed, offset
PLATT_FIRST, PLATT_SECOND = 5, 6  # number of scores of each class
PLATT_COUNT = 7

# --- kinds of metric, learning rules -------------------------------------------------------------
EUCLIDEAN, DIAGONAL, MATRIX = 0, 1, 2
RULE_LVQ1, RULE_OLVQ1, RULE_LVQ21, RULE_LVQ3, RULE_GLVQ, RULE_RSLVQ = 0, 1, 2, 3, 4, 5
RULE_PAIRWISE = 6

# --- steps of gradient models ---------------------------------------------------------------------
CONSTANT_STEPS, ADAGRAD_STEPS, PUBLISHED_STEPS = 0, 1, 2

# --- epochs of `train`, which leave scales and class statistics unchanged -------------------------
SCORED, SILENT = 1, 2  # with and without calibration

# --- weights of classes ---------------------------------------------------------------------------
BALANCE_RARE, BALANCE_ALL = 1, 2

# --- coupling methods -----------------------------------------------------------------------------
PKPD, HT, WLW1, WLW2, VOTE = 0, 1, 2, 3, 4
COUPLINGS = {"pkpd": PKPD, "ht": HT, "wlw1": WLW1, "wlw2": WLW2, "vote": VOTE}

# --- pools of members' probabilities -------------------------------------------------------------
POOLS = 4  # at three speeds, and one of the core members alone
LARGEST_WEIGHT = 10.0


def pool_work_shape(members: int, classes: int) -> tuple[int, int]:
    """Return the shape of the array `work` of `kernels.pool`."""
    return members + POOLS + 3, max(members, classes)


# --- novelty, see `novelty` -----------------------------------------------------------------------
CLASS_SCORES = 64  # kept for each class
SUMS = 500  # kept for all classes together
STRANGENESS_COUNT = 8  # results for a reading

# --- status codes of kernels ---------------------------------------------------------------------
DONE = 0
NEEDS_SLOT = -1  # nothing changed: enlarge the prototype arrays and call again
LARGEST_VALUE = 1e60  # larger values are refused like infinities: fourth powers may overflow
# A positive status is 1 + the index of a feature beyond LARGEST_VALUE.


def answer_start(features: int, classes: int, rank: int, slots: int) -> int:
    """Return the start of the cached reading in `work`, see `views.last_answered`."""
    return 4 * classes + 4 * features + rank + max(rank * features, 2 * features + rank) + slots


def work_size(features: int, classes: int, rank: int, slots: int, pairs: int) -> int:
    """Return the number of floats in `work`."""
    size = answer_start(features, classes, rank, slots) + 1 + features
    if pairs > 0:
        size += 2 * classes * classes + coupling_scratch(classes)
    return size


def coupling_scratch(classes: int) -> int:
    """Return the number of floats in `scratch` for coupling."""
    return classes * (classes + 2)


# --- forward filter, see `filtering` --------------------------------------------------------------

# What labels teach a filter: the weights a of the past and b of the reading, the curvature of the
# log loss along them, changes among pairs of successive labels, and from CLASS_COUNTS on how often
# each class came lately.
PAST_WEIGHT, READING_WEIGHT = 0, 1
PAST_CURVATURE, CROSS_CURVATURE, READING_CURVATURE = 2, 3, 4
LABEL_CHANGES, LABEL_PAIRS = 5, 6
CLASS_COUNTS = 7

# Before the first label the past counts for nothing, and half of so many labels differ.
UNFITTED_FILTER = (0.0, 1.0, 0.0, 0.0, 0.0, 10.0, 20.0)
