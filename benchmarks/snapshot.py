"""Time to copy, encode, write and load a snapshot of 10 classes x 64 features.

python benchmarks/snapshot.py
python benchmarks/snapshot.py --models "LGMLVQ(rank=8)" --folder /var/lib/streamlvq
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from common import Figure, Table, figure_table, our_model, show
from streamlvq.snapshot import (
    Snapshot,
    SnapshotFiles,
    build_estimator,
    decode,
    encode,
    from_arrays,
    to_arrays,
)

D, CLASSES = 64, 10
SAMPLES = 4000  # twice what the buffer holds
REPEATS = 25
LIMIT_MS = 10.0
LIMIT_1MB_MS = 5.0


def taught(spec: str) -> Any:
    """Return a model with as many prototypes as it may have, trained on overlapping clouds."""
    random = np.random.default_rng(0)
    y = random.integers(CLASSES, size=SAMPLES)
    X = random.normal(size=(CLASSES, D))[y] + 3.0 * random.normal(size=(SAMPLES, D))
    model: Any = our_model(spec)()
    model.learn_array(X, y)
    return model


def milliseconds(run: Callable[[], object]) -> tuple[float, float]:
    """Return the median CPU and wall time of a call."""
    cpu, wall = [], []
    for _ in range(REPEATS):
        start, begin = time.process_time(), time.perf_counter()
        run()
        cpu.append(time.process_time() - start)
        wall.append(time.perf_counter() - begin)
    return float(np.median(cpu)) * 1e3, float(np.median(wall)) * 1e3


def steps(
    model: Any, readings: bool, store: SnapshotFiles
) -> tuple[int, dict[str, tuple[float, float]]]:
    """Return the size of a snapshot, and the time of each step to it and back."""
    arrays, meta = to_arrays(model.state(readings=readings))
    data = encode(arrays, meta)
    whole = Snapshot.of(model, readings=readings).to_bytes()
    position = iter(range(10**9))
    return len(whole), {
        "describe": milliseconds(lambda: to_arrays(model.state(readings=readings))),
        "encode": milliseconds(lambda: encode(arrays, meta)),
        "both": milliseconds(lambda: encode(*to_arrays(model.state(readings=readings)))),
        "write": milliseconds(lambda: store.write(data, next(position))),
        "decode": milliseconds(lambda: decode(data)),
        "rebuild": milliseconds(lambda: build_estimator(from_arrays(arrays, meta))),
        "load": milliseconds(lambda: Snapshot.from_bytes(whole)),
    }


def one_megabyte() -> float:
    """Return the CPU milliseconds to encode and decode a megabyte."""
    arrays = {f"a{k}": np.random.default_rng(k).random(12_500) for k in range(10)}
    return milliseconds(lambda: decode(encode(arrays, {"x": list(range(100))})))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", default=["GLVQ", "LGMLVQ", "PairwiseLVQ"])
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one by default")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    title = f"Snapshots of {CLASSES} classes x {D} features: ms of CPU / wall"
    names = ["describe", "encode", "both", "write", "decode", "rebuild", "load"]
    table = Table(title, ["model", "bytes", *names])
    figures = []
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for spec in args.models:
            model = taught(spec)
            for readings in (True, False):
                size, times = steps(model, readings, SnapshotFiles(folder, keep=2))
                label = spec if readings else f"{spec}, no readings"
                table.add(label, f"{size:,}", *(f"{c:.2f} / {w:.2f}" for c, w in times.values()))
                if readings:
                    cpu = times["both"][0]
                    figures.append(
                        Figure(f"{spec}: describe and encode", cpu, LIMIT_MS, unit=" ms")
                    )
    figures.append(Figure("1 MB: encode and decode", one_megabyte(), LIMIT_1MB_MS, unit=" ms"))
    show([table, figure_table(figures, "Figures (CPU)")], args.markdown)


if __name__ == "__main__":
    main()
