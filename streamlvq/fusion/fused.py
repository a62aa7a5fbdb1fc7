"""Fused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.estimator import EstimatorState
from streamlvq.fusion.assemble import Place, assemble
from streamlvq.fusion.blend import Blended
from streamlvq.fusion.brought import Brought
from streamlvq.fusion.errors import FusionError
from streamlvq.fusion.report import FusionReport
from streamlvq.fusion.shape import Shape
from streamlvq.fusion.statistics import Statistics
from streamlvq.fusion.tables import Axes
from streamlvq.snapshot import Snapshot
from streamlvq.state import Floats, Ints

COMMON = "fused"  # the node of a snapshot in common coordinates


@dataclass(frozen=True)
class Component:
    """What nodes that share classes have in common."""

    models: dict[str, Blended]  # of each member
    statistics: Statistics
    shared: Ints  # classes that enough nodes have
    fitted: Floats | None  # weights of a committee
    spread: Floats
    usual_shift: Floats  # variance of shifts between nodes, of each feature
    samples: float


@dataclass(frozen=True)
class Standing:
    """What is needed to give a node its model."""

    brought: Brought
    component: int
    place: Place
    own: Ints  # classes that it has
    columns: Ints  # features that it has


class Fused:
    """What nodes know together, for each of them in the coordinates of its own sensors.

    Made by `fuse`. `report` says what was done to whom.
    """

    def __init__(
        self,
        axes: Axes,
        shapes: dict[str, Shape],
        components: list[Component],
        standings: dict[str, Standing],
        drift: str,
        report: Callable[[], FusionReport],
    ) -> None:
        self._axes, self._shapes, self._drift = axes, shapes, drift
        self._components, self._standings = components, standings
        self._report = report

    @functools.cached_property
    def report(self) -> FusionReport:
        """What was done to whom, and whether it makes sense; put together when asked for."""
        return self._report()

    @property
    def nodes(self) -> tuple[str, ...]:
        """All that took part, by name."""
        return tuple(self._standings)

    def for_node(self, name: str) -> Any:
        """A new classifier for a node: all shared classes, in the units of its sensors."""
        return self.snapshot(name).classifier()

    def snapshot(self, name: str | None = None, *, called: str = COMMON) -> Snapshot:
        """The same as a snapshot, to be kept or sent.

        Parameters
        ----------
        name
            Of a node. None for common coordinates, to be fused again with other groups of nodes.
        called
            What to call a group, as the node of its snapshot: groups that are fused together must
            have different names, because of each node only the newest snapshot counts.

        """
        if name is None:
            return self._snapshot(called, self._common())
        if name not in self._standings:
            known = ", ".join(map(repr, list(self._standings)[:9]))
            raise FusionError(f"expected a node that took part ({known}), got {name!r}")
        return self._snapshot(name, self._standings[name])

    def _common(self) -> Standing:
        if len(self._components) > 1:
            raise FusionError(
                f"expected nodes that share classes, got {len(self._components)} groups that "
                "share none: "
                "there are no common coordinates. Ask for a node, or use drift='none'"
            )
        largest = max(range(len(self._components)), key=lambda c: self._components[c].samples)
        member = next(s for s in self._standings.values() if s.component == largest)
        width = len(self._axes.features)
        place = Place(np.ones(width), np.zeros(width))
        none = np.zeros(0, np.int64)
        return Standing(member.brought, largest, place, none, np.arange(width))

    def _snapshot(self, node: str, standing: Standing) -> Snapshot:
        component = self._components[standing.component]
        visible = np.union1d(component.shared, standing.own).astype(np.int64)
        if len(visible) == 0:
            raise FusionError(f"node {node!r} has learnt nothing, and shares nothing with others")
        parts = {
            member: assemble(
                component.models[member],
                component.statistics,
                self._axes,
                visible,
                standing.columns,
                standing.place,
                model,
                self._shapes[member],
            )
            for member, model in standing.brought.models.items()
        }
        state = _put_together(standing.brought, parts, component.fitted)
        return Snapshot(state, node, readings=False)

    def __repr__(self) -> str:
        return (
            f"Fused({len(self.nodes)} nodes, {len(self._axes.labels)} classes, "
            f"drift={self._drift!r})"
        )


def _put_together(
    brought: Brought, parts: dict[str, EstimatorState], fitted: Floats | None
) -> EstimatorState:
    """The models of a node in the committee and the transform that they came from."""
    if brought.committee is None:
        state = parts[""]
    else:
        state = replace(brought.committee, arrays={"fitted": np.asarray(fitted)}, parts=parts)
    if brought.transform is None:
        return state
    return replace(brought.transform, parts={"classifier": state})
