"""Fused models for nodes, in the coordinates of their sensors, and for sensors that join later."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.estimator import EstimatorState, build_estimator, estimator_class
from streamlvq.fusion.assemble import Coordinates, assemble
from streamlvq.fusion.class_tables import Axes, ClassStatistics, CommonTable, NodeTable
from streamlvq.fusion.combine import CombinedModel
from streamlvq.fusion.corrections import Correction, get_correction
from streamlvq.fusion.node_models import FusionError, ModelLayout, NodeModel
from streamlvq.fusion.options import RoundStart
from streamlvq.fusion.report import FusionReport
from streamlvq.fusion.trials import DriftChoice
from streamlvq.models.committee import shared_state
from streamlvq.models.vectorizer import to_rows
from streamlvq.snapshot import Snapshot

COMMON_NODE = "fused"  # the node of a snapshot in common coordinates


@dataclass(frozen=True)
class Component:
    """The combined models of nodes that are connected by shared classes."""

    models: dict[str, CombinedModel]  # of each member
    statistics: ClassStatistics
    shared: Ints  # classes that enough nodes have
    fitted: Floats | None  # weights of a committee
    spread: Floats
    usual_shift: Floats  # variance of shifts between nodes, of each feature
    samples: float


@dataclass(frozen=True)
class NodePlacement:
    """Component of a node, the coordinates of its sensors, and what it has learnt."""

    model: NodeModel
    component: int
    coordinates: Coordinates
    own: Ints  # classes that it has
    columns: Ints  # features that it has
    number: int = -1  # of the node among those that took part


class Fused:
    """Result of a fusion: models for each node in the coordinates of its own sensors.

    Made by `fuse`. `report` says what was done to whom.
    """

    def __init__(
        self,
        axes: Axes,
        layouts: dict[str, ModelLayout],
        components: list[Component],
        placements: dict[str, NodePlacement],
        choice: DriftChoice,
        report: Callable[[], FusionReport],
        left_out: frozenset[str] = frozenset(),
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self._axes, self._layouts, self._drift = axes, layouts, choice.drift
        self.choice = choice
        self.start = RoundStart(choice, refused or {})
        self._components, self._placements = components, placements
        self._report, self._left_out = report, left_out
        self.pool: Any = None
        self.own: Mapping[str, NodeModel] = {}  # what nodes brought, for those that are left out

    @functools.cached_property
    def report(self) -> FusionReport:
        """What was done to each node, and whether it makes sense; built on first use."""
        return self._report()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes that took part."""
        return tuple(self._placements)

    def for_node(
        self,
        name: str,
        local: Any = None,
        *,
        max_candidates: int | None = 3,
        candidates: Sequence[str] | None = None,
    ) -> Any:
        """Return a classifier for a node: all shared classes, in the units of its sensors.

        A node that was left out gets its own model back, never that of the others.

        Parameters
        ----------
        name
            The node.
        local
            Its own model, or what an earlier call returned. Then the result is that model in a pool
            with candidates of the fleet, weighed by how well each of them answers readings of the
            node that it has not learnt: never much worse than the local model, and better where the
            others know more. It goes on learning: `learn_one` teaches the local model, and notes
            what the candidates said before. Without it, the fused model alone, which does not know
            whether it suits the node.
        max_candidates
            How many to keep, those that matter most; None for all. Each costs about as much as the
            local model, an ensemble as much as all models of the fleet.
        candidates
            Kinds of candidates, of `streamlvq.registry.CANDIDATES`. None for the usual ones that
            can be built: "fused" models by each correction, an "ensemble" of all nodes' models,
            "personal" models that have learnt the node's stored readings, and fused models after
            a "round" of federated averaging. Built only if they are named, because they cost more
            than they gained on most fleets: five "rounds", the "network" of alike nodes, and
            "transformed" models, which learn stored readings through a logarithm.

        Examples
        --------

        >>> from river import datasets
        >>> import streamlvq
        >>> from streamlvq import Snapshot, fuse

        Two nodes; the second has never seen the sky and has learnt little:

        >>> stream = list(datasets.ImageSegments().take(1500))
        >>> nodes = {"a": streamlvq.LGMLVQ(), "b": streamlvq.LGMLVQ()}
        >>> for x, y in stream[:800]:
        ...     nodes["a"].learn_one(x, y)
        >>> for x, y in stream[800:950]:
        ...     if y != "sky":
        ...         nodes["b"].learn_one(x, y)
        >>> fused = fuse([Snapshot.of(model, name) for name, model in nodes.items()])
        >>> pool = fused.for_node("b", local=nodes["b"])
        >>> def accuracy(model):
        ...     return sum(model.predict_one(x) == y for x, y in stream[950:]) / len(stream[950:])
        >>> accuracy(nodes["b"]), accuracy(pool)
        (0.78, 0.98)
        >>> print(pool.report)
        weights ...

        """
        if local is None:
            return self.snapshot(name).classifier()
        self._placement(name)
        assert self.pool is not None
        return self.pool.for_node(name, local, max_candidates, candidates)

    def is_left_out(self, name: str) -> bool:
        """Return True if nothing of this node counts: it decides with its own model.

        Whoever contradicts all others may be right about its own sensors, and then the model of the
        others is wrong for it.
        """
        return name in self._left_out

    def heard(self, name: str) -> tuple[str, ...]:
        """Return the nodes that count and that a node shares coordinates with."""
        component = self._placement(name).component
        return tuple(
            other
            for other, placement in self._placements.items()
            if placement.component == component
            and len(placement.own)
            and other not in self._left_out
        )

    def to_node(self, name: str, other: str) -> tuple[Floats, Floats]:
        """Return gain and shift from the coordinates of a node's sensors to those of another's."""
        ours, theirs = (self._placement(node).coordinates for node in (name, other))
        gain = theirs.gain / ours.gain
        return gain, theirs.shift - gain * ours.shift

    def _placement(self, name: str) -> NodePlacement:
        if name not in self._placements:
            known = ", ".join(map(repr, list(self._placements)[:9]))
            raise FusionError(f"expected a node that took part ({known}), got {name!r}")
        return self._placements[name]

    def snapshot(
        self, name: str | None = None, *, called: str = COMMON_NODE, private: bool = True
    ) -> Snapshot:
        """Return a fused model as a snapshot, to be kept or sent; its own for a node left out.

        Parameters
        ----------
        name
            Of a node. None for common coordinates, to be fused again with other groups of nodes.
        called
            What to call a group, as the node of its snapshot: groups that are fused together must
            have different names, because of each node only the newest snapshot counts.
        private
            Whether a node's model has the node's own prototypes that no other node believes, and
            one that was left out has its own model. Those of a round must not: all nodes start from
            the same prototypes.

        """
        if name is None:
            return self._snapshot(called, self._common())
        placement = self._placement(name)
        if private and name in self._left_out and name in self.own:
            return own_snapshot(self.own[name])
        return self._snapshot(name, placement if private else replace(placement, number=-1))

    def _common(self) -> NodePlacement:
        if len(self._components) > 1:
            raise FusionError(
                f"expected nodes that share classes and decide them alike, got "
                f"{len(self._components)} groups that share none or decide them differently: "
                "there are no common coordinates. Ask for a node, or use drift='none'"
            )
        largest = max(range(len(self._components)), key=lambda c: self._components[c].samples)
        member = next(s for s in self._placements.values() if s.component == largest)
        width = len(self._axes.features)
        coordinates = Coordinates(np.ones(width), np.zeros(width))
        none = np.zeros(0, np.int64)
        return NodePlacement(member.model, largest, coordinates, none, np.arange(width))

    def _snapshot(self, node: str, placement: NodePlacement) -> Snapshot:
        component = self._components[placement.component]
        visible = np.union1d(component.shared, placement.own).astype(np.int64)
        if len(visible) == 0:
            raise FusionError(f"node {node!r} has learnt nothing, and shares nothing with others")
        parts = {
            member: assemble(
                component.models[member].for_node(placement.number),
                component.statistics,
                self._axes,
                visible,
                placement.columns,
                placement.coordinates,
                own,
                self._layouts[member],
            )
            for member, own in placement.model.models.items()
        }
        state = _put_together(placement.model, parts, component.fitted)
        return Snapshot(state, node, readings=False)

    @property
    def features(self) -> tuple[Hashable, ...]:
        """All features that any node knows."""
        return tuple(self._axes.features)

    def for_sensor(self, name: str, rows: Floats, columns: list[Any], y: list[Any]) -> Any:
        """Return a classifier for a sensor that took no part; see `new_node`."""
        axes = self._axes
        rows, columns = self._transformed(rows, columns)
        table, held = _observe(rows, columns, y, axes)
        if not held.any():
            raise FusionError(f"expected a reading of one of the classes {axes.labels}, got none")
        number = max(
            range(len(self._components)),
            key=lambda c: (
                float(held[self._components[c].shared].sum()),
                self._components[c].samples,
            ),
        )
        coordinates = estimate_coordinates(
            table, self._components[number], get_correction(self._drift)
        )
        member = next(s for s in self._placements.values() if s.component == number)
        every = np.arange(len(axes.features))  # a few readings need not show all that it has
        none = np.zeros(0, np.int64)
        placement = NodePlacement(member.model, number, coordinates, none, every)
        return self._snapshot(name, placement).classifier()

    def _transformed(self, rows: Floats, columns: list[Any]) -> tuple[Floats, list[Any]]:
        """Return readings and their columns as the models see them."""
        name, placement = next(iter(self._placements.items()))
        if placement.model.transform is None:
            return rows, columns
        transform = self.for_node(name)
        return transform.transform_rows(rows, columns), list(transform.passing(columns))

    def __repr__(self) -> str:
        return (
            f"Fused({len(self.nodes)} nodes, {len(self._axes.labels)} classes, "
            f"drift={self._drift!r})"
        )


def _put_together(
    model: NodeModel, parts: dict[str, EstimatorState], fitted: Floats | None
) -> EstimatorState:
    """Wrap the models of a node into the committee and transform that they came from."""
    # As a node would share it: so it is the same again after it was built.
    state: EstimatorState
    if model.committee is None:
        state = estimator_class(parts[""].kind).shared_state(parts[""], same_norms=False)
    else:
        committee = replace(model.committee, arrays={"fitted": np.asarray(fitted)}, parts=parts)
        state = shared_state(committee, same_norms=False)
    if model.transform is None:
        return state
    return replace(model.transform, parts={"classifier": state})


def own_snapshot(node: NodeModel) -> Snapshot:
    """Return the model of a node as it is, without readings, windows and thresholds."""
    parts = {member: model.state for member, model in node.models.items()}
    state = _put_together(node, parts, node.fitted)
    return Snapshot.of(build_estimator(state), node.node, readings=False)


# --- sensors that join later ---------------------------------------------------------------------


def new_node(
    fused: Fused,
    X: Any,
    y: Sequence[Any],
    *,
    name: str = "new",
    features: Sequence[Hashable] | None = None,
) -> Any:
    """Return a classifier for a sensor that took no part, from a few labelled readings.

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
    rows, names = to_rows(X, features)
    columns = list(fused.features) if names is None else list(names)
    if len(columns) != rows.shape[1] or len(rows) != len(y):
        raise FusionError(
            f"expected {len(columns)} columns and a label for each reading, got {rows.shape[1]} "
            f"columns, {len(rows)} readings and {len(y)} labels"
        )
    return fused.for_sensor(name, rows, columns, list(y))


def _observe(rows: Floats, columns: list[Any], y: list[Any], axes: Axes) -> tuple[NodeTable, Bools]:
    """Return statistics of a few readings as a node would have them, and the classes seen."""
    wide = np.full((len(rows), len(axes.features)), np.nan)
    position = {name: k for k, name in enumerate(axes.features)}
    for k, name in enumerate(columns):
        if name in position:
            wide[:, position[name]] = rows[:, k]
    shape = len(axes.labels), len(axes.features)
    count, mean, variance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    held = np.zeros(len(axes.labels), bool)
    for k, label in enumerate(axes.labels):
        ours = wide[[each == label for each in y]]
        known = np.isfinite(ours)
        held[k], count[k] = len(ours) > 0, known.sum(axis=0)
        safe = np.maximum(count[k], 1.0)
        mean[k] = np.where(known, ours, 0.0).sum(axis=0) / safe
        variance[k] = np.where(known, (ours - mean[k]) ** 2, 0.0).sum(axis=0) / safe
    return NodeTable(count, mean, variance), held


def estimate_coordinates(
    node: NodeTable, component: Component, correction: Correction
) -> Coordinates:
    """Estimate the coordinates of a node that had no say: its class means against the common ones.

    With little evidence it stays close to what is usual among the nodes.
    """
    statistics = component.statistics
    known = statistics.weight > 0
    common = CommonTable(
        np.where(known, statistics.mean, np.nan),
        np.where(known, statistics.variance, np.nan),
        component.spread,
    )
    gain, shift, error = correction.fit_node(node, common)
    usual = component.usual_shift
    if usual.max(initial=0.0) <= 0.0:  # nothing to compare with
        return Coordinates(gain, shift)
    with np.errstate(invalid="ignore"):
        believed = np.where(np.isfinite(error), usual / (usual + error), 0.0)
    return Coordinates(gain, shift * np.nan_to_num(believed))
