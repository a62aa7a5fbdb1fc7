"""Figure 1 of Schubert & Villmann (2024): readings from what GLVQ sends for each of them.

The server sees both prototypes and both updates `u = beta (x - p)`. The paper searches for beta and
x with Adam, one prototype at a time. That search is degenerate: every beta has an x that fits. With
both prototypes there is nothing to search: x is where two lines cross.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from common import Table, progress, verdict
from datasets import read_npz

Floats = NDArray[np.float64]

READINGS = 1000
RATE = 0.25
SLOPE = 0.25  # theta of the sigmoid
SHOWN = (1, 5, 10, 19, 40, 60, 80, 97, 100)  # epochs; 19 and 97 are the paper's examples
SIDE = 28


class Update(NamedTuple):
    """What one step sends: prototypes of right and wrong class, and their gradients."""

    prototypes: Floats
    gradients: Floats


def sent(x: Floats, label: int, w: Floats) -> tuple[Update, tuple[int, int]]:
    """Return what a step of GLVQ with a sigmoid sends, and the two prototypes."""
    distances = ((x - w) ** 2).sum(axis=1)
    others = np.where(np.arange(len(w)) == label, np.inf, distances)
    wrong = int(others.argmin())
    near, far = distances[label], distances[wrong]
    mu = (near - far) / (near + far)
    value = 1 / (1 + np.exp(-SLOPE * mu))
    slope = SLOPE * value * (1 - value) / (near + far) ** 2
    gradients = np.array([-4 * slope * far * (x - w[label]), 4 * slope * near * (x - w[wrong])])
    return Update(w[[label, wrong]].copy(), gradients), (label, wrong)


def crossing(update: Update) -> Floats:
    """Return the point where the lines through both prototypes along their updates meet."""
    p, u = update
    lines = np.stack([u[0], -u[1]], axis=1)
    steps = np.linalg.lstsq(lines, p[1] - p[0], rcond=None)[0]
    return np.asarray((p[0] + steps[0] * u[0] + p[1] + steps[1] * u[1]) / 2)


@njit(fastmath=True)
def adam(p: Floats, u: Floats, x: Floats, beta: float, steps: int) -> float:  # pragma: no cover
    """Minimise `|u - beta (x - p)|^2` over x, in place, and beta, which is returned."""
    rate, decay, decay_square, tiny = 1e-3, 0.9, 0.999, 1e-8
    mean, square = np.zeros_like(x), np.zeros_like(x)
    beta_mean = beta_square = 0.0
    power, power_square = 1.0, 1.0
    for _ in range(steps):
        power *= decay
        power_square *= decay_square
        beta_slope = 0.0
        for j in range(len(x)):
            error = u[j] - beta * (x[j] - p[j])
            beta_slope -= 2 * error * (x[j] - p[j])
            slope = -2 * beta * error
            mean[j] = decay * mean[j] + (1 - decay) * slope
            square[j] = decay_square * square[j] + (1 - decay_square) * slope * slope
            x[j] -= (
                rate * (mean[j] / (1 - power)) / (np.sqrt(square[j] / (1 - power_square)) + tiny)
            )
        beta_mean = decay * beta_mean + (1 - decay) * beta_slope
        beta_square = decay_square * beta_square + (1 - decay_square) * beta_slope**2
        beta -= (
            rate * (beta_mean / (1 - power)) / (np.sqrt(beta_square / (1 - power_square)) + tiny)
        )
    return beta


def ssim(one: Floats, other: Floats) -> float:
    """Mean structural similarity in windows of 7 x 7, for values from 0 to 1."""
    a, b = one.reshape(SIDE, SIDE), other.reshape(SIDE, SIDE)
    filtered: Any = [uniform_filter(each, 7) for each in (a, b, a * a, b * b, a * b)]
    mean_a, mean_b, square_a, square_b, product = filtered
    c1, c2 = 0.01**2, 0.03**2
    unbiased = 49 / 48
    var_a, var_b = (unbiased * (s - m * m) for s, m in ((square_a, mean_a), (square_b, mean_b)))
    both = unbiased * (product - mean_a * mean_b)
    above = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    below = (mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2)
    return float((above / below)[3:-3, 3:-3].mean())


def attack_paper(seeds: int = 1, epochs: int = 100, steps: int = 100_000) -> Iterator[Table]:
    """Error and similarity of the reconstructed image, epoch by epoch."""
    data = read_npz("mnist/mnist.npz")
    X, y = data["X"].reshape(-1, SIDE**2) / 255.0, data["y"].astype(int)
    found = np.array([_one_training(X, y, seed, epochs, steps) for seed in range(seeds)])
    table = Table(
        f"Images reconstructed from one step each, {seeds} training(s) on {READINGS} of MNIST",
        ["epoch", "MSE p+", "MSE p-", "SSIM p+", "SSIM p-", "crossing: MSE", "SSIM", "beta"],
    )
    spans = [*((e, e) for e in SHOWN if e <= epochs), (1, epochs // 2), (epochs // 2 + 1, epochs)]
    for first, last in spans:
        part = found[:, first - 1 : last].mean(axis=(0, 1))
        name = str(first) if first == last else f"mean of {first} to {last}"
        table.add(
            name,
            *(f"{each:.4f}" for each in part[:2]),
            *(f"{each:.3f}" for each in part[2:4]),
            f"{part[4]:.1e}",
            f"{part[5]:.3f}",
            f"{part[6]:.0%}",
        )
    yield table
    verdicts = Table("Figures", ["figure", "measured", "figure met"])
    worst = found[:, :, 4].max()
    verdicts.add("largest MSE of the crossing", f"{worst:.1e}", verdict(bool(worst < 1e-15)))
    early, late = (
        found[:, part, 0].mean() for part in (slice(0, epochs // 2), slice(epochs // 2, None))
    )
    verdicts.add(
        "the search gets better while prototypes adapt (MSE p+, first and second half)",
        f"{early:.4f}, {late:.4f}",
        verdict(bool(late < early)),
    )
    yield verdicts


def _one_training(X: Floats, y: NDArray[Any], seed: int, epochs: int, steps: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(X), READINGS, replace=False)
    classes = np.unique(y)
    w = np.array([X[rows][y[rows] == k].mean(axis=0) for k in classes])
    w += 0.1 * rng.normal(size=w.shape)
    found = []
    for _ in progress(range(epochs), "epoch"):
        attacked = rng.integers(READINGS)
        for number, row in enumerate(rng.permutation(rows)):
            update, pair = sent(X[row], int(y[row]), w)
            w[list(pair)] -= RATE * update.gradients
            if number == attacked:
                found.append(_attack(X[row], update, rng, steps))
    return found


def _attack(x: Floats, update: Update, rng: np.random.Generator, steps: int) -> list[float]:
    """Return errors and similarities of the search from each prototype and of the crossing."""
    guesses, signs = [], []
    for p, u in zip(*update, strict=True):
        guess = rng.uniform(size=x.shape)
        beta = adam(p, u, guess, float(rng.normal()), steps)
        guesses.append(guess)
        signs.append(np.sign(beta))
    guesses.append(crossing(update))
    errors = [float(np.mean((x - each) ** 2)) for each in guesses]
    similar = [ssim(x, each) for each in guesses]
    told = float(signs[0] < 0 < signs[1])  # descent: what is attracted has a negative gain
    return [*errors[:2], *similar[:2], errors[2], similar[2], told]
