"""Class probabilities out of pairwise ones: five ways to couple r[l, m] = P(l | l or m) into p.

Three of them solve linear systems, all of one kind: a network of classes whose links are positive.
Taking a class out of it leaves a network of the others, with links that are sums and products of
the old ones. A pivot is the sum of a class's links, not a difference as in textbooks (Grassmann,
Taksar & Heyman 1985). So nothing cancels, pivots need not be searched for, and even a probability
of 1e-9 has all its digits.

Pairwise probabilities must add up to one, r[l, m] + r[m, l] = 1; the diagonal has no influence.
"""

from __future__ import annotations

from math import exp, log

from streamlvq.kernels.compile import helper, inner, kernel
from streamlvq.kernels.layout import HT, PKPD, WLW1, WLW2

LOWEST, HIGHEST = 1e-12, 1.0 - 1e-12  # pairwise probabilities beyond these count as these

MOST_STEPS = 100  # of Newton's method; five are usual, fifty were seen with zeros and ones only
SMALL_STEP = 1e-9  # of log p; the next one would be its square
SMALL_CHANGE = 1e-14  # of p; below it there is only rounding
FAINTEST = 1e-200  # p stays above, however long the chains that counts make of the classes


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
    """Take the classes out of a network one after the other, the last first, until one is left.

    `ground[k]` is a link of class k to something outside. Afterwards row k holds, left of the
    diagonal, the links of class k when its turn came, column k above the diagonal the share of them
    that each class took over, and the diagonal one over their sum.
    """
    c = links.shape[0]
    for k in range(c - 1, 0, -1):
        total = ground[k]
        for j in range(k):
            total += links[k, j]
        inverse = 1.0 / total if total > 0.0 else 0.0  # no links: nothing to take over
        links[k, k] = inverse
        for i in range(k):
            share = links[i, k] * inverse
            links[i, k] = share
            ground[i] += share * ground[k]
            for j in range(k):
                links[i, j] += share * links[k, j]


@helper
def hand_over(links, x):
    """Do to the right-hand side x of a network what `eliminate` did to the network."""
    for k in range(links.shape[0] - 1, 0, -1):
        for i in range(k):
            x[i] += links[i, k] * x[k]


@helper
def substitute(links, first, factor, x):
    """Replace the right-hand side x, handed over and times `factor`, by the solution.

    Its value for the class that was left is `first`.
    """
    x[0] = first
    for k in range(1, links.shape[0]):
        total = factor * x[k]
        for j in range(k):
            total += links[k, j] * x[j]
        x[k] = total * links[k, k]


# --- one way each ---------------------------------------------------------------------------------


@helper
def couple_pkpd(r, p):
    """p_l = 1 / (sum_m 1 / r_lm - (c - 2)), normalised."""
    c = p.shape[0]
    for k in range(c):
        total = 2.0 - c
        for j in range(c):
            total += 1.0 / clamped(r[k, j]) if j != k else 0.0
        p[k] = 1.0 / total
    normalise(p)


@helper
def couple_vote(r, p):
    """The share of the pairs that prefer a class; a tie is half a vote for both."""
    c = p.shape[0]
    for k in range(c):
        votes = c - 1.0
        for j in range(c):  # without branches; the diagonal ties with itself
            votes += 1.0 if r[k, j] > r[j, k] else 0.0
            votes -= 1.0 if r[k, j] < r[j, k] else 0.0
        p[k] = votes
    normalise(p)


@helper
def couple_wlw1(r, links, ground, p):
    """p_l = sum_m (p_l + p_m) r_lm / (c - 1).

    That is p_l sum_m r_ml = sum_m r_lm p_m: the equilibrium of something that moves from class m to
    class l at the rate r_lm.
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
    """The network of the quadratic form sum_lm (r_ml u_l y_l - r_lm u_m y_m)^2 / 2 in y.

    Both classes of a pair get the very same residual, so that their links to the ground cancel: for
    a third class, far less probable than the two, a difference in rounding would be large.
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
    negative, and zero if r is consistent. The system is nearly singular then. But it is written
    here as p = u y with the solution u of WLW1, so that its links to the ground are residuals: they
    say how inconsistent r is, down to the last digit.
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
    """Gradient and second derivatives of sum_lm n_lm r_lm log(p_l / (p_l + p_m)) by log p."""
    for k in range(p.shape[0]):
        slope[k] = 0.0
        for j in range(k):
            n = counts[k, j] if counts.shape[0] > 0 else 1.0
            inverse = 1.0 / (p[k] + p[j])
            win, loss = p[k] * inverse, p[j] * inverse
            links[k, j] = links[j, k] = n * win * loss
            won, lost = clamped(r[k, j]), clamped(r[j, k])
            # Of two numbers that add up to one the smaller has more digits after the point.
            missing = won - win if won < lost else loss - lost
            slope[k] += n * missing
            slope[j] -= n * missing


@helper
def largest_change(p, step):
    """Of any p if log p moves by such a small step and p is normalised again."""
    mean = 0.0
    for k in range(p.shape[0]):
        mean += p[k] * step[k]
    change = 0.0
    for k in range(p.shape[0]):
        change = max(change, p[k] * abs(step[k] - mean))
    return change


@helper
def move(p, step):
    """Let log p make a Newton step, shortened where it could be too long; return its spread.

    Third derivatives of the likelihood along a step are at most its spread times the second ones
    (Bach 2010). So a full step improves it if the spread is below one, and beyond that the best
    that can be promised is a step of log(1 + spread) / spread.
    """
    lowest, highest = step[0], step[0]
    for k in range(1, p.shape[0]):
        lowest, highest = min(lowest, step[k]), max(highest, step[k])
    spread = highest - lowest
    factor = 1.0 if spread < 1.0 else log(1.0 + spread) / spread
    for k in range(p.shape[0]):
        p[k] = max(FAINTEST, p[k] * exp(factor * (step[k] - highest)))
    normalise(p)
    return spread


@helper
def couple_ht(r, counts, links, ground, step, p):
    """Minimise sum_lm n_lm r_lm log(r_lm / rho_lm) with rho_lm = p_l / (p_l + p_m).

    This is the likelihood of Bradley and Terry with fractions of wins, concave in log p. Newton's
    method climbs it from the solution of WLW1, which is the top already if r is consistent.
    """
    couple_wlw1(r, links, ground, p)
    for _ in range(MOST_STEPS):
        likelihood_slopes(r, counts, p, links, step)
        eliminate(links, ground)
        hand_over(links, step)
        substitute(links, 0.0, 1.0, step)
        change = largest_change(p, step)
        if move(p, step) < SMALL_STEP or change < SMALL_CHANGE:
            break


# --- all ways -------------------------------------------------------------------------------------


@helper
def couple_row(r, counts, method, scratch, p):
    """Class probabilities p of one reading out of its pairwise probabilities r.

    `counts` holds the weights of the pairs for HT; shape (0, 0) weighs them alike. `scratch` has
    room for `layout.coupling_scratch` floats.
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
