"""Log-linear pools of members' probabilities, fitted on samples before they are learnt.

Each pool gives every member a weight, the power of its probabilities, and fits all weights
together by Newton steps on the log loss. There are several: pools that forget at different speeds,
and one of the core members alone. Their probabilities are averaged by how well each predicted
lately. So what helps only now and then counts only then, and a member that helps nowhere costs
nothing.

`opinions` are probabilities, members x rows x classes. `fitted` is pools x (1 + members + members
squared): for each pool the decayed log likelihood, the weights, and the curvature of the log loss.
`core` is how many of the members, which come first, are in the last pool. `work` holds the
logarithms of one row, the probabilities of each pool, and three vectors over members; see
`layout.pool_work_shape`.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, kernel
from streamlvq.kernels.layout import LARGEST_WEIGHT, POOLS

TINY = 1e-12
FAST_DECAY = 0.95
MIDDLE_DECAY = 0.99
SLOW_DECAY = 0.999  # also that of the core
CREDIT_DECAY = 0.995  # of the log likelihood by which pools are averaged
WEIGHT_PRIOR = 2.0  # curvature that every weight has before the first sample
SWEEPS = 4  # over the members, to solve for a Newton step within the bounds


@helper
def take_logs(opinions, k, known, work):
    """Write the logarithms of one row of opinions to the start of `work`."""
    for m in range(opinions.shape[0]):
        for c in range(known):
            work[m, c] = log(opinions[m, k, c] + TINY)


@helper
def pool_row(work, pool):
    """Return the row of `work` with the probabilities of a pool."""
    return work.shape[0] - 3 - POOLS + pool


@helper
def members_of(opinions, pool, core):
    """Return how many members a pool has."""
    return core if pool == POOLS - 1 else opinions.shape[0]


@helper
def pool_members(members, known, fitted, pool, work):
    """Compute the probabilities of one pool, p_c ~ exp(sum over its members of weight * log_c)."""
    row = pool_row(work, pool)
    top = -1e300
    for c in range(known):
        score = 0.0
        for m in range(members):
            score += fitted[pool, 1 + m] * work[m, c]
        work[row, c] = score
        top = max(top, score)
    total = 0.0
    for c in range(known):
        work[row, c] = exp(work[row, c] - top)
        total += work[row, c]
    for c in range(known):
        work[row, c] /= total


@helper
def average_pools(known, fitted, work, out, k):
    """Average the probabilities of the pools, with shares by their likelihood."""
    best = fitted[0, 0]
    for pool in range(1, POOLS):
        best = max(best, fitted[pool, 0])
    total = 0.0
    for pool in range(POOLS):
        total += exp(fitted[pool, 0] - best)
    for c in range(known):
        out[k, c] = 0.0
    for pool in range(POOLS):
        share, row = exp(fitted[pool, 0] - best) / total, pool_row(work, pool)
        for c in range(known):
            out[k, c] += share * work[row, c]


@helper
def decay_of(pool):
    """Return the share of its curvature that a pool keeps from one sample to the next."""
    if pool == 0:
        return FAST_DECAY
    return MIDDLE_DECAY if pool == 1 else SLOW_DECAY


@helper
def measure_slope(members, known, code, fitted, pool, work):
    """Add a sample to the curvature of a pool; write the descent direction of its log loss."""
    row, mean, slope = pool_row(work, pool), work.shape[0] - 3, work.shape[0] - 2
    count = work.shape[0] - 3 - POOLS  # of all members
    decay = decay_of(pool)
    for m in range(members):
        work[mean, m] = 0.0
        for c in range(known):
            work[mean, m] += work[row, c] * work[m, c]
        work[slope, m] = work[m, code] - work[mean, m]
    for m in range(members):
        for other in range(m + 1):
            covariance = 0.0
            for c in range(known):
                spread = (work[m, c] - work[mean, m]) * (work[other, c] - work[mean, other])
                covariance += work[row, c] * spread
            at = 1 + count + m * count + other
            fitted[pool, at] = decay * fitted[pool, at] + covariance
            fitted[pool, 1 + count + other * count + m] = fitted[pool, at]


@helper
def take_step(members, fitted, pool, work):
    """Take a Newton step of all weights of a pool together, within their bounds.

    Coordinate descent on the quadratic model: the members' opinions resemble each other, so steps
    of each weight alone would be too long together.
    """
    slope, step = work.shape[0] - 2, work.shape[0] - 1
    count = work.shape[0] - 3 - POOLS
    for m in range(members):
        work[step, m] = 0.0
    for _ in range(SWEEPS):
        for m in range(members):
            start = 1 + count + m * count
            rest = work[slope, m]
            for other in range(members):
                if other != m:
                    rest -= fitted[pool, start + other] * work[step, other]
            weight = fitted[pool, 1 + m]
            wanted = weight + rest / (fitted[pool, start + m] + WEIGHT_PRIOR)
            work[step, m] = min(LARGEST_WEIGHT, max(0.0, wanted)) - weight
    for m in range(members):
        weight = fitted[pool, 1 + m] + work[step, m]
        fitted[pool, 1 + m] = min(LARGEST_WEIGHT, max(0.0, weight))


@kernel("void(float64[:, :, ::1], float64[:, ::1], int64, float64[:, ::1], float64[:, ::1])")
def pool(opinions, fitted, core, work, out):
    """Pool the probabilities of each row; at least two classes."""
    known = opinions.shape[2]
    for k in range(opinions.shape[1]):
        take_logs(opinions, k, known, work)
        for each in range(POOLS):
            pool_members(members_of(opinions, each, core), known, fitted, each, work)
        average_pools(known, fitted, work, out, k)


@kernel("void(float64[:, :, ::1], int64[::1], int64[::1], float64[:, ::1], int64, float64[:, ::1])")
def fit(opinions, known, codes, fitted, core, work):
    """Fit the pools on each row with two or more `known` classes; only these count."""
    for k in range(opinions.shape[1]):
        if known[k] > 1 and codes[k] < known[k]:
            take_logs(opinions, k, known[k], work)
            for each in range(POOLS):
                members = members_of(opinions, each, core)
                pool_members(members, known[k], fitted, each, work)
                likelihood = log(work[pool_row(work, each), codes[k]] + TINY)
                fitted[each, 0] = CREDIT_DECAY * fitted[each, 0] + likelihood
                measure_slope(members, known[k], codes[k], fitted, each, work)
                take_step(members, fitted, each, work)
