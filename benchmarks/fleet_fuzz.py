"""Fuzz a roster with 100 000 forged, replayed, damaged and lying envelopes.

    python benchmarks/fleet_fuzz.py
    python benchmarks/fleet_fuzz.py --count 2000 --seed 7

None may crash it, none may change what it knows, in memory or on disk, and each must be refused for
a reason that fits and is counted. Now and then something genuine comes, which must be accepted.
Then: what it costs to verify and parse a snapshot that is good.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

from common import Figure, Table, figure_table, our_model, progress, show
from streamlvq.fleet import Header, PrivateKey, Roster, TrustedKeys, seal
from streamlvq.snapshot import Snapshot
from support.forgeries import (
    ALL,
    FLEET,
    INSIDE,
    LIMIT,
    MAX_AGE,
    NOW,
    OUTSIDE,
    Fuzz,
    World,
    files_of,
    let_in,
)

COUNT = 100_000
GENUINE_EVERY = 1000
SHARE_OF_EVERYONE = 0.2  # of the forgeries go to a roster that trusts everyone
D, CLASSES, SAMPLES, REPEATS = 64, 10, 4000, 50
LIMIT_MS = 2.0
SPECS = ("GLVQ", "GMLVQ", "LGMLVQ(rank=12)")


# --- forgeries ------------------------------------------------------------------------------------


def fuzz(count: int, seed: int, everyone: bool) -> tuple[Fuzz, float]:
    """Run forgeries of all kinds in turn; return them and the longest time of one, in ms."""
    world = World.new(seed)
    kinds = list(OUTSIDE | INSIDE if everyone else ALL)
    slowest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trust = None if everyone else world.trust
        roster = Roster(FLEET, trust, limit=LIMIT, max_age_seconds=MAX_AGE, folder=folder)
        let_in(world, roster)
        run, files = Fuzz(world, roster), files_of(folder)
        who = "everyone" if everyone else "keys"
        for k in progress(range(count), f"forgeries, trusting {who}", count):
            begin = time.process_time()
            run.attempt(kinds[k % len(kinds)])
            slowest = max(slowest, time.process_time() - begin)
            if (k + 1) % GENUINE_EVERY == 0:
                assert files_of(folder) == files, "something was written"
                del world.sent[: -len(world.keys) * 3]
                let_in(world, roster, rounds=1)
                files = files_of(folder)
        assert files_of(folder) == files, "something was written"
        check_restart(run, folder)
    return run, slowest * 1e3


def check_restart(run: Fuzz, folder: Path) -> None:
    """Check that members and sequence numbers survive a restart."""
    again = Roster(FLEET, run.roster.trust, limit=LIMIT, max_age_seconds=MAX_AGE, folder=folder)
    assert again._known == run.roster._known
    before, after = run.roster.members(NOW), again.members(NOW)
    assert {n: m.digest for n, m in before.items()} == {n: m.digest for n, m in after.items()}


def tally_table(runs: list[Fuzz]) -> Table:
    table = Table("Forgeries refused", ["forgery", "refused", "for"])
    for forge in ALL:
        found: dict[str, int] = {}
        for run in runs:
            for reason, times in run.tally.get(forge.__name__, {}).items():
                found[reason] = found.get(reason, 0) + times
        reasons = ", ".join(f"{reason} {times:,}" for reason, times in sorted(found.items()))
        table.add(forge.__name__.replace("_", " "), f"{sum(found.values()):,}", reasons)
    return table


def counts_table(runs: list[Fuzz]) -> Table:
    table = Table("What the rosters counted", ["reason", "times"])
    total = sum((run.roster.counts for run in runs), start=type(runs[0].roster.counts)())
    for reason, times in sorted(total.items()):
        table.add(reason, f"{times:,}")
    return table


# --- what is good ---------------------------------------------------------------------------------


def taught(spec: str, overlapping: float) -> Any:
    random = np.random.default_rng(0)
    y = random.integers(CLASSES, size=SAMPLES)
    X = random.normal(size=(CLASSES, D))[y] + overlapping * random.normal(size=(SAMPLES, D))
    model: Any = our_model(spec)()
    model.learn_array(X, y)
    return model


def cost(spec: str, overlapping: float) -> tuple[int, int, float]:
    """Return bytes, prototypes, and the median CPU ms to accept a new envelope without a disk."""
    model, key = taught(spec, overlapping), PrivateKey.new()
    payload = Snapshot.of(model, "n1", readings=False).to_bytes()
    roster = Roster(FLEET, TrustedKeys({"n1": key.public}))
    spent = []
    for sequence in range(REPEATS):
        data = seal(payload, Header(FLEET, "n1", "snapshot", 1, sequence, NOW), key)
        begin = time.process_time()
        taken = roster.accept("n1", data, NOW)
        spent.append(time.process_time() - begin)
        assert taken.status == "new", taken
    return len(payload), len(model.prototypes()), float(np.median(spent)) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("error")  # a lie must not even make numpy complain
    few = int(args.count * SHARE_OF_EVERYONE)
    done = [fuzz(args.count - few, args.seed, False), fuzz(few, args.seed + 1, True)]
    runs = [run for run, _ in done]
    show([tally_table(runs), counts_table(runs)], args.markdown)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    slowest = max(ms for _, ms in done)
    print(f"slowest forgery (made and refused): {slowest:.1f} ms of CPU; memory {memory:.0f} MiB\n")
    refused = sum(times.total() for run in runs for times in run.tally.values())
    figures = [Figure("forgeries refused", refused, args.count, at_least=True)]
    table = Table(
        f"A snapshot of {CLASSES} classes x {D} features, verified and parsed",
        ["model", "prototypes", "bytes", "ms of CPU"],
    )
    for spec in SPECS:
        for overlapping in (0.2, 3.0):
            size, prototypes, ms = cost(spec, overlapping)
            table.add(spec, prototypes, f"{size:,}", f"{ms:.2f}")
            figures.append(Figure(f"{spec}, {prototypes} prototypes", ms, LIMIT_MS, unit=" ms"))
    show([table, figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
