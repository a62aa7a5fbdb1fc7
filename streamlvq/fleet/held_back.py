"""What a node may publish without showing fewer than k readings of a class.

Two publications one reading apart tell that reading: counts times means, subtracted. So the parts
of a model change from one publication to the next only if enough is new:

- a class (count, means, spreads, prototypes and their own metrics): at least k new readings of it;
- a pair of classes: one of them has so many, and the other as well or none at all;
- what classes share (metric, temperature, weights of members): no class has 1 to k - 1 unpublished
  readings. Before that has ever been so, they are those of an untrained model.

A class that is published for the first time while others wait has one prototype, at its mean, until
it goes ahead of them. Features, their means and their scales are those of the published classes
alone, so neither unlabelled readings nor those held back are in them. This is no differential
privacy: k readings of a class still tell their mean and spread, and a prototype may lie on a
reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Array, Floats, Ints, Label
from streamlvq.estimator import EstimatorState, estimator_class
from streamlvq.fleet.pools import with_innermost
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models import LVQCommittee
from streamlvq.models.committee import shared_state, start_weights
from streamlvq.models.engine import ARRAY_SECTIONS, ModelSpec
from streamlvq.models.traces import inverse_scales, reach
from streamlvq.models.validation import MIN_CAPACITY, NAMES, StateSizes, all_sizes, shape_of

ALONE_TIMES = 3  # k readings are new before a class no longer waits for the others
ALONE_SHARE = 0.25  # of the published readings of a class that must be new as well
DETERMINED = 1e-6  # share of its limit by which a forgetful count must miss it to be inverted
FIXED = ("rank", "standardize", "absent")  # parameters in which another model differs
CLASS_ARRAYS = ("class_count", "class_weight", "class_mean", "class_variance")
PROTOTYPE_NUMBERS = ("usefulness", "wins", "rate")

Metrics = list[tuple["_Source | None", int]]  # where each is from; None: the one to start with


@dataclass(frozen=True)
class Publication:
    """What to publish: a state, and whether what its classes share is new in it."""

    state: EstimatorState
    shares_new: bool


def next_publication(
    published: EstimatorState | None, current: EstimatorState, k: int
) -> Publication | None:
    """Return what a node may publish now; None if no class has k readings with values yet.

    Parameters
    ----------
    published
        State that was published last; None before the first. That of another kind of model counts
        for nothing.
    current
        State of the model now, without single readings: `capture(model, readings=False)`.
    k
        Smallest number of readings of a class by which two publications may differ.

    Examples
    --------
    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq.fleet.held_back import next_publication
    >>> def counts(publication):
    ...     state = publication.state
    ...     return dict(zip(state.extra["classes"], state.arrays["class_count"].tolist()))
    >>> model = streamlvq.GLVQ()
    >>> readings = list(datasets.ImageSegments().take(150))
    >>> for x, y in readings[:100]:
    ...     model.learn_one(x, y)
    >>> first = next_publication(None, model.state(readings=False), k=10)
    >>> for x, y in readings[100:]:
    ...     model.learn_one(x, y)
    >>> second = next_publication(first.state, model.state(readings=False), k=10)
    >>> counts(first)["path"], counts(second)["path"]  # of others, 1 to 9 readings are new
    (15.0, 15.0)
    >>> "sky" in counts(first), counts(second)["sky"]
    (False, 16.0)

    """
    now = members_of(current)
    before = {} if published is None else members_of(published)
    if not _continues(before, now):
        published, before = None, {}
    plan = _plan(before, now, k)
    if not plan.labels:
        return None
    features = {name: _features(before.get(name), state, plan) for name, state in now.items()}
    if not all(features.values()):
        return None
    parts = {
        name: _compose(before.get(name), state, features[name], plan) for name, state in now.items()
    }
    return Publication(_put_together(current, parts, published, plan), plan.shares_new)


def members_of(state: EstimatorState) -> dict[str, EstimatorState]:
    """Return the states of the members of a committee, or of the one model under ""."""
    inner = state.innermost
    return dict(inner.parts) if inner.kind == LVQCommittee.__name__ else {"": inner}


def _put_together(
    current: EstimatorState,
    parts: dict[str, EstimatorState],
    before: EstimatorState | None,
    plan: _Plan,
) -> EstimatorState:
    """Return the current state around composed models; a committee with weights it may show."""
    if "" in parts:
        return with_innermost(current, parts[""])
    committee = replace(current.innermost, parts=parts)
    if not plan.shares_new and before is not None:
        committee = replace(committee, arrays=before.innermost.arrays)
    elif not plan.shares_new:
        committee = replace(committee, arrays={"fitted": start_weights(len(parts), len(parts))})
        committee = shared_state(committee)  # rounds
    return with_innermost(current, committee)


def _continues(before: Mapping[str, EstimatorState], now: Mapping[str, EstimatorState]) -> bool:
    """Return whether models may be those of a former publication, having learnt more."""
    return [*before] == [*now] and all(_is_later(old, now[name]) for name, old in before.items())


def _is_later(old: EstimatorState, new: EstimatorState) -> bool:
    alike = all(old.parameters.get(name) == new.parameters.get(name) for name in FIXED)
    features = set(old.extra["features"]) <= set(new.extra["features"])
    return old.kind == new.kind and alike and features


# --- what may change -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """Which classes are published, and what of them as it is now."""

    labels: list[Label]
    fresh: frozenset[Label]  # as they are now
    learnt: frozenset[Label]  # of these, with prototypes as they are now; others start at means
    unchanged: frozenset[Label]  # published, and nothing of them was learnt since
    shares_new: bool

    def pair_is_new(self, one: Label, other: Label) -> bool:
        """Return whether what was learnt of a pair of classes may be published as it is now."""
        both = {one, other}
        return both <= self.fresh | self.unchanged and not both <= self.unchanged


def _plan(before: Mapping[str, EstimatorState], now: Mapping[str, EstimatorState], k: int) -> _Plan:
    former = _counts(next(iter(before.values()))) if before else {}
    latest = _counts(next(iter(now.values())))
    known = [*former, *(label for label in latest if label not in former)]
    new = {label: latest.get(label, 0) - former.get(label, 0) for label in known}
    enough = {
        label
        for label, count in new.items()
        if count >= k and all(_features_moved(before.get(n), now[n], label, k) for n in now)
    }
    unchanged = {
        label
        for label, count in new.items()
        if count == 0 and all(_is_unchanged(before.get(n), now[n], label) for n in now)
    }
    shares_new = enough | unchanged == set(known)
    ahead = enough
    if not shares_new:  # who waits for the others lets what is shared be published some day
        ahead = {label for label in enough if _goes_alone(new[label], former.get(label, 0), k)}
        enough = {label for label in enough if label in ahead or label not in former}
    labels = [label for label in known if label in former or label in enough]
    if not shares_new and len(labels) == 1:  # prototypes have moved for those alone that wait
        ahead = set()
    return _Plan(labels, frozenset(enough), frozenset(ahead), frozenset(unchanged), shares_new)


def _goes_alone(new: int, published: int, k: int) -> bool:
    return new >= max(ALONE_TIMES * k, ALONE_SHARE * published)


def _counts(state: EstimatorState) -> dict[Label, int]:
    if state.extra["sizes"] is None:
        return {}
    counts = state.arrays["class_count"].tolist()
    return {label: int(counts[code]) for code, label in enumerate(state.extra["classes"])}


def _features_moved(
    before: EstimatorState | None, now: EstimatorState, label: Label, k: int
) -> bool:
    """Return whether each feature of a class has no new value, or at least k.

    Values may be missing, so these may be fewer than the new readings. A forgetful count that is
    close to its limit does not tell: then all new readings count.
    """
    weight = _row(now, "class_weight", label)
    old = np.zeros(len(weight))
    if before is not None and label in before.extra["classes"]:
        old[_columns(before, now)] = _row(before, "class_weight", label)
    new = weight - old
    if (half_life := now.parameters.get("half_life")) is not None:
        forget = 0.5 ** (1.0 / half_life)
        limit = 1.0 / (1.0 - forget)
        left, had = limit - weight, limit - old
        told = (left > DETERMINED * limit) & (had > DETERMINED * limit)
        ratio = np.where(told, left, 1.0) / np.where(told, had, 1.0)
        new = np.where(told, np.log(ratio) / np.log(forget), float(k))
    new = np.rint(new)
    return bool(((new == 0) | (new >= k)).all())


def _is_unchanged(before: EstimatorState | None, now: EstimatorState, label: Label) -> bool:
    """Return whether a class of as many readings as published has learnt these very readings.

    It has not if a backup was put back and has learnt others since.
    """
    if before is None or label not in before.extra["classes"]:
        return True  # no reading, as before
    columns = _columns(before, now)
    later = np.ones(len(now.extra["features"]), bool)
    later[columns] = False
    return not (_has_values(now, label) & later).any() and all(
        np.array_equal(_row(before, name, label), _row(now, name, label)[columns])
        for name in ("class_weight", "class_mean", "class_variance")
    )


def _has_values(state: EstimatorState, label: Label) -> Array:
    """Return of which features a class has values, other than those that an absence means."""
    values = _row(state, "class_weight", label) > 0.0
    if state.parameters["absent"] == "zero":
        moved = _row(state, "class_variance", label) > 0.0
        values &= (_row(state, "class_mean", label) != 0.0) | moved
    return values


def _features(before: EstimatorState | None, now: EstimatorState, plan: _Plan) -> list[Any]:
    """Return the features to publish: those published before, and those of fresh classes."""
    published = [] if before is None else before.extra["features"]
    seen = np.zeros(len(now.extra["features"]), bool)
    for label in plan.fresh:
        seen |= _has_values(now, label)
    found = [name for name, is_seen in zip(now.extra["features"], seen, strict=True) if is_seen]
    return [*published, *(name for name in found if name not in set(published))]


def _row(state: EstimatorState, name: str, label: Label) -> Floats:
    found: Floats = state.arrays[name][state.extra["classes"].index(label)]
    return found


def _columns(before: EstimatorState, now: EstimatorState) -> Ints:
    place = {name: number for number, name in enumerate(now.extra["features"])}
    return np.array([place[name] for name in before.extra["features"]], np.int64)


# --- one model -----------------------------------------------------------------------------------


class _Source:
    """Arrays of a state, with columns for the features to publish."""

    def __init__(self, state: EstimatorState, features: list[Any]) -> None:
        self.arrays, self.width = state.arrays, len(features)
        self.labels: list[Label] = state.extra["classes"]
        known = {name: column for column, name in enumerate(state.extra["features"])}
        shown = [column for column, name in enumerate(features) if name in known]
        self._columns = np.array(shown, np.int64)
        self._given = np.array([known[features[column]] for column in shown], np.int64)
        self._is_whole = len(shown) == len(known)
        self._codes = state.arrays["label"][: state.extra["sizes"]["prototypes"]]

    def wide(self, name: str, missing: float = 0.0) -> Floats:
        """Return an array of features; `missing` where the state did not know one."""
        array = self.arrays[name]
        out = np.full((*array.shape[:-1], self.width), missing)
        out[..., self._columns] = array[..., self._given]
        return out

    def rows(self, name: str) -> Any:
        """Return an array with the columns that it should have."""
        wide = ARRAY_SECTIONS[name].sizes[-1] == at.N_FEATURES
        return self.wide(name) if wide else self.arrays[name]

    def prototypes_of(self, label: Label) -> list[int]:
        """Return the prototypes of a class."""
        found: list[int] = np.flatnonzero(self._codes == self.labels.index(label)).tolist()
        return found

    def pair(self, one: Label, other: Label) -> int | None:
        """Return the number of the pair of two classes; None if there is none."""
        if one not in self.labels or other not in self.labels:
            return None
        low, high = sorted((self.labels.index(one), self.labels.index(other)))
        return high * (high - 1) // 2 + low

    def metric(self, number: int, inverse: Floats, spec: ModelSpec) -> Floats:
        """Return a metric for other scales: the same in sensor units, with norm one."""
        given, rows = self.wide("omega")[number], spec.rows(self.width)
        if len(given) > rows:  # the same distances with fewer rows, as fewer features allow
            given = np.linalg.qr(given, mode="r")
        omega = np.zeros((rows, self.width))
        omega[: len(given)] = given
        former, used = self.wide("inverse"), inverse > 0.0
        if spec.standardize and not np.array_equal(former, inverse):
            omega *= np.where(used, former / np.where(used, inverse, 1.0), 0.0)
        elif self._is_whole:
            return omega
        norm = float(np.linalg.norm(omega))
        return omega / norm if norm > 0.0 else spec.start_metric(self.width)


def _compose(
    before: EstimatorState | None, now: EstimatorState, features: list[Any], plan: _Plan
) -> EstimatorState:
    """Return a model whose classes are as they are now, or as they were published."""
    blank: Any = estimator_class(now.kind)
    model = blank.from_blank(now)
    spec: ModelSpec = replace(model.spec(), seed=now.extra["sizes"]["seed"])
    current = _Source(now, features)
    former = None if before is None else _Source(before, features)
    sources = {y: current if y in plan.fresh or former is None else former for y in plan.labels}
    # Unlabelled readings move the scales that a metric was learnt with: alone they change nothing.
    shared = current if plan.shares_new and (plan.fresh or former is None) else former
    arrays = _class_arrays(sources)
    if spec.rule == at.RULE_PAIRWISE:
        learnt, metrics = _take_pairs(current, former, arrays, plan)
    else:
        rate = float(now.parameters.get("learning_rate", 0.0))
        learnt, metrics = _take_prototypes(sources, arrays, rate, plan)
    arrays |= learnt
    if shared is None:
        arrays["calibration"] = np.zeros(at.CALIBRATION_COUNT)
        arrays["calibration"][at.TEMPERATURE] = blank.start_temperature()
    else:
        arrays["calibration"] = shared.arrays["calibration"]
    floor = 0.0 if now.parameters["absent"] == "zero" else float(now.parameters["scale_floor"])
    arrays |= _scales(arrays, spec, floor)
    if spec.kind != at.EUCLIDEAN:
        start = spec.start_metric(current.width)
        arrays["start"] = start
        shared_metric = not spec.local and spec.rule != at.RULE_PAIRWISE
        wanted: Metrics = [(shared, 0)] if shared_metric else metrics
        arrays["omega"] = np.array(
            [start if s is None else s.metric(n, arrays["inverse"], spec) for s, n in wanted]
        )
    sizes = _sizes(now, arrays, spec)
    columns = now.extra["columns"]
    extra = {
        "features": features,
        "classes": plan.labels,
        "columns": columns and [name for name in columns if name in set(features)],
        "sizes": msgspec.structs.asdict(sizes),
    }
    state = replace(now, arrays=_filled(arrays, sizes, spec, current.width), extra=extra)
    finished: EstimatorState = blank.shared_state(state)  # moments
    return finished


def _class_arrays(sources: Mapping[Label, _Source]) -> dict[str, Array]:
    return {
        name: np.array([s.rows(name)[s.labels.index(y)] for y, s in sources.items()])
        for name in CLASS_ARRAYS
    }


def _take_prototypes(
    sources: Mapping[Label, _Source], classes: Mapping[str, Array], rate: float, plan: _Plan
) -> tuple[dict[str, Array], Metrics]:
    """Return the prototypes of all classes, each from its source, and where their metrics are.

    A class that is new, but not yet with what it learnt beside others, has one at its mean.
    """
    means = _means(classes)
    w: list[Floats] = []
    label: list[int] = []
    numbers: dict[str, list[float]] = {name: [] for name in PROTOTYPE_NUMBERS}
    metrics: Metrics = []
    for code, (name, source) in enumerate(sources.items()):
        if name in plan.fresh - plan.learnt:
            w.append(means[code])
            metrics.append((None, 0))
            for key, start in zip(PROTOTYPE_NUMBERS, (0.0, 0.0, rate), strict=True):
                numbers[key].append(start)
        else:
            found = source.prototypes_of(name)
            w += list(source.wide("w", np.nan)[found])
            metrics += [(source, p) for p in found]
            for key, values in numbers.items():
                values += source.arrays[key][found].tolist()
        label += [code] * (len(w) - len(label))
    arrays = {"w": np.array(w), "label": np.array(label, np.int64)}
    return arrays | {key: np.array(values) for key, values in numbers.items()}, metrics


def _means(classes: Mapping[str, Array]) -> Floats:
    """Return the means of classes; NaN where a class has no values."""
    found: Floats = np.where(classes["class_weight"] > 0.0, classes["class_mean"], np.nan)
    return found


def _take_pairs(
    current: _Source, former: _Source | None, classes: Mapping[str, Array], plan: _Plan
) -> tuple[dict[str, Array], Metrics]:
    """Return all pairs of the classes in their order; one never published begins at their means."""
    means = _means(classes)
    w: list[Floats] = []
    label: list[int] = []
    platt: list[Floats] = []
    numbers: dict[str, list[float]] = {name: [] for name in PROTOTYPE_NUMBERS}
    metrics: Metrics = []
    for high, above in enumerate(plan.labels):
        for low, below in enumerate(plan.labels[:high]):
            source = current if former is None or plan.pair_is_new(below, above) else former
            pair = source.pair(below, above)
            label += [low, high]
            metrics.append((None, 0) if pair is None else (source, pair))
            if pair is None:
                w += [means[low], means[high]]
                platt.append(_first_sigmoid())
            else:
                turned = source.labels.index(below) > source.labels.index(above)
                ends = [2 * pair + turned, 2 * pair + 1 - turned]
                w += list(source.wide("w", np.nan)[ends])
                platt.append(_sigmoid(source.arrays["platt"][pair], turned))
            for name, values in numbers.items():
                values += [0.0, 0.0] if pair is None else source.arrays[name][ends].tolist()
    width = current.width
    return {
        "w": np.array(w).reshape(-1, width),
        "label": np.array(label, np.int64),
        "platt": np.array(platt).reshape(-1, at.PLATT_COUNT),
        **{name: np.array(values) for name, values in numbers.items()},
    }, metrics


def _first_sigmoid() -> Floats:
    sigmoid = np.zeros(at.PLATT_COUNT)
    sigmoid[at.PLATT_SLOPE] = kernels("pairwise").START_SLOPE
    return sigmoid


def _sigmoid(platt: Floats, turned: bool) -> Floats:
    """Return a sigmoid, seen from the other class if the classes have changed places."""
    seen = platt.copy()
    if turned:
        seen[at.PLATT_OFFSET] *= -1.0
        seen[at.PLATT_CURVATURE + 1] *= -1.0
        seen[[at.PLATT_FIRST, at.PLATT_SECOND]] = platt[[at.PLATT_SECOND, at.PLATT_FIRST]]
    return seen


def _scales(arrays: Mapping[str, Array], spec: ModelSpec, floor: float) -> dict[str, Array]:
    """Return means and scales of features over the readings of these classes alone."""
    weight, mean = arrays["class_weight"], arrays["class_mean"]
    total = weight.sum(axis=0)
    known = np.where(total > 0.0, total, 1.0)
    middle = (weight * mean).sum(axis=0) / known
    variance = (weight * (arrays["class_variance"] + (mean - middle) ** 2)).sum(axis=0) / known
    found = {"mean": middle, "variance": variance, "weight": total, "still": np.zeros(len(total))}
    found["peak"] = reach({**arrays, **found}, len(arrays["w"]))
    squared = np.maximum(variance, (floor * found["peak"]) ** 2)
    spread = squared > kernels("features").RELATIVE_ROUNDING * middle * middle
    found["varies"] = np.where(spread | spec.published, 1.0, 0.0)
    found["inverse"] = np.where(total > 0.0, 1.0, 0.0)
    found["inverse"] = inverse_scales(found, spec, floor)
    return found


def _sizes(now: EstimatorState, arrays: Mapping[str, Array], spec: ModelSpec) -> StateSizes:
    count = len(arrays["label"])
    classes = max(MIN_CAPACITY, len(arrays["class_count"]))
    former = msgspec.convert(now.extra["sizes"], StateSizes)
    return msgspec.structs.replace(
        former,
        slots=spec.room(classes).get(at.PROTOTYPE_CAPACITY, max(MIN_CAPACITY, count)),
        prototypes=count,
        classes=classes,
        stored=0,
        samples=int(arrays["class_count"].sum()),
    )


def _filled(
    arrays: Mapping[str, Array], sizes: StateSizes, spec: ModelSpec, width: int
) -> dict[str, Array]:
    """Return all arrays of a model, with room as `sizes` says."""
    kept = all_sizes(sizes, spec, width) | {at.BUFFER: 0, at.RANGES: 0}
    filled = {}
    for name in NAMES:
        shape = shape_of(name, kept)
        if not np.prod(shape):
            continue
        if name == "calibration":
            filled[name] = arrays[name]
            continue
        section = ARRAY_SECTIONS[name]
        rows = arrays.get(name, np.zeros(0))
        out = np.full(shape, section.start, np.int64 if name == "label" else np.float64)
        if name == "omega":  # free slots start where every new metric does
            out[...] = arrays["start"]
        if rows.size:
            out[tuple(slice(0, n) for n in rows.shape)] = rows
        filled[name] = out
    return filled
