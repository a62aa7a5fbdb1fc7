"""Plain Python oracles of the window forest and of naive Bayes on bins, slow and without indices.

They follow `streamlvq/kernels/forest.py` and `streamlvq/kernels/bins.py` in what is drawn at random
and in which order, and in nothing else: nodes are objects, cuts are found by trying each.
"""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass, field

MODULUS, MULTIPLIER = 2147483647, 48271


class Sharpening:
    """Exponent of probabilities, fitted by Newton steps on its logarithm."""

    def __init__(self) -> None:
        self.logarithm = self.curvature = 0.0

    def chances(self, score: list[float]) -> list[float]:
        exponent, top = math.exp(self.logarithm), max(score)
        p = [max(1e-9, math.exp(exponent * (s - top))) for s in score]
        return [each / sum(p) for each in p]

    def log_loss(self, score: list[float], code: int, logarithm: float) -> float:
        exponent, top = math.exp(logarithm), max(score)
        return -exponent * (score[code] - top) + math.log(
            sum(math.exp(exponent * (s - top)) for s in score)
        )

    def fit(self, score: list[float], code: int, weight: float) -> None:
        p, exponent = self.chances(score), math.exp(self.logarithm)
        mean = sum(a * b for a, b in zip(p, score, strict=True))
        spread = max(0.0, sum(a * b * b for a, b in zip(p, score, strict=True)) - mean**2)
        self.curvature = 0.995 * self.curvature + weight * exponent**2 * spread
        step = weight * exponent * (score[code] - mean) / (self.curvature + 1.0)
        self.logarithm = min(7.0, max(-7.0, self.logarithm + min(0.5, max(-0.5, step))))


# --- forest --------------------------------------------------------------------------------------


@dataclass
class Node:
    """A leaf, until it has a cut and children."""

    samples: list[int]
    depth: int
    feature: int = 0
    cut: float = 0.0
    gap_side: int = 0
    children: list[Node] = field(default_factory=list)
    counts: dict[int, float] = field(default_factory=dict)

    def side(self, x: list[float]) -> int:
        value = x[self.feature]
        return self.gap_side if math.isnan(value) else int(value > self.cut)

    def leaf(self, x: list[float]) -> Node:
        return self.children[self.side(x)].leaf(x) if self.children else self


def purity(weights: list[float]) -> float:
    return sum(w * w for w in weights) / sum(weights)


class NaiveForest:
    """What `WindowForest` does."""

    def __init__(self, model: object, features: int) -> None:
        self.p = model
        self.state = 1 + model.seed % (MODULUS - 1)
        self.d = features
        self.window: list[tuple[list[float], int, float]] = []  # as a ring: the place counts
        self.trees: list[Node] = []
        self.samples = self.oldest = self.known = self.countdown = 0
        self.sharpening = Sharpening()

    def unit(self) -> float:
        self.state = self.state * MULTIPLIER % MODULUS
        return self.state / MODULUS

    def score(self, x: list[float]) -> list[float]:
        if not self.trees:
            return [0.0] * self.known
        score = [0.0] * self.known
        for tree in self.trees:
            counts = tree.leaf(x).counts
            total = sum(counts.values()) + 0.3
            for c in range(self.known):
                score[c] += (counts.get(c, 0.0) + 0.3 / self.known) / total
        return [math.log(s / len(self.trees)) for s in score]

    def predict(self, x: list[float]) -> list[float]:
        return self.sharpening.chances(self.score(x))

    def learn(self, x: list[float], c: int, w: float = 1.0) -> None:
        if c == self.known:
            self.known += 1
        else:
            self.sharpening.fit(self.score(x), c, w)
        for tree in self.trees:
            counts = tree.leaf(x).counts
            counts[c] = counts.get(c, 0.0) + w
        place = self.samples % self.p.longest_window
        self.window[place : place + 1] = [(list(x), c, w)]
        self.samples += 1
        self.countdown -= 1
        if self.countdown <= 0:
            self.regrow()

    def regrow(self) -> None:
        self.trees[self.oldest : self.oldest + 1] = [self.grow()]
        self.oldest = (self.oldest + 1) % self.p.trees
        self.countdown = max(1, min(self.p.regrow_every, self.samples // self.p.trees))

    def grow(self) -> Node:
        stored = len(self.window)
        shortest = min(stored, self.p.shortest_window)
        n = shortest + int(self.unit() * (stored - shortest + 1))
        last = [(self.samples - 1 - k) % self.p.longest_window for k in range(n)]
        root = Node([last[int(self.unit() * n)] for _ in range(n)], 0)
        shuffled, nodes = list(range(self.d)), [root]
        for node in nodes:  # grows meanwhile
            full = len(nodes) + 2 > 2 * self.p.max_leaves - 1
            if not full and len(node.samples) >= 2 * self.p.min_leaf:
                self.split(node, shuffled)
                nodes += node.children
        for k in last:
            x, c, w = self.window[k]
            counts = root.leaf(x).counts
            counts[c] = counts.get(c, 0.0) + w
        return root

    def class_weights(self, samples: list[int]) -> list[float]:
        weights = [0.0] * self.known
        for k in samples:
            weights[self.window[k][1]] += self.window[k][2]
        return weights

    def split(self, node: Node, shuffled: list[int]) -> None:
        whole = self.class_weights(node.samples)
        total = sum(whole)
        if node.depth >= self.p.max_depth or not purity(whole) < total * (1.0 - 1e-9):
            return
        best, usable = purity(whole) + 1e-9 * total, 0
        for k in range(self.d):
            if usable == max(1, round(math.sqrt(self.d))):
                break
            other = k + int(self.unit() * (self.d - k))
            shuffled[k], shuffled[other] = shuffled[other], shuffled[k]
            feature = shuffled[k]
            cuts = self.cuts(node, feature)
            usable += bool(cuts)
            values = {s: self.window[s][0][feature] for s in node.samples}
            gaps = [s for s in node.samples if math.isnan(values[s])]
            for cut in cuts:
                sides = [
                    [s for s in node.samples if values[s] <= cut],
                    [s for s in node.samples if values[s] > cut],
                ]
                if min(map(len, sides)) < self.p.min_leaf:
                    continue
                first, second = (
                    purity(self.class_weights(sides[0] + gaps * (side == 0)))
                    + purity(self.class_weights(sides[1] + gaps * (side == 1)))
                    for side in (0, 1)
                )
                weights = [sum(self.class_weights(side)) for side in sides]
                gap_side = 0 if first > second else 1
                if first == second and weights[0] >= weights[1]:
                    gap_side = 0
                if max(first, second) > best:
                    best = max(first, second)
                    node.feature, node.cut, node.gap_side = feature, cut, gap_side
                    node.children = [Node([], node.depth + 1), Node([], node.depth + 1)]
        if node.children:
            for s in node.samples:
                node.children[node.side(self.window[s][0])].samples.append(s)

    def cuts(self, node: Node, feature: int) -> list[float]:
        samples = node.samples
        if len(samples) > 8:
            samples = [samples[int(self.unit() * len(samples))] for _ in range(8)]
        values = sorted({v for s in samples if not math.isnan(v := self.window[s][0][feature])})
        middles = [(a, 0.5 * (a + b), b) for a, b in itertools.pairwise(values)]
        return [middle if middle < b else a for a, middle, b in middles]


# --- bins ----------------------------------------------------------------------------------------


@dataclass
class Bin:
    """A range of values with its class weights."""

    low: float
    high: float
    counts: list[float]
    mass: float


class NaiveBins:
    """What `BinnedNaiveBayes` does, with weights that fall instead of samples that grow."""

    def __init__(self, model: object, features: int) -> None:
        self.most = model.bins
        self.kept = 1.0 if model.half_life is None else 0.5 ** (1.0 / model.half_life)
        self.features: list[list[Bin]] = [[] for _ in range(features)]
        self.present: list[list[float]] = [[] for _ in range(features)]
        self.prior: list[float] = []
        self.sharpening = Sharpening()

    def place(self, bins: list[Bin], value: float) -> int:
        place = bisect.bisect_left([b.high for b in bins], value)
        if place == len(bins):
            return place - 1
        if place and value - bins[place - 1].high < bins[place].low - value:
            return place - 1
        return place

    def score(self, x: list[float]) -> list[float]:
        known = len(self.prior)
        score = [math.log((p + 1.0) / (sum(self.prior) + known)) for p in self.prior]
        for value, bins, present in zip(x, self.features, self.present, strict=True):
            if math.isnan(value) or not bins:
                continue
            chosen = bins[self.place(bins, value)]
            share = 3.0 * max(1e-6, chosen.mass / sum(present))
            for c in range(known):
                score[c] += math.log((chosen.counts[c] + share) / (present[c] + 3.0))
        return score

    def predict(self, x: list[float]) -> list[float]:
        return self.sharpening.chances(self.score(x))

    def learn(self, x: list[float], c: int, w: float = 1.0) -> None:
        if c == len(self.prior):
            self.prior.append(0.0)
            for bins, present in zip(self.features, self.present, strict=True):
                present.append(0.0)
                for each in bins:
                    each.counts.append(0.0)
        else:
            self.sharpening.fit(self.score(x), c, w)
        self.prior = [p * self.kept for p in self.prior]
        self.present = [[p * self.kept for p in present] for present in self.present]
        for bins in self.features:
            for each in bins:
                each.mass *= self.kept
                each.counts = [n * self.kept for n in each.counts]
        self.prior[c] += w
        for i, value in enumerate(x):
            if not math.isnan(value):
                self.count(self.features[i], self.present[i], value, c, w)

    def count(self, bins: list[Bin], present: list[float], value: float, c: int, w: float) -> None:
        place = bisect.bisect_left([b.high for b in bins], value)
        if place == len(bins) or bins[place].low > value:
            if len(bins) < self.most:
                bins.insert(place, Bin(value, value, [0.0] * len(self.prior), 0.0))
            else:
                place = self.place(bins, value)
                bins[place].low = min(bins[place].low, value)
                bins[place].high = max(bins[place].high, value)
        chosen = bins[place]
        chosen.mass += w
        chosen.counts[c] += w
        present[c] += w
        heavy = chosen.mass >= 4.0 and chosen.mass * self.most > 2.0 * sum(present)
        if heavy and chosen.low < chosen.high:
            self.split(bins, chosen, value)

    def split(self, bins: list[Bin], chosen: Bin, value: float) -> None:
        if len(bins) == self.most:
            pairs = [one.mass + other.mass for one, other in itertools.pairwise(bins)]
            first = pairs.index(min(pairs))
            one, other = bins[first], bins.pop(first + 1)
            merged_counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
            one.high, one.mass, one.counts = other.high, one.mass + other.mass, merged_counts
            chosen = one if chosen is other else chosen
        place = next(k for k, each in enumerate(bins) if each is chosen)
        cut = value if chosen.low <= value < chosen.high else 0.5 * (chosen.low + chosen.high)
        half = [n / 2 for n in chosen.counts]
        bins.insert(place + 1, Bin(cut, chosen.high, list(half), chosen.mass / 2))
        chosen.high, chosen.mass, chosen.counts = cut, chosen.mass / 2, half
