"""The memory of a model: an array of floats, one of integers, and where everything lies in them.

Passing an array to a compiled function costs about as much as a dot product over a reading, so a
model hands over three arrays whatever it has learnt: `floats`, `ints` and `work`. The first
`HEADER` integers say how large things are and where each section starts. `streamlvq.kernels.views`
turns that into arrays for the kernels, `streamlvq.state.State` does so for Python.
"""

from __future__ import annotations

# --- integers: sizes, switches, counters, then the start of every section ------------------------
FEATURES = 0
RANK = 1  # rows of a metric
METRICS = 2  # number of metrics: 0, 1 (shared) or one for each slot (local)
KIND = 3  # EUCLIDEAN, DIAGONAL or MATRIX
RULE = 4  # which learning rule
SLOTS = 5  # room for prototypes
PROTOTYPES = 6  # prototypes in use
CLASSES = 7  # room for classes
KNOWN = 8  # classes seen so far
BUFFER = 9  # room for rehearsed samples
STORED = 10  # samples ever put into the buffer
REHEARSAL = 11  # samples replayed for each one learnt
INITIAL = 12  # prototypes a class is given before errors count
LIMIT = 13  # prototypes a class may have
RENEW = 14  # 1: at the limit an error replaces the least useful prototype
STANDARDIZE = 15
RANDOM = 16  # state of the random numbers
GAPS = 17  # prototype coordinates that are still unknown
SAMPLES = 18  # labelled samples learnt
ADAPTIVE = 19  # 1: adagrad steps, 0: constant steps
PASSIVE = 20  # epochs of `train`: SCORED or SILENT
REACH = 21  # how many samples rehearsal may look back
PAIRS = 22  # room for pairs of classes; 0 unless each pair has a model of its own
COUPLING = 23  # how pairs are coupled, see COUPLINGS
SECTIONS = 24  # the start of each section is kept from here on

# --- sections of `floats` ------------------------------------------------------------------------
PARAMETERS = 0
MEAN, VARIANCE, PEAK, WEIGHT, INVERSE = 1, 2, 3, 4, 5  # of every feature
CALIBRATION = 6
W, W_MOMENT = 7, 8  # prototypes in raw units, squared gradients
USEFULNESS, WINS, BORN, RATE = 9, 10, 11, 12  # of every prototype
OMEGA, ROW_MOMENT, COLUMN_MOMENT, TOTAL_MOMENT = 13, 14, 15, 16
START = 17  # the metric of a class that has none yet
CLASS_COUNT, CLASS_WEIGHT, CLASS_MEAN, CLASS_VARIANCE = 18, 19, 20, 21
BUFFER_X, BUFFER_MARGIN = 22, 23
PLATT = 24  # of every pair of classes, see below
FLOAT_SECTIONS = 25
# --- sections of `ints` --------------------------------------------------------------------------
LABEL, CLASS_SIZE, BUFFER_Y = 25, 26, 27
BUFFER_RIGHT, BUFFER_WRONG = 28, 29  # where a stored sample last found its closest prototypes
ALL_SECTIONS = 30
HEADER = SECTIONS + ALL_SECTIONS

# --- parameters ----------------------------------------------------------------------------------
LEARNING_RATE = 0
METRIC_RATE = 1
SLOPE = 2  # 0: identity activation
STEP_DECAY = 3
FORGET = 4  # per sample; 1: never
SCALE_FLOOR = 5
WINDOW = 6  # LVQ2.1, LVQ3
EPSILON = 7  # LVQ3
SIGMA = 8  # RSLVQ: variance of the mixture components
PARAMETER_COUNT = 9

# --- calibration ---------------------------------------------------------------------------------
TEMPERATURE = 0
CURVATURE = 1
CALIBRATION_COUNT = 2

# --- Platt's sigmoid of a pair: 1 / (1 + exp(slope * score + offset)) ----------------------------
PLATT_SLOPE, PLATT_OFFSET = 0, 1
PLATT_CURVATURE = 2  # three numbers: slope twice, slope and offset, offset twice
PLATT_FIRST, PLATT_SECOND = 5, 6  # scores seen of either class
PLATT_COUNT = 7

# --- kinds of metric, learning rules -------------------------------------------------------------
EUCLIDEAN, DIAGONAL, MATRIX = 0, 1, 2
RULE_LVQ1, RULE_OLVQ1, RULE_LVQ21, RULE_LVQ3, RULE_GLVQ, RULE_RSLVQ = 0, 1, 2, 3, 4, 5
RULE_PAIRWISE = 6

# --- epochs of `train`: scales and class statistics stay as they are ------------------------------
SCORED, SILENT = 1, 2  # with and without calibration

# --- ways to couple pairwise probabilities --------------------------------------------------------
PKPD, HT, WLW1, WLW2, VOTE = 0, 1, 2, 3, 4
COUPLINGS = {"pkpd": PKPD, "ht": HT, "wlw1": WLW1, "wlw2": WLW2, "vote": VOTE}

# --- what a kernel answers -----------------------------------------------------------------------
DONE = 0
NEEDS_SLOT = -1  # nothing was changed: make room for prototypes and call again
LARGEST = 1e60  # a value beyond this is refused like an infinity: its fourth power may overflow
# a positive answer is 1 + the index of a feature that is beyond it


def answer_start(features: int, classes: int, rank: int, slots: int) -> int:
    """Where `work` keeps the reading that it holds the answer for; see `views.last_answered`."""
    return 4 * classes + 4 * features + rank + max(rank * features, 2 * features + rank) + slots


def work_size(features: int, classes: int, rank: int, slots: int, pairs: int) -> int:
    """How many floats `work` needs."""
    size = answer_start(features, classes, rank, slots) + 1 + features
    if pairs > 0:
        size += 2 * classes * classes + coupling_scratch(classes)
    return size


def coupling_scratch(classes: int) -> int:
    """How many floats `scratch` needs to couple the probabilities of pairs of classes."""
    return classes * (classes + 2)
