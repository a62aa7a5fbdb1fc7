"""Which correction predicts best: each class mean of a node from what the other classes tell."""

from __future__ import annotations

import numpy as np

from streamlvq.fusion.drift import CORRECTIONS, Correction
from streamlvq.fusion.sharing import components
from streamlvq.fusion.tables import Bools, Floats, Tables

TRIED = ("none", "least_squares", "scale_shift")  # from simple to complicated
BETTER = 0.9  # a more complicated one must reduce the squared error to this
NEGLIGIBLE = 0.01  # squared deviations: nothing worth correcting
FARTHEST = 25.0  # squared deviations that one mean may be off: one node shall not decide alone
ASKED = 32  # nodes; more would not change the answer


def trials(
    tables: Tables, spread: Floats, relevance: Floats, tried: tuple[str, ...]
) -> dict[str, float]:
    """The mean squared error of every correction, in variances within the class.

    A class is left out, corrections are estimated from the others, and its mean at each node is
    predicted from what the other nodes say. Empty if there is no class that could be left out.

    Parameters
    ----------
    tables, spread
        What nodes know of their classes.
    relevance
        How much each feature counts, in these units; adds up to one.
    tried
        Which corrections.

    """
    tables = _asked(tables)
    errors: dict[str, float] = {}
    for name in tried:
        squares = worth = 0.0
        for k in range(tables.samples.shape[1]):
            if tables.held[:, k].sum() > 1:
                s, w = _left_out(tables, spread, relevance, name, k)
                squares, worth = squares + s, worth + w
        if worth > 0:
            errors[name] = float(squares / worth)
    return errors


def _asked(tables: Tables) -> Tables:
    """Those with the most classes, if there are very many nodes."""
    if len(tables.nodes) <= ASKED:
        return tables
    known = tables.held.sum(axis=1)
    chosen = np.sort(np.lexsort((np.arange(len(known)), -known))[:ASKED])
    return Tables(
        [tables.nodes[i] for i in chosen],
        tables.samples[chosen],
        tables.count[chosen],
        tables.mean[chosen],
        tables.variance[chosen],
    )


def _left_out(
    tables: Tables, spread: Floats, relevance: Floats, name: str, k: int
) -> tuple[float, float]:
    """The weighted sum of squared errors of class k when it is left out, and the weights."""
    keep = np.ones(tables.samples.shape, bool)
    keep[:, k] = False
    rest = tables.only(keep)
    correction = CORRECTIONS[name](rest, spread)
    group = components(rest.held)
    squares = total = 0.0
    for number in np.unique(group):
        inside = (group == number) & tables.held[:, k] & rest.held.any(axis=1)
        if inside.sum() > 1:
            s, w = _predicted(tables, spread, relevance, correction, k, inside)
            squares, total = squares + s, total + w
    return squares, total


def _predicted(
    tables: Tables, spread: Floats, relevance: Floats, correction: Correction, k: int, inside: Bools
) -> tuple[float, float]:
    gain, shift = correction.gain[inside], correction.shift[inside]
    mean, count = tables.mean[inside, k], tables.count[inside, k]
    worth = tables.reliability(spread)[inside, k]
    aligned = (mean - shift) / gain
    others = worth.sum(axis=0) - worth
    known = (others > 0) & (count > 0)
    expected = ((worth * aligned).sum(axis=0) - worth * aligned) / np.where(known, others, 1.0)
    error = np.where(known, (gain * expected + shift - mean) ** 2 / spread[k], 0.0)
    seen = (relevance * known).sum(axis=1)
    squared = (relevance * error).sum(axis=1) / np.where(seen > 0, seen, 1.0)
    trust = np.where(seen > 0, tables.samples[inside, k], 0.0)
    trust = trust / (trust + 10.0)  # a mean of few readings is hard to predict
    return float((trust * np.minimum(squared, FARTHEST)).sum()), float(trust.sum())


def choose(errors: dict[str, float]) -> tuple[str, str]:
    """The simplest correction that is about as good as the best, and why."""
    if not errors:
        return "none", (
            "no correction: to test one, nodes must share at least two classes, and these do not"
        )
    raw = errors["none"]
    if raw < NEGLIGIBLE:
        return "none", (
            f"no correction: class means of different nodes agree to {raw**0.5:.2f} deviations"
        )
    chosen = "none"
    for name, error in errors.items():
        if error < BETTER * errors[chosen]:
            chosen = name
    if chosen == "none":
        best = min((e, n) for n, e in errors.items() if n != "none")
        return "none", (
            f"no correction: a class mean is predicted from the other nodes to {raw**0.5:.2f} "
            f"deviations without one, to {best[0] ** 0.5:.2f} with {best[1]}"
        )
    return chosen, (
        f"{chosen}: it predicts a class mean from the other classes and nodes to "
        f"{errors[chosen] ** 0.5:.2f} deviations, no correction to {raw**0.5:.2f}"
    )
