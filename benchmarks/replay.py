"""Replay of CSV and JSONL: readings per second, against decoding and `learn_array` alone.

python benchmarks/replay.py --readings 100000
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Figure, Table, best_us, figure_table, our_model, parse_spec, progress, show
from datasets import Stream, gaussians

MODELS = ["GLVQ", "LGMLVQ(rank=8)"]
# Growth and rehearsal off, as in speed.py: the step itself. With them a model learns every reading
# several times, with more prototypes, and `learn_array` alone takes longer than the figure allows.
PLAIN: dict[str, Any] = {"prototypes_per_class": 1, "max_prototypes_per_class": 1, "rehearsal": 0}
FEATURES, CLASSES, DEVICES = 18, 7, 20
RATE, RATIO = 100_000.0, 2.0  # the figures to reach
DIGITS = 6  # as sensors give them


def names() -> list[str]:
    return [f"sensor{k}" for k in range(FEATURES)]


def write_csv(path: Path, data: Stream) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(",".join(["t", "device", *names(), "state"]) + "\n")
        for k, (row, label) in enumerate(zip(data.X.tolist(), data.y, strict=True)):
            cells = ",".join(f"{value:.{DIGITS}g}" for value in row)
            file.write(f"{1_700_000_000 + k // DEVICES},d{k % DEVICES},{cells},{label}\n")


def write_jsonl(path: Path, data: Stream) -> None:
    with path.open("w", encoding="utf-8") as file:
        for k, (row, label) in enumerate(zip(data.X.tolist(), data.y, strict=True)):
            values = {n: float(f"{v:.{DIGITS}g}") for n, v in zip(names(), row, strict=True)}
            head = {"t": 1_700_000_000 + k // DEVICES, "device": f"d{k % DEVICES}"}
            file.write(json.dumps({**head, **values, "state": str(label)}) + "\n")


WRITERS: dict[str, Callable[[Path, Stream], None]] = {"csv": write_csv, "jsonl": write_jsonl}


def config_of(spec: str, plain: bool, chain: bool) -> Any:
    from streamlvq import config

    name, parameters = parse_spec(spec)
    parameters |= PLAIN if plain else {}
    return config.Config(
        readings=config.ReadingsSection(label="state", time="t", device="device"),
        model=config.ModelSection(type=name, parameters=parameters),
        integrator=config.IntegratorSection(window=5) if chain else None,
        rejector=config.RejectorSection(target_rate=0.1) if chain else None,
    )


def decode(path: Path, config: Any) -> list[Any]:
    from streamlvq.replay.run import LogReader, calm_collector

    with calm_collector():  # as replay does
        return [event for portion in LogReader(path, config) for event in portion.events]


def replay_log(path: Path, config: Any) -> Any:
    from streamlvq.replay import replay

    return replay(path, config, progress=False)


def learn_alone(spec: str, plain: bool, batches: list[Any]) -> None:
    model: Any = our_model(spec, **(PLAIN if plain else {}))()
    for batch in batches:
        model.learn_array(batch.rows, batch.labels, batch.features)


def decide_alone(config: Any, batches: list[Any]) -> None:
    """Run the monitor without reading and counting."""
    from streamlvq.monitor import Monitor

    monitor = Monitor(config)
    for batch in batches:
        monitor.step(batch)


def runs_of(path: Path, spec: str, plain: bool) -> dict[str, Callable[[], object]]:
    alone, chain = (config_of(spec, plain, wrapped) for wrapped in (False, True))
    batches = decode(path, alone)
    return {
        "decode": lambda: decode(path, alone),
        "learn_array": lambda: learn_alone(spec, plain, batches),
        "monitor": lambda: decide_alone(alone, batches),
        "replay": lambda: replay_log(path, alone),
        "replay, windows and rejector": lambda: replay_log(path, chain),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--readings", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--defaults", action="store_true", help="also with growth and rehearsal")
    options = parser.parse_args()
    data = gaussians(FEATURES, CLASSES, options.readings)
    columns = ["log, model", "decode", "learn_array", "monitor", "replay", "with windows, rejector",
               "readings/s", "ratio"]  # fmt: skip
    table = Table(f"CPU us per reading, {options.readings} labelled readings", columns)
    figures = []
    kinds = (True, False) if options.defaults else (True,)
    cases = [(log, spec, plain) for plain in kinds for log in WRITERS for spec in options.models]
    with tempfile.TemporaryDirectory() as folder:
        for log, spec, plain in progress(cases, "replay", len(cases)):
            path = Path(folder) / f"log.{log}"
            if not path.exists():
                WRITERS[log](path, data)
            us = best_us(runs_of(path, spec, plain), options.readings, options.repeats)
            rate, ratio = 1e6 / us["replay"], us["replay"] / (us["decode"] + us["learn_array"])
            name = f"{log}, {spec}{'' if plain else ' growing, rehearsing'}"
            cells = [f"{value:.2f}" for value in us.values()]
            table.add(name, *cells, f"{rate:,.0f}", f"{ratio:.2f}")
            if plain:
                figures.append(Figure(f"{name}: readings per CPU second", rate, RATE, True))
            figures.append(Figure(f"{name}: against decode + learn_array", ratio, RATIO))
    show([table, figure_table(figures)])


if __name__ == "__main__":
    main()
