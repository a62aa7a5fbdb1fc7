"""Memory of the daemon at full rate for an hour.

    python benchmarks/soak.py
    python benchmarks/soak.py --minutes 2

Readings of QoS 1, a tenth of them with labels, as fast as the daemon takes them; some are nonsense.
Prints memory, rate and health over time. Memory is flat if the second half of the time needed no
more than 5 % above what was reached in the first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from daemon import DISTINCT, WINDOW, configuration, greet, packet, payloads
from support.brokers import Mosquitto
from support.daemons import Daemon, until

BLOCK = 20_000  # readings that a publisher sends before it asks how far the daemon is
BEHIND = 40_000  # readings that may wait at the broker
DEVICES = 1000
GROWTH = 1.05


def publish(port: int, first: int, count: int) -> None:
    """Send a block: a tenth labelled, one in a thousand broken, all numbered."""
    plain, labelled = payloads(False), payloads(True)
    sock, confirmed = greet(port), 0
    for n in range(first, first + count):
        made = labelled if n % 10 == 0 else plain
        payload = made[n % DISTINCT][:-1] + b', "n": %d}' % n
        payload = b"{broken" if n % 1000 == 7 else payload
        sock.sendall(packet(b"r/device-%04d" % (n % DEVICES), payload, 1, n))
        while n - first - confirmed > WINDOW:
            confirmed += len(sock.recv(4096)) // 4
    while confirmed < count:
        confirmed += len(sock.recv(4096)) // 4
    sock.sendall(b"\xe0\0")
    sock.close()


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def soak(minutes: float, step: float, folder: Path) -> bool:
    memory: list[float] = []
    with Mosquitto() as broker:
        config = configuration(broker, folder, 1, sequence="n")
        config["state"]["snapshot_seconds"] = 10
        with Daemon(folder, config) as daemon:
            until(lambda: daemon.health()[0] == 200, 120, "healthy")
            assert daemon.process is not None
            begin = time.monotonic()
            end, following, sent, before = begin + 60 * minutes, begin + step, 0, 0.0
            print("minute  readings/s  MiB    journal MiB  snapshots  health")
            while time.monotonic() < end:
                sent += _block(broker.port, sent)
                _wait_for_room(daemon, sent)
                if time.monotonic() >= following:
                    measured = daemon.metrics()
                    memory.append(resident_mib(daemon.process.pid))
                    rate = (measured["streamlvq_readings_total"] - before) / step
                    before, following = measured["streamlvq_readings_total"], following + step
                    print(
                        f"{(time.monotonic() - begin) / 60:6.1f}  {rate:10.0f}  {memory[-1]:5.1f}  "
                        f"{measured['streamlvq_journal_bytes'] / 2**20:11.1f}  "
                        f"{measured['streamlvq_snapshots_total']:9.0f}  "
                        f"{json.dumps(daemon.health()[1])}",
                        flush=True,
                    )
            status = daemon.stop()
    return _judge(memory, sent, status)


def _block(port: int, first: int) -> int:
    command = [sys.executable, __file__, "--publish", str(port), str(first), str(BLOCK)]
    subprocess.run(command, check=True)
    return BLOCK


def _wait_for_room(daemon: Daemon, sent: int) -> None:
    until(
        lambda: sent - daemon.metrics()["streamlvq_received_total"] < BEHIND, 120, "room for more"
    )


def _judge(memory: list[float], sent: int, status: int) -> bool:
    half = len(memory) // 2
    first, second = max(memory[:half], default=0.0), max(memory[half:], default=0.0)
    flat = 0 < second <= first * GROWTH
    print(f"{sent} readings; at most {first:.1f} MiB in the first half, {second:.1f} in the second")
    print("memory is flat" if flat else "MEMORY GROWS")
    return flat and status == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--step", type=float, default=None, help="seconds between two lines")
    parser.add_argument("--publish", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.publish:
        publish(*options.publish)
        return 0
    step = options.step or max(2.0, min(60.0, options.minutes))
    with tempfile.TemporaryDirectory() as folder:
        return 0 if soak(options.minutes, step, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
