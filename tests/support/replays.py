"""Logs to replay, and the plain loop that a replay must agree with."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamlvq.config import (
    Config,
    IntegratorSection,
    ModelSection,
    ReadingsSection,
    RejectorSection,
    build_classifier,
)

STATES = ("normal", "worn", "leak")
FEATURES = ("pressure", "current", "noise", "heat")


class Row(NamedTuple):
    """A reading as a log holds it."""

    t: float
    pump: str
    values: tuple[float, ...]
    state: str | None


def rows(count: int, devices: int = 3, labelled: float = 1.0, seed: int = 0) -> list[Row]:
    """Pumps that change their state now and then; rounded, so that text is exact."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(len(STATES), len(FEATURES))) * 2.5
    found = []
    for k in range(count):
        state = (k // devices // 20 + k % devices) % len(STATES)
        values = (centres[state] + random.normal(size=len(FEATURES))).round(4)
        label = STATES[state] if random.random() < labelled else None
        t = 1_700_000_000.0 + k // devices
        found.append(Row(t, f"pump{k % devices}", tuple(values.tolist()), label))
    return found


def write_csv(path: Path, log: list[Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["t", "pump", *FEATURES, "state"])
        for row in log:
            writer.writerow([row.t, row.pump, *row.values, row.state or ""])
    return path


def as_object(row: Row) -> dict[str, Any]:
    known = {} if row.state is None else {"state": row.state}
    return {"t": row.t, "pump": row.pump, **dict(zip(FEATURES, row.values, strict=True)), **known}


def write_jsonl(path: Path, log: list[Row]) -> Path:
    path.write_text("".join(json.dumps(as_object(row)) + "\n" for row in log), encoding="utf-8")
    return path


def plain_config(model: str = "GLVQ", **parameters: Any) -> Config:
    """A model alone."""
    return Config(
        readings=ReadingsSection(label="state", time="t", device="pump"),
        model=ModelSection(type=model, parameters=parameters),
    )


def chain_config(model: str = "GLVQ", **parameters: Any) -> Config:
    """A model in an integrator in a rejector."""
    return Config(
        readings=ReadingsSection(label="state", time="t", device="pump"),
        model=ModelSection(type=model, parameters=parameters),
        integrator=IntegratorSection(window=3),
        rejector=RejectorSection(target_rate=0.1),
    )


def plain_loop(config: Config, log: list[Row]) -> Iterator[Any]:
    """River's way: decide on each, then learn it."""
    chain = build_classifier(config)
    for row in log:
        x = dict(zip(FEATURES, row.values, strict=True))
        yield chain.decide_one(x, device=row.pump, t=row.t)
        if row.state is not None:
            chain.learn_one(x, row.state, device=row.pump, t=row.t)
        else:
            chain.observe_one(x, scales=False, device=row.pump, t=row.t)
