"""Insight into a trained model: prototypes, metrics, relevances and explanations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats
from streamlvq.errors import NotLearntYetError
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.engine import Engine
from streamlvq.records import Explanation, Prototype


class Closest(NamedTuple):
    """Closest and second closest prototype of different classes; -1 where there is none."""

    relsim: float
    distance: float
    runner_up_distance: float
    winner: int
    runner_up: int


def learnt(engine: Engine | None) -> Engine:
    """Return the engine; raise `NotLearntYetError` before anything is learnt."""
    if engine is None or engine.known == 0:
        raise NotLearntYetError("the model has learnt nothing yet: call learn_one first")
    return engine


def _prototype(
    engine: Engine, features: Sequence[Hashable], labels: Sequence[Hashable], p: int
) -> Prototype:
    state = engine.state
    paired = engine.spec.rule == at.RULE_PAIRWISE
    return Prototype(
        label=labels[int(state["label"][p])],
        values=dict(zip(features, state["w"][p].tolist(), strict=True)),
        count=int(state["wins"][p]),
        age=int(state.size(at.SAMPLES) - state["born"][p]),
        index=p,
        against=labels[int(state["label"][p ^ 1])] if paired else None,
    )


def prototypes(
    engine: Engine | None, features: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[Prototype]:
    if engine is None:
        return []
    count = engine.state.size(at.N_PROTOTYPES)
    return [_prototype(engine, features, labels, p) for p in range(count)]


def metric_of(engine: Engine, p: int) -> Floats:
    """Return the metric of one prototype, for readings in feature scales."""
    if engine.spec.kind == at.EUCLIDEAN:
        return np.eye(engine.state.size(at.N_FEATURES)) / max(engine.state.size(at.N_VARYING), 1)
    omega = engine.state["omega"][engine.spec.metric_of(p)]
    if engine.spec.kind == at.DIAGONAL:
        return np.diag(omega[0] ** 2)
    product: Floats = omega.T @ omega
    return product


def varying(engine: Engine) -> npt.NDArray[np.bool_]:
    """Return which features have a share in metrics: those with spread; all before there are any."""
    varies: npt.NDArray[np.bool_] = engine.state["varies"] > 0.0
    return varies if varies.any() else ~varies


def check_index(engine: Engine, p: int) -> None:
    """Raise IndexError if there is no prototype with this index."""
    count = engine.state.size(at.N_PROTOTYPES)
    if not 0 <= p < count:
        raise IndexError(f"expected a prototype index from 0 to {count - 1}, got {p}")


def metric(engine: Engine | None, p: int | None, raw: bool) -> Floats:
    engine = learnt(engine)
    if p is not None:
        check_index(engine, p)
    count = engine.state.size(at.N_PROTOTYPES)
    if p is not None or engine.state.size(at.METRICS) < 2 or count == 0:
        matrix = metric_of(engine, p or 0)
    else:
        matrix = np.mean([metric_of(engine, k) for k in range(count)], axis=0)
    if raw:
        inverse = engine.state["inverse"]
        matrix = matrix * np.outer(inverse, inverse)
    return matrix


def scales(engine: Engine | None, features: Sequence[Hashable]) -> dict[Hashable, float]:
    inverse = learnt(engine).state["inverse"]
    return {
        name: 1.0 / value if value > 0.0 else float("inf")
        for name, value in zip(features, inverse.tolist(), strict=True)
    }


def _squared_scales(engine: Engine) -> Floats:
    """Return the squared scales that standardisation would use, see `kernels.statistics`."""
    peak = float(engine.floats[at.SCALE_FLOOR]) * engine.state["peak"]
    squared: Floats = np.maximum(engine.state["variance"], peak * peak)
    return squared


def relevances(
    engine: Engine | None, features: Sequence[Hashable], code: int | None, raw: bool
) -> dict[Hashable, float]:
    """Return the mean diagonal of the metrics; of standardised features unless `raw`."""
    engine = learnt(engine)
    labels = engine.state["label"][: engine.state.size(at.N_PROTOTYPES)]
    chosen = [p for p, label in enumerate(labels) if code is None or label == code]
    if chosen:
        weights = np.maximum(engine.state["wins"][chosen], 1.0)
        diagonals = [np.diag(metric(engine, p, raw)) for p in chosen]
        mean = np.average(diagonals, axis=0, weights=weights)
    else:  # pairwise model with a single class: no prototypes yet
        mean = np.diag(metric(engine, None, raw))
    if not raw and not engine.spec.standardize:
        mean = mean * _squared_scales(engine)
    mean = np.where(varying(engine), mean, 0.0)
    total = mean.sum()
    return dict(zip(features, (mean / total if total > 0 else mean).tolist(), strict=True))


def _contributions(engine: Engine, x: Floats, prototype: Prototype) -> Floats:
    """Return the contribution of each feature to the distance from a prototype."""
    w = np.array(list(prototype.values.values()), np.float64)
    z = (x - w) * engine.state["inverse"]
    matrix = metric_of(engine, max(prototype.index, 0))
    missing = np.isnan(z)
    weight = np.where(varying(engine), np.diag(matrix), 0.0)
    z[missing] = 0.0
    known = weight[~missing].sum()
    if known <= 0.0:  # no feature in common: distance 1, spread evenly
        return np.full(len(z), 1.0 / max(len(z), 1))
    shares: Floats = weight.sum() / known * z * (matrix @ z)
    return shares


def _closest_of_classes(engine: Engine) -> list[int]:
    """Return the closest prototype of the likeliest class and that of the closest other class."""
    d, capacity = engine.state.size(at.N_FEATURES), engine.state.size(at.CLASS_CAPACITY)
    n_classes = engine.known
    distances = engine.work[d + capacity : d + capacity + n_classes]
    winners = engine.work[d + 2 * capacity : d + 2 * capacity + n_classes]
    best = int(engine.probabilities.argmax())
    others = [c for c in range(n_classes) if c != best]
    chosen = [best, *sorted(others, key=lambda c: float(distances[c]))[:1]]
    return [int(winners[c]) for c in chosen]


def _pair_of_classes(engine: Engine) -> list[int]:
    """Return the two prototypes that separate the two likeliest classes."""
    if engine.known < 2:
        return []
    first, second = np.argsort(-engine.probabilities, kind="stable")[:2].tolist()
    low, high = sorted((first, second))
    slot = high * (high - 1) + 2 * low
    return [slot, slot + 1] if first < second else [slot + 1, slot]


def _mean_reading(
    engine: Engine, features: Sequence[Hashable], labels: Sequence[Hashable]
) -> Prototype:
    """Return the class mean in place of a prototype, for a pairwise model with one class."""
    state = engine.state
    values = np.where(state["class_weight"][0] > 0.0, state["class_mean"][0], np.nan)
    count = int(state["class_count"][0])
    return Prototype(labels[0], dict(zip(features, values.tolist(), strict=True)), count, count, -1)


def explain(
    engine: Engine | None, features: Sequence[Hashable], labels: Sequence[Hashable]
) -> Explanation:
    """Explain the last prediction."""
    engine = learnt(engine)
    d = engine.state.size(at.N_FEATURES)
    x = engine.work[:d].copy()
    reading = dict(zip(features, x.tolist(), strict=True))
    paired = engine.spec.rule == at.RULE_PAIRWISE
    contenders = _pair_of_classes(engine) if paired else _closest_of_classes(engine)
    chosen = [_prototype(engine, features, labels, p) for p in contenders]
    chosen = chosen or [_mean_reading(engine, features, labels)]
    shares = [_contributions(engine, x, prototype) for prototype in chosen]
    near, *others = (max(0.0, float(share.sum())) for share in shares)
    winner = chosen[0]
    if not others:
        return Explanation(winner.label, winner, None, near, float("inf"), 1.0, {}, reading)
    other = others[0]
    decided = shares[1] - shares[0]
    ranked = sorted(range(d), key=lambda i: -abs(decided[i]))
    return Explanation(
        label=winner.label,
        winner=winner,
        runner_up=chosen[1],
        distance=near,
        runner_up_distance=other,
        # In a mixture or a pairwise model the likeliest class need not be the closest.
        relsim=max(0.0, (other - near) / (other + near)) if other + near > 0 else 0.0,
        features={features[i]: float(decided[i]) for i in ranked},
        reading=reading,
    )


# --- certainty of the last prediction ------------------------------------------------------------


def closest(engine: Engine) -> Closest:
    return Closest(*kernels("distance").closest_classes(engine.ints, engine.work))


def separation(engine: Engine, pair: Closest) -> float:
    """Return the distance between the two prototypes closest to the reading."""
    length: float = kernels("distance").separation(*engine.memory, pair.winner, pair.runner_up)
    return length
