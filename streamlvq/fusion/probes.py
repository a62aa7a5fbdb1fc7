"""`ProbeSet`: readings that could be of each class, made out of the class statistics of all nodes.

Models of different kinds have no form in common that could be averaged, but all of them give
probabilities at common probes, see `streamlvq.fusion.probe_answers`.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import numpy as np

from streamlvq.arrays import Array, Bools, Floats, Ints, Label
from streamlvq.errors import SnapshotError
from streamlvq.fusion.aggregators import (
    BYZANTINE_SHARE,
    Aggregator,
    assumed_byzantine,
    capped_weights,
    get_aggregator,
    weighted_median,
)
from streamlvq.fusion.class_moments import (
    ClassMoments,
    check_arrays,
    check_inside,
    check_node,
    convert_file,
    newest_moments,
)
from streamlvq.fusion.class_tables import (
    CHECKABLE_NODES,
    Alignment,
    Axes,
    ClassStatistics,
    ClassTables,
    CommonTable,
    class_statistics,
)
from streamlvq.fusion.corrections import (
    UNCORRECTED,
    Correction,
    candidates,
    get_correction,
)
from streamlvq.fusion.draws import class_deviations, class_probes
from streamlvq.fusion.node_models import FusionError, NodeModel, without_lone_features
from streamlvq.fusion.screening import screen_nodes
from streamlvq.fusion.sharing import components
from streamlvq.fusion.trials import Turn, choose_correction
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.models.validation import MAX_SAMPLES
from streamlvq.models.vectorizer import name_order
from streamlvq.registry import AGGREGATORS, CORRECTIONS
from streamlvq.snapshot import Snapshot, decode, encode
from streamlvq.snapshot.state import decode_names, encode_name

PROBES_PER_CLASS = 32
MAX_PROBES_PER_CLASS = 4096
# Of the classes that most nodes have: some nodes must not make work for all others.
MAX_PROBED_CLASSES = 256
MAX_PROBE_NUMBERS = 2**24  # probes x features
MAX_PROBE_BYTES = 2**28  # of a file
PROBE_REACH = 100.0  # deviations over all classes from the fleet's middle
# Deviations within classes by which sensors may be off: more, and rounding would eat all digits.
MAX_PROBE_OFFSET = 1e4
AUTOMATIC = "auto"


class _ProbesFile(msgspec.Struct, forbid_unknown_fields=True):
    """Metadata of a file with probes."""

    nodes: list[str]
    features: list[Any]
    labels: list[Any]
    drift: str


@dataclass(frozen=True, eq=False)
class ProbeSet:
    """Readings that could be of each class, in coordinates common to all nodes.

    Made of class statistics by `of`, a pure function of their set: all nodes that have the same
    statistics make the same probes to the last bit. Versions of numpy and processors may differ, so
    nodes of different kinds had better be sent one set (`to_bytes`).

    Parameters
    ----------
    nodes
        Names of the nodes, sorted.
    features, labels
        Features and classes of any node.
    points
        Probes x features, in common coordinates; NaN for a feature that nobody has in that class.
    origin
        The number of the class whose statistics each probe was drawn from.
    gain, shift
        Nodes x features: a node's sensors show `gain * point + shift`.
    has_feature, trusted
        Nodes x features, and nodes x classes: what a node has, and which of its classes
        contradict nobody.
    samples
        Nodes x classes: how many readings a node says to have learnt.
    group
        Of each node: nodes of different groups share no class and cannot be compared.
    drift
        The correction.

    Examples
    --------

    Two nodes with different models, whose sensors differ by an offset:

    >>> from river.naive_bayes import GaussianNB
    >>> from streamlvq import GLVQ, Snapshot
    >>> from streamlvq.fusion import ClassMoments, ProbeAnswers, ProbeSet, learn_from_probes

    >>> first, second, moments = GLVQ(), GaussianNB(), ClassMoments("b")
    >>> for k in range(20):
    ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...         first.learn_one({"x": x + k % 5 / 2}, y)
    ...         if y != "egg":
    ...             second.learn_one({"x": x + k % 5 / 2 + 2.0}, y)
    ...             moments.learn_one({"x": x + k % 5 / 2 + 2.0}, y)
    >>> probes = ProbeSet.of([Snapshot.of(first, "a"), moments])
    >>> probes
    ProbeSet(96 probes, 3 classes, 1 features, 2 nodes, drift='least_squares')
    >>> answers = [ProbeAnswers.of(first, "a", probes), ProbeAnswers.of(second, "b", probes)]

    The second has never seen an egg:

    >>> taught = learn_from_probes(second, "b", probes, answers)
    >>> second.predict_one({"x": 10.0}), taught.predict_one({"x": 10.0})
    ('spam', 'egg')

    """

    nodes: tuple[str, ...]
    features: tuple[Hashable, ...]
    labels: tuple[Label, ...]
    points: Floats
    origin: Ints
    gain: Floats
    shift: Floats
    has_feature: Bools
    trusted: Bools
    samples: Floats
    group: Ints
    drift: str

    @classmethod
    def of(
        cls,
        statistics: Iterable[Snapshot | ClassMoments],
        *,
        per_class: int = PROBES_PER_CLASS,
        drift: str = AUTOMATIC,
        aggregator: str = "trimmed_mean",
        screen: bool = True,
    ) -> Self:
        """Draw probes from the class statistics of all nodes.

        Parameters
        ----------
        statistics
            Snapshots of nodes with prototypes, and `ClassMoments` of all others.
        per_class
            How many probes each class has.
        drift
            How the sensors of nodes differ, see `streamlvq.fuse`.
        aggregator
            How class statistics of nodes become one, see `streamlvq.fuse`.
        screen
            Whether to leave out class means that contradict those of all other nodes.

        """
        if not 1 <= per_class <= MAX_PROBES_PER_CLASS:
            raise FusionError(f"per_class: expected 1 to {MAX_PROBES_PER_CLASS}, got {per_class!r}")
        if drift != AUTOMATIC and drift not in CORRECTIONS:
            known = ", ".join((AUTOMATIC, *CORRECTIONS))
            raise FusionError(f"drift: expected one of {known}, got {drift!r}")
        nodes = [moments.node_model() for moments in newest_moments(statistics)]
        if nodes:
            nodes, _ = without_lone_features(nodes)
        design = _Design(nodes, per_class, drift, known_aggregator(aggregator), screen)
        points, origin = design.points(per_class)
        return cls(
            nodes=tuple(node.node for node in nodes),
            features=tuple(design.axes.features),
            labels=tuple(design.axes.labels),
            points=points,
            origin=origin,
            gain=design.alignment.gain,
            shift=design.alignment.shift,
            has_feature=design.has_feature(),
            trusted=design.tables.held,
            samples=design.published.samples,
            group=design.group,
            drift=design.drift,
        )

    def __len__(self) -> int:
        return len(self.points)

    def index(self, node: str) -> int:
        """Return the number of a node."""
        if node not in self.nodes:
            known = ", ".join(map(repr, self.nodes[:9]))
            raise FusionError(f"expected a node whose statistics took part ({known}), got {node!r}")
        return self.nodes.index(node)

    def rows(self, node: str) -> Floats:
        """Return the probes as the sensors of a node would show them; NaN for what it lacks."""
        i = self.index(node)
        rows: Floats = np.clip(
            self.gain[i] * self.points + self.shift[i], -LARGEST_VALUE, LARGEST_VALUE
        )
        rows[:, ~self.has_feature[i]] = np.nan
        return rows

    def readings(self, node: str) -> list[dict[Hashable, float]]:
        """Return the probes as readings of a node."""
        return [
            {n: v for n, v in zip(self.features, row, strict=True) if not math.isnan(v)}
            for row in self.rows(node).tolist()
        ]

    @functools.cached_property
    def digest(self) -> str:
        """Checksum that tells this set from any other."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Encode as a file like that of a snapshot, with a checksum and nothing executable."""
        file = _ProbesFile(
            list(self.nodes),
            [encode_name(name, "feature") for name in self.features],
            [encode_name(label, "label") for label in self.labels],
            self.drift,
        )
        arrays = {name: np.asarray(getattr(self, name), np.float64) for name in self._shapes()}
        meta = msgspec.structs.asdict(file)
        return encode(arrays, meta, kind="probes", limit=MAX_PROBE_BYTES)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Decode what `to_bytes` returned; raises `SnapshotError` for what cannot be."""
        arrays, meta = decode(data, kind="probes", limit=MAX_PROBE_BYTES)
        file = convert_file(meta, _ProbesFile)
        for node in file.nodes:
            check_node(node)
        if file.nodes != sorted(set(file.nodes)) or file.drift not in CORRECTIONS:
            raise SnapshotError(
                f"expected sorted names of nodes and one of {', '.join(CORRECTIONS)}, got "
                f"{file.nodes[:9]} and {file.drift[:80]!r}"
            )
        probes = cls(
            nodes=tuple(file.nodes),
            features=tuple(decode_names(file.features, "feature")),
            labels=tuple(decode_names(file.labels, "label")),
            drift=file.drift,
            **_probe_arrays(arrays),
        )
        check_arrays(arrays, probes._shapes())
        probes._check()
        return probes

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        n, m, d, c = len(self.points), len(self.nodes), len(self.features), len(self.labels)
        return {
            "points": (n, d),
            "origin": (n,),
            "gain": (m, d),
            "shift": (m, d),
            "has_feature": (m, d),
            "trusted": (m, c),
            "samples": (m, c),
            "group": (m,),
        }

    def _check(self) -> None:
        most = LARGEST_VALUE
        check_inside(
            "points", np.nan_to_num(self.points, posinf=np.inf, neginf=-np.inf), -most, most
        )
        check_inside("origin", self.origin, 0, len(self.labels) - 1)
        check_inside("gain", self.gain, 1.0 / most, most)
        check_inside("shift", self.shift, -most, most)
        check_inside("samples", self.samples, 0.0, MAX_SAMPLES)
        check_inside("group", self.group, 0, max(len(self.nodes) - 1, 0))

    def __repr__(self) -> str:
        return (
            f"ProbeSet({len(self)} probes, {len(self.labels)} classes, {len(self.features)} "
            f"features, {len(self.nodes)} nodes, drift={self.drift!r})"
        )


def _probe_arrays(arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the arrays of a file with the types that they have in a `ProbeSet`."""
    whole, truths = ("origin", "group"), ("has_feature", "trusted")
    for name in (*whole, *truths):
        array = arrays.get(name, np.zeros(0))
        check_inside(name, array, 0, 1 if name in truths else 2**31)
        if (array != np.floor(array)).any():
            raise SnapshotError(f"array {name!r}: expected whole numbers")
    floats = ("points", "gain", "shift", "samples")
    missing = np.zeros((0, 0))
    for name in floats:
        if (axes := arrays.get(name, missing).ndim) != 2:
            raise SnapshotError(f"array {name!r}: expected 2 axes, got {axes}")
    return {
        **{name: arrays.get(name, missing) for name in floats},
        **{name: arrays.get(name, missing).astype(np.int64) for name in whole},
        **{name: arrays.get(name, missing).astype(bool) for name in truths},
    }


class _Design:
    """One run of `ProbeSet.of`: statistics of all nodes, and how their sensors differ."""

    def __init__(
        self,
        nodes: list[NodeModel],
        per_class: int,
        drift: str,
        aggregator: Aggregator,
        screen: bool,
    ) -> None:
        self.nodes, self.aggregator = nodes, aggregator
        self.axes = _common_axes(nodes, per_class)
        self.published = ClassTables.of(_limited(nodes, self.axes), self.axes)
        if not self.published.held.any() or not self.axes.features:
            raise FusionError("expected a node that has counted what it learnt, got none")
        self.relevance = np.full(len(self.axes.features), 1.0 / len(self.axes.features))
        self.tables = self.published
        if screen:
            self.tables = self.tables.only(possible_nodes(self.tables)[:, None])
        self.drift = self._choose() if drift == AUTOMATIC else drift
        correction = get_correction(self.drift)
        alignment = self._correct(correction, screen)
        self.statistics = self._statistics(self.tables, alignment)
        self.alignment = self._place_others(alignment, correction)
        # Who asks for no correction says that sensors agree, whether nodes share classes or not.
        self.group = self._groups(one_frame=drift != AUTOMATIC and correction.one_frame)

    def _choose(self) -> str:
        if len(self.nodes) == 1:
            return UNCORRECTED
        one_cluster = np.zeros(len(self.nodes), np.int64)
        tried = candidates(scaled=True)
        return choose_correction(self.tables, one_cluster, tried, self._answers).drift

    def _answers(self, drift: str, turn: Turn) -> dict[int, Floats]:
        """Return what common class statistics say to the probes of a trial.

        Models of different kinds cannot be fused. In their place stands a normal distribution of
        each class, of the same width for all.
        """
        tables = self.tables.only(turn.visible(self.tables.held.shape))
        alignment = get_correction(drift).estimate(tables)
        statistics = self._statistics(tables, alignment)
        return {
            i: _chances((rows - alignment.shift[i]) / alignment.gain[i], statistics, tables.spread)
            for i, rows in turn.probes.items()
        }

    def _correct(self, correction: Correction, screen: bool) -> Alignment:
        """Return how sensors differ according to what counts."""
        alignment = correction.estimate(self.tables)
        if not screen:
            return alignment
        _, names = self.axes.display_names
        keep = screen_nodes(self.tables, alignment, self.relevance, names).keep
        if keep.sum() == self.tables.held.sum():
            return alignment
        self.tables = self.tables.only(keep)
        return correction.estimate(self.tables)

    def _statistics(self, tables: ClassTables, alignment: Alignment) -> ClassStatistics:
        samples = tables.samples
        totals = samples.sum(axis=1)
        heard = believed_counts(totals, self.aggregator)
        counts = samples * (heard / np.where(totals > 0, totals, 1.0))[:, None]
        counts = np.stack([believed_counts(each, self.aggregator) for each in counts.T], axis=1)
        return class_statistics(tables, alignment, counts, counts, self.aggregator)

    def _place_others(self, alignment: Alignment, correction: Correction) -> Alignment:
        """Estimate the coordinates of nodes that have no say from what the others agree on."""
        gain, shift = alignment.gain.copy(), alignment.shift.copy()
        known = self.statistics.weight > 0
        common = CommonTable(
            np.where(known, self.statistics.mean, np.nan),
            np.where(known, self.statistics.variance, np.nan),
            self.published.spread,
        )
        for i in np.flatnonzero(~self.tables.held.any(axis=1)).tolist():
            gain[i], shift[i], _ = correction.fit_node(self.published.node(i), common)
        return Alignment(gain, np.clip(shift, -LARGEST_VALUE, LARGEST_VALUE))

    def _groups(self, *, one_frame: bool) -> Ints:
        if one_frame:
            return np.zeros(len(self.nodes), np.int64)
        return np.unique(components(self.published.held), return_inverse=True)[1].astype(np.int64)

    def has_feature(self) -> Bools:
        found = np.zeros((len(self.nodes), len(self.axes.features)), bool)
        for i, node in enumerate(self.nodes):
            # One that has learnt nothing may come to have whatever others have.
            found[i, self.axes.columns(node.first) if node.first.features else slice(None)] = True
        return found

    def points(self, per_class: int) -> tuple[Floats, Ints]:
        """Return probes around the mean of every class that somebody has, and their classes."""
        stats, held = self.statistics, self.tables.held.any(axis=0)
        deviation = class_deviations(stats.weight, stats.variance, self.tables.spread)
        points, origin = class_probes(stats.mean, deviation, np.flatnonzero(held), per_class)
        low, high = self._reach()
        points = np.clip(np.clip(points, low, high), -LARGEST_VALUE, LARGEST_VALUE)
        return np.where(stats.weight[origin] > 0, points, np.nan), origin

    def _reach(self) -> tuple[Floats, Floats]:
        """Return how far out probes may lie, by what most nodes have seen of each feature."""
        weight = self.tables.count
        total = weight.sum(axis=1)
        share = weight / np.where(total > 0, total, 1.0)[:, None]
        place = self.alignment.align(self.tables.mean)
        inner = self.tables.variance / self.alignment.gain[:, None, :] ** 2
        middle = (share * place).sum(axis=1)
        variance = (share * (inner + (place - middle[:, None]) ** 2)).sum(axis=1)
        seen = (total > 0).astype(float)
        centre = np.nan_to_num(weighted_median(middle, seen))
        width = PROBE_REACH * np.sqrt(np.nan_to_num(weighted_median(variance, seen)))
        # One reading of each class would have no width at all.
        width = np.maximum(width, PROBE_REACH * np.sqrt(self.tables.spread.max(axis=0)))
        return centre - width, centre + width


def _common_axes(nodes: list[NodeModel], per_class: int) -> Axes:
    """Return the features of all nodes, and the classes that most of them have."""
    axes = Axes.of([node.first for node in nodes])
    each = per_class * max(len(axes.features), 1)
    most = max(min(MAX_PROBED_CLASSES, MAX_PROBE_NUMBERS // each), 2)
    holders = Counter(label for node in nodes for label in node.first.labels)
    ordered = sorted(axes.labels, key=lambda label: -holders[label])  # stable
    return Axes(axes.features, name_order(ordered[:most]))


def _limited(nodes: list[NodeModel], axes: Axes) -> list[NodeModel]:
    """Return the nodes without the classes that are not among the common ones."""
    known = set(axes.labels)
    return [
        node if known.issuperset(node.first.labels) else _without_classes(node, known)
        for node in nodes
    ]


def _without_classes(node: NodeModel, known: set[Label]) -> NodeModel:
    model = node.first
    keep = [k for k, label in enumerate(model.labels) if label in known]
    arrays = {name: array[keep] for name, array in model.arrays.items()}
    labels = [model.labels[k] for k in keep]
    model = type(model)(model.state, arrays, model.features, labels)
    return NodeModel(node.node, {"": model}, None, None, None)


def _chances(points: Floats, statistics: ClassStatistics, spread: Floats) -> Floats:
    """Return the probabilities of classes at points, if all classes scatter alike."""
    width = np.median(spread, axis=0)
    squares = np.full((len(points), len(spread)), np.inf)
    for k in np.flatnonzero(statistics.samples > 0).tolist():
        apart = np.where(statistics.weight[k] > 0, points - statistics.mean[k], 0.0)
        squares[:, k] = (np.nan_to_num(apart) ** 2 / width).sum(axis=1)
    chances = np.exp(-0.5 * (squares - squares.min(axis=1, keepdims=True)))
    found: Floats = chances / chances.sum(axis=1, keepdims=True)
    return found


def possible_nodes(tables: ClassTables) -> Bools:
    """Return which nodes have sensors that are off by what can be corrected.

    What is far from most other nodes in any feature cannot, if at least three nodes have it.
    """
    total = tables.count.sum(axis=1)
    share = tables.count / np.where(total > 0, total, 1.0)[:, None, :]
    seen = total > 0
    mean = (share * np.where(tables.count > 0, tables.mean, 0.0)).sum(axis=1)
    deviation = np.sqrt((share * tables.variance).sum(axis=1))
    middle = weighted_median(np.where(seen, mean, np.nan), seen.astype(float))
    usual = np.sqrt(tables.spread.max(axis=0))
    far = (abs(mean - middle) > MAX_PROBE_OFFSET * usual) | (deviation > MAX_PROBE_OFFSET * usual)
    judged = seen & (seen.sum(axis=0) >= CHECKABLE_NODES)
    possible: Bools = ~(judged & far).any(axis=1)
    return possible


def believed_counts(counts: Floats, aggregator: Aggregator) -> Floats:
    """Return counts that nodes claim, as far as they are believed.

    What an aggregator cuts off at either end is no less than what byzantine nodes may have.
    """
    byzantine = assumed_byzantine(int((counts > 0).sum()))
    share = aggregator.trimmed if aggregator.robust else BYZANTINE_SHARE
    return capped_weights(counts, byzantine, share)


def known_aggregator(name: str) -> Aggregator:
    if name not in AGGREGATORS:
        raise FusionError(f"aggregator: expected one of {', '.join(AGGREGATORS)}, got {name!r}")
    return get_aggregator(name)
