"""Kill the daemon (SIGKILL) again and again under load, then count what was lost.

    python benchmarks/kill.py
    python benchmarks/kill.py --readings 10000 --kills 10

Every reading must have had exactly one effect on the model: the final state is compared, bit for
bit, with that of a run without interruption. Every reading must have got at least one decision, and
decisions on a reading that came twice must carry its number.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tqdm import tqdm

from streamlvq.connect import Message
from support.brokers import Mosquitto
from support.daemons import Client, Daemon, readings, settings, undisturbed, until

DURING_START = 5  # every so many kills: while it starts and reads the journal


class Tally:
    """Decisions by the number of their reading."""

    def __init__(self, client: Client, bar: Any) -> None:
        self.client, self.bar = client, bar
        self.devices: dict[int, tuple[str, float]] = {}
        self.again = self.flagged = 0
        self.contradictions: list[dict[str, Any]] = []
        self._read = 0

    def update(self) -> int:
        """Count new decisions; return how many readings have one."""
        while self._read < len(self.client.got):
            decision = json.loads(self.client.got[self._read][1])
            self.client.got[self._read] = ("", b"")
            self._read += 1
            self._count(decision)
        return len(self.devices)

    def _count(self, decision: dict[str, Any]) -> None:
        number, about = decision["sequence"], (decision["device"], decision["t"])
        self.flagged += decision["duplicate"]
        if number not in self.devices:
            self.devices[number] = about
            self.bar.update()
            return
        self.again += 1
        if self.devices[number] != about:
            self.contradictions.append(decision)


def run(count: int, kills: int, seed: int, folder: Path) -> bool:
    rng = random.Random(seed)
    messages = readings(count, features=18, devices=50, late=True)
    with Mosquitto() as broker:
        config = settings(
            broker,
            folder,
            broker={"receive_maximum": 100},
            labels={"topic": "plant/{device}/labels", "sequence": "n"},
            model={"type": "LGMLVQ", "parameters": {"rank": 8}},
            state={"snapshot_seconds": 1},
        )
        with (
            Client(broker, "plant/+/decision") as client,
            Daemon(folder, config) as daemon,
            tqdm(total=count, unit="reading") as bar,
        ):
            until(lambda: daemon.health()[0] == 200, 120, "healthy")
            daemon.kill()
            tally = Tally(client, bar)
            for k in range(kills):
                bar.set_postfix(kills=k)
                client.send(_share(messages, k, kills))
                _one_life(daemon, tally, rng, during_start=k % DURING_START == DURING_START - 1)
            daemon.start()
            until(lambda: tally.update() == count, 300, "a decision on every reading")
            time.sleep(1)
            tally.update()
            status = daemon.stop()
            state = daemon.snapshot()
    return _judge(tally, count, status, state == undisturbed(daemon.path, messages))


def _share(messages: list[Message], k: int, kills: int) -> list[Message]:
    return messages[k * len(messages) // kills : (k + 1) * len(messages) // kills]


def _one_life(daemon: Daemon, tally: Tally, rng: random.Random, during_start: bool) -> None:
    if during_start:
        daemon.launch()
        time.sleep(rng.uniform(0.1, 4.0))
    else:
        daemon.start()
        goal = len(tally.client.got) + rng.randrange(1, 2000)
        end = time.monotonic() + rng.uniform(0.5, 3.0)  # there may be fewer left than that
        while len(tally.client.got) < goal and time.monotonic() < end:
            time.sleep(0.0005)
    daemon.kill()
    tally.update()


def _judge(tally: Tally, count: int, status: int, equal: bool) -> bool:
    verdicts = {
        f"every reading got a decision ({len(tally.devices)} of {count})": len(tally.devices)
        == count,
        f"readings that came twice kept their number ({tally.again} decisions again, "
        f"{tally.flagged} of duplicates)": not tally.contradictions,
        "the final state is bit-equal to that of an undisturbed run": equal,
        "the last daemon left in order": status == 0,
    }
    for text, good in verdicts.items():
        print(f"{'yes' if good else 'NO ':3}  {text}")
    return all(verdicts.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--readings", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = run(options.readings, options.kills, options.seed, Path(folder))
    print("passed" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
