"""A slow oracle for models and metrics: the definitions as they stand in the literature.

Nothing here is incremental or clever. Running statistics are recomputed from the whole history,
metrics are d x d matrices, and gradients of a cost are products of two small derivatives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EUCLIDEAN, DIAGONAL, MATRIX = "euclidean", "diagonal", "matrix"
TINY = 1e-12
LARGEST_VALUE = 1e60  # of readings

# name: (rule, kind of metric, a metric for each prototype?)
MODELS = {
    "LVQ1": ("lvq1", EUCLIDEAN, False),
    "OLVQ1": ("olvq1", EUCLIDEAN, False),
    "LVQ21": ("lvq21", EUCLIDEAN, False),
    "LVQ3": ("lvq3", EUCLIDEAN, False),
    "GLVQ": ("glvq", EUCLIDEAN, False),
    "GRLVQ": ("glvq", DIAGONAL, False),
    "LGRLVQ": ("glvq", DIAGONAL, True),
    "GMLVQ": ("glvq", MATRIX, False),
    "LGMLVQ": ("glvq", MATRIX, True),
    "RSLVQ": ("rslvq", EUCLIDEAN, False),
    "MRSLVQ": ("rslvq", MATRIX, False),
    "LMRSLVQ": ("rslvq", MATRIX, True),
    "PairwiseLVQ": ("pairs", MATRIX, True),  # one for the two prototypes of a pair
}


# --- statistics ----------------------------------------------------------------------------------


EVICTED = -2
STILL_WEIGHT = 10.0  # what all readings without spread count once a feature moves


def weighted_moments(values: list[float], forget: float, first: float = 1.0) -> tuple[float, float]:
    """Mean and variance of a history in which a sample of age k counts forget**k.

    The first one counts `first` times as much.
    """
    history = np.array(values)
    weights = forget ** np.arange(len(history) - 1, -1, -1.0)
    weights[0] *= first
    mean = float((weights * history).sum() / weights.sum())
    return mean, float((weights * (history - mean) ** 2).sum() / weights.sum())


@dataclass
class Scale:
    """The history of one feature."""

    forget: float
    floor: float
    values: list[float] = field(default_factory=list)
    first: float = 1.0  # readings that the first value stands for
    mean: float = 0.0
    variance: float = 0.0
    peak: float = 0.0
    varies: bool = False
    still: float = 0.0  # readings without spread before it moved
    sparse: bool = False

    @property
    def weight(self) -> float:
        n = len(self.values)
        return sum(self.forget**k for k in range(n)) + (self.first - 1) * self.forget ** (n - 1)

    @property
    def deviation(self) -> float:
        return max(math.sqrt(self.variance), self.floor * self.peak)

    def has_spread(self) -> bool:
        return bool(self.values) and self.deviation > 1e-10 * abs(self.mean)

    def late_root(self, weight: float) -> float:
        """Root of the part of a fair share that a feature gets that moves late."""
        return math.sqrt(max(0.05, weight / self.still))

    def late(self) -> bool:
        """Moves after it was still for long."""
        return self.still > STILL_WEIGHT

    def observe(self, value: float) -> None:
        moved = abs(value - self.mean) > 1e-10 * abs(self.mean)
        if self.values and not self.varies and self.weight > STILL_WEIGHT and moved:
            self.still = max(self.still, self.weight)
            self.values, self.first = [self.mean], STILL_WEIGHT
        self.values.append(value)
        self.mean, self.variance = weighted_moments(self.values, self.forget, self.first)
        self.peak = max(self.forget * self.peak, abs(value - self.mean))

    def inverse(self, standardize: bool, learns: bool) -> float:
        """One over the unit in which this feature is measured; 0 while it says nothing.

        A metric that does not learn gives a feature that moves late its full weight only later.
        """
        inverse = 1.0
        if standardize:
            unit = math.sqrt(self.deviation) if self.sparse else self.deviation
            inverse = 1.0 / unit if self.has_spread() else 0.0
        if self.has_spread() and not learns and self.weight < self.still:
            inverse *= self.late_root(self.weight)
        return inverse


# --- distances -----------------------------------------------------------------------------------


def quadratic_form(kind: str, omega: Array | None, d: int, varying: int | None = None) -> Array:
    """Lambda, with trace one over the features that vary."""
    if kind == EUCLIDEAN:
        return np.eye(d) / (varying or d)
    assert omega is not None
    return np.diag(omega[0] ** 2) if kind == DIAGONAL else omega.T @ omega


def make_up(
    lam: Array, known: npt.NDArray[np.bool_], counts: npt.NDArray[np.bool_] | None = None
) -> float | None:
    """What a distance over the known features is multiplied by; None if they carry no weight.

    Only the weight of features that `counts` matters; None: of all.
    """
    weight = np.diag(lam) if counts is None else np.diag(lam) * counts
    there = weight[known].sum()
    return float(weight.sum() / there) if there > 0 else None


def distance(lam: Array, z: Array, counts: npt.NDArray[np.bool_] | None = None) -> float:
    """Squared length of the difference z (in feature scales); NaN where a feature is missing."""
    known = ~np.isnan(z)
    factor = make_up(lam, known, counts)
    if factor is None:
        return 1.0
    part, lam = (z, lam) if known.all() else (z[known], lam[np.ix_(known, known)])
    return factor * float(part @ lam @ part)


def distance_gradients(
    kind: str,
    omega: Array | None,
    z: Array,
    counts: npt.NDArray[np.bool_] | None = None,
) -> tuple[Array, Array | None]:
    """d(distance)/dv of the prototype v in feature scales and d(distance)/dOmega.

    The factor that makes up for missing features counts as a constant.
    """
    varying = None if counts is None else int(counts.sum())
    lam = quadratic_form(kind, omega, len(z), varying)
    known = ~np.isnan(z)
    factor = make_up(lam, known, counts) or 0.0
    filled = np.where(known, z, 0.0)
    by_prototype = np.where(known, -2.0 * factor * (lam @ filled), 0.0)
    if kind == EUCLIDEAN:
        return by_prototype, None
    assert omega is not None
    if kind == DIAGONAL:
        return by_prototype, 2.0 * factor * omega * filled**2
    return by_prototype, 2.0 * factor * np.outer(omega @ filled, filled)


# --- scores and probabilities --------------------------------------------------------------------


def log_sum_exp(values: Array) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def class_scores(rule: str, distances: Array, labels: Array, known: int, sigma: float) -> Array:
    own = [distances[labels == c] for c in range(known)]
    if rule == "rslvq":
        return np.array([log_sum_exp(-d / (2 * sigma)) for d in own])
    return np.array([-math.log(d.min() + TINY) for d in own])


def softmax(scores: Array) -> Array:
    e = np.exp(scores - scores.max())
    return np.asarray(e / e.sum())


def newton(
    temperature: float,
    curvature: float,
    scores: Array,
    c: int,
    weight: float = 1.0,
    decay: float = 0.98,
) -> tuple[float, float]:
    """One step of log T on the log loss -w log softmax(T s)_c.

    Its second derivative by log T, expected over c, is w T**2 Var_p(s). The curvature kept is that
    by T, so that it can be carried to another T. A step x becomes log(1 + |x|).
    """
    p = softmax(temperature * scores)
    mean = float(p @ scores)
    curvature = decay * curvature + weight * float(p @ (scores - mean) ** 2)
    slope = weight * temperature * (mean - float(scores[c]))
    step = -slope / (temperature**2 * (curvature + 2.0))
    log_temperature = math.log(temperature) + math.copysign(math.log1p(abs(step)), step)
    return float(np.clip(math.exp(log_temperature), 0.01, 100.0)), curvature


# --- costs ---------------------------------------------------------------------------------------


def closest(distances: Array, among: npt.NDArray[np.bool_]) -> int | None:
    """The first of the smallest distances, among some prototypes."""
    if not among.any():
        return None
    return int(np.flatnonzero(among)[np.argmin(distances[among])])


def glvq_cost(distances: Array, labels: Array, c: int, steepness: float) -> float:
    """Phi(mu); the sigmoid has slope one at mu = 0."""
    near, other = distances[labels == c].min(), distances[labels != c].min()
    mu = float((near - other) / (near + other))
    if steepness == 0:
        return mu
    return 4.0 / steepness / (1.0 + math.exp(-steepness * mu))


def glvq_slopes(distances: Array, labels: Array, c: int, steepness: float) -> Array:
    """d(cost)/d(distance) of every prototype."""
    right, wrong = closest(distances, labels == c), closest(distances, labels != c)
    near, other = distances[right], distances[wrong]
    total = near + other
    slopes = np.zeros(len(distances))
    if total <= 0:
        return slopes
    activation = 1.0
    if steepness > 0:
        s = 1.0 / (1.0 + math.exp(-steepness * (near - other) / total))
        activation = 4.0 * s * (1.0 - s)
    slopes[right] = activation * 2.0 * other / total**2
    slopes[wrong] = -activation * 2.0 * near / total**2
    return slopes


def rslvq_cost(distances: Array, labels: Array, c: int, sigma: float) -> float:
    """-log p(c | x) of a mixture with one component for each prototype."""
    logs = -distances / (2 * sigma)
    return log_sum_exp(logs) - log_sum_exp(logs[labels == c])


def rslvq_slopes(distances: Array, labels: Array, c: int, sigma: float) -> Array:
    logs = -distances / (2 * sigma)
    own = np.where(labels == c, logs, -np.inf)
    return np.asarray((softmax(own) - softmax(logs)) / (2 * sigma))


# --- steps ---------------------------------------------------------------------------------------


def constant_prototype_step(by_prototype: Array, slope: float, rate: float, rows: int) -> Array:
    """Minus rate * gradient * rows, at most half of the way to (or from) the sample."""
    if slope == 0:
        return np.zeros_like(by_prototype)
    shorter = min(1.0, 0.5 / abs(2.0 * rate * slope)) if rate > 0 else 1.0
    return -rate * shorter * slope * rows * by_prototype


def constant_metric_step(gradient: Array, rate: float) -> Array:
    length = rate * float(np.linalg.norm(gradient))
    return -rate * gradient * (0.5 / length if length > 0.5 else 1.0)


def unit(omega: Array) -> Array:
    size = np.linalg.norm(omega)
    return np.asarray(omega / size) if size > 0 else omega


@dataclass
class Metric:
    omega: Array
    rows: Array
    columns: Array
    total: float = 0.0

    @classmethod
    def new(cls, omega: Array) -> Metric:
        return cls(omega.copy(), np.zeros(omega.shape[0]), np.zeros(omega.shape[1]))

    def adagrad(self, gradient: Array, rate: float, decay: float, varying: int) -> None:
        """v_ri = (sum of row r) * (sum of column i) / total, as Adafactor keeps them."""
        squares = gradient**2
        self.rows = decay * self.rows + squares.sum(axis=1)
        self.columns = decay * self.columns + squares.sum(axis=0)
        self.total = decay * self.total + squares.sum()
        root = np.outer(np.sqrt(self.rows) + TINY, np.sqrt(self.columns) + TINY)
        step = rate / math.sqrt(varying) * gradient * math.sqrt(self.total) / root
        self.omega = unit(self.omega - step)

    def constant(self, gradient: Array, rate: float) -> None:
        self.omega = unit(self.omega + constant_metric_step(gradient, rate))

    def published(self, gradient: Array, rate: float, kind: str) -> None:
        """Relevances are learnt themselves, with a gradient for them, and stay positive."""
        if kind == DIAGONAL:
            self.omega = unit(np.sqrt(np.maximum(self.omega**2 - rate * gradient, 0.0)))
        else:
            self.omega = unit(self.omega - rate * gradient)

    def restrict(self, start: Array, scales: list[Scale], standardize: bool) -> None:
        """Norm one over the features that vary.

        The others have no share; without standardisation they keep their first weight outside.
        """
        varies = np.array([s.varies for s in scales], bool)
        if not varies.any():
            self.omega = start.copy()
            return
        rest = np.zeros_like(start) if standardize else start
        self.omega = np.where(varies, unit(np.where(varies, self.omega, 0.0)), rest)

    def admit(self, start: Array, scales: list[Scale]) -> None:
        """Columns for features that start to vary: a fair share, or much less if late."""
        before = np.array([s.varies for s in scales], bool)
        size = float(np.linalg.norm(start[:, before])) or 1.0
        usual = self.total / max(1, int(before.sum()))
        for i, scale in enumerate(scales):
            if scale.has_spread() and not scale.varies:
                share = scale.late_root(STILL_WEIGHT) if scale.late() else 1.0
                self.omega[:, i] = share * start[:, i] / size
                self.columns[i] = usual if scale.late() else 0.0
                if scale.late():
                    self.rows = np.where(self.rows > 0, self.rows, usual)


def start_metric(kind: str, rank: int | None, d: int, seed: int) -> Array:
    if kind == DIAGONAL:
        return unit(np.ones((1, d)))
    if rank is None or rank >= d:
        return unit(np.eye(d))
    gaussian = np.random.default_rng(seed).standard_normal((d, rank))
    return unit(np.linalg.qr(gaussian)[0].T)


# --- pairwise coupling ---------------------------------------------------------------------------

Exact = list[list[Fraction]]


def exact_pairs(r: Array) -> Exact:
    """Pairwise probabilities as fractions; the smaller of a pair decides, zeros on the diagonal."""
    c = len(r)
    smaller = [[Fraction(min(r[i, j], r[j, i])) for j in range(c)] for i in range(c)]
    return [
        [
            Fraction(0) if i == j else smaller[i][j] if r[i, j] <= r[j, i] else 1 - smaller[i][j]
            for j in range(c)
        ]
        for i in range(c)
    ]


def solve_exactly(rows: Exact, right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination without rounding."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for k in range(len(table)):
        pivot = next(i for i in range(k, len(table)) if table[i][k] != 0)
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [value / table[k][k] for value in table[k]]
        for i, row in enumerate(table):
            if i != k and row[k] != 0:
                table[i] = [a - row[k] * b for a, b in zip(row, table[k], strict=True)]
    return [row[-1] for row in table]


def as_shares(values: list[Fraction]) -> Array:
    return np.array([float(value / sum(values)) for value in values])


def couple_pkpd(r: Array) -> Array:
    pairs = exact_pairs(r)
    c = len(pairs)
    return as_shares(
        [1 / (sum(1 / pairs[k][j] for j in range(c) if j != k) - (c - 2)) for k in range(c)]
    )


def couple_wlw1(r: Array) -> Array:
    """(c - 1) p_l = sum_m (p_l + p_m) r_lm, of which one equation gives way to sum p = 1."""
    pairs = exact_pairs(r)
    c = len(pairs)
    rows = [
        [sum(pairs[k]) - (c - 1) if j == k else pairs[k][j] for j in range(c)] for k in range(c)
    ]
    return as_shares(
        solve_exactly([*rows[:-1], [Fraction(1)] * c], [Fraction(0)] * (c - 1) + [Fraction(1)])
    )


def couple_wlw2(r: Array) -> Array:
    """The slopes of sum_lm (r_ml p_l - r_lm p_m)^2, a multiplier, and sum p = 1."""
    pairs = exact_pairs(r)
    c = len(pairs)
    rows = [
        [
            sum((pairs[m][k] ** 2 for m in range(c)), Fraction(0))
            if j == k
            else -pairs[j][k] * pairs[k][j]
            for j in range(c)
        ]
        + [Fraction(1)]
        for k in range(c)
    ]
    rows.append([Fraction(1)] * c + [Fraction(0)])
    return as_shares(solve_exactly(rows, [Fraction(0)] * c + [Fraction(1)])[:-1])


def couple_ht(r: Array, counts: Array) -> Array:
    """Scale each class until it wins as often as it should, over and over."""
    off = counts * (1.0 - np.eye(len(r)))
    wins = (off * np.where(np.eye(len(r)), 0.0, r)).sum(axis=1)
    p = np.full(len(r), 1.0 / len(r))
    for _ in range(100_000):
        before = p.copy()
        for k in range(len(p)):
            p[k] *= wins[k] / (off[k] * p[k] / (p[k] + p)).sum()
        p /= p.sum()
        if np.abs(p - before).max() < 1e-16:
            break
    return p


def couple_vote(r: Array) -> Array:
    """A point for the preferred class of each pair, half a point for both if there is none."""
    points = (1.0 + np.sign(r - r.T)) / 2.0
    np.fill_diagonal(points, 0.0)
    return np.asarray(points.sum(axis=1) / points.sum())


def couple(r: Array, method: str, class_count: list[int]) -> Array:
    """Zeros and ones count as nearly so; a pair counts as much as it has samples."""
    r = np.clip(r, 1e-12, 1.0 - 1e-12)
    if method == "ht":
        return couple_ht(r, np.add.outer(class_count, class_count).astype(float))
    oracles = {"pkpd": couple_pkpd, "wlw1": couple_wlw1, "wlw2": couple_wlw2, "vote": couple_vote}
    return oracles[method](r)


@dataclass
class Platt:
    """P(first class of a pair) = 1 / (1 + exp(slope * score + offset)), fitted score by score."""

    slope: float = -4.0
    offset: float = 0.0
    hessian: Array = field(default_factory=lambda: np.zeros((2, 2)))
    seen: list[int] = field(default_factory=lambda: [0, 0])

    def exponent(self, score: float) -> float:
        return self.slope * score + self.offset

    def fit(self, score: float, first: bool, weight: float = 1.0) -> None:
        """Newton on the log loss, whose Hessian by the exponent is p (1 - p); Platt's targets."""
        p = 1.0 / (1.0 + math.exp(self.exponent(score)))
        n = self.seen[0 if first else 1]
        target = (n + 1) / (n + 2) if first else 1 / (n + 2)
        self.seen[0 if first else 1] += 1
        by_parameters = np.array([score, 1.0])
        square = np.outer(by_parameters, by_parameters)
        self.hessian = 0.999 * self.hessian + weight * p * (1 - p) * square
        step = np.linalg.solve(self.hessian + np.eye(2), weight * (target - p) * by_parameters)
        self.slope = float(np.clip(self.slope - step[0], -100.0, -0.01))
        self.offset = float(np.clip(self.offset - step[1], -30.0, 30.0))

    def numbers(self) -> list[float]:
        (aa, ab), (_, bb) = self.hessian
        return [self.slope, self.offset, aa, ab, bb, *self.seen]


# --- certainty and time --------------------------------------------------------------------------

FLOOR = 1e-6
Opinion = dict[Any, float]


def relsim(class_distances: list[float]) -> float | None:
    """Of the squared distances to the closest prototype of every class."""
    if len(class_distances) < 2:
        return None
    near, other = sorted(class_distances)[:2]
    return (other - near) / (other + near) if other + near > 0 else 0.0


def integrated(opinions: list[Opinion]) -> Opinion:
    """The product of opinions, normalised; the last one knows all classes.

    An opinion about a class that it does not know is its mean.
    """
    products = {
        label: math.prod(
            max(p[label], FLOOR) if label in p else sum(p.values()) / len(p) for p in opinions
        )
        for label in opinions[-1]
    }
    total = sum(products.values())
    return {label: product / total for label, product in products.items()}


def around(reading: int, size: int, centered: bool) -> range:
    """The readings in a window of this size that decides on a reading."""
    before, after = size - 1, 0
    if centered:
        before, after = math.ceil((size - 1) / 2), (size - 1) // 2
    return range(reading - before, reading + after + 1)


def decision(opinions: list[Opinion], reading: int, size: int, centered: bool) -> Opinion:
    """On one reading of a segment, from those of its neighbours that exist."""
    window = [k for k in around(reading, size, centered) if 0 <= k < len(opinions)]
    return integrated([opinions[k] for k in window])


@dataclass
class Past:
    """What a filter keeps of a device: all its opinions, and the last label."""

    posterior: Opinion | None = None  # after the last reading that later ones no longer change
    recent: list[Opinion] = field(default_factory=list)  # the readings since
    last: Any = None


@dataclass
class Filter:
    """A forward filter with plain dictionaries; decisions are `delay` readings late."""

    delay: int = 0
    a: float = 0.0
    b: float = 1.0
    curvature: Array = field(default_factory=lambda: np.zeros((2, 2)))
    changes: float = 10.0
    pairs: float = 20.0
    counts: dict[Any, float] = field(default_factory=dict)
    devices: dict[Any, Past] = field(default_factory=dict)

    def shares(self, labels: list[Any]) -> Opinion:
        raw = {label: self.counts.get(label, 0.0) + 1.0 for label in labels}
        return {label: weight / sum(raw.values()) for label, weight in raw.items()}

    def mixed(self, before: Opinion, labels: list[Any]) -> Opinion:
        """Probabilities after a change that happens with the probability h."""
        raw = {label: before.get(label, 1 / len(before)) for label in labels}
        shares, h = self.shares(labels), self.changes / self.pairs
        return {c: (1 - h) * raw[c] / sum(raw.values()) + h * shares[c] for c in labels}

    def step(self, before: Opinion | None, p: Opinion, labels: list[Any]) -> Opinion:
        """The posterior of a reading."""
        p = {c: max(p[c], FLOOR) if c in p else sum(p.values()) / len(p) for c in labels}
        if before is None:
            return normalised(p)
        prior = self.mixed(before, labels)
        return normalised({c: max(prior[c], FLOOR) ** self.a * p[c] ** self.b for c in labels})

    def posteriors(self, past: Past, opinions: list[Opinion]) -> list[Opinion | None]:
        """That of the reading before these opinions, then of each of them."""
        found = [past.posterior]
        for p in opinions:
            found.append(self.step(found[-1], p, list(opinions[-1])))
        return found

    def smoothed(self, past: Past, opinions: list[Opinion], about: int) -> Opinion:
        """The posterior of one of the opinions, with those after it."""
        labels = list(opinions[-1])
        shares = self.shares(labels)
        odds = dict.fromkeys(labels, 1.0)  # how much likelier the future makes each class
        for p in reversed(opinions[about + 1 :]):
            p = {c: max(p[c], FLOOR) if c in p else sum(p.values()) / len(p) for c in labels}
            seen = normalised({c: p[c] ** self.b * odds[c] ** self.a for c in labels})
            odds = {c: max(self.mixed(seen, labels)[c], FLOOR) / shares[c] for c in labels}
        own = self.posteriors(past, opinions)[about + 1]
        assert own is not None
        return normalised({c: own[c] * odds[c] ** self.a for c in labels})

    def predict(self, p: Opinion, device: Any = None) -> Opinion | None:
        past = self.devices.get(device, Past())
        opinions = [*past.recent, p]
        if len(opinions) <= self.delay:
            return None
        return self.smoothed(past, opinions, len(opinions) - 1 - self.delay)

    def evidence(self, p: Opinion, device: Any = None) -> tuple[Opinion, Opinion] | None:
        """Prior and opinion of a reading; None if it is the first of its device."""
        past = self.devices.get(device, Past())
        before = self.posteriors(past, [*past.recent, p])[-2]
        if before is None:
            return None
        labels = list(p)
        prior = self.mixed(before, labels)
        return {c: max(prior[c], FLOOR) for c in labels}, {c: max(p[c], FLOOR) for c in labels}

    def loss(self, evidence: tuple[Opinion, Opinion], y: Any, a: float, b: float) -> float:
        prior, p = evidence
        return -math.log(normalised({c: prior[c] ** a * p[c] ** b for c in p})[y])

    def advance(self, p: Opinion, device: Any = None) -> None:
        past = self.devices.setdefault(device, Past())
        opinions = [*past.recent, p]
        if len(opinions) > self.delay:
            posterior = self.posteriors(past, opinions)[1]
            assert posterior is not None
            past.posterior = {c: max(q, FLOOR) for c, q in posterior.items()}
            # What was unknown then counts as the mean of what was known.
            opinions = opinions[1:]
        past.recent = opinions

    def learn(self, evidence: tuple[Opinion, Opinion] | None, y: Any, device: Any = None) -> None:
        """Newton's method, one step per label, with the curvature of all labels so far."""
        if evidence is not None and y in evidence[1]:
            weights = np.array([self.a, self.b])
            scores = np.log([[each[c] for each in evidence] for c in evidence[1]])
            share = softmax(scores @ weights)
            centred = scores - share @ scores
            self.curvature = 0.999 * self.curvature + centred.T @ (share[:, None] * centred)
            towards = centred[list(evidence[1]).index(y)]
            step = np.linalg.solve(self.curvature + np.diag([20.0, 100.0]), towards)
            self.a, self.b = (float(w) for w in np.clip(weights + step, 0.0, 5.0))
        past = self.devices.get(device)
        if past is not None:
            if past.last is not None:
                self.changes = 0.999 * self.changes + (past.last != y)
                self.pairs = 0.999 * self.pairs + 1.0
            past.last = y
        self.counts = {label: 0.999 * count for label, count in self.counts.items()}
        self.counts[y] = self.counts.get(y, 0.0) + 1.0


def normalised(weights: dict[Any, float]) -> dict[Any, float]:
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def rate_threshold(certainties: list[float], rate: float, seen: int) -> float:
    """Rejects this share, rounded down; of equal ones so many that it holds, evenly."""
    wanted = rate * len(certainties)
    rejected = math.floor(round(wanted, 9))
    if rejected == 0:
        return 0.0
    if rejected == len(certainties):
        return math.inf
    ordered = [*sorted(certainties), math.inf]
    at = ordered[rejected]
    if at == 0.0:
        return 0.0
    fewer = sum(certainty < at for certainty in certainties)
    more = sum(certainty <= at for certainty in certainties)
    share = (wanted - fewer) / (more - fewer)
    rejects = more - fewer > 1 and (seen * (math.sqrt(5) - 1) / 2) % 1.0 < share
    return ordered[more] if rejects else at


def accurate_threshold(decisions: list[tuple[float, bool]], accuracy: float) -> float:
    """The smallest threshold above which decisions are this accurate."""
    for threshold in sorted(certainty for certainty, _ in decisions):
        kept = [right for certainty, right in decisions if certainty >= threshold]
        if sum(kept) / len(kept) >= accuracy:
            return threshold
    return math.inf


def cost_of(decisions: list[tuple[float, bool]], threshold: float, cost: float) -> float:
    """What a threshold would have cost, at 1 for an error."""
    return sum(
        (0.0 if right else 1.0) if certainty >= threshold else cost
        for certainty, right in decisions
    )


# --- novelty -------------------------------------------------------------------------------------


@dataclass
class NaiveNovelty:
    """How strange readings of known classes were, the latest last."""

    border: dict[int, list[float]] = field(default_factory=dict)
    distance: dict[int, list[float]] = field(default_factory=dict)
    both: list[float] = field(default_factory=list)
    border_only: list[float] = field(default_factory=list)

    def measure(
        self, relsim: float, c: int, x: Array, stored: list[tuple[Array, int]], inverse: Array
    ) -> tuple[float, list[float]]:
        """Return the novelty, and the scores and sums to remember.

        `stored` are the readings in the buffer by position, `inverse` is 0 for constant features.
        """
        near = nearest_of_class(x, c, stored, inverse)
        scores = [1.0 / max(relsim, 1e-9), near]
        first = -math.log(share_above(self.border.get(c, [])[-64:], scores[0]))
        distances = [d for d in self.distance.get(c, [])[-64:] if not math.isnan(d)]
        p = 1.0
        if not math.isnan(near):
            top = max([0.01, *distances])
            p = share_above(distances, near)
            if distances and near > top:
                p *= (top / near) ** 4
        both = first - math.log(max(p, 1e-9))
        sums, value = (self.border_only, first) if math.isnan(near) else (self.both, both)
        p = share_above(sums[-500:], value)
        if len(sums) >= 100 and value > max(sums[-500:]):
            p *= math.exp(max(sums[-500:]) - value)
        return 1.0 - max(p, 1e-6), [*scores, both, first]

    def add(self, said: list[float], winner: int, c: int) -> None:
        """Remember what was measured of a reading of a known class."""
        self.both.append(said[2])
        self.border_only.append(said[3])
        if winner == c:
            self.border.setdefault(c, []).append(said[0])
            self.distance.setdefault(c, []).append(said[1])


def share_above(scores: list[float], score: float) -> float:
    return (1 + sum(other >= score for other in scores)) / (1 + len(scores))


def nearest_of_class(x: Array, c: int, stored: list[tuple[Array, int]], inverse: Array) -> float:
    """Return the mean squared deviation to the nearest of up to 256 stored readings of a class."""
    own = [reading for reading, label in stored if label == c]
    best = math.nan
    for reading in own[:: len(own) // 256 + 1]:
        z = (x - reading) * inverse
        shared = ~np.isnan(z) & ((inverse > 0.0) | (not inverse.any()))
        if shared.any():
            value = float(np.sum(z[shared] ** 2) / shared.sum())
            best = value if math.isnan(best) else min(best, value)
    return best


# --- the model -----------------------------------------------------------------------------------


@dataclass
class Unit:
    """A prototype."""

    w: Array
    label: int
    squares: Array
    rate: float
    metric: Metric | None
    usefulness: float = 0.0
    wins: int = 1


@dataclass
class Stored:
    x: Array
    c: int
    margin: float = 1.0
    weight: float = 1.0


class ParkMiller:
    def __init__(self, seed: int) -> None:
        self.state = 1 + seed % 2147483646

    def uniform(self) -> float:
        self.state = self.state * 48271 % 2147483647
        return self.state / 2147483647


class NaiveLVQ:
    """Learns vectors of class numbers that appear in the order 0, 1, 2 ..."""

    def __init__(self, model: Any, d: int) -> None:
        """Take the parameters, and nothing else, from a model."""
        self.rule, self.kind, self.local = MODELS[type(model).__name__]
        self.p = model
        self.d = d
        self.forget = 1.0 if model.half_life is None else 2.0 ** (-1.0 / model.half_life)
        self.sparse = model.absent == "zero"
        self.published = getattr(model, "step", "") == "published"
        if self.rule not in ("glvq", "rslvq", "pairs"):
            self.published = not model.standardize
        self.scales = [self.new_scale() for _ in range(d)]
        self.inverse = np.zeros(d)
        self.class_history: list[list[list[float]]] = []
        self.class_count: list[int] = []
        self.ranges: dict[int, tuple[Array, Array]] = {}
        self.units: list[Unit] = []
        self.buffer: list[Stored] = []
        self.reach = model.buffer_size
        if model.half_life is not None:
            self.reach = min(self.reach, int(model.half_life))
        self.random = ParkMiller(model.seed)
        self.temperature = 1.0 if self.rule == "rslvq" else 2.0
        self.curvature = 0.0
        self.given = self.weight = 1.0  # of the sample that is learnt; the second with its class
        self.start = self.start_at(d)
        self.shared = None if self.kind == EUCLIDEAN or self.local else Metric.new(self.start)

    def new_scale(self) -> Scale:
        floor = 0.0 if self.sparse else self.p.scale_floor
        return Scale(self.forget, floor, sparse=self.sparse, varies=self.published)

    def start_at(self, d: int) -> Array:
        if self.kind == EUCLIDEAN:
            return np.empty((0, d))
        return start_metric(self.kind, getattr(self.p, "rank", None), d, self.p.seed)

    # --- what is derived ---

    @property
    def known(self) -> int:
        return len(self.class_count)

    @property
    def labels(self) -> Array:
        return np.array([u.label for u in self.units])

    def metric_of(self, unit: Unit) -> Metric | None:
        return unit.metric if self.local else self.shared

    def omega_of(self, unit: Unit) -> Array | None:
        metric = self.metric_of(unit)
        return None if metric is None else metric.omega

    def metrics(self) -> list[Metric]:
        """Each of them once, in the order of the prototypes."""
        every = [u.metric for u in self.units] if self.local else [self.shared]
        return list({id(metric): metric for metric in every if metric is not None}.values())

    def difference(self, x: Array, unit: Unit) -> Array:
        return np.asarray((x - unit.w) * self.inverse)

    @property
    def counts(self) -> npt.NDArray[np.bool_]:
        """Features with a share in metrics: those that vary, all before any does."""
        varies = [s.varies for s in self.scales]
        return np.array(varies if any(varies) else [True] * len(varies), bool)

    @property
    def varying(self) -> int:
        return max(1, sum(s.varies for s in self.scales))

    def distances_to(self, x: Array, units: Iterable[Unit]) -> Array:
        varying, counts = self.varying, self.counts
        forms: dict[int, Array] = {}
        found = []
        for u in units:
            metric = self.metric_of(u)
            if id(metric) not in forms:
                forms[id(metric)] = quadratic_form(self.kind, self.omega_of(u), self.d, varying)
            found.append(distance(forms[id(metric)], self.difference(x, u), counts))
        return np.array(found)

    def distances(self, x: Array) -> Array:
        return self.distances_to(x, self.units)

    def scores(self, distances: Array) -> Array:
        sigma = getattr(self.p, "sigma", 1.0)
        return class_scores(self.rule, distances, self.labels, self.known, sigma)

    def predict(self, x: Array) -> Array:
        return softmax(self.temperature * self.scores(self.distances(x)))

    # --- learning ---

    def class_factor(self, c: int) -> float:
        """How much samples of a class count."""
        how = self.p.class_weight
        if isinstance(how, dict):
            return float(how.get(c, 1.0)) if c < self.known else 1.0
        if c >= self.known or how is None or (how == "auto" and self.rule != "glvq"):
            return 1.0
        rarity = sum(self.class_count) / (self.known * max(1, self.class_count[c]))
        if how == "balanced":
            return min(50.0, rarity)
        most = 1.0 + 0.1 * max(1, self.class_count[c]) if self.kind == DIAGONAL else 50.0
        return min(50.0, most, max(1.0, rarity / 3))

    def learn(self, x: Array, c: int, w: float = 1.0) -> None:
        replays = self.p.rehearsal if len(self.buffer) >= 10 else 0
        self.given, self.weight = w, w * self.class_factor(c)
        self.widen_range(x, c)
        self.test_then_teach(x, c)
        self.observe(x)
        self.count(x, c)
        if self.p.rehearsal:
            self.buffer.append(Stored(x.copy(), c, weight=w))
        for _ in range(replays):
            self.rehearse()

    def test_then_teach(self, x: Array, c: int) -> None:
        if c == self.known:
            self.bear(x, c, None)
            return
        distances, labels = self.distances(x), self.labels
        right, wrong = closest(distances, labels == c), closest(distances, labels != c)
        assert right is not None
        error = wrong is not None and bool(distances[wrong] <= distances[right])
        place = self.prototype_slot(c, error)
        if error and wrong is not None and distances[wrong] <= max(distances[right] / 100, 1e-6):
            place = self.contested_slot(c, bool(distances[right] > 1e-6), wrong)
        if wrong is not None:
            step = newton(self.temperature, self.curvature, self.scores(distances), c, self.given)
            self.temperature, self.curvature = step
        self.credit(self.units[wrong if error and wrong is not None else right], not error)
        if place == EVICTED and wrong is not None:
            self.evict(wrong)
        elif place is not None:
            start = x
            if self.sparse:
                seen = np.array([len(history) > 0 for history in self.class_history[c]])
                start = np.where(seen, (x + self.class_moments(c)[0]) / 2, x)
            self.bear(start, c, self.units[right], place)
        else:
            if wrong is not None:
                self.teach(x, c, distances)
            if self.sparse:
                self.follow_mean(x, c, self.units[right])

    def follow_mean(self, x: Array, c: int, u: Unit) -> None:
        """As far as the mean of all readings of the class moves."""
        for i in np.flatnonzero(~np.isnan(x) & ~np.isnan(u.w)):
            ages = np.arange(len(self.class_history[c][i]) + 1)
            u.w[i] += (x[i] - u.w[i]) / (self.forget**ages).sum()

    def prototype_slot(self, c: int, error: bool) -> int | None:
        own = [i for i, u in enumerate(self.units) if u.label == c]
        limit = max(self.p.prototypes_per_class, self.p.max_prototypes_per_class)
        if self.sparse:
            error = error and self.class_count[c] >= 100 * len(own)
        if len(own) < self.p.prototypes_per_class or (error and len(own) < limit):
            return len(self.units)
        if error and self.p.half_life is not None:
            return min(own, key=lambda i: self.units[i].usefulness)
        return None

    def contested_slot(self, c: int, elsewhere: bool, wrong: int) -> int | None:
        """Where one of another class is on the sample: it stays if useful, else it gives way."""
        sizes = [sum(u.label == label for u in self.units) for label in range(self.known)]
        initial, loser = self.p.prototypes_per_class, self.units[wrong]
        if sizes[c] >= initial:
            limit = max(initial, self.p.max_prototypes_per_class)
            if loser.usefulness >= 1:
                return None
            if sizes[loser.label] > initial:
                return wrong if sizes[c] < limit else EVICTED
        return self.prototype_slot(c, elsewhere)

    def evict(self, place: int) -> None:
        """To the most useful other one of the class."""
        label = self.units[place].label
        others = [i for i, u in enumerate(self.units) if u.label == label and i != place]
        best = self.units[max(others, key=lambda i: self.units[i].usefulness)]
        self.bear(best.w, label, best, place)

    def credit(self, winner: Unit, correct: bool) -> None:
        if self.p.half_life is not None:
            for u in self.units:
                u.usefulness *= self.forget
        winner.usefulness = min(20.0, winner.usefulness + (1.0 if correct else -1.0))
        winner.wins += int(correct)

    def new_metric(self) -> Metric:
        """The metric of a new class."""
        metric = Metric.new(self.start)
        metric.restrict(self.start, self.scales, self.p.standardize)
        return metric

    def bear(self, x: Array, c: int, parent: Unit | None, place: int | None = None) -> None:
        place = len(self.units) if place is None else place
        metric = None
        if self.local:
            metric = self.new_metric()
            if parent is not None and parent.metric is not None:
                replaced = place < len(self.units) and self.units[place] is parent
                metric = parent.metric if replaced else Metric.new(parent.metric.omega)
        child = Unit(x.copy(), c, np.zeros(self.d), self.p.learning_rate, metric)
        self.units[place : place + 1] = [child]
        if c == self.known:
            self.class_count.append(0)
            self.class_history.append([[] for _ in range(self.d)])

    def teach(self, x: Array, c: int, distances: Array) -> None:
        labels = self.labels
        right, wrong = closest(distances, labels == c), closest(distances, labels != c)
        assert right is not None and wrong is not None
        unknown = np.isnan(self.units[right].w)
        self.units[right].w[unknown] = x[unknown]
        if self.rule == "glvq":
            steepness = self.p.slope if self.p.activation == "sigmoid" else 0.0
            taught = [right, wrong] if distances[right] + distances[wrong] > 0 else []
            self.descend(x, self.weight * glvq_slopes(distances, labels, c, steepness), taught)
            if self.keeps_ranges:
                for j in taught:
                    low, high = self.ranges[self.units[j].label]
                    w = self.units[j].w
                    w[w < low] = low[w < low]
                    w[w > high] = high[w > high]
        elif self.rule == "rslvq":
            slopes = rslvq_slopes(distances, labels, c, self.p.sigma)
            least = 0.0 if self.published else 1e-6
            taught = np.flatnonzero(np.abs(slopes) * 2 * self.p.sigma > least).tolist()
            self.descend(x, self.weight * slopes, taught)
        elif self.rule in ("lvq1", "olvq1"):
            self.kohonen_first(
                x, self.units[right], self.units[wrong], distances[right], distances[wrong]
            )
        else:
            self.kohonen_second(x, c, distances)

    def gradients(self, x: Array, u: Unit) -> tuple[Array, Array | None]:
        z = self.difference(x, u)
        by_prototype, by_metric = distance_gradients(self.kind, self.omega_of(u), z, self.counts)
        if self.published and self.kind == DIAGONAL:  # by the relevances, not by their roots
            lam = quadratic_form(self.kind, self.omega_of(u), self.d)
            factor = make_up(lam, ~np.isnan(z), self.counts) or 0.0
            by_metric = factor * np.nan_to_num(z)[None] ** 2
        return by_prototype, by_metric

    def descend(self, x: Array, slopes: Array, taught: list[int]) -> None:
        """All gradients are taken first, then everything moves."""
        gradients = {j: self.gradients(x, u) for j, u in enumerate(self.units) if j in taught}
        collected: dict[int, tuple[Metric, Array]] = {}
        if self.shared is not None and (taught or self.rule == "rslvq"):
            collected[id(self.shared)] = (self.shared, np.zeros_like(self.shared.omega))
        for j in taught:
            by_prototype, by_metric = gradients[j]
            metric = self.metric_of(self.units[j])
            if metric is not None and by_metric is not None:
                before = collected.get(id(metric), (metric, np.zeros_like(metric.omega)))[1]
                collected[id(metric)] = (metric, before + slopes[j] * by_metric)
            self.move_prototype(x, self.units[j], slopes[j], by_prototype)
        for metric, gradient in collected.values():
            if self.p.step == "constant":
                metric.constant(gradient, self.p.metric_learning_rate)
            elif self.published:
                metric.published(gradient, self.p.metric_learning_rate, self.kind)
            else:
                decay = self.p.step_decay * self.forget
                metric.adagrad(gradient, self.p.metric_learning_rate, decay, self.varying)
            if not self.p.standardize and not self.published:
                metric.restrict(self.start, self.scales, standardize=False)

    def move_prototype(self, x: Array, u: Unit, slope: float, by_prototype: Array) -> None:
        inverse = self.inverse
        moves = (inverse > 0) & ~np.isnan(x - u.w)
        if self.p.step == "constant":
            rows = min(self.start.shape[0], self.varying) if self.kind == MATRIX else self.varying
            lam = quadratic_form(self.kind, self.omega_of(u), self.d, self.varying)
            factor = make_up(lam, ~np.isnan(x - u.w), self.counts) or 0.0
            # The clip counts the factor for missing features as part of the slope.
            plain = by_prototype / factor if factor > 0 else by_prototype
            step = constant_prototype_step(plain, slope * factor, self.p.learning_rate, rows)
        elif self.published:
            step = -self.p.learning_rate * slope * by_prototype
        else:
            gradient = slope * by_prototype
            decay = self.p.step_decay * self.forget
            u.squares[moves] = decay * u.squares[moves] + gradient[moves] ** 2
            step = -self.p.learning_rate * gradient / (np.sqrt(u.squares) + TINY)
        if self.published or self.p.step == "constant":
            with np.errstate(all="ignore"):
                moves &= np.abs(u.w + step / inverse) <= LARGEST_VALUE  # where readings can be
        u.w[moves] += step[moves] / inverse[moves]

    def attract(self, x: Array, u: Unit, rate: float) -> None:
        moves = ~np.isnan(x - u.w)
        u.w[moves] += rate * (x[moves] - u.w[moves])

    def kohonen_first(self, x: Array, right: Unit, wrong: Unit, near: float, other: float) -> None:
        winner, sign = (right, 1.0) if near <= other else (wrong, -1.0)
        if self.rule == "olvq1":
            winner.rate = min(self.p.learning_rate, winner.rate / (1.0 + sign * winner.rate))
            self.attract(x, winner, sign * min(1.0, self.weight * winner.rate))
        else:
            self.attract(x, winner, sign * min(1.0, self.weight * self.p.learning_rate))

    def kohonen_second(self, x: Array, c: int, distances: Array) -> None:
        first, second = np.argsort(distances, kind="stable")[:2]
        pair = [self.units[first], self.units[second]]
        correct = [u.label == c for u in pair]
        rate = min(1.0, self.weight * self.p.learning_rate)
        if all(correct) and self.rule == "lvq3":
            for u in pair:
                self.attract(x, u, self.p.epsilon * rate)
        ratio = math.sqrt(distances[first]) - math.sqrt(distances[second]) * (
            (1 - self.p.window) / (1 + self.p.window)
        )
        if sum(correct) == 1 and ratio >= 0:
            for u, is_right in zip(pair, correct, strict=True):
                self.attract(x, u, rate if is_right else -rate)

    def observe(self, x: Array) -> None:
        for scale, value in zip(self.scales, x, strict=True):
            if not np.isnan(value):
                scale.observe(float(value))
        self.update_varying()
        learns = self.kind != EUCLIDEAN
        self.inverse = np.array([s.inverse(self.p.standardize, learns) for s in self.scales])

    def update_varying(self) -> None:
        """Features that start to vary get their share in all metrics, others lose it."""
        if self.published or all(s.has_spread() == s.varies for s in self.scales):
            return
        for metric in self.metrics():
            metric.admit(self.start, self.scales)
        before = np.array([s.varies for s in self.scales], bool)
        for u in self.units:
            usual = u.squares[before].sum() / max(1, int(before.sum()))
            for i, s in enumerate(self.scales):
                if s.has_spread() and not s.varies and s.late():
                    part = 1.0 if self.kind == EUCLIDEAN else s.late_root(STILL_WEIGHT) ** 4
                    u.squares[i] = max(u.squares[i], part * usual)
        for s in self.scales:
            s.varies = s.has_spread()
        for metric in self.metrics():
            metric.restrict(self.start, self.scales, self.p.standardize)

    def count(self, x: Array, c: int) -> None:
        self.class_count[c] += 1
        for history, value in zip(self.class_history[c], x, strict=True):
            if not np.isnan(value):
                history.append(float(value))

    @property
    def keeps_ranges(self) -> bool:
        return self.rule == "glvq" and self.kind != EUCLIDEAN and not self.published

    def widen_range(self, x: Array, c: int) -> None:
        """Smallest and largest reading of a class, feature by feature; NaN before there is any."""
        low, high = self.ranges.get(c, (np.full(self.d, np.nan), np.full(self.d, np.nan)))
        self.ranges[c] = (np.fmin(low, x), np.fmax(high, x))

    def class_moments(self, c: int) -> Array:
        """Mean and variance of every feature of a class; zeros while nothing is known."""
        rows = [
            weighted_moments(h, self.forget) if h else (0.0, 0.0) for h in self.class_history[c]
        ]
        return np.array(rows).T

    def pick_rehearsed(self) -> Stored:
        """Of two draws that favour recent samples the one with the larger margin."""
        recent = self.buffer[::-1][: self.reach]
        drawn = []
        for _ in range(2):
            age = int(len(recent) ** math.sqrt(self.random.uniform())) - 1
            drawn.append(recent[min(max(age, 0), len(recent) - 1)])
        return drawn[1] if drawn[1].margin > drawn[0].margin else drawn[0]

    def rehearse(self) -> None:
        stored = self.pick_rehearsed()
        distances, labels = self.distances(stored.x), self.labels
        right, wrong = (
            closest(distances, labels == stored.c),
            closest(distances, labels != stored.c),
        )
        if wrong is None:
            stored.margin = -1.0
            return
        near, other = distances[right], distances[wrong]
        stored.margin = (near - other) / (near + other) if near + other > 0 else 0.0
        self.weight = stored.weight * self.class_factor(stored.c)
        self.teach(stored.x, stored.c, distances)

    # --- features that appear ---

    def widen(self, count: int) -> None:
        """New features: prototypes do not know them, metrics start with their fair share."""
        old_rows, old_d = self.start.shape
        self.d += count
        self.scales += [self.new_scale() for _ in range(count)]
        self.inverse = np.append(self.inverse, np.zeros(count))
        self.start = self.start_at(self.d)
        for u in self.units:
            u.w = np.append(u.w, np.full(count, np.nan))
            u.squares = np.append(u.squares, np.zeros(count))
        for s in self.buffer:
            s.x = np.append(s.x, np.full(count, np.nan))
        new = np.full(count, np.nan)
        for c, (low, high) in self.ranges.items():
            self.ranges[c] = (np.append(low, new), np.append(high, new))
        for histories in self.class_history:
            histories += [[] for _ in range(count)]
        for metric in self.metrics():
            self.widen_metric(metric, old_rows, old_d)

    def widen_metric(self, metric: Metric, old_rows: int, old_d: int) -> None:
        block = (slice(old_rows), slice(old_d))
        omega = np.zeros_like(self.start)
        omega[block] = metric.omega
        metric.omega = omega
        metric.restrict(self.start, self.scales, self.p.standardize)
        metric.rows = np.append(metric.rows, np.zeros(omega.shape[0] - old_rows))
        metric.columns = np.append(metric.columns, np.zeros(omega.shape[1] - old_d))


class NaivePairs(NaiveLVQ):
    """A GMLVQ with two prototypes for every pair of classes l < m.

    `units` holds those of the pairs (0, 1), (0, 2), (1, 2), (0, 3) ... one after the other; the two
    of a pair have the same `Metric`.
    """

    def __init__(self, model: Any, d: int) -> None:
        super().__init__(model, d)
        self.temperature = 1.0
        self.sigmoids: dict[tuple[int, int], Platt] = {}
        self.paired = 0  # classes that have their pairs

    @property
    def known(self) -> int:
        return self.paired

    def places(self, low: int, high: int) -> list[int]:
        """Where the prototypes of a pair are."""
        k = 2 * list(self.sigmoids).index((low, high))
        return [k, k + 1]

    def pairs_of(self, c: int) -> list[tuple[int, int]]:
        return [pair for pair in self.sigmoids if c in pair]

    # --- what is derived ---

    def pair_distances(self, x: Array, low: int, high: int) -> Array:
        return self.distances_to(x, (self.units[k] for k in self.places(low, high)))

    def pair_score(self, x: Array, low: int, high: int) -> float:
        """Signed relative similarity: 1 on the prototype of `low`, -1 on that of `high`."""
        mine, other = self.pair_distances(x, low, high)
        return float((other - mine) / (other + mine)) if other + mine > 0 else 0.0

    def class_scores(self, x: Array) -> Array:
        r = np.zeros((self.known, self.known))
        for (low, high), sigmoid in self.sigmoids.items():
            s = sigmoid.exponent(self.pair_score(x, low, high))
            r[low, high], r[high, low] = 1.0 / (1.0 + math.exp(s)), 1.0 / (1.0 + math.exp(-s))
        return np.log(couple(r, self.p.coupling, self.class_count[: self.known]) + TINY)

    def predict(self, x: Array) -> Array:
        return softmax(self.temperature * self.class_scores(x)) if self.known > 1 else np.ones(1)

    # --- learning ---

    def learn(self, x: Array, c: int, w: float = 1.0) -> None:
        self.given, self.weight = w, w * self.class_factor(c)
        if c < self.known:
            self.calibrate(x, c)
            self.teach_new(x, c, self.class_count[c])
        else:
            self.pair_up(x, c)
        self.observe(x)
        self.count(x, c)
        self.store(x, c, w)
        for _ in range(self.p.rehearsal if len(self.buffer) >= 10 else 0):
            self.rehearse()

    def rehearse(self) -> None:
        """Only the first of the pairs that a sample is worst off in has something to learn."""
        stored = self.pick_rehearsed()
        pairs = self.pairs_of(stored.c)
        sides = [self.side(stored.x, stored.c, pair) for pair in pairs]
        stored.margin = max([-1.0, *(-side for side in sides)])
        self.weight = stored.weight * self.class_factor(stored.c)
        if stored.margin > -0.4:
            self.teach_pair(stored.x, stored.c, pairs[int(np.argmin(sides))])

    def store(self, x: Array, c: int, w: float = 1.0) -> None:
        if self.p.rehearsal:
            self.buffer.append(Stored(x.copy(), c, weight=w))

    def count(self, x: Array, c: int) -> None:
        while len(self.class_count) <= c:
            self.class_count.append(0)
            self.class_history.append([[] for _ in range(self.d)])
        super().count(x, c)

    def pair_up(self, x: Array, c: int) -> None:
        """A new class starts at its first sample, the others start anew at their means."""
        for other in range(c):
            unseen = [not history for history in self.class_history[other]]
            mean = np.where(unseen, np.nan, self.class_moments(other)[0])
            metric = self.new_metric()
            for w, label in ((mean, other), (x.copy(), c)):
                self.units.append(Unit(w, label, np.zeros(self.d), 0.0, metric))
            self.sigmoids[other, c] = Platt()
        self.paired = c + 1

    def calibrate(self, x: Array, c: int, decay: float = 0.98) -> None:
        """Before the sample is learnt."""
        if self.known < 2:
            return
        self.temperature, self.curvature = newton(
            self.temperature, self.curvature, self.class_scores(x), c, self.given, decay
        )
        for low, high in self.pairs_of(c):
            self.sigmoids[low, high].fit(self.pair_score(x, low, high), c == low, self.weight)

    def teach_new(self, x: Array, c: int, seen: int) -> None:
        """Young prototypes follow the mean of their class; what counts is who was right before."""
        for low, high in self.pairs_of(c):
            right = self.units[self.places(low, high)[c == high]]
            right.wins += int(self.side(x, c, (low, high)) > 0)
            self.teach_pair(x, c, (low, high), seen)

    def side(self, x: Array, c: int, pair: tuple[int, int]) -> float:
        """The score of a pair as class c sees it: positive on the right side."""
        return self.pair_score(x, *pair) * (1 if c == pair[0] else -1)

    def teach_pair(self, x: Array, c: int, pair: tuple[int, int], seen: int = 10) -> None:
        """A sample that is far enough on the right side has nothing to teach but new features."""
        places, distances = self.places(*pair), self.pair_distances(x, *pair)
        side = self.side(x, c, pair)
        right = self.units[places[c == pair[1]]]
        right.w = np.where(np.isnan(right.w), x, right.w)
        if seen < 10 and not self.published:
            moves = ~np.isnan(x - right.w)
            right.w[moves] += (x - right.w)[moves] / (seen + 1)
        if (side < 0.9 or self.published) and distances.sum() > 0:
            steepness = self.p.slope if self.p.activation == "sigmoid" else 0.0
            slopes = np.zeros(len(self.units))
            slopes[places] = self.weight * glvq_slopes(distances, np.array(pair), c, steepness)
            self.descend(x, slopes, places)

    # --- recorded training sets ---

    def train(self, X: Array, y: list[int], epochs: int, seed: int) -> None:
        """Epochs over samples whose scales and class means are known; a tenth is kept back."""
        random = np.random.default_rng(seed)
        for x, c in zip(X, y, strict=True):
            self.observe(x)
            self.count(x, c)
        order = random.permutation(len(X)).tolist()
        held = order[: len(X) // 10] if len(X) >= 50 and epochs > 1 else []
        kept = order[len(held) :]
        for c in range(self.known, max(y) + 1):
            random.permutation(y.count(c))  # where k-means starts; one centre is the mean anyway
            centre = np.nanmean(X[np.array(y) == c], axis=0)
            self.pair_up(centre, c)
            self.store(centre, c)
        given = self.p
        for epoch in range(epochs):
            last = epoch == epochs - 1
            for k in held * 5 if last else []:
                self.calibrate(X[k], y[k], decay=0.999)
            rates = ("learning_rate", "metric_learning_rate")
            share = 1 - epoch / epochs
            self.p = given.clone({rate: share * getattr(given, rate) for rate in rates})
            for k in random.permutation(kept + held if last else kept).tolist():
                if epoch == 0 and not held:
                    self.calibrate(X[k], y[k], decay=0.999)
                self.teach_new(X[k], y[k], seen=10)
                self.store(X[k], y[k])
        self.p = given


def oracle_of(model: Any, d: int) -> NaiveLVQ:
    return (NaivePairs if MODELS[type(model).__name__][0] == "pairs" else NaiveLVQ)(model, d)


# --- metrics -------------------------------------------------------------------------------------


def accuracy_reject_points(
    certainty: Array, right: Array, weight: Array
) -> list[tuple[float, float, float]]:
    """Reject rate, accuracy of the kept and threshold, for every certainty that occurs."""
    points = [(1.0, 1.0, math.inf)]
    kept = kept_right = 0.0
    for c, r, w in sorted(zip(certainty, right, weight, strict=True), reverse=True):
        kept += w
        kept_right += w * r
        if points[-1][2] == c:  # those of equal certainty are kept together
            points.pop()
        points.append((1.0 - kept / weight.sum(), kept_right / kept, c))
    return points[::-1]


def accuracy_reject_area(certainty: Array, right: Array, weight: Array) -> float:
    points = accuracy_reject_points(certainty, right, weight)
    return sum(
        (rate - last_rate) * (accuracy + last_accuracy) / 2
        for (last_rate, last_accuracy, _), (rate, accuracy, _) in itertools.pairwise(points)
    )


def calibration_error(confidence: Array, right: Array, weight: Array, bins: int) -> float:
    error = 0.0
    for k in range(bins):
        inside = (confidence * bins >= k) & ((confidence * bins < k + 1) | (k == bins - 1))
        if inside.any():
            w = weight[inside]
            gap = (w @ right[inside] - w @ confidence[inside]) / w.sum()
            error += abs(gap) * w.sum() / weight.sum()
    return error


# --- fusion --------------------------------------------------------------------------------------


@dataclass
class Node:
    """What a node brings to a fusion, by class; numbers are lists over the features."""

    counts: dict[Any, float]
    means: dict[Any, list[float]]
    variances: dict[Any, list[float]]
    prototypes: dict[Any, list[float]]  # one for each class


def weighted_mean(values: list[list[float]], weights: list[float]) -> list[float]:
    """The mean of vectors, coordinate by coordinate."""
    total = sum(weights)
    return [
        sum(w * v[i] for v, w in zip(values, weights, strict=True)) / total
        for i in range(len(values[0]))
    ]


def fused_prototypes(nodes: list[Node], by_counts: bool) -> dict[Any, list[float]]:
    """FED, or wFED if `by_counts`: the mean of each class over the nodes that have it."""
    fused = {}
    for label in {label for node in nodes for label in node.prototypes}:
        holders = [node for node in nodes if label in node.prototypes]
        weights = [node.counts[label] if by_counts else 1.0 for node in holders]
        fused[label] = weighted_mean([node.prototypes[label] for node in holders], weights)
    return fused


def pooled(readings: list[list[float]]) -> tuple[list[int], list[float], list[float]]:
    """Count, mean and variance of each feature over readings; NaN is missing."""
    counts, means, variances = [], [], []
    for i in range(len(readings[0])):
        column = [x[i] for x in readings if not math.isnan(x[i])]
        mean = sum(column) / len(column) if column else 0.0
        counts.append(len(column))
        means.append(mean)
        variances.append(sum((v - mean) ** 2 for v in column) / max(len(column), 1))
    return counts, means, variances


def worth_of_mean(count: float, enough: float, spread: float) -> float:
    """One over the variance of a class mean, if nodes differ a little however much they saw."""
    return 1.0 / (spread * (1.0 / count + 1.0 / enough)) if count > 0 else 0.0


def tree_shifts(
    means: list[dict[Any, float]], worth: list[dict[Any, float]], edges: list[tuple[int, int]]
) -> list[float]:
    """Shifts of nodes in one feature along the edges (parent, child) of a tree, with mean zero."""
    shift = [0.0] * len(means)
    for parent, child in edges:
        shared = set(means[parent]) & set(means[child])
        weights = {k: 1.0 / (1.0 / worth[parent][k] + 1.0 / worth[child][k]) for k in shared}
        apart = sum(weights[k] * (means[child][k] - means[parent][k]) for k in shared)
        shift[child] = shift[parent] + apart / sum(weights.values())
    middle = sum(shift) / len(shift)
    return [v - middle for v in shift]


def least_squares_shifts(
    means: list[dict[Any, float]], worth: list[dict[Any, float]]
) -> list[float]:
    """The same by least squares: an equation for each class mean, an unknown for each node and
    class, solved as one dense system."""
    labels = sorted({label for node in means for label in node})
    rows, right = [], []
    for i, node in enumerate(means):
        for label, mean in node.items():
            row = [0.0] * (len(means) + len(labels))
            row[i] = row[len(means) + labels.index(label)] = 1.0
            root = math.sqrt(worth[i][label])
            rows.append([root * each for each in row])
            right.append(root * mean)
    solution = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0].tolist()
    shift = solution[: len(means)]
    middle = sum(shift) / len(shift)
    return [v - middle for v in shift]


def capped_weights(weights: list[float], byzantine: int, most: float) -> list[float]:
    """Cut to the highest level at which the largest `byzantine` have at most a share `most`."""
    ordered = sorted(weights, reverse=True)
    if sum(ordered[:byzantine]) <= most * sum(ordered) * (1 + 1e-12):
        return weights
    for cut in range(1, len(ordered) + 1):  # how many are cut
        # top = a level + b, total = cut level + rest, and top = most total
        a, b = min(cut, byzantine), sum(ordered[cut:byzantine])
        rest = sum(ordered[cut:])
        slope = a - most * cut
        if slope <= 0:
            continue
        level = (most * rest - b) / slope
        below = ordered[cut] if cut < len(ordered) else 0.0
        if below <= level <= ordered[cut - 1]:
            return [min(w, level) for w in weights]
    return [min(weights)] * len(weights)


def weighted_median(values: list[float], weights: list[float]) -> float:
    """The middle; the mean of two if half of the weight ends between them."""
    half, below = sum(weights) / 2, 0.0
    middle = []
    for value, weight in sorted(zip(values, weights, strict=True)):
        if weight > 0 and below <= half * (1 + 1e-9) and below + weight >= half * (1 - 1e-9):
            middle.append(value)
        below += weight
    return sum(middle) / len(middle)


def trimmed_mean(values: list[float], weights: list[float], share: float) -> float:
    """The mean without that share of the weight at either end."""
    low, high = share * sum(weights), (1 - share) * sum(weights)
    below = total = kept = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        part = max(0.0, min(below + weight, high) - max(below, low))
        total, kept = total + part * value, kept + part
        below += weight
    return total / kept


def components(held: list[set[Any]]) -> list[set[int]]:
    """Nodes that are connected by the classes that they hold; of those that hold any."""
    groups: list[set[int]] = []
    for i, classes in enumerate(held):
        if classes:
            touched = [group for group in groups if any(held[j] & classes for j in group)]
            groups = [group for group in groups if group not in touched]
            groups.append({i}.union(*touched))
    return sorted(groups, key=min)
