"""What a model has learnt, in words that people use: typical readings, relevances, reasons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from streamlvq.engine import Engine
from streamlvq.errors import NotLearntYetError
from streamlvq.kernels import layout as at
from streamlvq.records import Explanation, Prototype
from streamlvq.state import Floats


def _learnt(engine: Engine | None) -> Engine:
    if engine is None or engine.known == 0:
        raise NotLearntYetError("the model has learnt nothing yet: call learn_one first")
    return engine


def _prototype(
    engine: Engine, features: Sequence[Hashable], labels: Sequence[Hashable], p: int
) -> Prototype:
    state = engine.state
    return Prototype(
        label=labels[int(state["label"][p])],
        values=dict(zip(features, state["w"][p].tolist(), strict=True)),
        count=int(state["wins"][p]),
        age=int(state.size(at.SAMPLES) - state["born"][p]),
        index=p,
    )


def prototypes(
    engine: Engine | None, features: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[Prototype]:
    if engine is None:
        return []
    count = engine.state.size(at.PROTOTYPES)
    return [_prototype(engine, features, labels, p) for p in range(count)]


def _lambda(engine: Engine, p: int) -> Floats:
    """The metric of one prototype, in units of the feature scales."""
    d = engine.state.size(at.FEATURES)
    if engine.design.kind == at.EUCLIDEAN:
        return np.eye(d) / d
    omega = engine.state["omega"][p if engine.design.local else 0]
    if engine.design.kind == at.DIAGONAL:
        return np.diag(omega[0] ** 2)
    product: Floats = omega.T @ omega
    return product


def _check_index(engine: Engine, p: int) -> None:
    count = engine.state.size(at.PROTOTYPES)
    if not 0 <= p < count:
        raise IndexError(f"expected a prototype from 0 to {count - 1}, got {p}")


def metric(engine: Engine | None, p: int | None, raw: bool) -> Floats:
    engine = _learnt(engine)
    if p is not None:
        _check_index(engine, p)
    if p is not None or not engine.design.local:
        matrix = _lambda(engine, p or 0)
    else:
        count = engine.state.size(at.PROTOTYPES)
        matrix = np.mean([_lambda(engine, k) for k in range(count)], axis=0)
    if raw:
        inverse = engine.state["inverse"]
        matrix = matrix * np.outer(inverse, inverse)
    return matrix


def scales(engine: Engine | None, features: Sequence[Hashable]) -> dict[Hashable, float]:
    inverse = _learnt(engine).state["inverse"]
    return {
        name: 1.0 / value if value > 0.0 else float("inf")
        for name, value in zip(features, inverse.tolist(), strict=True)
    }


def relevances(
    engine: Engine | None, features: Sequence[Hashable], code: int | None, raw: bool
) -> dict[Hashable, float]:
    engine = _learnt(engine)
    labels = engine.state["label"][: engine.state.size(at.PROTOTYPES)]
    chosen = [p for p, label in enumerate(labels) if code is None or label == code]
    weights = np.maximum(engine.state["wins"][chosen], 1.0)
    diagonals = [np.diag(metric(engine, p, raw)) for p in chosen]
    mean = np.average(diagonals, axis=0, weights=weights)
    total = mean.sum()
    return dict(zip(features, (mean / total if total > 0 else mean).tolist(), strict=True))


def _contributions(engine: Engine, x: Floats, p: int) -> Floats:
    """What each feature adds to the distance to prototype p."""
    z = (x - engine.state["w"][p]) * engine.state["inverse"]
    matrix = _lambda(engine, p)
    missing = np.isnan(z)
    weight = np.diag(matrix)
    z[missing] = 0.0
    known = weight[~missing].sum()
    factor = weight.sum() / known if known > 0 else 0.0
    shares: Floats = factor * z * (matrix @ z)
    return shares


def explain(
    engine: Engine | None, features: Sequence[Hashable], labels: Sequence[Hashable]
) -> Explanation:
    """Explain the reading whose prediction was just made."""
    engine = _learnt(engine)
    d, room, known = engine.state.size(at.FEATURES), engine.state.size(at.CLASSES), engine.known
    x = engine.work[:d].copy()
    distances = engine.work[d + room : d + room + known].copy()
    winners = engine.work[d + 2 * room : d + 2 * room + known].astype(int)
    best = int(engine.probabilities.argmax())
    first, near = int(winners[best]), float(distances[best])
    winner = _prototype(engine, features, labels, first)
    reading = dict(zip(features, x.tolist(), strict=True))
    if known < 2:
        return Explanation(winner.label, winner, None, near, float("inf"), 1.0, {}, reading)
    distances[best] = np.inf
    next_best = int(distances.argmin())
    second, other = int(winners[next_best]), float(distances[next_best])
    decided = _contributions(engine, x, second) - _contributions(engine, x, first)
    ranked = sorted(range(d), key=lambda i: -abs(decided[i]))
    return Explanation(
        label=winner.label,
        winner=winner,
        runner_up=_prototype(engine, features, labels, second),
        distance=near,
        runner_up_distance=other,
        # The likeliest class of a mixture need not have the closest prototype.
        relsim=max(0.0, (other - near) / (other + near)) if other + near > 0 else 0.0,
        features={features[i]: float(decided[i]) for i in ranked},
        reading=reading,
    )
