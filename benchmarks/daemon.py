"""CPU cost per reading of the daemon, against idle stock paho in the same run; and latency.

    python benchmarks/daemon.py
    python benchmarks/daemon.py --count 200000 --seconds 60

Prints CPU microseconds per message of the daemon's process: 18 floats as JSON in, a decision of
LGMLVQ (rank 8, 7 classes) with integrator and RelSim rejector out, to a subscriber. Broker,
publisher and subscriber are processes of their own. Then the time from publishing a reading to its
decision, at 1000 readings/s from 1000 devices.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import contextlib

import numpy as np
import paho.mqtt.client as mqtt

from common import Figure, Table, figure_table, show
from streamlvq_connectors.mqtt.fast_client import varint
from support.brokers import LOOPBACK, BrokerProcess, Mosquitto
from support.daemons import Daemon, until

FEATURES, CLASSES, DEVICES = 18, 7, 100
DISTINCT = 2000  # payloads
BATCH = 50  # packets in a write
WINDOW = 500  # messages of QoS 1 that the publisher has on their way
TICK = os.sysconf("SC_CLK_TCK")


# --- publishers, in processes of their own ----------------------------------------------------


def payloads(labelled: bool) -> list[bytes]:
    """Return readings of seven classes, about 285 bytes each."""
    rng = np.random.default_rng(7)
    centres = rng.normal(0, 2, (CLASSES, FEATURES))
    made = []
    for n in range(DISTINCT):
        y = n % CLASSES
        values = (centres[y] + rng.normal(0, 1, FEATURES)).tolist()
        reading: dict[str, Any] = {f"s{i:02d}": round(v, 5) for i, v in enumerate(values)}
        if labelled:
            reading["y"] = f"class {y}"
        made.append(json.dumps(reading).encode())
    return made


def packet(topic: bytes, payload: bytes, qos: int, mid: int) -> bytes:
    """Return a PUBLISH packet."""
    number = (mid % 60_000 + 1).to_bytes(2, "big") if qos else b""
    body = len(topic).to_bytes(2, "big") + topic + number + payload
    return bytes([0x30 | qos << 1]) + varint(len(body)) + body


def greet(port: int) -> socket.socket:
    sock = socket.create_connection((LOOPBACK, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(b"\x10\x11\0\x04MQTT\x04\x02\0\0\0\x05flood")
    sock.recv(4)
    return sock


def flood(port: int, count: int, qos: int, labelled: bool, rate: float) -> None:
    """Publish `count` readings, at most `rate` a second."""
    made = payloads(labelled)
    sock, begin, confirmed = greet(port), time.monotonic(), 0
    for sent in range(0, count, BATCH):
        block = [
            packet(b"r/device-%03d" % (n % DEVICES), made[n % DISTINCT], qos, n)
            for n in range(sent, sent + BATCH)
        ]
        sock.sendall(b"".join(block))
        while qos and sent + BATCH - confirmed > WINDOW:
            confirmed += len(sock.recv(4096)) // 4
        time.sleep(max(0.0, begin + (sent + BATCH) / rate - time.monotonic()))
    while qos and confirmed < count:
        confirmed += len(sock.recv(4096)) // 4
    sock.sendall(b"\xe0\0")
    sock.close()


def pace(port: int, seconds: float, rate: int, qos: int) -> None:
    """Publish one by one from `rate` devices, with the time of sending in each reading."""
    made = [json.loads(payload) for payload in payloads(False)]
    count, confirmed = int(seconds * rate), 0
    sock, begin = greet(port), time.monotonic()
    for n in range(count):
        time.sleep(max(0.0, begin + n / rate - time.monotonic()))
        reading = json.dumps({**made[n % DISTINCT], "t": time.time()}).encode()
        sock.sendall(packet(b"r/device-%04d" % (n % rate), reading, qos, n))
        with contextlib.suppress(BlockingIOError):
            confirmed += len(sock.recv(65536, socket.MSG_DONTWAIT)) // 4
    while qos and confirmed < count:
        confirmed += len(sock.recv(4096)) // 4
    sock.sendall(b"\xe0\0")
    sock.close()


def own_process(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, *map(str, arguments)])


# --- what is measured -------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, over all threads."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICK


def stock(qos: int, count: int, rate: float) -> float:
    """Return the CPU microseconds per message of stock paho 3.1.1 with an empty callback."""
    with Mosquitto() as broker:  # a new one each time: nothing waits in the session of before
        return _stock(broker, qos, count, rate)


def _stock(broker: BrokerProcess, qos: int, count: int, rate: float) -> float:
    counter = subprocess.Popen(
        [sys.executable, __file__, "--stock", str(broker.port), str(qos), str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert counter.stdout is not None
    counter.stdout.readline()
    own_process("--flood", broker.port, count, qos, 0, rate).wait()
    spent, seen = map(float, counter.stdout.readline().split())
    counter.wait()
    return spent / seen * 1e6


def stock_process(port: int, qos: int, count: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="stock")
    seen = 0

    def on_message(_c: Any, _d: Any, _m: Any) -> None:
        nonlocal seen
        seen += 1

    client.on_message = on_message
    client.on_connect = lambda *_: client.subscribe("r/#", qos)
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.connect(LOOPBACK, port)
    client.loop_start()
    while seen < 1:
        time.sleep(0.001)
    begin, first = time.process_time(), seen
    last = time.monotonic()
    while seen < count and time.monotonic() - last < 60:
        time.sleep(0.02)
    print(time.process_time() - begin, seen - first, flush=True)
    client.loop_stop()


def configuration(broker: BrokerProcess, folder: Path, qos: int, **more: Any) -> dict[str, Any]:
    return {
        "broker": {"url": broker.url, "client_id": "daemon", "protocol": "3.1.1"},
        "readings": {"topic": "r/{device}", "qos": qos, "label": "y", **more},
        "model": {"type": "LGMLVQ", "parameters": {"rank": 8}},
        "integrator": {"window": 5},
        "rejector": {"type": "relsim", "target_rate": 0.1},
        "decisions": {"topic": "d/{device}"},
        "state": {"folder": str(folder / "state"), "snapshot_seconds": 10},
        "health": {"port": 0},
    }


def ours(qos: int, count: int, rate: float, labelled: bool) -> tuple[float, float]:
    """Return the CPU microseconds per message of the daemon, and messages per batch."""
    with Mosquitto() as broker, tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(Path(folder), configuration(broker, Path(folder), qos))
        with daemon:
            until(lambda: daemon.health()[0] == 200, 60, "healthy")
            own_process("--flood", broker.port, 3000, qos, 1, 5000).wait()  # something to know
            until(lambda: daemon.metrics()["streamlvq_readings_total"] == 3000, 60, "learnt")
            before = daemon.metrics()
            assert daemon.process is not None
            begin = cpu_seconds(daemon.process.pid)
            # The subscriber is written in C, so that it takes little of the machine.
            with subprocess.Popen(
                ["mosquitto_sub", "-p", str(broker.port), "-t", "d/+", "-C", str(count)],
                stdout=subprocess.DEVNULL,
            ) as subscriber:
                time.sleep(0.5)
                own_process("--flood", broker.port, count, qos, int(labelled), rate).wait()
                subscriber.wait(120)
            spent = cpu_seconds(daemon.process.pid) - begin
            after = daemon.metrics()
            assert after["streamlvq_dropped_total"] == 0
            batches = (
                after["streamlvq_batch_messages_count"] - before["streamlvq_batch_messages_count"]
            )
            assert daemon.stop() == 0
    return spent / count * 1e6, count / batches


def latency(broker: BrokerProcess, qos: int, seconds: float) -> tuple[list[float], float]:
    """Return the milliseconds to each decision, and the daemon's share of a core."""
    late: list[float] = []
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.on_message = lambda _c, _d, m: late.append(
        time.time() - float(m.payload.partition(b'"t":')[2].partition(b",")[0])
    )
    client.on_connect = lambda *_: client.subscribe("d/+")
    client.connect(LOOPBACK, broker.port)
    client.loop_start()
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(broker, Path(folder), qos, time="t")
        daemon = Daemon(Path(folder), config)
        with daemon:
            until(lambda: daemon.health()[0] == 200, 60, "healthy")
            own_process("--flood", broker.port, 3000, qos, 1, 5000).wait()
            until(lambda: len(late) == 3000, 60, "learnt")
            late.clear()
            assert daemon.process is not None
            begin = cpu_seconds(daemon.process.pid)
            own_process("--pace", broker.port, seconds, 1000, qos).wait()
            until(lambda: len(late) >= int(seconds * 1000), 20, "all decisions")
            spent = cpu_seconds(daemon.process.pid) - begin
            assert daemon.stop() == 0
    client.loop_stop()
    return [1e3 * each for each in late], spent / seconds


# --- all together -----------------------------------------------------------------------------


def measure(count: int, rate: float, repeats: int) -> list[Figure]:
    table = Table(
        "CPU us per message at the daemon", ["what", "paho, nothing done", "daemon", "batch"]
    )
    figures = []
    for qos, limit in ((0, 1.0), (1, 1.5)):
        for labelled in (False, True):
            nothing = min(stock(qos, count, rate) for _ in range(repeats))
            spent, batch = min(ours(qos, count, rate, labelled) for _ in range(repeats))
            print(f"  {qos=} {labelled=} {nothing:.1f} {spent:.1f}", file=sys.stderr)
            what = f"QoS {qos}, {'decided and learnt' if labelled else 'decided'}"
            table.add(what, f"{nothing:.1f}", f"{spent:.1f}", f"{batch:.0f}")
            if not labelled:
                figures.append(
                    Figure(f"daemon, QoS {qos}, of stock paho", spent / nothing, limit, unit="x")
                )
    show([table], markdown=False)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="messages")
    parser.add_argument("--rate", type=float, default=20_000, help="messages a second, at most")
    parser.add_argument("--seconds", type=float, default=20, help="to measure latency for")
    parser.add_argument("--repeats", type=int, default=1, help="the best of so many counts")
    parser.add_argument("--only", choices=["cpu", "latency"], help="measure only this")
    parser.add_argument("--flood", nargs=5, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--pace", nargs=4, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--stock", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        port, count, qos, labelled, rate = options.flood
        flood(int(port), int(count), int(qos), bool(labelled), rate)
    elif options.pace:
        port, seconds, rate, qos = options.pace
        pace(int(port), seconds, int(rate), int(qos))
    elif options.stock:
        stock_process(*options.stock)
    else:
        figures = []
        if options.only != "latency":
            figures += measure(options.count, options.rate, options.repeats)
        for qos in (0, 1) if options.only != "cpu" else ():
            with Mosquitto() as broker:
                late, share = latency(broker, qos, options.seconds)
            median, p99 = np.percentile(late, [50, 99]).tolist()
            times = f"median {median:.1f} ms, 99 % {p99:.1f} ms, slowest {max(late):.1f} ms"
            print(f"QoS {qos}, 1000 readings/s: {times}; {share:.0%} of a core", flush=True)
            figures.append(Figure(f"latency p99, QoS {qos}", p99, 20.0, unit=" ms"))
        print()
        print(figure_table(figures).render())


if __name__ == "__main__":
    main()
