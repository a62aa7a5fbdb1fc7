"""`leakage`: how well a private feature can still be guessed from the others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from streamlvq.arrays import Bools, Floats
from streamlvq.models.vectorizer import to_rows
from streamlvq.wrappers.private_map import PrivateMap

MIN_GUESSED_READINGS = 40  # of which half train the attackers and half judge them
MAX_GUESSED_READINGS = 20_000  # of a longer log, evenly spread
LOG_BLOCKS = 20  # the log is cut into so many; every other one trains the attackers
COSINES = 300  # random Fourier features of the non-linear attacker
KERNEL_WIDTHS = (0.5, 1.0, 2.0, 4.0)  # of its kernel, in typical distances between readings
RIDGE_PENALTIES = (1e-4, 1e-2, 1.0, 100.0)  # of both attackers, per training reading
CHANCE_DEVIATIONS = 2.0  # this many standard errors better than guessing is better than guessing


@dataclass(frozen=True)
class Leakage:
    """How well a private feature was guessed from the others, on readings the attackers never saw.

    Parameters
    ----------
    private
        The private feature.
    measure
        What `linear` and `nonlinear` are: `"AUC"` for a feature with two values (.5 is guessing, 1
        is certainty), `"R^2"` for a number (0 is guessing, 1 is certainty; below 0 is worse).
    linear, nonlinear
        How well the linear and the non-linear attacker guessed.
    explained
        R^2 of the linear attacker, whatever the measure.
    error
        Standard error of the measure for an attacker who only guesses.
    readings
        Number of readings that it was measured on.

    """

    private: Hashable
    measure: Literal["AUC", "R^2"]
    linear: float
    nonlinear: float
    explained: float
    error: float
    readings: int

    @property
    def nats(self) -> float:
        """Information about the feature, -1/2 log(1 - R^2): exact if all of it is Gaussian."""
        share = min(max(self.explained, 0.0), 1.0)
        return math.inf if share >= 1.0 else -0.5 * math.log1p(-share)

    @property
    def is_guessed(self) -> bool:
        """Whether an attacker did better than chance."""
        return self.guesser is not None

    @property
    def guesser(self) -> str | None:
        """Who did better than chance, in words; None if nobody did."""
        chance = 0.5 if self.measure == "AUC" else 0.0
        least = chance + CHANCE_DEVIATIONS * self.error
        if self.linear > least:
            return "a linear attacker"
        return "a non-linear attacker" if self.nonlinear > least else None

    @property
    def sentence(self) -> str:
        """The result in words."""
        return (
            f"{self.private}: guessed from the other features with {self.measure} "
            f"{max(self.linear, 0.0):.2f} by a linear and {max(self.nonlinear, 0.0):.2f} by a "
            "non-linear attacker "
            f"({self.nats:.2f} nats if Gaussian), "
            f"{'better than' if self.is_guessed else 'no better than'} chance"
        )


def leakage(
    X: Any,
    private: Sequence[Hashable],
    *,
    hiding: PrivateMap | None = None,
    features: Sequence[Hashable] | None = None,
    seed: int = 1,
) -> list[Leakage]:
    """Measure how well each private feature can be guessed from what is not private.

    Two attackers learn it from every other block of the log and are judged on the blocks between:
    ridge regression on the features, and on random Fourier features of them, their penalty and
    width chosen within their own half. They know which values are missing.

    Parameters
    ----------
    X
        A recorded log with the private features: dictionaries, a DataFrame, or an array with
        `features`; in the units that `hiding` was fitted in.
    private
        Names of the private features. None of them is given to the attackers.
    hiding
        Map whose result the attackers see. None: the other features as they are.
    features
        Names of an array's columns.
    seed
        Seed of the random features.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import PrivateMap, leakage

    >>> random = np.random.default_rng(1)
    >>> age = random.normal(50.0, 10.0, 4000)
    >>> pulse = 100.0 - 0.4 * age + random.normal(0.0, 3.0, 4000)
    >>> log = np.column_stack([pulse, age])
    >>> (before,) = leakage(log, ["age"], features=["pulse", "age"])
    >>> before.linear, before.nats
    (0.65, 0.52)
    >>> hiding = PrivateMap.fit(log, ["age"], ["pulse", "age"])
    >>> (after,) = leakage(log, ["age"], hiding=hiding, features=["pulse", "age"])
    >>> print(after.sentence)
    age: guessed from the other features with R^2 0.00 by a linear ..., no better than chance

    """
    rows, names = to_rows(X, features)
    if names is None:
        raise ValueError("expected the names of the columns, got none: pass them as features=[...]")
    absent = [name for name in private if name not in names]
    if absent or isinstance(private, str) or not private:
        raise ValueError(f"expected names of private features among {names!r}, got {private!r}")
    if len(rows) > MAX_GUESSED_READINGS:
        rows = rows[np.linspace(0, len(rows) - 1, MAX_GUESSED_READINGS).astype(np.int64)]
    if hiding is None:
        seen = rows[:, [k for k, name in enumerate(names) if name not in private]]
    else:
        left = [k for k, name in enumerate(hiding.passing(names)) if name not in private]
        seen = hiding.rows(rows, names)[:, left]
    return [_measured(seen, rows[:, names.index(name)], name, seed) for name in private]


def _measured(seen: Floats, hidden: Floats, name: Hashable, seed: int) -> Leakage:
    known = np.isfinite(hidden)
    seen, hidden = seen[known], hidden[known]
    values = np.unique(hidden)
    if len(hidden) < MIN_GUESSED_READINGS or len(values) < 2:
        raise ValueError(
            f"{name!r}: expected at least {MIN_GUESSED_READINGS} readings and two values to guess, "
            f"got {len(hidden)} readings with {len(values)}"
        )
    train = np.arange(len(hidden)) * LOG_BLOCKS // len(hidden) % 2 == 0
    if len(values) == 2:
        hidden = (hidden == values[1]).astype(np.float64)
    if not all(len(np.unique(hidden[part])) > 1 for part in (train, ~train)):
        raise ValueError(
            f"{name!r}: expected both halves of the log to hold two values, got one in a half"
        )
    linear, nonlinear = _guesses(_standardised(seen, train), hidden, train, seed)
    truth, judged = hidden[~train], int((~train).sum())
    explained = _explained(linear, truth, float(hidden[train].mean()))
    if len(values) == 2:
        ones = int(truth.sum())
        error = math.sqrt((judged + 1) / (12 * ones * (judged - ones)))
        first, second = _auc(linear, truth > 0.5), _auc(nonlinear, truth > 0.5)
        return Leakage(name, "AUC", first, second, explained, error, judged)
    other = _explained(nonlinear, truth, float(hidden[train].mean()))
    error = math.sqrt(2.0 * max(seen.shape[1], 1)) / judged
    return Leakage(name, "R^2", explained, other, explained, error, judged)


def _standardised(seen: Floats, train: Bools) -> Floats:
    """Return columns in units of their deviations in the training half, and which are missing."""
    missing = ~np.isfinite(seen)
    count = np.maximum((~missing[train]).sum(axis=0), 1)
    filled = np.where(missing, 0.0, seen)
    mean = filled[train].sum(axis=0) / count
    deviations = np.where(missing, 0.0, seen - mean)
    scale = np.sqrt((deviations[train] ** 2).sum(axis=0) / count)
    gaps = missing[:, missing[train].any(axis=0)].astype(np.float64)
    return np.column_stack([deviations / np.where(scale > 0, scale, 1.0), gaps])


def _guesses(seen: Floats, hidden: Floats, train: Bools, seed: int) -> tuple[Floats, Floats]:
    """Return what the linear and the non-linear attacker say of the other half."""
    fitted = np.flatnonzero(train)
    inner = np.zeros(len(train), bool)  # the part of their half that chooses penalty and width
    inner[fitted[np.arange(len(fitted)) * LOG_BLOCKS // len(fitted) % 4 == 3]] = True
    _, linear = _best([seen], hidden, train, inner)
    random = np.random.default_rng(seed)
    directions = random.normal(size=(seen.shape[1], COSINES))
    phases = random.uniform(0.0, 2.0 * np.pi, COSINES)
    typical = math.sqrt(2.0 * max(float((seen[train] ** 2).sum(axis=1).mean()), 1e-12))
    wide = [
        np.column_stack([seen, math.sqrt(2.0) * np.cos(seen @ directions / (w * typical) + phases)])
        for w in KERNEL_WIDTHS
    ]
    _, nonlinear = _best(wide, hidden, train, inner)
    return linear, nonlinear


def _best(
    candidates: Sequence[Floats], hidden: Floats, train: Bools, inner: Bools
) -> tuple[float, Floats]:
    """Return the guesses of the candidate and penalty that are best within the training half."""
    best = (math.inf, candidates[0], RIDGE_PENALTIES[0])
    for columns in candidates:
        for penalty in RIDGE_PENALTIES:
            said = _ridge(columns, hidden, train & ~inner, inner, penalty)
            loss = float(((said - hidden[inner]) ** 2).mean())
            if loss < best[0]:
                best = (loss, columns, penalty)
    return best[0], _ridge(best[1], hidden, train, ~train, best[2])


def _ridge(columns: Floats, hidden: Floats, fitted: Bools, judged: Bools, penalty: float) -> Floats:
    mean, level = columns[fitted].mean(axis=0), hidden[fitted].mean()
    inside = columns[fitted] - mean
    gram = inside.T @ inside + penalty * len(inside) * np.eye(columns.shape[1])
    weights = np.linalg.solve(gram, inside.T @ (hidden[fitted] - level))
    said: Floats = (columns[judged] - mean) @ weights + level
    return said


def _explained(said: Floats, truth: Floats, mean: float) -> float:
    """Return the share of the squared deviations from the mean of the other half that is gone."""
    return 1.0 - float(((truth - said) ** 2).sum() / ((truth - mean) ** 2).sum())


def _auc(said: Floats, truth: Bools) -> float:
    """Return the probability that a reading with the larger value has the larger guess."""
    values, places = np.unique(said, return_inverse=True)
    ends = np.cumsum(np.bincount(places, minlength=len(values)))
    ranks = (np.concatenate([[0], ends[:-1]]) + ends + 1) / 2  # ties share theirs
    ones = int(truth.sum())
    above = float(ranks[places][truth].sum()) - ones * (ones + 1) / 2
    return above / (ones * (len(truth) - ones))
