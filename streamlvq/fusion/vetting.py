"""Vetting of nodes: numbers that no model can have learnt, before anything is estimated from them.

A node that fails is left out altogether: what it says must not even choose the correction. Honest
snapshots obey these rules to rounding; where a model forgets, or a feature started to move late,
its running statistics are of different times, and only the comparison with other nodes is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from streamlvq.arrays import Bools, Floats
from streamlvq.estimator import EstimatorState
from streamlvq.fusion.class_tables import CHECKABLE_NODES, ClassTables, known_median
from streamlvq.fusion.node_models import Model, NodeModel
from streamlvq.models.validation import MAX_SAMPLES

# A metric has norm one after every step; that of a fused model is a mean in other scales.
NORM_TOLERANCE = 1e-3  # of the squared norm: beyond it, the metric is scaled to norm one
MAX_NORM_RATIO = 100.0  # between the squared norm and one: beyond it, the node is left out
MAX_SCATTER_RATIO = 10.0  # between the scatter of classes and that of all readings
MAX_MEAN_DEVIATIONS = 3.0  # of all readings, between their mean and that of the class means
SAME_COUNT_SHARE = 0.01  # by which weights of classes may miss the weight of all readings
ROUNDING_SHARE = 1e-12  # of the squared mean: a variance below it is rounding
MIN_COUNT = 10.0  # readings of a feature: of fewer, nothing is checked
MAX_CONTRAST_RATIO = 50.0  # a sensor may have such a gain: its classes are as much farther apart
MIN_CONTRAST = 100.0  # deviations that a class may be off whatever its contrast with others
MAX_OFFSET_DEVIATIONS = 1e6  # of a sensor from most others
POLISH_ROUNDS = 3


@dataclass(frozen=True)
class VettingResult:
    """Nodes as they may be believed, and what was wrong with the others, by their number."""

    nodes: list[NodeModel]
    refused: dict[int, str] = field(default_factory=dict)
    rescaled: frozenset[int] = frozenset()  # with a metric whose norm was not one


def vet_nodes(nodes: list[NodeModel], before: Mapping[str, str] | None = None) -> VettingResult:
    """Check each node by itself; who fails has nothing to say, as if it had learnt nothing.

    In rounds, models have class statistics of their own and the feature scales of the fused model,
    which need not fit each other: `before` says who was refused before them, by name.
    """
    refused: dict[int, str] = {}
    rescaled = set()
    vetted = []
    for i, node in enumerate(nodes):
        problem = (before or {}).get(node.node) or next(
            filter(None, (model_problem(m, before is None) for m in node.models.values())), None
        )
        if problem is not None:
            refused[i] = problem
            vetted.append(silenced(node))
            continue
        models = {name: unit_metrics(model) for name, model in node.models.items()}
        if any(models[name] is not node.models[name] for name in models):
            rescaled.add(i)
            node = replace(node, models=models)
        vetted.append(node)
    return VettingResult(vetted, refused, frozenset(rescaled))


def claimed_counts(node: NodeModel) -> dict[str, int]:
    """Return how many readings of each class a node says it has learnt."""
    model = node.first
    if not model.labels:
        return {}
    counts = np.minimum(model.arrays["class_count"][: len(model.labels)], MAX_SAMPLES)
    return {
        str(label): int(count)
        for label, count in zip(model.labels, counts.tolist(), strict=True)
        if count > 0
    }


def silenced(node: NodeModel) -> NodeModel:
    """Return the node with the same features, as if it had learnt nothing."""
    models = {
        name: replace(model, state=_without_sizes(model), arrays={}, labels=[])
        for name, model in node.models.items()
    }
    return replace(node, models=models)


def _without_sizes(model: Model) -> EstimatorState:
    return replace(model.state, extra={**model.state.extra, "sizes": None})


def model_problem(model: Model, own_scales: bool = True) -> str | None:
    """Return what no model can have learnt, in a sentence; None if nothing is wrong.

    Without `own_scales` its features may scatter otherwise than its classes.
    """
    if not model.labels:
        return None
    checks: list[Callable[[Model], str | None]] = [_metric_problem, _count_problem]
    if own_scales:
        checks.append(_scatter_problem)
    return next(filter(None, (check(model) for check in checks)), None)


# --- metrics -------------------------------------------------------------------------------------


def squared_norms(model: Model) -> Floats:
    """Return the squared norm of each metric that prototypes use; empty if there is none.

    Without standardisation features that never vary have weights outside of the norm.
    """
    omega = _used_metrics(model)
    if omega is None:
        return np.zeros(0)
    visible = np.ones(omega.shape[-1])
    if not model.state.parameters["standardize"] and model.arrays["varies"].any():
        visible = model.arrays["varies"]
    norms: Floats = (omega * omega * visible).sum(axis=(1, 2))
    return norms


def _used_metrics(model: Model) -> Floats | None:
    omega: Floats | None = model.arrays.get("omega")
    if omega is None or len(omega) <= 1:
        return omega
    used = model.prototypes // 2 if "platt" in model.arrays else model.prototypes
    return omega[:used]


def _metric_problem(model: Model) -> str | None:
    norms = squared_norms(model)
    off = (norms > MAX_NORM_RATIO) | (norms < 1.0 / MAX_NORM_RATIO)
    if not off.any():
        return None
    worst = norms[off][np.argmax(np.abs(np.log(np.maximum(norms[off], 1e-300))))]
    return f"the norm of a metric is {worst**0.5:.3g}, and learning keeps it at 1"


def unit_metrics(model: Model) -> Model:
    """Return the model with metrics of norm one; the same object if they are."""
    norms = squared_norms(model)
    if not (np.abs(norms - 1.0) > NORM_TOLERANCE).any():
        return model
    omega = model.arrays["omega"].copy()
    omega[: len(norms)] /= np.sqrt(norms)[:, None, None]
    return replace(model, arrays={**model.arrays, "omega": omega})


# --- counts and class statistics -----------------------------------------------------------------


def _count_problem(model: Model) -> str | None:
    """A class cannot have weighed more in a feature than it has readings."""
    known = len(model.labels)
    count, weight = model.arrays["class_count"][:known], model.arrays["class_weight"][:known]
    if max(count.max(initial=0.0), weight.max(initial=0.0)) > MAX_SAMPLES:
        return f"it says that it has learnt {max(count.max(), weight.max()):.3g} readings"
    if (weight > count[:, None] * (1.0 + SAME_COUNT_SHARE) + 1.0).any():
        return "the weight of a class in a feature is more than all its readings"
    return None


def _scatter_problem(model: Model) -> str | None:
    """Check the law of total variance: classes scatter as much as all readings together.

    Readings without labels may scatter more.
    """
    if model.state.parameters.get("half_life") is not None:
        return None
    arrays, known = model.arrays, len(model.labels)
    weight, mean = arrays["class_weight"][:known], arrays["class_mean"][:known]
    heard, all_heard = weight.sum(axis=0), np.minimum(arrays["weight"], known * MAX_SAMPLES)
    checked = (heard >= MIN_COUNT) & (heard <= all_heard * (1.0 + SAME_COUNT_SHARE))
    within = arrays["class_variance"][:known]
    scatter = (weight * (within + (mean - arrays["mean"]) ** 2)).sum(axis=0)
    rounding = ROUNDING_SHARE * arrays["mean"] ** 2
    total = all_heard * (arrays["variance"] + rounding)
    complete = checked & (heard >= all_heard * (1.0 - SAME_COUNT_SHARE))
    moving = complete & (arrays["variance"] > rounding)
    return (
        _ratio_problem(model, scatter, total, checked & (total > 0), "more")
        or _ratio_problem(model, total, scatter, moving, "less")
        or _middle_problem(model, heard, (weight * mean).sum(axis=0), moving)
    )


def _ratio_problem(
    model: Model, large: Floats, small: Floats, where: Bools, word: str
) -> str | None:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(where, large / small, 0.0)
    if not (ratio > MAX_SCATTER_RATIO).any():
        return None
    worst = int(np.argmax(ratio))
    return (
        f"its classes scatter {ratio[worst] ** 0.5:.3g} times {word} in "
        f"{model.features[worst]!r} than all its readings together"
    )


def _middle_problem(model: Model, heard: Floats, total: Floats, where: Bools) -> str | None:
    """Return a sentence if the mean of all readings is not among those of the classes."""
    arrays = model.arrays
    apart = np.abs(total / np.maximum(heard, 1.0) - arrays["mean"])
    deviation = np.sqrt(np.where(where, arrays["variance"], 1.0))
    far = np.where(where, apart / deviation, 0.0)
    if not (far > MAX_MEAN_DEVIATIONS).any():
        return None
    worst = int(np.argmax(far))
    return (
        f"its class means are {far[worst]:.3g} deviations away from the mean of all its "
        f"readings in {model.features[worst]!r}"
    )


# --- compared with other nodes -------------------------------------------------------------------


def compare_nodes(tables: ClassTables, relevance: Floats, labels: list[str]) -> dict[int, str]:
    """Return nodes whose class means lie where no sensor can show them, and say how far off.

    Only classes of enough nodes are compared. Each node may have an offset, and gains within
    bounds: nothing need be known yet of how sensors differ.
    """
    checkable = tables.held.sum(axis=0) >= CHECKABLE_NODES
    known = (tables.held & checkable)[:, :, None] & (tables.count > 0)
    if not known.any():
        return {}
    places = np.where(known, tables.mean, np.nan)
    nodes, classes = _polished(places)
    with np.errstate(over="ignore", invalid="ignore"):
        far = _deviations(places - nodes[:, None] - classes[None], tables.spread, relevance)
        contrast = classes - _nan_median(classes, axis=0)
        usual = float(
            np.median(_deviations(contrast[None], tables.spread, relevance)[0, checkable])
        )
        offsets = (nodes - _nan_median(nodes, axis=0))[:, None]
        off = _deviations(offsets, tables.spread.max(axis=0)[None], relevance)[:, 0]
    limit = max(MIN_CONTRAST, MAX_CONTRAST_RATIO * usual)
    refused = {}
    for i in np.flatnonzero((far > limit).any(axis=1) | (off > MAX_OFFSET_DEVIATIONS)).tolist():
        k = int(np.argmax(far[i]))
        refused[i] = (
            f"its mean of class {labels[k]!r} is {far[i, k]:.3g} deviations away from where its "
            "other classes and all other nodes have it"
            if far[i, k] > limit
            else f"its class means are {off[i]:.3g} deviations away from those of all others"
        )
    return refused


def _polished(places: Floats) -> tuple[Floats, Floats]:
    """Fit values[i, k] = node[i] + class[k] by Tukey's median polish, feature by feature."""
    nodes = np.zeros((len(places), places.shape[2]))
    classes = np.zeros(places.shape[1:])
    for _ in range(POLISH_ROUNDS):
        classes = _nan_median(places - nodes[:, None], axis=0)
        nodes = _nan_median(places - classes[None], axis=1)
    return nodes, classes


def _nan_median(values: Floats, axis: int) -> Floats:
    """Return the median of what is known; 0 where nothing is."""
    return np.nan_to_num(known_median(np.moveaxis(values, axis, 0)))


def _deviations(apart: Floats, spread: Floats, relevance: Floats) -> Floats:
    """Return sizes along the features, in deviations within the class; 0 if unknown."""
    known = np.isfinite(apart)
    worth = np.where(known, relevance, 0.0)
    squares = (worth * np.where(known, apart, 0.0) ** 2 / spread).sum(axis=-1)
    total = worth.sum(axis=-1)
    size: Floats = np.sqrt(squares / np.where(total > 0, total, 1.0))
    return size
