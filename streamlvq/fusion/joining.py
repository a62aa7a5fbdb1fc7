"""A sensor that joins later: where it stands, from a handful of labelled readings."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamlvq.fusion.assemble import Place
from streamlvq.fusion.errors import FusionError
from streamlvq.fusion.standing import stand
from streamlvq.fusion.tables import Tables
from streamlvq.state import Floats
from streamlvq.vectorize import to_rows

if TYPE_CHECKING:
    from streamlvq.fusion.fused import Component, Fused


def new_node(
    fused: Fused,
    X: Any,
    y: Sequence[Any],
    *,
    name: str = "new",
    features: Sequence[Hashable] | None = None,
) -> Any:
    """A classifier for a sensor that took no part, from a few labelled readings of some classes.

    How far its readings are from the common means of their classes tells its shift (and gain, if
    nodes differ by gains). With few readings it stays close to what is usual among the nodes.

    Parameters
    ----------
    fused
        What the others know together.
    X, y
        Readings (dictionaries, a DataFrame, or an array with `features`) and their labels. Labels
        that no node knows say nothing.
    name
        What to call it.
    features
        The names of an array's columns; by default those of the nodes, in the order of
        `fused.report.features`.

    Examples
    --------

    >>> from streamlvq import GLVQ, Snapshot, fuse
    >>> from streamlvq.fusion import new_node

    >>> nodes = []
    >>> for name, shift in {"a": 0.0, "b": 2.0, "c": -1.0}.items():
    ...     model = GLVQ()
    ...     for k in range(20):
    ...         for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...             model.learn_one({"x": x + k % 5 / 10 + shift}, y)
    ...     nodes.append(Snapshot.of(model, name))

    A sensor that shows five more, and one reading of one class:

    >>> model = new_node(fuse(nodes), [{"x": 6.2}], ["ham"])
    >>> model.predict_one({"x": 9.4}), model.predict_one({"x": 12.0})
    ('spam', 'egg')

    """
    from streamlvq.fusion.fused import Standing  # noqa: PLC0415 - it needs this module

    rows, names = to_rows(X, features)
    axes = fused._axes
    columns = list(axes.features) if names is None else list(names)
    if len(columns) != rows.shape[1] or len(rows) != len(y):
        raise FusionError(
            f"expected {len(columns)} columns and a label for each reading, got {rows.shape[1]} "
            f"columns, {len(rows)} readings and {len(y)} labels"
        )
    rows = _seen(fused, rows, columns)
    tables = _observed(rows, columns, list(y), axes.features, axes.labels)
    if not tables.held.any():
        raise FusionError(f"expected a reading of one of the classes {axes.labels}, got none")
    held = tables.held[0]
    number = max(
        range(len(fused._components)),
        key=lambda c: float(held[fused._components[c].shared].sum()),
    )
    component = fused._components[number]
    place = place_of(tables, 0, component, fused._drift)
    member = next(s for s in fused._standings.values() if s.component == number)
    every = np.arange(len(axes.features))  # a few readings need not show all that it has
    standing = Standing(member.brought, number, place, np.zeros(0, np.int64), every)
    return fused._snapshot(name, standing).classifier()


def _seen(fused: Fused, rows: Floats, columns: list[Any]) -> Floats:
    """Readings as the models see them, if they see a transform of them."""
    name, standing = next(iter(fused._standings.items()))
    if standing.brought.transform is None:
        return rows
    seen: Floats = fused.for_node(name).transform_rows(rows, columns)
    return seen


def _observed(
    rows: Floats, columns: list[Any], y: list[Any], features: list[Any], labels: list[Any]
) -> Tables:
    """Counts, means and variances of a few readings, as a node would have them."""
    wide = np.full((len(rows), len(features)), np.nan)
    place = {name: k for k, name in enumerate(features)}
    for k, name in enumerate(columns):
        if name in place:
            wide[:, place[name]] = rows[:, k]
    shape = 1, len(labels), len(features)
    samples, count = np.zeros(shape[:2]), np.zeros(shape)
    mean, variance = np.zeros(shape), np.zeros(shape)
    for k, label in enumerate(labels):
        ours = wide[[each == label for each in y]]
        known = np.isfinite(ours)
        samples[0, k], count[0, k] = len(ours), known.sum(axis=0)
        safe = np.maximum(count[0, k], 1.0)
        mean[0, k] = np.where(known, ours, 0.0).sum(axis=0) / safe
        variance[0, k] = np.where(known, (ours - mean[0, k]) ** 2, 0.0).sum(axis=0) / safe
    return Tables(["new"], samples, count, mean, variance)


def place_of(tables: Tables, i: int, component: Component, drift: str) -> Place:
    """Where a node stands that had no say: its class means against the common ones."""
    statistics = component.statistics
    known = statistics.weight > 0
    gain, shift, error = stand(
        tables.count[i],
        tables.mean[i],
        tables.variance[i],
        np.where(known, statistics.mean, np.nan),
        np.where(known, statistics.variance, np.nan),
        component.spread,
        drift,
    )
    usual = component.usual_shift
    if usual.max(initial=0.0) <= 0.0:  # nothing to compare with
        return Place(gain, shift)
    with np.errstate(invalid="ignore"):
        believed = np.where(np.isfinite(error), usual / (usual + error), 0.0)
    return Place(gain, shift * np.nan_to_num(believed))
