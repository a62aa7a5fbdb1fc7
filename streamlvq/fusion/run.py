"""One run of `fuse`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamlvq.fusion import describe
from streamlvq.fusion.assemble import Place
from streamlvq.fusion.blend import Voices, blend
from streamlvq.fusion.brought import Brought, without_lone_features
from streamlvq.fusion.choose import TRIED, choose, trials
from streamlvq.fusion.drift import CORRECTIONS, Correction
from streamlvq.fusion.errors import FusionError
from streamlvq.fusion.fused import Component, Fused, Standing
from streamlvq.fusion.joining import place_of
from streamlvq.fusion.pool import Pool
from streamlvq.fusion.relevance import relevance
from streamlvq.fusion.rules import TRIMMED, Rule, mean
from streamlvq.fusion.screen import Screened, centres, screen
from streamlvq.fusion.shape import Shape
from streamlvq.fusion.sharing import components
from streamlvq.fusion.statistics import statistics_of
from streamlvq.fusion.tables import Axes, Bools, Tables
from streamlvq.fusion.weights import MAJORITY, MOST, capped, liars_among
from streamlvq.state import Floats, Ints


@dataclass(frozen=True)
class Wishes:
    """What `fuse` was asked for."""

    weighting: str
    drift: str
    rule: Rule
    rule_name: str
    rank: str | int
    screen: bool
    liars: int | str | None
    quorum: int


class Fusion:
    """One run of `fuse`."""

    def __init__(self, brought: list[Brought], wishes: Wishes) -> None:
        brought, self.lost = without_lone_features(brought)
        self.brought, self.wishes = brought, wishes
        self.axes = Axes.of([model for node in brought for model in node.models.values()])
        if not self.axes.labels:
            raise FusionError("expected a node that has learnt something, got none")
        self.tables = Tables.of(brought, self.axes)
        if not self.tables.held.any():
            raise FusionError("expected a node that has counted what it learnt, got none")
        self.spread = self.tables.spread()
        self.pools = {
            member: Pool.of([node.models[member] for node in brought], self.axes)
            for member in brought[0].models
        }
        self.shapes = {
            member: Shape.of(
                [node.models[member] for node in brought], len(self.axes.features), wishes.rank
            )
            for member in brought[0].models
        }
        self.relevance = relevance(self._first, self.tables, self.spread)
        _, self.names = self.axes.words

    @property
    def _first(self) -> Pool:
        return next(iter(self.pools.values()))

    def run(self) -> Fused:
        errors, drift, why = self._choose()
        tables, correction, screened = self._correct(drift)
        for i, count in self.lost.items():
            screened.note(i, f"{count} features that no other node has were left out")
        group = _groups(tables, one_frame=self.wishes.drift == "none")
        parts, loss = [], 0.0
        weights = np.zeros(self.tables.samples.shape)
        for number in range(group.max() + 1):
            part, cells, lost = self._component(group == number, tables, correction, screened)
            parts.append(part)
            weights += cells
            loss = max(loss, lost)
        standings = self._standings(group, parts, tables, correction, drift)
        report = functools.partial(
            describe.report,
            self.axes,
            self.tables,
            tables,
            self.spread,
            self.relevance,
            {name: each.place for name, each in standings.items()},
            [each.component for each in standings.values()],
            weights,
            screened,
            [part.shared for part in parts],
            (self.wishes.weighting, self.wishes.rule_name, drift, why),
            errors,
            loss,
            self.wishes.quorum,
        )
        return Fused(self.axes, self.shapes, parts, standings, drift, report)

    # --- drift -----------------------------------------------------------------------------------

    def _choose(self) -> tuple[dict[str, float], str, str]:
        drift = self.wishes.drift
        if drift == "scale_shift" and not self._scaled:
            raise FusionError("drift='scale_shift': expected models with standardize=True")
        if drift != "auto":
            return {}, drift, f"{drift}: as asked for"
        if len(self.brought) == 1:
            return {}, "none", "no correction: a single node has nothing to be compared with"
        tried = TRIED if self._scaled else TRIED[:-1]
        errors = trials(self.tables, self.spread, self.relevance, tried)
        drift, why = choose(errors)
        return {name: error**0.5 for name, error in errors.items()}, drift, why

    @property
    def _scaled(self) -> bool:
        return all(shape.standardize for shape in self.shapes.values())

    def _correct(self, drift: str) -> tuple[Tables, Correction, Screened]:
        """What counts, and how sensors differ according to what counts."""
        estimate = CORRECTIONS[drift]
        correction = estimate(self.tables, self.spread)
        if not self.wishes.screen:
            return self.tables, correction, Screened(self.tables.held)
        screened = screen(self.tables, correction, self.spread, self.relevance, self.names)
        if screened.keep.sum() == self.tables.held.sum():
            return self.tables, correction, screened
        tables = self.tables.only(screened.keep)
        return tables, estimate(tables, self.spread), screened

    # --- fusing ----------------------------------------------------------------------------------

    def _component(
        self,
        inside: Bools,
        tables: Tables,
        correction: Correction,
        screened: Screened,
    ) -> tuple[Component, Floats, float]:
        samples = np.where(inside[:, None], tables.samples, 0.0)
        totals = samples.sum(axis=1)
        heard = self._capped(totals)
        counts = samples * (heard / np.where(totals > 0, totals, 1.0))[:, None]
        counts = np.stack([self._capped_class(column) for column in counts.T], axis=1)
        uniform = self.wishes.weighting == "uniform"
        cells = (counts > 0).astype(float) if uniform else counts
        nodes = (heard > 0).astype(float) if uniform else heard
        voices = Voices(
            cells=cells,
            nodes=nodes,
            rule=self.wishes.rule,
            spread=self.spread,
            centre=centres(tables, correction, self.spread),
            relevance=self.relevance,
            screened=screened if self.wishes.screen else None,
            capped=self._capped_class,
        )
        models = {
            member: blend(pool, correction, voices, self.shapes[member])
            for member, pool in self.pools.items()
        }
        shared = np.flatnonzero((cells > 0).sum(axis=0) >= self.wishes.quorum)
        part = Component(
            models=models,
            statistics=statistics_of(tables, correction, cells, counts, self.wishes.rule),
            shared=shared,
            fitted=self._fitted(nodes),
            spread=self.spread,
            usual_shift=_usual_shift(correction, nodes > 0),
            samples=float(counts.sum()),
        )
        losses = [metric.loss for each in models.values() for metric in each.metrics]
        total = cells.sum(axis=0)
        return part, cells / np.where(total > 0, total, 1.0), max(losses, default=0.0)

    def _capped(self, weights: Floats) -> Floats:
        """What nodes say of themselves, as far as it is believed."""
        liars = self.wishes.liars
        if liars == "auto":
            liars = liars_among(int((weights > 0).sum()))
        assert not isinstance(liars, str)
        # What a rule cuts off at either end must be no less than what liars may have.
        return capped(weights, liars, MOST if self.wishes.rule is mean else TRIMMED)

    def _capped_class(self, weights: Floats) -> Floats:
        """The same for a class, or for what else is made of some nodes' words."""
        if self.wishes.liars is None:
            return weights
        if self.wishes.rule is mean:
            return capped(weights, 1, MAJORITY)
        return self._capped(weights)

    def _fitted(self, nodes: Floats) -> Floats | None:
        if self.brought[0].committee is None:
            return None
        if not nodes.any():
            return np.asarray(self.brought[0].fitted)
        return mean(np.array([node.fitted for node in self.brought]), nodes[:, None])

    # --- who gets what ---------------------------------------------------------------------------

    def _standings(
        self,
        group: Any,
        parts: list[Component],
        tables: Tables,
        correction: Correction,
        drift: str,
    ) -> dict[str, Standing]:
        largest = max(range(len(parts)), key=lambda c: parts[c].samples)
        standings = {}
        for i, node in enumerate(self.brought):
            number, place = int(group[i]), Place(correction.gain[i], correction.shift[i])
            if number < 0:  # left out, or nothing learnt
                number = largest
                place = place_of(self.tables, i, parts[largest], drift)
            # Its own classes as well, wherever others have seen that they are.
            own = np.flatnonzero(self.tables.held[i] & (parts[number].statistics.samples > 0))
            columns = np.sort(self.axes.columns(node.first))
            if len(columns) == 0:  # nothing seen: it may come to have whatever others have
                columns = np.arange(len(self.axes.features))
            standings[node.node] = Standing(node, number, place, own, columns)
        return standings


def _groups(tables: Tables, *, one_frame: bool) -> Ints:
    """The component of every node; -1 for those who have nothing to say."""
    silent = ~tables.held.any(axis=1)
    group = components(tables.held)
    if one_frame:  # somebody said that all sensors agree, whether they share classes or not
        group = np.zeros(len(group), np.int64)
    _, number = np.unique(group[~silent], return_inverse=True)
    group[silent], group[~silent] = -1, number
    return group


def _usual_shift(correction: Correction, inside: Bools) -> Floats:
    shifts = correction.shift[inside]
    return (shifts**2).mean(axis=0) if len(shifts) else np.zeros(correction.shift.shape[1])
