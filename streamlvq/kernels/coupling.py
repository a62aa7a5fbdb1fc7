"""Pairwise coupling: five methods to get class probabilities p from r[l, m] = P(l | l or m).

Three of them solve linear systems of the same kind: a network of classes with positive links.
Eliminating a class leaves a network of the others whose links are sums and products of the old
ones. A pivot is the sum of a class's links, not a difference as in textbooks (Grassmann, Taksar &
Heyman 1985). So nothing cancels, no pivot search is needed, and even a probability of 1e-9 is
accurate to the last digit.

Pairwise probabilities must add up to one, r[l, m] + r[m, l] = 1; the diagonal has no influence.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, inner, kernel
from streamlvq.kernels.layout import HT, PKPD, WLW1, WLW2

LOWEST, HIGHEST = 1e-12, 1.0 - 1e-12  # pairwise probabilities are clamped to these

MAX_NEWTON_STEPS = 100  # Newton steps; five are usual, fifty occur only with zeros and ones
MIN_STEP = 1e-9  # of log p; convergence is quadratic
MIN_CHANGE = 1e-14  # of p; smaller changes are rounding
MIN_PROBABILITY = 1e-200  # lower bound of p, for counts that link classes in long chains


@inner
def clamped(x):
    x = x if x > LOWEST else LOWEST
    return x if x < HIGHEST else HIGHEST


@helper
def normalise(p):
    total = 0.0
    for k in range(p.shape[0]):
        total += p[k]
    for k in range(p.shape[0]):
        p[k] /= total


# --- networks -------------------------------------------------------------------------------------


@helper
def eliminate(links, ground):
    """Eliminate the classes of a network, the last first, until one is left.

    `ground[k]` is a link of class k to the outside. Afterwards row k holds, left of the diagonal,
    the links of class k when it was eliminated; column k above the diagonal holds the share of them
    that each class took over, and the diagonal one over their sum.
    """
    c = links.shape[0]
    for k in range(c - 1, 0, -1):
        total = ground[k]
        for j in range(k):
            total += links[k, j]
        inverse = 1.0 / total if total > 0.0 else 0.0  # no links to redistribute
        links[k, k] = inverse
        for i in range(k):
            share = links[i, k] * inverse
            links[i, k] = share
            ground[i] += share * ground[k]
            for j in range(k):
                links[i, j] += share * links[k, j]


@helper
def hand_over(links, x):
    """Apply the elimination of a network to its right-hand side x."""
    for k in range(links.shape[0] - 1, 0, -1):
        for i in range(k):
            x[i] += links[i, k] * x[k]


@helper
def substitute(links, first, factor, x):
    """Replace the eliminated right-hand side x, times `factor`, by the solution.

    `first` is its value for the class that was left.
    """
    x[0] = first
    for k in range(1, links.shape[0]):
        total = factor * x[k]
        for j in range(k):
            total += links[k, j] * x[j]
        x[k] = total * links[k, k]


# --- methods --------------------------------------------------------------------------------------


@helper
def couple_pkpd(r, p):
    """Compute p_l = 1 / (sum_m 1 / r_lm - (c - 2)), normalised."""
    c = p.shape[0]
    for k in range(c):
        total = 2.0 - c
        for j in range(c):
            total += 1.0 / clamped(r[k, j]) if j != k else 0.0
        p[k] = 1.0 / total
    normalise(p)


@helper
def couple_vote(r, p):
    """Compute the share of pairs that prefer each class; a tie is half a vote for both."""
    c = p.shape[0]
    for k in range(c):
        votes = c - 1.0
        for j in range(c):  # branch-free; the diagonal ties with itself
            votes += 1.0 if r[k, j] > r[j, k] else 0.0
            votes -= 1.0 if r[k, j] < r[j, k] else 0.0
        p[k] = votes
    normalise(p)


@helper
def couple_wlw1(r, links, ground, p):
    """Solve p_l = sum_m (p_l + p_m) r_lm / (c - 1).

    That is p_l sum_m r_ml = sum_m r_lm p_m: the stationary distribution of a chain that moves from
    class m to class l at the rate r_lm.
    """
    c = p.shape[0]
    for k in range(c):
        ground[k] = 0.0
        for j in range(c):
            links[k, j] = clamped(r[j, k])
    eliminate(links, ground)
    p[0] = 1.0
    for k in range(1, c):
        total = 0.0
        for i in range(k):
            total += links[i, k] * p[i]
        p[k] = total
    normalise(p)


@helper
def quadratic_form(r, u, links, ground):
    """Build the network of the quadratic form sum_lm (r_ml u_l y_l - r_lm u_m y_m)^2 / 2 in y.

    Both classes of a pair get the same residual, bit for bit, so that their links to the ground
    cancel: for a third, far less probable class a rounding difference would be large.
    """
    for k in range(u.shape[0]):
        ground[k] = 0.0
        for j in range(k):
            mine, other = clamped(r[j, k]) * u[k], clamped(r[k, j]) * u[j]
            links[k, j] = links[j, k] = mine * other
            residual = mine - other
            ground[k] += mine * residual
            ground[j] -= other * residual


@helper
def couple_wlw2(r, links, ground, y, p):
    """Minimise sum_lm (r_ml p_l - r_lm p_m)^2 with sum p = 1.

    At the minimum the slope along every p_l is the multiplier of the constraint, which is not
    negative, and zero if r is consistent. The system is nearly singular then. Written as p = u y
    with the solution u of WLW1, its links to the ground are residuals, which measure the
    inconsistency of r accurately.
    """
    c = p.shape[0]
    couple_wlw1(r, links, ground, p)
    quadratic_form(r, p, links, ground)
    for k in range(c):
        y[k] = p[k]
    eliminate(links, ground)
    hand_over(links, y)
    multiplier = max(ground[0], 0.0) / y[0]
    substitute(links, 1.0, multiplier, y)
    for k in range(c):
        p[k] *= y[k]
    normalise(p)


@helper
def likelihood_slopes(r, counts, p, links, slope):
    """Compute gradient and Hessian of sum_lm n_lm r_lm log(p_l / (p_l + p_m)) by log p."""
    for k in range(p.shape[0]):
        slope[k] = 0.0
        for j in range(k):
            n = counts[k, j] if counts.shape[0] > 0 else 1.0
            inverse = 1.0 / (p[k] + p[j])
            win, loss = p[k] * inverse, p[j] * inverse
            links[k, j] = links[j, k] = n * win * loss
            won, lost = clamped(r[k, j]), clamped(r[j, k])
            # Of two numbers that sum to one, the smaller is the more precise.
            missing = won - win if won < lost else loss - lost
            slope[k] += n * missing
            slope[j] -= n * missing


@helper
def largest_change(p, step):
    """Return the largest change of any p after a small step of log p and normalisation."""
    mean = 0.0
    for k in range(p.shape[0]):
        mean += p[k] * step[k]
    change = 0.0
    for k in range(p.shape[0]):
        change = max(change, p[k] * abs(step[k] - mean))
    return change


@helper
def move(p, step):
    """Take a Newton step of log p, damped if it is too long; return its spread.

    Third derivatives of the likelihood along a step are at most its spread times the second ones
    (Bach 2010). So a full step is an improvement if the spread is below one; beyond that, a step of
    log(1 + spread) / spread is guaranteed to be one.
    """
    lowest, highest = step[0], step[0]
    for k in range(1, p.shape[0]):
        lowest, highest = min(lowest, step[k]), max(highest, step[k])
    spread = highest - lowest
    factor = 1.0 if spread < 1.0 else log(1.0 + spread) / spread
    for k in range(p.shape[0]):
        p[k] = max(MIN_PROBABILITY, p[k] * exp(factor * (step[k] - highest)))
    normalise(p)
    return spread


@helper
def couple_ht(r, counts, links, ground, step, p):
    """Minimise sum_lm n_lm r_lm log(r_lm / rho_lm) with rho_lm = p_l / (p_l + p_m).

    This is the Bradley-Terry likelihood with fractional wins, concave in log p. Newton's method
    starts from the solution of WLW1, which is the optimum already if r is consistent.
    """
    couple_wlw1(r, links, ground, p)
    for _ in range(MAX_NEWTON_STEPS):
        likelihood_slopes(r, counts, p, links, step)
        eliminate(links, ground)
        hand_over(links, step)
        substitute(links, 0.0, 1.0, step)
        change = largest_change(p, step)
        if move(p, step) < MIN_STEP or change < MIN_CHANGE:
            break


# --- dispatch -------------------------------------------------------------------------------------


@helper
def couple_row(r, counts, method, scratch, p):
    """Compute class probabilities p of one reading from its pairwise probabilities r.

    `counts` holds the weights of the pairs for HT; shape (0, 0) means equal weights. `scratch`
    holds `layout.coupling_scratch` floats.
    """
    c = p.shape[0]
    if c == 1:
        p[0] = 1.0
        return
    if method == PKPD:
        couple_pkpd(r, p)
        return
    links = scratch[: c * c].reshape((c, c))
    ground = scratch[c * c : c * c + c]
    extra = scratch[c * c + c : c * c + 2 * c]
    if method == HT:
        couple_ht(r, counts, links, ground, extra, p)
    elif method == WLW1:
        couple_wlw1(r, links, ground, p)
    elif method == WLW2:
        couple_wlw2(r, links, ground, extra, p)
    else:
        couple_vote(r, p)


@kernel("void(float64[:, :, ::1], float64[:, ::1], int64, float64[::1], float64[:, ::1])")
def couple_array(r, counts, method, scratch, out):
    """Couple every row of r into a row of `out`."""
    for k in range(r.shape[0]):
        couple_row(r[k], counts, method, scratch, out[k])
