"""`ToeplitzFactor`: noise that is correlated over time, with a memory of a few numbers.

What is wanted are the running sums `S_t = x_t + beta S_(t-1)` of vectors x, one a batch. Noise on
each x is noise on all later sums; noise on each sum costs as often as there are sums. In between
lies the square root of the sum: `A = C C` for the lower triangular Toeplitz matrix A with entries
`beta^k`. Released is `C x + z` with independent z, and `S = A C^-1 (C x + z)` is post-processing.

One unit in one batch changes `C x` by one column of C, so all releases together cost what one
release would, times the norm of a column. For the square root its square is `(2/pi) K(beta)` (K of
the modulus), finite for beta < 1, however long the stream. The square root has no short recursion; a
buffered linear Toeplitz factor has: entries `c_0 = 1, c_k = sum_j omega_j theta_j^(k-1)` with four
buffers. Its norm is computed from the coefficients in fact used.

References
----------
- Fichtenberger, H., Henzinger, M., Upadhyay, J. (2023). Constant matters: fine-grained error bound on differentially private continual observation. ICML.
- Dvijotham, K., McMahan, H. B., Pillutla, K., Steinke, T., Thakurta, A. (2024). Efficient and near-optimal noise generation for streaming differential privacy. FOCS.
- Denisov, S., McMahan, B., Rush, K., Smith, A., Thakurta, A. (2022). Improved differential privacy for SGD via optimal private linear operators on adaptive streams. NeurIPS.

"""  # noqa: E501

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from streamlvq.arrays import Floats

BUFFERS = 4
FOREVER = math.inf
PERIODS = 1024  # of a finite sum that is computed term by term


@dataclass(frozen=True)
class ToeplitzFactor:
    """A factor C of running sums that forget with `forget`, for at most `releases` releases.

    Parameters
    ----------
    forget
        Share of a sum that is left one batch later; 1 forgets nothing.
    releases
        Largest number of releases; `math.inf` for no end, if it forgets.
    decay, weight
        theta and omega of each buffer.

    Examples
    --------

    >>> from streamlvq.privacy.factor import ToeplitzFactor

    >>> factor = ToeplitzFactor.fitted(0.5 ** (1 / 50))
    >>> factor.norm(), factor.error()  # of a column, and of the noise in the running sum
    (1.43, 2.04)
    >>> factor.norm([1, 1])  # a unit in two successive batches
    2.62

    """

    forget: float
    releases: float
    decay: tuple[float, ...]
    weight: tuple[float, ...]

    @classmethod
    def fitted(
        cls, forget: float, releases: float = FOREVER, buffers: int = BUFFERS
    ) -> ToeplitzFactor:
        """Return the factor whose running sums have the least noise for one promise."""
        if not 0.0 < forget <= 1.0:
            raise ValueError(
                f"expected to forget with a factor above 0 and up to 1, got {forget!r}"
            )
        if forget == 1.0 and math.isinf(releases):
            raise ValueError("expected a number of releases for sums that forget nothing, got none")
        return _fitted(float(forget), float(releases), buffers)

    @classmethod
    def independent(cls, forget: float, releases: float = FOREVER) -> ToeplitzFactor:
        """Return the factor of independent noise, C = 1, to compare with."""
        return cls(forget, releases, (), ())

    # --- what it costs ---------------------------------------------------------------------------

    def correlation(self, lag: int) -> float:
        """Return the largest inner product of two columns that are `lag` batches apart."""
        theta, omega = np.array(self.decay), np.array(self.weight)
        if lag >= self.releases:
            return 0.0
        first = 1.0 if lag == 0 else float(np.sum(omega * theta ** (lag - 1)))
        pairs = np.multiply.outer(theta, theta)
        later = np.multiply.outer(omega, omega * theta**lag)
        return first + float(np.sum(later * _sum_of_powers(pairs, self.releases - lag - 1)))

    def norm(self, readings: Sequence[int] = (1,)) -> float:
        """Return the norm of C applied to one unit with so many readings in successive batches.

        All coefficients are positive and falling, so correlations are positive and fall with the
        distance: batches that follow each other and readings that push the same way are the worst
        case, and no other choice of as many batches costs more.
        """
        counts = np.array(readings, np.float64)
        lags = np.array([self.correlation(lag) for lag in range(len(counts))])
        places = np.arange(len(counts))
        gram = lags[np.abs(places[:, None] - places)]
        return float(math.sqrt(counts @ gram @ counts))

    def norm_of_run(self, length: int, batch: int) -> float:
        """Return the norm for a run of `length` readings, wherever batches of `batch` cut it."""
        return max(self.norm(counts) for counts in _cuts(length, batch))

    # --- what it gains ---------------------------------------------------------------------------

    def coefficients(self, count: int) -> Floats:
        """Return the first entries of a column of C."""
        theta, omega = np.array(self.decay), np.array(self.weight)
        powers = theta ** np.arange(max(count - 1, 0))[:, None]
        return np.concatenate([[1.0], powers @ omega])[:count]

    def total(self) -> float:
        """Return the sum of a column of C: how much larger its product with a constant is."""
        theta, omega = np.array(self.decay), np.array(self.weight)
        return 1.0 + float(np.sum(omega * _sum_of_powers(theta, self.releases - 1)))

    def decoder(self, count: int) -> Floats:
        """Return the first entries of a column of `A C^-1`, which turns releases into sums."""
        theta, omega = np.array(self.decay), np.array(self.weight)
        state, total = np.zeros(len(theta)), 0.0
        out = np.empty(count)
        for k in range(count):
            value = (1.0 if k == 0 else 0.0) - float(omega @ state)
            state = theta * state + value
            total = self.forget * total + value
            out[k] = total
        return out

    def error(self) -> float:
        """Return the noise in the last running sum, if each release has noise `norm()`.

        In the unit of the noise that one release alone would need.
        """
        return self.norm() * math.sqrt(_decoder_square(self))


def square_root_norm(forget: float) -> float:
    """Return the norm of a column of the square root of the running sum, without end."""
    return math.sqrt(2.0 / math.pi * float(special.ellipk(forget**2)))


def _cuts(length: int, batch: int) -> list[list[int]]:
    """Return how batches can cut a run of readings: each offset of the first batch."""
    cuts = []
    for first in range(1, min(length, batch) + 1):
        whole, last = divmod(length - first, batch)
        cuts.append([first, *[batch] * whole, *([last] if last else [])])
    longest = max(map(len, cuts))
    if longest > PERIODS:
        raise ValueError(f"expected a run over at most {PERIODS} batches, got {longest}")
    return cuts


def _sum_of_powers(base: Floats, count: float) -> Floats:
    """Return `1 + b + b^2 + ...` of `count` terms; without end for `math.inf`."""
    if count <= 0:
        return np.zeros_like(base)
    rest = 1.0 - base
    if math.isinf(count):
        return np.asarray(1.0 / rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        long = -np.expm1(count * np.log(np.maximum(base, 1e-300))) / rest
    return np.where(rest < 1e-12, float(count), long)


# --- fitting --------------------------------------------------------------------------------------
#
# As rational functions C(s) = prod (1 - zero_j s) / prod (1 - decay_j s), with zeros and decays in
# turn: forget > decay_1 > zero_1 > decay_2 > ... > 0. Then all weights are positive. The decoder is
# prod (1 - decay_j s) / ((1 - forget s) prod (1 - zero_j s)).


def _partial_fractions(numerator: Floats, poles: Floats) -> Floats:
    """Return r with `prod (1 - n_i s) / prod (1 - p_j s) = ... + sum r_j / (1 - p_j s)`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.prod(1.0 - numerator[None, :] / poles[:, None], axis=1)
        others = 1.0 - poles[None, :] / poles[:, None]
        np.fill_diagonal(others, 1.0)
        return np.asarray(above / np.prod(others, axis=1))


def _roots(gaps: Floats, forget: float) -> tuple[Floats, Floats]:
    """Return decays and zeros: each is a share of the one before."""
    falling = forget * np.cumprod(special.expit(gaps))
    return falling[0::2], falling[1::2]


def _square(residues: Floats, poles: Floats, count: float) -> float:
    """Return the sum of squares of `sum_j r_j p_j^k` over k < count."""
    powers = _sum_of_powers(np.multiply.outer(poles, poles), count)
    return float(residues @ powers @ residues)


def _logarithm_of_noise(gaps: Floats, forget: float, releases: float) -> float:
    decay, zero = _roots(gaps, forget)
    weight = _partial_fractions(zero, decay) * decay  # c_k = weight decay^(k - 1)
    columns = 1.0 + _square(weight, decay, releases - 1)
    poles = np.append(zero, forget)
    rows = _square(_partial_fractions(decay, poles), poles, releases)
    if not (columns > 0.0 and rows > 0.0 and math.isfinite(columns * rows)):
        return 1e9
    return 0.5 * math.log(columns) + 0.5 * math.log(rows)


@functools.lru_cache(maxsize=64)
def _fitted(forget: float, releases: float, buffers: int) -> ToeplitzFactor:
    memory = min(releases, 1.0 / (1.0 - forget) if forget < 1.0 else FOREVER)
    # Distances of the roots from `forget`, evenly spaced on a logarithmic axis.
    away = np.geomspace(0.3 / max(memory, 2.0), 0.8, 2 * buffers)
    roots = forget * (1.0 - away)
    shares = np.concatenate([[roots[0] / forget], roots[1:] / roots[:-1]])
    start = special.logit(np.clip(shares, 1e-9, 1.0 - 1e-9))
    found = optimize.minimize(
        _logarithm_of_noise, start, (forget, releases), method="BFGS", options={"maxiter": 2000}
    )
    decay, zero = _roots(found.x, forget)
    weight = _partial_fractions(zero, decay) * decay
    return ToeplitzFactor(forget, releases, tuple(decay.tolist()), tuple(weight.tolist()))


def _decoder_square(factor: ToeplitzFactor) -> float:
    """Return the sum of squares of a row of `A C^-1`; infinite if it is too large for a float.

    Entry k of a row is `h M^k b` for the state of the decoder, its buffers and the running sum. So
    the sum is `h S h'` with `S = sum M^k b b' M'^k`, and twice as many terms of S are
    `S + M^n S M'^n`: 24 doublings instead of 2^24 terms.
    """
    weight = np.array(factor.weight)
    steps = np.diag([*factor.decay, factor.forget])  # M, then M^2, M^4 ...
    steps[:, :-1] -= weight
    block = np.ones_like(steps)  # the first terms of S, as many as `steps` has steps; b is 1
    if math.isinf(factor.releases):
        return _limit(block, steps)
    total, left = np.zeros_like(steps), int(factor.releases)
    with np.errstate(over="ignore", invalid="ignore"):
        while left:
            if left % 2:
                total = block + steps @ total @ steps.T
            block, steps, left = block + steps @ block @ steps.T, steps @ steps, left // 2
    return float(total[-1, -1]) if math.isfinite(total[-1, -1]) else math.inf


def _limit(block: Floats, steps: Floats) -> float:
    """Return the last number of the sum without end; infinite if it grows for ever."""
    before = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        while math.isfinite(block[-1, -1]) and block[-1, -1] != before:
            before = float(block[-1, -1])
            block, steps = block + steps @ block @ steps.T, steps @ steps
    return before if block[-1, -1] == before else math.inf
