"""Shadow learners: a fused model after passes over the readings that a node has stored.

A shadow learner starts from a fused model in the coordinates of a node and learns what the node has
learnt before. The local learner never sees the result, so nothing echoes. It is what a node returns
in a round of FedAvg or FedProx, and a candidate for what it serves (personalised).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamlvq.arrays import Array, Bools, Floats, Ints, Label, Rows
from streamlvq.estimator import EstimatorState, build_estimator, estimator_class
from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.engine import ARRAY_SECTIONS, Engine, learning_again, widen_ranges
from streamlvq.models.parameters import ABSENT_VALUES
from streamlvq.models.vectorizer import Vectorizer
from streamlvq.snapshot.state import COMMITTEE

# --- readings that a node has stored --------------------------------------------------------------


@dataclass(frozen=True)
class StoredReadings:
    """Labelled readings of a node in the units of its model, the oldest first; NaN is missing."""

    rows: Rows
    labels: list[Label]
    features: list[Hashable]
    weights: Floats

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def digest(self) -> str:
        """What tells these readings from others."""
        told = repr((self.labels, self.features)).encode()
        numbers = self.rows.tobytes() + self.weights.tobytes()
        return hashlib.sha256(numbers + told).hexdigest()

    def without(self, labels: Collection[Label]) -> StoredReadings:
        """Return the readings of all other classes."""
        keep = np.array([label not in labels for label in self.labels], bool)
        return self._only(keep)

    def _only(self, keep: Bools) -> StoredReadings:
        labels = [label for label, kept in zip(self.labels, keep, strict=True) if kept]
        return replace(self, rows=self.rows[keep], labels=labels, weights=self.weights[keep])


def stored_readings(state: EstimatorState) -> StoredReadings:
    """Return the labelled readings that a model keeps for rehearsal.

    Those of a committee are those of the member that keeps most of them. A snapshot without
    readings has none, nor has a model that does not rehearse.

    Examples
    --------

    >>> from streamlvq import GLVQ
    >>> from streamlvq.fusion.personal import stored_readings

    >>> model = GLVQ(buffer_size=2)
    >>> for x, y in [(1.0, "ham"), (4.0, "spam"), (1.5, "ham")]:
    ...     model.learn_one({"x": x}, y)
    >>> stored = stored_readings(model.state())
    >>> stored.rows.tolist(), stored.labels
    ([[4.0], [1.5]], ['spam', 'ham'])

    """
    innermost = state.innermost
    parts = list(innermost.parts.values()) if innermost.kind == COMMITTEE else [innermost]
    holder = max(parts, key=lambda part: len(part.arrays.get("buffer_y", ())))
    if "buffer_y" not in holder.arrays:
        features = list(parts[0].extra.get("features", []))
        return StoredReadings(np.empty((0, len(features))), [], features, np.empty(0))
    sizes, classes = holder.extra["sizes"], holder.extra["classes"]
    codes, features = holder.arrays["buffer_y"], list(holder.extra["features"])
    # A ring: the next reading would replace the oldest.
    oldest = sizes["stored"] % sizes["buffer"] if sizes["stored"] > sizes["buffer"] else 0
    order = np.roll(np.arange(len(codes)), -oldest)
    rows = holder.arrays.get("buffer_x", np.empty((len(codes), 0)))
    labels = [classes[code] for code in codes[order].tolist()]
    return StoredReadings(rows[order], labels, features, holder.arrays["buffer_weight"][order])


# --- passes ---------------------------------------------------------------------------------------


def local_passes(
    start: EstimatorState,
    readings: StoredReadings,
    *,
    passes: int = 1,
    pull: float = 0.0,
    seed: int | None = None,
) -> EstimatorState:
    """Return a fused model after passes over a node's stored readings.

    Only prototypes and metrics move. Prototypes neither appear nor leave, class statistics and
    feature scales are those of the start, and probabilities do not become surer: the readings were
    learnt before.

    Parameters
    ----------
    start
        State of a fused model in the coordinates of the node, such as
        `fused.snapshot(node).estimator_state()`. `build_estimator` makes a classifier of either.
    readings
        What the node has stored. Readings of classes that the fused model lacks are skipped.
    passes
        How often to learn them.
    pull
        Weight of the proximal term `pull / 2 * ||parameters - start||^2` that is added to the cost
        of each reading (FedProx); 0 is FedAvg. After the gradient step of a reading every prototype
        and metric takes the implicit step along that term, `start + (value - start) / (1 + rate *
        pull)` with the learning rate of the model, which never overshoots however large the pull;
        metrics are then scaled to norm one again.
    seed
        Of a new random order in each pass; None for the order in which the readings came.

    Examples
    --------

    >>> from streamlvq import GLVQ, Snapshot, fuse
    >>> from streamlvq.estimator import build_estimator
    >>> from streamlvq.fusion.personal import local_passes, stored_readings

    >>> nodes = []
    >>> for name, centre in {"a": 4.0, "b": 6.0}.items():
    ...     model = GLVQ(max_prototypes_per_class=1)
    ...     for k in range(20):
    ...         model.learn_one({"x": centre + k % 5 / 10, "y": 1.0 * k % 3}, "spam")
    ...         model.learn_one({"x": 1.0 + k % 5 / 10, "y": 1.0 * k % 3}, "ham")
    ...     nodes.append(Snapshot.of(model, name))
    >>> start = fuse(nodes, drift="none").snapshot("b").estimator_state()
    >>> stored = stored_readings(nodes[1].estimator_state())
    >>> def spam(state):
    ...     return round(build_estimator(state).prototypes()[1].values["x"], 2)
    >>> spam(start), spam(local_passes(start, stored, passes=5))
    (6.1, 6.61)

    """

    def learnt(part: EstimatorState) -> EstimatorState:
        if not issubclass(estimator_class(part.kind), LVQClassifier) or not part.arrays:
            return part
        learner = _ShadowLearner(part, readings)
        with learning_again(learner.engine):
            for number in range(passes):
                learner.learn(None if seed is None else [seed, number], pull)
        return learner.state()

    return map_models(start, learnt)


def learnt_on(start: EstimatorState, readings: StoredReadings) -> EstimatorState:
    """Return a fused model after it has learnt readings as the model of a node would.

    In the order in which they came, once, with rehearsal, new prototypes and new classes: what a
    node would have if it went on from the fused model. The result is surer of itself than it should
    be; the weights of a pool make up for it.

    Examples
    --------

    >>> from streamlvq import GLVQ, Snapshot, fuse
    >>> from streamlvq.fusion.personal import learnt_on, stored_readings

    >>> nodes = []
    >>> for name, centre in {"a": 4.0, "b": 6.0}.items():
    ...     model = GLVQ(max_prototypes_per_class=1)
    ...     for k in range(20):
    ...         model.learn_one({"x": centre + k % 5 / 10}, "spam")
    ...         model.learn_one({"x": 1.0 + k % 5 / 10}, "ham")
    ...     nodes.append(Snapshot.of(model, name))
    >>> start = fuse(nodes, drift="none").snapshot("b").estimator_state()
    >>> learnt_on(start, stored_readings(nodes[1].estimator_state())).extra["sizes"]["samples"]
    120

    """
    if "classifier" in start.parts:  # stored readings are in the units of the model inside
        inner = learnt_on(start.parts["classifier"], readings)
        return replace(start, parts={**start.parts, "classifier": inner})
    model = build_estimator(start)
    if len(readings):
        names = tuple(readings.features)
        model.learn_array(readings.rows, readings.labels, names, w=readings.weights)
    state: EstimatorState = model.state(readings=False)
    return state


def map_models(
    state: EstimatorState, change: Callable[[EstimatorState], EstimatorState]
) -> EstimatorState:
    """Return a state whose models, inside wrappers and committees, were changed."""
    if "classifier" in state.parts:
        inner = map_models(state.parts["classifier"], change)
        return replace(state, parts={**state.parts, "classifier": inner})
    if state.kind == COMMITTEE:
        return replace(state, parts={name: change(part) for name, part in state.parts.items()})
    return change(state)


class _ShadowLearner:
    """A copy of a fused model that learns stored readings."""

    def __init__(self, start: EstimatorState, readings: StoredReadings) -> None:
        self.model: Any = build_estimator(start)
        self.engine: Engine = self.model.engine
        codes = np.array([self.model.class_number(label) for label in readings.labels], np.int64)
        known = codes >= 0
        vectorizer = Vectorizer(self.model.features, ABSENT_VALUES[self.model.absent])
        rows = vectorizer.arrange(readings.rows, readings.features)
        self.rows = np.ascontiguousarray(rows[known])
        self.codes, self.weights = codes[known], readings.weights[known]
        widen_ranges(self.engine, self.rows, self.codes)
        self._normalise()
        for name in ("wins", "usefulness"):  # of this node's readings, not of the whole fleet's
            self.engine.state[name][...] = 0.0
        self.start_w, self.start_omega = self._w.copy(), self._omega.copy()

    @property
    def _w(self) -> Floats:
        w: Floats = self.engine.state["w"][: self.engine.state.size(at.N_PROTOTYPES)]
        return w

    @property
    def _omega(self) -> Floats:
        """Metrics that prototypes use."""
        count, spec = self.engine.state.size(at.N_PROTOTYPES), self.engine.spec
        used = 1 + spec.metric_of(count - 1) if spec.metrics(count) else 0
        omega: Floats = self.engine.state["omega"][:used]
        return omega

    def _normalise(self) -> None:
        """Scale metrics to norm one, as every step does: fused ones are means in other units."""
        varies = self.engine.state["varies"] > 0.0
        norm = np.linalg.norm(self._omega[:, :, varies], axis=(1, 2), keepdims=True)
        self._omega[:, :, varies] /= np.where(norm > 0.0, norm, 1.0)

    def learn(self, seed: list[int] | None, pull: float) -> None:
        """Make one pass, in the order in which the readings came or a random one."""
        order = np.arange(len(self.codes))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(order)
        for step in np.array_split(order, max(len(order), 1)) if pull > 0.0 else [order]:
            self.engine.learn_rows(self.rows[step], self.codes[step], weights=self.weights[step])
            if pull > 0.0:
                self._pull(pull)

    def _pull(self, pull: float) -> None:
        """Take the implicit step along the proximal term, see `local_passes`."""
        rates, w, omega = self.engine.floats, self._w, self._omega
        drawn = self.start_w + (w - self.start_w) / (1.0 + pull * rates[at.LEARNING_RATE])
        np.copyto(w, drawn, where=np.isfinite(self.start_w))  # else there is nowhere to go back to
        if len(omega):
            rate = pull * rates[at.METRIC_RATE]
            omega[...] = self.start_omega + (omega - self.start_omega) / (1.0 + rate)
            self._normalise()

    def state(self) -> EstimatorState:
        """Return what was learnt, without readings."""
        state: EstimatorState = self.model.state(readings=False)
        return state


# --- what a node returns --------------------------------------------------------------------------


def with_own_statistics(answer: EstimatorState, own: EstimatorState) -> EstimatorState:
    """Return a personalised model with the class statistics of the node's own model.

    So it can be fused again: it counts as much as the node has learnt of each class, and nothing
    for classes that the node has never seen.
    """
    innermost = own.innermost
    sources = dict(innermost.parts) if innermost.kind == COMMITTEE else {"": innermost}
    if answer.innermost.kind != COMMITTEE:
        return map_models(answer, lambda part: _with_statistics(part, sources[""]))
    committee = answer.innermost
    parts = {name: _with_statistics(part, sources[name]) for name, part in committee.parts.items()}
    return _replace_innermost(answer, replace(committee, parts=parts))


def _replace_innermost(state: EstimatorState, innermost: EstimatorState) -> EstimatorState:
    if "classifier" not in state.parts:
        return innermost
    inner = _replace_innermost(state.parts["classifier"], innermost)
    return replace(state, parts={**state.parts, "classifier": inner})


def _with_statistics(part: EstimatorState, own: EstimatorState) -> EstimatorState:
    """Return a model with another one's class statistics and weights of features."""
    if not part.arrays or not own.arrays:
        return part
    columns, rows = _places(part, own, "features"), _places(part, own, "classes")
    arrays = dict(part.arrays)
    for name in ("class_count", "class_weight", "class_mean", "class_variance", "weight"):
        if name in part.arrays:
            arrays[name] = _taken(name, part.arrays[name], own.arrays[name], rows, columns)
    samples = max(int(own.extra["sizes"]["samples"]), len(part.extra["classes"]))
    sizes = {**part.extra["sizes"], "samples": samples}
    return replace(part, arrays=arrays, extra={**part.extra, "sizes": sizes})


def _places(part: EstimatorState, own: EstimatorState, names: str) -> tuple[Ints, Ints]:
    """Return where the names that both know are in each of them."""
    there = {name: k for k, name in enumerate(own.extra[names])}
    both = [(k, there[name]) for k, name in enumerate(part.extra[names]) if name in there]
    here, other = np.array(both, np.int64).reshape(-1, 2).T
    return here, other


def _taken(
    name: str, shape: Array, own: Array, rows: tuple[Ints, Ints], columns: tuple[Ints, Ints]
) -> Array:
    """Return the values of another model in the places of this one; 0 for what it does not know."""
    axes = {at.CLASS_CAPACITY: rows, at.N_FEATURES: columns}
    here, there = zip(*(axes[size] for size in ARRAY_SECTIONS[name].sizes), strict=True)
    out = np.zeros_like(shape)
    out[np.ix_(*here)] = own[np.ix_(*there)]
    return out
