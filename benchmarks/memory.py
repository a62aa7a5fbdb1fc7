"""Resident memory while millions of samples pass through `learn_array`.

python benchmarks/memory.py --samples 10_000_000
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common import Factory, Figure, Table, figure_table, our_model, progress, show

D, CLASSES = 18, 7
CHUNK = 10_000
POINTS = 10
# Buffers and prototypes fill up early on; from here on nothing may grow any more.
WARM_UP_SHARE = 0.1
# Room for the allocator's own pages; a leak of one byte a sample would show as 9 MiB.
ALLOWED_MIB = 4.0

Chunk = tuple[NDArray[np.float64], NDArray[np.int64]]


def chunks(samples: int, seed: int = 42) -> Iterator[Chunk]:
    """Yield Gaussians with wandering centres, so that prototypes keep being replaced.

    Every chunk is in the same buffer: fresh arrays would make resident memory jump by their size.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, D))
    X, means = np.empty((CHUNK, D)), np.empty((CHUNK, D))
    for _ in range(samples // CHUNK):
        y = rng.integers(CLASSES, size=CHUNK)
        rng.standard_normal(out=X)
        X += np.take(centres, y, axis=0, out=means)
        yield X, y
        centres += rng.normal(scale=0.05, size=centres.shape)


def rss_mib() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def rss_over(factory: Factory, samples: int, description: str) -> list[float]:
    """Return the resident memory in MiB at `POINTS` evenly spaced moments after the warm-up."""
    model = factory()
    total = samples // CHUNK
    marks = {round(m) for m in np.linspace(total * WARM_UP_SHARE, total, POINTS)}
    found = []
    for done, (X, y) in enumerate(progress(chunks(samples), description, total), start=1):
        model.learn_array(X, y)  # type: ignore[attr-defined]
        if done in marks:
            found.append(rss_mib())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument(
        "--models", nargs="+", default=["LGMLVQ(rehearsal=0)", "LGMLVQ(rehearsal=4)"]
    )
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    factories = {spec: our_model(spec) for spec in args.models}
    table = Table(f"Resident MiB over {args.samples:,} samples", ["model", "start", "end", "most"])
    figures = []
    for spec, factory in factories.items():
        rss = rss_over(factory, args.samples, spec)
        table.add(spec, *(f"{value:.1f}" for value in (rss[0], rss[-1], max(rss))))
        figures.append(
            Figure(f"{spec}: growth after the warm-up", max(rss) - rss[0], ALLOWED_MIB, unit=" MiB")
        )
    show([table, figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
