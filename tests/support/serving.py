"""A small plant, and models that learnt elsewhere, for tests of what is served to a monitor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import structs

import streamlvq
from streamlvq.config import Config, ModelSection, loads
from streamlvq.events import LateLabel, Readings
from streamlvq.models.pool import PoolClassifier, PoolWeights
from streamlvq.monitor import Monitor
from streamlvq.wrappers.base import innermost_model
from support.samples import described
from support.streams import NAMES, readings

MODEL, VERSION, CERTAINTY, LABEL = map(NAMES.index, ("model", "version", "certainty", "label"))

FEATURES = tuple(f"sensor {i}" for i in range(5))
CENTRES = np.random.default_rng(99).standard_normal((6, 5)) * 2.0
FLEET = '{name: plant, trust: everyone, serve: "%s"}'
TEXT = """
readings: {topic: "plant/{site}/{device}", sequence: seq, time: t}
labels: {topic: "labels/{site}/{device}", sequence: seq, wait: 500}
decisions: {topic: "out/{site}/{device}"}
state: {duplicates: 1000}
"""
INTEGRATORS = {
    "alone": "",
    "window": "{window: 4}",
    "gaps": "{window: 3, max_gap: 6}",
    "adaptive": "{max_gap: 9}",
}
REJECTORS = {
    "none": "",
    "fixed": "{threshold: 0.3}",
    "mapping": '{threshold: {"class 0": 0.1, "class 1": 0.4}}',
    "rate": "{target_rate: 0.2, memory: 40}",
    "accuracy": "{target_accuracy: 0.9, memory: 40}",
    "cost": "{reject_cost: 0.2, memory: 40}",
    "classes": "{target_rate: 0.2, memory: 20, per_class: true}",
    "classes accuracy": "{target_accuracy: 0.9, memory: 20, per_class: true}",
    "probability": "{type: probability, target_accuracy: 0.9, memory: 40}",
    "Chow": "{type: probability, reject_cost: 0.3}",
}
MODES = ("both", "local")  # fused decides as both does


def config(
    serve: str = "both",
    *,
    model: str = "{type: GLVQ}",
    integrator: str = "window",
    rejector: str = "accuracy",
) -> Config:
    sections = {
        "model": model,
        "integrator": INTEGRATORS[integrator],
        "rejector": REJECTORS[rejector],
        "fleet": FLEET % serve,
    }
    lines = [f"{name}: {value}" for name, value in sections.items() if value]
    return loads("\n".join([TEXT, *lines]))


def per_device(mode: str, **options: Any) -> Config:
    """A model for each device, which no configuration may ask for in a fleet so far."""
    return structs.replace(config(mode), model=ModelSection(type="GLVQ", per="device", **options))


def stream(
    count: int, *, seed: int = 0, classes: Sequence[int] = (0, 1, 2), **options: Any
) -> Readings:
    """Readings of one plant: a class has the same centre whoever sees it."""
    made = readings(count, seed=seed, **{"labelled": 0.6, **options})
    rng = np.random.default_rng(1000 + seed)
    states: dict[str, int] = {}
    came: dict[int | None, tuple[int, Any]] = {}  # one that comes twice is the same twice
    for k, sequence in enumerate(made.sequences):
        if sequence not in came:
            device = made.devices[k]
            if device not in states or rng.random() < 0.15:  # a state lasts a while
                states[device] = int(rng.choice(np.array(classes)))
            values = CENTRES[states[device]] + rng.standard_normal(5)
            values[rng.random(5) < 0.03] = np.nan
            came[sequence] = states[device], values
        c, made.rows[k] = came[sequence]
        if made.labels[k] is not None:
            made.labels[k] = f"class {c}"
    made.keys = [key + 10_000 * seed for key in made.keys]
    made.sequences = [10_000 * seed + (n or 0) for n in made.sequences]
    return made


def other(
    classes: Sequence[int] = (3, 1, 0, 2),
    *,
    seed: int = 50,
    count: int = 250,
    features: Sequence[int] = (0, 1, 2, 3, 4),
    model: Callable[[], Any] = streamlvq.GLVQ,
) -> Any:
    """A model that learnt elsewhere: it knows its classes and features in these orders."""
    made, rng = model(), np.random.default_rng(seed)
    order = [*classes, *rng.choice(np.array(classes), count).tolist()]
    rows = (CENTRES[order] + rng.standard_normal((len(order), 5)))[:, list(features)]
    made.learn_array(rows, [f"class {c}" for c in order], [FEATURES[i] for i in features])
    return made


def pool(
    *classes: Sequence[int],
    seed: int = 50,
    local: float = 0.5,
    weight: float = 0.7,
    model: Callable[[], Any] = streamlvq.GLVQ,
    **options: Any,
) -> PoolClassifier:
    """A pool as it travels: without a local model; its candidates know these classes."""
    kinds = classes or ((3, 1, 0, 2), (1, 0), (2, 0, 3))
    candidates = {
        f"candidate {k}": other(each, seed=seed + k, model=model, **options)
        for k, each in enumerate(kinds)
    }
    weights = {name: weight * 0.7**k for k, name in enumerate(candidates)}
    shares = {f"class {c}": 0.2 for c in range(5)}
    return PoolClassifier(None, candidates, PoolWeights(weights, local, 0.2), shares)


def scored(monitor: Monitor, group: str = "") -> list[Any]:
    """What the models of a served pool said about labelled readings, bit by bit."""
    served = monitor.serving(group)
    model = None if served is None else innermost_model(served)
    if not isinstance(model, PoolClassifier):
        return []
    return [
        (each.opinions.tobytes(), each.held.tolist(), each.code, each.run)
        for each in model.scored()
    ]


def late(whole: Readings, k: int, label: str) -> LateLabel:
    return LateLabel(whole.devices[k], "", label, None, whole.sequences[k])


def fingerprint(classifier: Any) -> tuple[Any, dict[str, bytes]]:
    """All that a classifier and its wrappers know, bit by bit."""
    arrays, meta = described(classifier)
    return meta, {name: array.tobytes() for name, array in arrays.items()}


def monitor_records(monitor: Monitor, whole: Readings) -> list[Any]:
    decisions = monitor.step(whole).decisions
    assert decisions is not None
    return decisions.records()


def liar() -> Any:
    """A model that mistakes every class for the next one."""
    model, rng = streamlvq.GLVQ(), np.random.default_rng(0)
    codes = [0, 1, 2, *rng.integers(0, 3, 200).tolist()]
    rows = CENTRES[codes] + rng.standard_normal((len(codes), 5))
    model.learn_array(rows, [f"class {(c + 1) % 3}" for c in codes], list(FEATURES))
    return model
