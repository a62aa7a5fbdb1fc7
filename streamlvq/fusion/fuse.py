"""`fuse`: one model out of those of many nodes, for each of them in its sensors' coordinates."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from streamlvq.arrays import Bools, Floats, Ints, Label
from streamlvq.estimator import build_estimator
from streamlvq.fusion.aggregators import (
    BYZANTINE_SHARE,
    CLASS_SHARE,
    assumed_byzantine,
    capped_weights,
    get_aggregator,
    weighted_mean,
)
from streamlvq.fusion.agreement import MetricResiduals, metric_residuals
from streamlvq.fusion.assemble import Coordinates
from streamlvq.fusion.class_tables import (
    Alignment,
    Axes,
    ClassTables,
    Pool,
    class_statistics,
    feature_relevance,
)
from streamlvq.fusion.combine import VotingWeights, combine
from streamlvq.fusion.condense import AUTO as AUTO_BUDGET
from streamlvq.fusion.condense import BUDGETS
from streamlvq.fusion.corrections import (
    UNCORRECTED,
    Correction,
    candidates,
    get_correction,
)
from streamlvq.fusion.fused import (
    Component,
    Fused,
    NodePlacement,
    estimate_coordinates,
)
from streamlvq.fusion.graph import Clusters, find_clusters
from streamlvq.fusion.node_models import (
    FusionError,
    ModelLayout,
    NodeModel,
    check_compatible,
    newest,
    unpack,
    without_lone_features,
)
from streamlvq.fusion.options import FusionOptions
from streamlvq.fusion.report import FusionRecord, build_report
from streamlvq.fusion.screening import (
    QUORUM,
    Clipping,
    ScreeningResult,
    class_centres,
    screen_nodes,
)
from streamlvq.fusion.sharing import components
from streamlvq.fusion.trials import DriftChoice, Turn, choose_correction
from streamlvq.fusion.vetting import (
    VettingResult,
    claimed_counts,
    compare_nodes,
    silenced,
    vet_nodes,
)
from streamlvq.kernels import layout as at
from streamlvq.registry import AGGREGATORS, CORRECTIONS
from streamlvq.snapshot import Snapshot

WEIGHTINGS = ("samples", "uniform")
AUTO = "auto"
NOTED_CAP_RATIO = 10.0  # between claimed and believed readings: less happens to honest nodes
COUNTED = "counted what it learnt"


def fuse(
    snapshots: Iterable[Snapshot],
    *,
    weighting: Literal["samples", "uniform"] = "samples",
    drift: str = AUTO,
    aggregator: str = "mean",
    rank: Literal["keep", "full"] | int = "keep",
    screen: bool = True,
    byzantine: int | Literal["auto"] | None = "auto",
    quorum: int | None = None,
    budget: Literal["auto", "keep"] | int = "auto",
    after: Fused | None = None,
) -> Fused:
    """Fuse the models of many nodes, for each of them in the coordinates of its sensors.

    A pure function of the set of snapshots: their order does not matter, of a node's several
    snapshots only the newest counts, and the same snapshots give the same bits.

    Parameters
    ----------
    snapshots
        Of nodes with models of the same type. They need not have seen the same classes.
    weighting
        How much a node has to say about a class: "samples", as much as it has learnt of it, or
        "uniform", as much as everybody else who has it.
    drift
        How the sensors of nodes differ: "none", not at all; by a shift, by "least_squares" over
        all differences or along the "tree" of the most reliable ones ("published": all shared
        classes alike, as in the paper); "scale_shift", by a gain and a shift of each feature; or
        "auto", the simplest of these that is about the best. Auto hides classes from nodes and asks
        the models that are fused without them about all classes that these nodes have. All of them
        need classes that nodes share. More can be added to `streamlvq.registry.CORRECTIONS`.
    aggregator
        How values of nodes become one: their "mean", or one that a minority of nodes cannot
        move far: "median", "trimmed_mean", "geometric_median"; or another one in
        `streamlvq.registry.AGGREGATORS`.
    rank
        Of fused metrics: "keep" the largest of any node, "full", or a number.
    screen
        Whether to leave out class means, prototypes and metrics that contradict those of all other
        nodes.
    byzantine
        How many nodes may claim anything: the largest of so many together have at most a third of
        all weight, or their number's share, and none has more than half of that of a class (if
        others have it too). "auto" is one of five nodes, at least one; None believes all counts,
        and only then the fusion of fusions is the fusion of all.
    quorum
        Nodes that must have a class before others are given it; by default one, and three for the
        aggregators that withstand a minority.
    budget
        How many prototypes of a class the fused model may have, since those of growing models often
        do not match: a number; "auto", three times as many as the models of nodes may grow to; or "keep"
        for all. Left out are those that are missed the least. What only its own node believes does
        not count.
    after
        The fusion that the models of all nodes have come from, in rounds (see `fuse_rounds`). Its
        correction is kept, and prototypes are the same that were the same then, wherever they are.

    Examples
    --------

    Two nodes whose sensors differ by an offset; the second has never seen an egg:

    >>> import streamlvq
    >>> from streamlvq import GLVQ, Snapshot, fuse

    >>> first, second = GLVQ(), GLVQ()
    >>> for k in range(20):
    ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...         first.learn_one({"x": x + k % 5 / 10}, y)
    ...         if y != "egg":
    ...             second.learn_one({"x": x + k % 5 / 10 + 2.0}, y)
    >>> fused = fuse([Snapshot.of(first, "a"), Snapshot.of(second, "b")])
    >>> fused.report.drift
    'least_squares'
    >>> fused.report.nodes["b"].shift["x"] - fused.report.nodes["a"].shift["x"]
    2.0
    >>> fused.report.nodes["b"].gained
    ('egg',)
    >>> fused.for_node("b").predict_one({"x": 9.0}), second.predict_one({"x": 9.0})
    ('egg', 'spam')

    References
    ----------
    - Brinkrolf, J., Hammer, B. (2021). Federated learning vector quantization. ESANN.
    - Vaquet, V., Hinder, F., Brinkrolf, J., Menz, P., Seiffert, U., Hammer, B. (2022). Federated learning vector quantization for dealing with drift between nodes. ESANN.

    """
    from streamlvq.fusion.pooling import FleetPool  # noqa: PLC0415 - it fuses as well

    given = [each.without_pool() for each in newest(snapshots)]
    run = fusion_run(
        given,
        weighting=weighting,
        drift=drift,
        aggregator=aggregator,
        rank=rank,
        screen=screen,
        byzantine=byzantine,
        quorum=quorum,
        budget=budget,
        after=after,
    )
    fused = run.run()
    corrections = tuple(candidates(scaled=run.scaled)) if drift == AUTO else (drift,)
    fused.own = run.given
    fused.pool = FleetPool(given, run.options, corrections, fused.is_left_out, fused.choice.drift)
    return fused


def fusion_run(
    snapshots: Iterable[Snapshot],
    *,
    weighting: str = "samples",
    drift: str = AUTO,
    aggregator: str = "mean",
    rank: str | int = "keep",
    screen: bool = True,
    byzantine: int | str | None = "auto",
    quorum: int | None = None,
    budget: str | int = AUTO_BUDGET,
    after: Fused | None = None,
) -> FusionRun:
    """Prepare a fusion with the parameters of `fuse`."""
    _check("weighting", weighting, WEIGHTINGS)
    _check("drift", drift, (AUTO, *CORRECTIONS))
    _check("aggregator", aggregator, AGGREGATORS.names)
    _check_number("rank", rank, ("keep", "full"))
    _check_number("byzantine", byzantine, ("auto", None), least=0)
    _check_number("quorum", quorum, (None,))
    _check_number("budget", budget, BUDGETS)
    chosen = get_aggregator(aggregator)
    if quorum is None:
        quorum = QUORUM if chosen.robust else 1
    nodes = unpack(each.without_pool() for each in newest(snapshots))
    check_compatible(nodes)
    options = FusionOptions(
        weighting=weighting,
        drift=drift,
        aggregator_name=aggregator,
        aggregator=chosen,
        rank=rank,
        screen=screen,
        byzantine=byzantine,
        quorum=quorum,
        budget=budget,
        after=None if after is None else after.start,  # of many rounds, none holds the last
    )
    return FusionRun(nodes, options)


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise FusionError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")


def _check_number(name: str, value: Any, words: tuple[str | None, ...], least: int = 1) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not whole and not any(value is word or value == word for word in words):
        allowed = ", ".join(map(repr, words))
        raise FusionError(
            f"{name}: expected {allowed} or a whole number of at least {least}, got {value!r}"
        )


class FusionRun:
    """One run of `fuse`.

    `hidden` are classes that nodes are treated as if they had never learnt. `vetted` says that
    these nodes come from a run that has vetted them and found them to be alike.
    """

    def __init__(
        self,
        nodes: list[NodeModel],
        options: FusionOptions,
        hidden: Mapping[str, Label] | None = None,
        *,
        vetted: bool = False,
    ) -> None:
        self.given = {node.node: node for node in nodes}
        self.claims = {node.node: claimed_counts(node) for node in nodes}
        vet = options.screen and not vetted
        before = None if options.after is None else options.after.refused
        found = vet_nodes(nodes, before) if vet else VettingResult(nodes)
        nodes, self.lost = (nodes, {}) if vetted else without_lone_features(found.nodes)
        self.nodes, self.options = nodes, options
        self.refused, self.rescaled, self.alike = dict(found.refused), found.rescaled, vetted
        self.axes = Axes.of([model for node in nodes for model in node.models.values()])
        self.tables: ClassTables
        self.relevance: Floats
        if not self.axes.labels:
            raise FusionError(self._nothing("learnt something" if not self.refused else COUNTED))
        self._take(nodes)
        _, self.names = self.axes.display_names
        if vet:
            strange = compare_nodes(self.tables, self.relevance, self.names)
            if strange:
                self.refused |= strange
                self._take([silenced(n) if i in strange else n for i, n in enumerate(nodes)])
        if hidden:
            self.tables = self.tables.only(~_cells(hidden, self.tables.nodes, self.axes.labels))
            if not self.tables.held.any():
                raise FusionError(self._nothing(COUNTED))
        self.layouts = {
            member: ModelLayout.of(
                [node.models[member] for node in nodes], len(self.axes.features), options.rank
            )
            for member in nodes[0].models
        }

    def _take(self, nodes: list[NodeModel]) -> None:
        """Arrange what these nodes have learnt on common axes."""
        self.tables = ClassTables.of(nodes, self.axes)
        if not self.tables.held.any():
            raise FusionError(self._nothing(COUNTED))
        self.pools = {
            member: Pool.of([node.models[member] for node in nodes], self.axes)
            for member in nodes[0].models
        }
        self.relevance = feature_relevance(self._first, self.tables)

    def _nothing(self, expected: str) -> str:
        reasons = "".join(f"; {self.nodes[i].node!r}: {why}" for i, why in self.refused.items())
        return f"expected a node that has {expected}, got none{reasons}"

    @property
    def _first(self) -> Pool:
        return next(iter(self.pools.values()))

    def run(self) -> Fused:
        frame, placements = self.frame, self.placements
        places = [each.coordinates for each in placements.values()]
        losses = [
            metric.loss
            for part in self.parts
            for model in part.models.values()
            for metric in model.metrics
        ]
        record = FusionRecord(
            axes=self.axes,
            tables=self.tables,
            used=frame.tables,
            relevance=self.relevance,
            alignment=Alignment(
                np.array([each.gain for each in places]), np.array([each.shift for each in places])
            ),
            component=[each.component for each in placements.values()],
            weights=self._shares(),
            screened=frame.screened,
            shared=[part.shared for part in self.parts],
            weighting=self.options.weighting,
            aggregator=self.options.aggregator_name,
            choice=frame.choice,
            rank_loss=max(losses, default=0.0),
            quorum=self.options.quorum,
            claims=self.claims,
            clusters=self.clusters,
            condensed=[model.condensed for part in self.parts for model in part.models.values()],
            metrics=self._metric_residuals,
        )
        report = functools.partial(build_report, record)
        left_out = frozenset(self.nodes[i].node for i in frame.screened.left_out)
        refused = {self.nodes[i].node: why for i, why in self.refused.items()}
        return Fused(
            self.axes, self.layouts, self.parts, placements, frame.choice, report, left_out, refused
        )

    def _metric_residuals(self) -> MetricResiduals:
        member, layout = next(iter(self.layouts.items()))
        group = self.frame.group
        inverse = np.array([part.models[member].scales["inverse"] for part in self.parts])
        gain = self.frame.alignment.gain
        return metric_residuals(self._first, gain, inverse[group], group, layout.kind)

    def _shares(self) -> Floats:
        """Return the share of each node in each class of its component."""
        shares = np.zeros(self.tables.samples.shape)
        for votes in self.votes:
            total = votes.voting.cells.sum(axis=0)
            shares += votes.voting.cells / np.where(total > 0, total, 1.0)
        return shares

    @functools.cached_property
    def clusters(self) -> Clusters:
        """Nodes that mean the same by their classes: each cluster is fused by itself."""
        if self.alike:
            return Clusters(np.zeros(len(self.nodes), np.int64), (np.zeros(0, np.int64),))
        diagonal = next(iter(self.layouts.values())).kind == at.DIAGONAL
        return find_clusters(self._first, self.tables, diagonal=diagonal)

    @functools.cached_property
    def frame(self) -> FusionFrame:
        """How sensors differ, what counts, and who is fused with whom."""
        choice = self._choose()
        correction = get_correction(choice.drift)
        tables, alignment, screened = self._correct_clusters(correction)
        screened.left_out.update(self.refused)
        for i, count in self.lost.items():
            screened.note(i, Clipping("features_left_out", count=count))
        for i in self.rescaled:
            screened.note(i, Clipping("metric_rescaled"))
        one_frame = self.options.drift != AUTO and correction.one_frame
        group = _groups(tables, self.clusters, one_frame=one_frame)
        return FusionFrame(choice, correction, tables, alignment, screened, group)

    # --- drift -----------------------------------------------------------------------------------

    def _choose(self) -> DriftChoice:
        if self.options.after is not None:
            return self.options.after.choice
        drift = self.options.drift
        if drift != AUTO:
            if get_correction(drift).needs_scales and not self.scaled:
                raise FusionError(
                    f"drift={drift!r}: expected models with standardize=True, and not with "
                    'absent="zero"'
                )
            return DriftChoice({}, drift, f"{drift}: as asked for")
        if len(self.nodes) == 1:
            why = "no correction: a single node has nothing to be compared with"
            return DriftChoice({}, UNCORRECTED, why)
        tried = candidates(scaled=self.scaled)
        return choose_correction(self.tables, self.clusters.number, tried, self._answers)

    def _answers(self, drift: str, turn: Turn) -> dict[int, Floats]:
        """Return what models fused by a correction say to the probes of a trial."""
        hidden = {self.nodes[i].node: self.axes.labels[k] for i, k in turn.hidden.items()}
        options = replace(self.options, drift=drift)
        nodes = [self.nodes[i] for i in turn.nodes]
        fused = FusionRun(nodes, options, hidden, vetted=True).run()
        place = {label: k for k, label in enumerate(self.axes.labels)}
        found = {}
        for i, probes in turn.probes.items():
            node = self.nodes[i]
            # Probes are what models see; a transform would be applied once more.
            model = build_estimator(fused.snapshot(node.node).estimator_state().innermost)
            rows = probes[:, self.axes.columns(node.first)]
            found[i] = np.zeros((len(rows), len(place)))
            found[i][:, [place[label] for label in model.classes]] = model.predict_proba_array(
                rows, tuple(node.first.features)
            )
        return found

    def _by_cluster(self) -> list[ClassTables]:
        number = self.clusters.number[:, None]
        if self.clusters.count == 1:
            return [self.tables]
        return [self.tables.only(number == k) for k in range(self.clusters.count)]

    @property
    def scaled(self) -> bool:
        """Whether all models divide by deviations, which gains of sensors cancel in.

        Those of sparse readings do not: they divide by the square root of the deviation.
        """
        return all(each.standardize and each.absent != "zero" for each in self.layouts.values())

    def _correct_clusters(
        self, correction: Correction
    ) -> tuple[ClassTables, Alignment, ScreeningResult]:
        """Return what counts, and how sensors differ according to what counts."""
        found = [self._correct(correction, tables) for tables in self._by_cluster()]
        if len(found) == 1:
            return found[0]
        number = self.clusters.number
        gain, shift = (np.zeros(found[0][1].gain.shape) for _ in range(2))
        screened = ScreeningResult(np.zeros(self.tables.held.shape, bool))
        for k, (_, alignment, part) in enumerate(found):
            inside = number == k
            gain[inside], shift[inside] = alignment.gain[inside], alignment.shift[inside]
            screened.add(part)
        return self.tables.only(screened.keep), Alignment(gain, shift), screened

    def _correct(
        self, correction: Correction, tables: ClassTables
    ) -> tuple[ClassTables, Alignment, ScreeningResult]:
        alignment = correction.estimate(tables)
        if not self.options.screen:
            return tables, alignment, ScreeningResult(tables.held)
        screened = screen_nodes(tables, alignment, self.relevance, self.names)
        if screened.keep.sum() == tables.held.sum():
            return tables, alignment, screened
        tables = tables.only(screened.keep)
        return tables, correction.estimate(tables), screened

    # --- fusing ----------------------------------------------------------------------------------

    @functools.cached_property
    def votes(self) -> list[Votes]:
        """How much each node has to say, of each component."""
        group = self.frame.group
        return [self.votes_on(self.frame.tables, group == k) for k in range(group.max() + 1)]

    def votes_on(self, tables: ClassTables, inside: Bools) -> Votes:
        """Return how much each of some nodes has to say, by these tables."""
        tables = tables.only(inside[:, None])
        samples = tables.samples
        totals = samples.sum(axis=1)
        heard = self._capped(totals)
        counts = samples * (heard / np.where(totals > 0, totals, 1.0))[:, None]
        counts = np.stack([self._capped_class(column) for column in counts.T], axis=1)
        for i in np.flatnonzero(totals > NOTED_CAP_RATIO * counts.sum(axis=1)).tolist():
            ratio = float(totals[i] / counts[i].sum())
            self.frame.screened.note(i, Clipping("counts_capped", ratio=ratio))
        uniform = self.options.weighting == "uniform"
        voting = VotingWeights(
            cells=(counts > 0).astype(float) if uniform else counts,
            nodes=(heard > 0).astype(float) if uniform else heard,
            aggregator=self.options.aggregator,
            spread=self.tables.spread,
            centre=class_centres(tables, self.frame.alignment),
            relevance=self.relevance,
            screened=self.frame.screened if self.options.screen else None,
            capped=self._capped_class,
            by_order=self.options.after is not None,
            budget=self.options.budget,
            labels=self.names,
        )
        return Votes(voting, tables, counts)

    @functools.cached_property
    def parts(self) -> list[Component]:
        """The combined models of each component."""
        return [self._component(votes) for votes in self.votes]

    def _component(self, votes: Votes) -> Component:
        alignment, voting = self.frame.alignment, votes.voting
        models = {
            member: combine(pool, alignment, voting, self.layouts[member])
            for member, pool in self.pools.items()
        }
        holders = (voting.cells > 0).sum(axis=0)
        return Component(
            models=models,
            statistics=class_statistics(
                votes.tables, alignment, voting.cells, votes.counts, self.options.aggregator
            ),
            shared=np.flatnonzero(holders >= self.options.quorum),
            fitted=self._fitted(voting.nodes),
            spread=self.tables.spread,
            usual_shift=_usual_shift(alignment, voting.nodes > 0),
            samples=float(votes.counts.sum()),
        )

    def _capped(self, weights: Floats) -> Floats:
        """Return weights that nodes claim for themselves, as far as they are believed."""
        byzantine = self.options.byzantine
        if byzantine == "auto":
            byzantine = assumed_byzantine(int((weights > 0).sum()))
        assert not isinstance(byzantine, str)
        # What an aggregator cuts off at either end must be no less than what byzantine nodes may have.
        aggregator = self.options.aggregator
        share = aggregator.trimmed if aggregator.robust else BYZANTINE_SHARE
        return capped_weights(weights, byzantine, share)

    def _capped_class(self, weights: Floats) -> Floats:
        """Return believed weights for a class, or for what else only some nodes have."""
        if self.options.byzantine is None:
            return weights
        if not self.options.aggregator.robust:
            return capped_weights(weights, 1, CLASS_SHARE)
        return self._capped(weights)

    def _fitted(self, nodes: Floats) -> Floats | None:
        if self.nodes[0].committee is None:
            return None
        if not nodes.any():
            return np.asarray(self.nodes[0].fitted)
        return weighted_mean(np.array([node.fitted for node in self.nodes]), nodes[:, None, None])

    # --- placing nodes ---------------------------------------------------------------------------

    @functools.cached_property
    def placements(self) -> dict[str, NodePlacement]:
        """Component, coordinates and knowledge of every node."""
        frame, parts, cluster = self.frame, self.parts, self.clusters.number
        placements = {}
        for i, node in enumerate(self.nodes):
            number = int(frame.group[i])
            coordinates = Coordinates(frame.alignment.gain[i], frame.alignment.shift[i])
            if number < 0:  # left out, or nothing learnt
                alike = np.unique(frame.group[(cluster == cluster[i]) & (frame.group >= 0)])
                number = max(alike.tolist() or range(len(parts)), key=lambda c: parts[c].samples)
                own_table = self.tables.node(i)
                coordinates = estimate_coordinates(own_table, parts[number], frame.correction)
            # Its own classes as well, wherever others have seen that they are.
            own = np.flatnonzero(self.tables.held[i] & (parts[number].statistics.samples > 0))
            columns = np.sort(self.axes.columns(node.first))
            if len(columns) == 0:  # nothing seen: it may come to have whatever others have
                columns = np.arange(len(self.axes.features))
            placements[node.node] = NodePlacement(node, number, coordinates, own, columns, i)
        return placements


def _cells(hidden: Mapping[str, Label], nodes: list[str], labels: list[Label]) -> Bools:
    """Return which cells (nodes x classes) are hidden."""
    cells = np.zeros((len(nodes), len(labels)), bool)
    for node, label in hidden.items():
        if label in labels:  # else nobody brings anything about it
            cells[nodes.index(node), labels.index(label)] = True
    return cells


@dataclass(frozen=True)
class Votes:
    """How much the nodes of a component have to say, and about what."""

    voting: VotingWeights
    tables: ClassTables  # of these nodes alone
    counts: Floats  # samples that are believed (nodes x classes)


@dataclass(frozen=True)
class FusionFrame:
    """Common coordinates of a run, what counts in them, and which nodes are fused together."""

    choice: DriftChoice
    correction: Correction
    tables: ClassTables  # without what was left out
    alignment: Alignment
    screened: ScreeningResult
    group: Ints  # the component of every node, -1 for those who have nothing to say


def _groups(tables: ClassTables, clusters: Clusters, *, one_frame: bool) -> Ints:
    """Return the component of every node in its cluster; -1 for those who have nothing to say."""
    silent = np.asarray(~tables.held.any(axis=1))
    group = np.zeros(len(silent), np.int64)
    for k in range(clusters.count):
        inside = clusters.number == k
        # Somebody may have said that all sensors agree, whether they share classes or not.
        parts = np.zeros(inside.sum(), np.int64) if one_frame else components(tables.held[inside])
        group[inside] = len(silent) * k + parts
    _, number = np.unique(group[~silent], return_inverse=True)
    group[silent], group[~silent] = -1, number
    return group


def _usual_shift(alignment: Alignment, inside: Bools) -> Floats:
    shifts = alignment.shift[inside]
    return (shifts**2).mean(axis=0) if len(shifts) else np.zeros(alignment.shift.shape[1])
