"""Which correction predicts best: each class mean of a node from what the other classes tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamlvq.fusion.drift import CORRECTIONS
from streamlvq.fusion.rules import median
from streamlvq.fusion.sharing import components
from streamlvq.fusion.standing import stand
from streamlvq.fusion.tables import Bools, Tables
from streamlvq.fusion.weights import liars_among
from streamlvq.state import Floats, Ints

TRIED = ("none", "least_squares", "scale_shift")  # from simple to complicated
BETTER = 0.9  # a more complicated one must reduce the squared error to this
NEGLIGIBLE = 0.01  # squared deviations: nothing worth correcting
FARTHEST = 25.0  # squared deviations that one mean may be off: one node shall not decide alone
ODD, TIMES = 1.0, 10.0  # squared deviations, and so many times the usual: no correction explains it
FEW = 10.0  # readings of a class: a mean of so few is hard to predict, and counts half
FOLDS = 8  # of nodes that are left out together, if there are more
ASKED = 32  # nodes; more would not change the answer


def trials(
    tables: Tables, spread: Floats, relevance: Floats, tried: tuple[str, ...]
) -> dict[str, float]:
    """The mean squared error of every correction, in variances within the class.

    Each class mean of each node is predicted: from the node's other classes comes its correction,
    from the other nodes where the class is. Empty if there is nothing that could be predicted.

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
    trust = tables.samples / (tables.samples + FEW)
    errors = _errors(tables, spread, relevance, tried)
    # Who is odd would hide what a correction does for the others.
    errors[:, _unexplained(errors, trust)] = np.nan
    return {
        name: float((trust * np.nan_to_num(found)).sum() / (trust * np.isfinite(found)).sum())
        for name, found in zip(tried, errors, strict=True)
        if np.isfinite(found).any()
    }


def _unexplained(errors: Floats, trust: Floats) -> Bools:
    """The few nodes that every correction fails on, if there are such."""
    known = np.isfinite(errors).any(axis=0)
    worth = np.where(known, trust, 0.0)
    total = worth.sum(axis=1)
    means = (worth * np.nan_to_num(errors)).sum(axis=2) / np.where(total > 0, total, 1.0)
    best = means.min(axis=0)
    asked = total > 0
    odd: Bools = np.zeros(len(best), bool)
    if asked.sum() > 2:
        limit = max(ODD, TIMES * float(np.median(best[asked])))
        worst = np.argsort(-best, kind="stable")[: liars_among(int(asked.sum()))]
        odd[worst] = best[worst] > limit
    return odd


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


def _errors(tables: Tables, spread: Floats, relevance: Floats, tried: tuple[str, ...]) -> Floats:
    """Squared errors of corrections x nodes x classes; NaN if nothing was predicted."""
    fold = np.arange(len(tables.nodes)) % FOLDS
    errors = np.full((len(tried), *tables.samples.shape), np.nan)
    for found, name in zip(errors, tried, strict=True):
        for f in np.unique(fold):
            _predict(found, tables, spread, relevance, name, fold == f)
    return errors


def _predict(
    found: Floats,
    tables: Tables,
    spread: Floats,
    relevance: Floats,
    name: str,
    out: Bools,
) -> None:
    """Fill in the squared errors of the class means of some nodes."""
    rest = tables.only(~out[:, None])
    correction = CORRECTIONS[name](rest, spread)
    worth, known = rest.reliability(spread), rest.count > 0
    within = rest.variance / correction.gain[:, None, :] ** 2
    common = _Common(
        median(np.where(known, correction.align(rest.mean), np.nan), worth),
        median(np.where(known, within, np.nan), worth),
        _group_of_classes(rest, name),
    )
    for i in np.flatnonzero(out).tolist():
        for k in np.flatnonzero(tables.held[i]).tolist():
            error = _error(tables, spread, relevance, name, common, i, k)
            if error is not None:
                found[i, k] = min(error, FARTHEST)


class _Common(NamedTuple):
    """Classes as other nodes see them; those with the same group can be compared."""

    mean: Floats
    variance: Floats
    group: Ints


def _error(
    tables: Tables,
    spread: Floats,
    relevance: Floats,
    name: str,
    common: _Common,
    i: int,
    k: int,
) -> float | None:
    """The squared error of class k of node i; None if there is nothing to predict it from."""
    usable = (common.group == common.group[k]) & tables.held[i]
    usable[k] = False
    if common.group[k] < 0 or not usable.any():
        return None
    count = np.where(usable[:, None], tables.count[i], 0.0)
    gain, shift, _ = stand(
        count, tables.mean[i], tables.variance[i], common.mean, common.variance, spread, name
    )
    apart = gain * common.mean[k] + shift - tables.mean[i, k]
    fine = np.isfinite(apart) & (tables.count[i, k] > 0)
    seen = float(relevance[fine].sum())
    if seen <= 0.0:
        return None
    return float((relevance[fine] * apart[fine] ** 2 / spread[k, fine]).sum()) / seen


def _group_of_classes(tables: Tables, name: str) -> Ints:
    """Classes whose means can be compared have the same number; -1 if nobody has one."""
    nodes = components(tables.held)
    first = tables.held.argmax(axis=0)
    group = np.where(tables.held.any(axis=0), nodes[first], -1)
    return np.minimum(group, 0) if name == "none" else group


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
