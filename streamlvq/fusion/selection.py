"""Choice of a correction: the one that predicts class means best that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.fusion.aggregators import assumed_byzantine, weighted_median
from streamlvq.fusion.class_tables import ClassTables, CommonTable
from streamlvq.fusion.corrections import Correction, get_correction
from streamlvq.fusion.sharing import components
from streamlvq.registry import CORRECTIONS

UNCORRECTED = "none"  # the correction that all others are compared with
REQUIRED_RATIO = 0.9  # a more complicated one must reduce the squared error to this
NEGLIGIBLE_ERROR = 0.01  # squared deviations: nothing worth correcting
MAX_ERROR = 25.0  # squared deviations that one mean may be off: one node shall not decide alone
ODD_ERROR, ODD_RATIO = 1.0, 10.0  # squared deviations, times the usual: no correction explains it
HALF_TRUSTED_COUNT = 10.0  # readings of a class: a mean of so few is hard to predict, counts half
FOLDS = 8  # of nodes that are left out together, if there are more
TRIAL_MAX_NODES = 32  # that are asked; more would not change the answer


def candidates(*, scaled: bool) -> dict[str, Correction]:
    """Return the corrections that are tried, from simple to complicated.

    Those that need standardized features are among them only if models are `scaled`.
    """
    known = {name: get_correction(name) for name in CORRECTIONS}
    return {
        name: correction
        for name, correction in known.items()
        if correction.automatic and (scaled or not correction.needs_scales)
    }


def trial_errors(
    tables: ClassTables, relevance: Floats, tried: Mapping[str, Correction]
) -> dict[str, float]:
    """Return the mean squared error of every correction, in variances within the class.

    Each class mean of each node is predicted: from the node's other classes comes its correction,
    from the other nodes where the class is. Empty if there is nothing that could be predicted.
    """
    tables = _asked(tables)
    trust = tables.samples / (tables.samples + HALF_TRUSTED_COUNT)
    errors = _errors(tables, relevance, tried)
    # Who is odd would hide what a correction does for the others.
    errors[:, _unexplained(errors, trust)] = np.nan
    return {
        name: float((trust * np.nan_to_num(found)).sum() / (trust * np.isfinite(found)).sum())
        for name, found in zip(tried, errors, strict=True)
        if np.isfinite(found).any()
    }


def _unexplained(errors: Floats, trust: Floats) -> Bools:
    """Return the few nodes that no correction explains."""
    known = np.isfinite(errors).any(axis=0)
    worth = np.where(known, trust, 0.0)
    total = worth.sum(axis=1)
    means = (worth * np.nan_to_num(errors)).sum(axis=2) / np.where(total > 0, total, 1.0)
    best = means.min(axis=0)
    asked = total > 0
    odd: Bools = np.zeros(len(best), bool)
    if asked.sum() > 2:
        limit = max(ODD_ERROR, ODD_RATIO * float(np.median(best[asked])))
        worst = np.argsort(-best, kind="stable")[: assumed_byzantine(int(asked.sum()))]
        odd[worst] = best[worst] > limit
    return odd


def _asked(tables: ClassTables) -> ClassTables:
    """Limit the tables to the nodes with the most classes, if there are very many."""
    if len(tables.nodes) <= TRIAL_MAX_NODES:
        return tables
    known = tables.held.sum(axis=1)
    chosen = np.sort(np.lexsort((np.arange(len(known)), -known))[:TRIAL_MAX_NODES])
    return replace(
        tables,
        nodes=[tables.nodes[i] for i in chosen],
        samples=tables.samples[chosen],
        count=tables.count[chosen],
        mean=tables.mean[chosen],
        variance=tables.variance[chosen],
    )


def _errors(tables: ClassTables, relevance: Floats, tried: Mapping[str, Correction]) -> Floats:
    """Return squared errors of corrections x nodes x classes; NaN if nothing was predicted."""
    fold = np.arange(len(tables.nodes)) % FOLDS
    errors = np.full((len(tried), *tables.samples.shape), np.nan)
    for found, correction in zip(errors, tried.values(), strict=True):
        for f in np.unique(fold):
            _predict(found, tables, relevance, correction, fold == f)
    return errors


def _predict(
    found: Floats,
    tables: ClassTables,
    relevance: Floats,
    correction: Correction,
    out: Bools,
) -> None:
    """Fill in the squared errors of the class means of some nodes."""
    rest = tables.only(~out[:, None])
    alignment = correction.estimate(rest)
    worth, known = rest.reliability(), rest.count > 0
    within = rest.variance / alignment.gain[:, None, :] ** 2
    common = CommonTable(
        weighted_median(np.where(known, alignment.align(rest.mean), np.nan), worth),
        weighted_median(np.where(known, within, np.nan), worth),
        tables.spread,
    )
    others = _Others(common, _group_of_classes(rest, correction))
    for i in np.flatnonzero(out).tolist():
        for k in np.flatnonzero(tables.held[i]).tolist():
            error = _error(tables, relevance, correction, others, i, k)
            if error is not None:
                found[i, k] = min(error, MAX_ERROR)


class _Others(NamedTuple):
    """Classes as the other nodes know them; those of the same group are comparable."""

    common: CommonTable
    group: Ints


def _error(
    tables: ClassTables,
    relevance: Floats,
    correction: Correction,
    others: _Others,
    i: int,
    k: int,
) -> float | None:
    """Return the squared error of class k of node i; None if nothing predicts it."""
    usable = (others.group == others.group[k]) & tables.held[i]
    usable[k] = False
    if others.group[k] < 0 or not usable.any():
        return None
    node = tables.node(i)
    node = replace(node, count=np.where(usable[:, None], node.count, 0.0))
    gain, shift, _ = correction.fit_node(node, others.common)
    apart = gain * others.common.mean[k] + shift - tables.mean[i, k]
    fine = np.isfinite(apart) & (tables.count[i, k] > 0)
    seen = float(relevance[fine].sum())
    if seen <= 0.0:
        return None
    return float((relevance[fine] * apart[fine] ** 2 / tables.spread[k, fine]).sum()) / seen


def _group_of_classes(tables: ClassTables, correction: Correction) -> Ints:
    """Number groups of classes with comparable means; -1 if no node has the class."""
    nodes = components(tables.held)
    first = tables.held.argmax(axis=0)
    group = np.where(tables.held.any(axis=0), nodes[first], -1)
    return np.minimum(group, 0) if correction.one_frame else group


def choose(errors: dict[str, float]) -> tuple[str, str]:
    """Return the simplest correction that is about as good as the best, and why."""
    if not errors:
        return UNCORRECTED, (
            "no correction: to test one, nodes must share at least two classes, and these do not"
        )
    raw = errors[UNCORRECTED]
    if raw < NEGLIGIBLE_ERROR:
        return UNCORRECTED, (
            f"no correction: class means of different nodes agree to {raw**0.5:.2f} deviations"
        )
    chosen = UNCORRECTED
    for name, error in errors.items():
        if error < REQUIRED_RATIO * errors[chosen]:
            chosen = name
    if chosen == UNCORRECTED:
        best = min((e, n) for n, e in errors.items() if n != UNCORRECTED)
        return UNCORRECTED, (
            f"no correction: a class mean is predicted from the other nodes to {raw**0.5:.2f} "
            f"deviations without one, to {best[0] ** 0.5:.2f} with {best[1]}"
        )
    return chosen, (
        f"{chosen}: it predicts a class mean from the other classes and nodes to "
        f"{errors[chosen] ** 0.5:.2f} deviations, no correction to {raw**0.5:.2f}"
    )
