"""Kill a process that releases noisy numbers (SIGKILL) again and again, then look at its ledger.

    python benchmarks/privacy_kill.py
    python benchmarks/privacy_kill.py --kills 5

The process reserves a release, draws its noise, records it, and only then writes it to a file,
which stands for publishing it. After each kill the next process goes on where the ledger ends. No
release may be published that the ledger does not have, and none in two versions.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from streamlvq.privacy.ledger import Ledger, read_ledger
from streamlvq.privacy.noise import integer_gaussian
from streamlvq.privacy.releases import Spending

PROMISE = {"epsilon": 1.0, "delta": 1e-5, "unit": "reading"}
SPENDING = Spending("kills", 1.0, 1e-5, "reading")
NUMBERS = 2000  # in a release: 20 features and 10 classes have about as many
SIGMA = 1e6


class Published(NamedTuple):
    """One line of the file of what was published."""

    number: int
    digest: str
    seconds: float  # that the ledger took


class Result(NamedTuple):
    """What was found after all kills."""

    kills: int
    releases: int
    unrecorded: int
    twice: int
    milliseconds: float  # median for each release


def release_for_ever(folder: Path) -> None:
    """Release one vector after another until killed."""
    ledger = Ledger(folder / "privacy.ledger", PROMISE, keep=None)
    with (folder / "published").open("a") as published:
        for number in range(max(0, ledger.releases - 1), sys.maxsize):
            begin = time.perf_counter()
            vector = ledger.recorded(number)
            if vector is None:
                ledger.reserve(number, SPENDING)
                vector = integer_gaussian(SIGMA, NUMBERS)
                ledger.record(number, vector)
            seconds = time.perf_counter() - begin
            digest = hashlib.sha256(vector.tobytes()).hexdigest()
            published.write(f"{number} {digest} {seconds}\n")
            published.flush()


@contextmanager
def process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that releases, and kill it."""
    command = [sys.executable, __file__, "--release", str(folder)]
    running = subprocess.Popen(command)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def published(folder: Path) -> list[Published]:
    """Return what was published; a kill may have torn a line."""
    path = folder / "published"
    lines = path.read_text().splitlines() if path.exists() else []
    parts = [line.split() for line in lines]
    return [Published(int(n), d, float(s)) for n, d, s in (p for p in parts if len(p) == 3)]


def kill_often(folder: Path, kills: int, seed: int = 1) -> Result:
    """Kill processes at random times after their first release, and compare what is left."""
    rng, before = random.Random(seed), 0
    for _ in range(kills):
        with process(folder) as running:
            while len(published(folder)) == before:
                assert running.poll() is None, "the process ended by itself"
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 0.1))
        before = len(published(folder))
    return compare(folder, kills)


def compare(folder: Path, kills: int) -> Result:
    """Count published releases that the ledger does not have, or that came in two versions."""
    said = published(folder)
    with Ledger(folder / "privacy.ledger", PROMISE, keep=None) as ledger:
        vectors = {each.number: ledger.recorded(each.number) for each in said}
        releases = ledger.releases
    read_ledger(folder / "privacy.ledger")  # raises unless the whole chain fits
    versions: dict[int, set[str]] = {}
    for each in said:
        versions.setdefault(each.number, set()).add(each.digest)
    known = {
        n: None if v is None else hashlib.sha256(v.tobytes()).hexdigest()
        for n, v in vectors.items()
    }
    return Result(
        kills=kills,
        releases=releases,
        unrecorded=sum(known[number] not in each for number, each in versions.items()),
        twice=sum(len(each) > 1 for each in versions.values()),
        milliseconds=1e3 * statistics.median(each.seconds for each in said),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--release", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.release is not None:
        release_for_ever(options.release)
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        result = kill_often(Path(folder), options.kills)
    print(
        f"{result.kills} kills, {result.releases} releases: {result.unrecorded} unrecorded, "
        f"{result.twice} in two versions; {result.milliseconds:.1f} ms a release (median)"
    )


if __name__ == "__main__":
    main()
