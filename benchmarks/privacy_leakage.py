"""What GLVQ without privacy reveals of single readings: sections 3.3.1 to 3.3.3 of the thesis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from common import Table, progress, verdict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OUTLIERS = {  # distance from the class: published shift and p value
    10.0: (0.1119, 5.6776e-25),
    5.0: (0.0843, 2.2345e-16),
    2.0: (0.0368, 4.4007e-4),
}
PER_CLASS = 50
XOR_CORNERS = ((-10.0, 10.0), (10.0, -10.0), (10.0, 10.0), (-10.0, -10.0))
XOR_CLASSES = (0, 0, 1, 1)
XOR_PER_CORNER, XOR_MORE = 300, 10


def glvq(X: Floats, y: Ints, w: Floats, owners: Ints, epochs: int, rate: float) -> Floats:
    """Return prototypes after steps along the gradient of the mean of `(d+ - d-) / (d+ + d-)`."""
    w = w.copy()
    mine = y[:, None] == owners[None]
    rows = np.arange(len(X))
    for _ in range(epochs):
        distances = ((X[:, None] - w[None]) ** 2).sum(axis=2)
        right = np.where(mine, distances, np.inf).argmin(axis=1)
        wrong = np.where(mine, np.inf, distances).argmin(axis=1)
        near, far = distances[rows, right], distances[rows, wrong]
        both = (near + far) ** 2
        step = np.zeros_like(w)
        np.add.at(step, right, (4 * far / both)[:, None] * (X - w[right]))
        np.add.at(step, wrong, (-4 * near / both)[:, None] * (X - w[wrong]))
        w += rate * step / len(X)
    return w


def class_means(X: Floats, y: Ints) -> Floats:
    return np.array([X[y == k].mean(axis=0) for k in np.unique(y)])


def leakage(seeds: int = 400, epochs: int = 300) -> Iterator[Table]:
    """Shifts by an outlier, the choice of a corner by ten readings, a reading from two means."""
    yield outliers(seeds, epochs)
    yield corners(seeds, epochs // 10)
    yield means(seeds)


def outliers(seeds: int, epochs: int) -> Table:
    """Place of a prototype with and without one reading beside its class of 50."""
    table = Table(
        f"One outlier among {PER_CLASS} readings of a class, {seeds} pairs of logs",
        ["outlier at", "thesis: shift", "p", "class mean: shift", "GLVQ: shift", "p", "figure"],
    )
    for distance, (shift, p) in OUTLIERS.items():
        places = []
        for seed in progress(range(seeds), f"outlier {distance:g}"):
            rng = np.random.default_rng(seed)
            y = np.repeat([0, 1], PER_CLASS)
            X = rng.normal(size=(2 * PER_CLASS, 2)) + np.where(y == 0, -10.0, 10.0)[:, None] * [
                1,
                0,
            ]
            outlier = rng.normal([[10.0, distance]])
            pair = [(X, y), (np.vstack([X, outlier]), np.append(y, 1))]
            found = [(class_means(*each)[1, 1], _trained(*each, epochs)[1, 1]) for each in pair]
            places.append(found)
        measured = np.array(places)  # seed, without or with, mean or GLVQ
        moved = (measured[:, 1] - measured[:, 0]).mean(axis=0)
        test = ttest_ind(measured[:, 1, 1], measured[:, 0, 1]).pvalue
        table.add(
            f"{distance:g}",
            f"{shift:.4f}",
            f"{p:.1e}",
            f"{moved[0]:.4f}",
            f"{moved[1]:.4f}",
            f"{test:.1e}",
            verdict(bool(test < 1e-3)),
        )
    return table


def _trained(X: Floats, y: Ints, epochs: int) -> Floats:
    return glvq(X, y, class_means(X, y), np.array([0, 1]), epochs, rate=20.0)


def corners(seeds: int, epochs: int) -> Table:
    """How often the only prototype of a class chooses the corner with ten more readings."""
    table = Table(
        f"XOR, one prototype for the two corners of a class, {seeds} logs",
        ["log", "thesis: chose the corner", "measured", "figure"],
    )
    for more, stated in ((0, 0.5), (XOR_MORE, 1.0)):
        chosen = 0
        for seed in progress(range(seeds), f"XOR {more}"):
            rng = np.random.default_rng(seed)
            counts = [XOR_PER_CORNER] * 3 + [XOR_PER_CORNER + more]
            corner = np.repeat(np.arange(4), counts)
            X = rng.normal(size=(len(corner), 2)) + np.array(XOR_CORNERS)[corner]
            y = np.array(XOR_CLASSES)[corner]
            middle = class_means(X, y)
            two = middle[0] + rng.normal(size=(2, 2))  # one class has a prototype for each corner
            w = glvq(X, y, np.vstack([two, middle[1]]), np.array([0, 0, 1]), epochs, rate=20.0)
            chosen += bool(w[2].sum() < 0)
        share = chosen / seeds
        name = f"{more} more readings there" if more else "balanced"
        met = abs(share - stated) < 3 * np.sqrt(0.25 / seeds) if stated < 1 else share > 0.99
        table.add(name, f"{stated:.0%}", f"{share:.1%}", verdict(bool(met)))
    return table


def means(seeds: int) -> Table:
    """The reading between two class means: `(n + 1) w_2 - n w_1`."""
    worst = 0.0
    for seed in range(seeds):
        X = np.random.default_rng(seed).normal((10.0, 0.0), size=(PER_CLASS + 1, 2))
        before, after = X[:-1].mean(axis=0), X.mean(axis=0)
        found = (PER_CLASS + 1) * after - PER_CLASS * before
        worst = max(worst, float(np.abs(found - X[-1]).max()))
    table = Table("One reading between two class means", ["logs", "largest error", "figure"])
    table.add(str(seeds), f"{worst:.1e}", verdict(worst < 1e-10))
    return table
