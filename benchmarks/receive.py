"""CPU cost of receiving and publishing, against idle stock paho; and packet fuzzing.

    python benchmarks/receive.py
    python benchmarks/receive.py --fuzz 1000000

The first prints CPU microseconds per message of this process; the publisher is another one, and
the broker a third. Payloads are 285 bytes of JSON. The second makes random streams of packets,
damages some, cuts them at random places, and checks that the fast client makes of each the same as
stock paho: the same messages, the same answers, the same end.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from common import Figure, Table, figure_table, show
from streamlvq.config import Broker
from streamlvq.connect import Outgoing, Subscription
from streamlvq_connectors.mqtt import MqttLink
from streamlvq_connectors.mqtt.fast_client import varint
from support.brokers import BrokerProcess, available
from support.mqtt_streams import Outcome, Packets, Protocol, both

PAYLOAD = json.dumps({f"s{i:02d}": round(0.123456 * (i + 1), 5) for i in range(18)})
PAYLOAD = PAYLOAD[:-1] + " " * (285 - len(PAYLOAD)) + "}"
DEVICES = 100
BATCH = 100
WINDOW = 500  # messages of QoS 1 that the publisher has on their way


# --- the publisher, a process of its own ------------------------------------------------------


def flood(port: int, count: int, qos: int) -> None:
    """Publish as fast as the broker accepts, with minimal own overhead."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"\x10\x11\0\x04MQTT\x04\x02\0\0\0\x05flood")
    sock.recv(4)
    confirmed = sent = 0
    while sent < count:
        number = min(BATCH, count - sent)
        sock.sendall(b"".join(_packet(sent + i, qos) for i in range(number)))
        sent += number
        while qos and sent - confirmed > WINDOW:
            confirmed += len(sock.recv(4096)) // 4
    while qos and confirmed < count:
        confirmed += len(sock.recv(4096)) // 4
    sock.sendall(b"\xe0\0")
    sock.close()


def _packet(number: int, qos: int) -> bytes:
    topic = b"sensors/device-%03d/readings" % (number % DEVICES)
    mid = (number % 60_000 + 1).to_bytes(2, "big") if qos else b""
    body = len(topic).to_bytes(2, "big") + topic + mid + PAYLOAD.encode()
    return bytes([0x30 | qos << 1]) + varint(len(body)) + body


def start_flood(broker: BrokerProcess, count: int, qos: int) -> subprocess.Popen[bytes]:
    arguments = ["--flood", str(broker.port), str(count), str(qos)]
    return subprocess.Popen([sys.executable, __file__, *arguments])


# --- receivers --------------------------------------------------------------------------------


def stock(broker: BrokerProcess, protocol: Protocol, qos: int, count: int) -> float:
    """Receive with paho and a callback that only counts."""
    v5 = protocol == "5"
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id="stock",
        protocol=MQTTProtocolVersion.MQTTv5 if v5 else MQTTProtocolVersion.MQTTv311,
    )
    seen = start = 0.0

    def on_message(_c: Client, _d: Any, _message: MQTTMessage) -> None:
        nonlocal seen
        seen += 1

    client.on_message = on_message
    client.on_connect = lambda *_: client.subscribe("sensors/#", qos)
    subscribed = []
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.connect("127.0.0.1", broker.port)
    while not subscribed:
        client.loop(0.1)
    publisher = start_flood(broker, count, qos)
    last, before = time.monotonic(), 0.0
    while seen < count and time.monotonic() - last < 5:
        client.loop(0.5)
        if not before and seen:
            start, before = time.process_time(), seen
        if seen:
            last = time.monotonic()
    spent = (time.process_time() - start) / (seen - before)
    client.disconnect()
    publisher.wait()
    return spent * 1e6


def ours(fast: bool) -> Callable[[BrokerProcess, Protocol, int, int], float]:
    def run(broker: BrokerProcess, protocol: Protocol, qos: int, count: int) -> float:
        name = f"ours-{protocol[0]}-{qos}"  # NATS takes no dots
        config = Broker(url=broker.url, client_id=name, protocol=protocol, fast_receive=fast)
        link = MqttLink(config, [Subscription("sensors/#", qos)])
        while not link.connected:
            link.read(0.1)
        link.read(0.2)
        publisher = start_flood(broker, count, qos)
        link.acknowledge(link.read(5.0))
        seen, reads, start = 0, 0, time.process_time()
        while link.counters["received"] < count:
            batch = link.read(5.0)
            if not batch:
                break
            link.acknowledge(batch)
            seen += len(batch)
            reads += 1
        spent = (time.process_time() - start) / max(seen, 1)
        link.close()
        publisher.wait()
        print(f"  {seen / max(reads, 1):.0f} messages per read", file=sys.stderr)
        return spent * 1e6

    return run


def receiving(broker: BrokerProcess, count: int) -> tuple[Table, dict[tuple[str, str, int], float]]:
    """Measure the CPU time per received message of every client."""
    table = Table(
        f"Receiving from {type(broker).__name__}, CPU us per message",
        ["client", "QoS 0", "QoS 1"],
    )
    measured: dict[tuple[str, str, int], float] = {}
    clients = {"paho, nothing done": stock, "link, stock": ours(False), "link, fast": ours(True)}
    for protocol in broker.protocols:
        for name, run in clients.items():
            for qos in (0, 1):
                measured[name, protocol, qos] = run(broker, protocol, qos, count)
            cells = [f"{measured[name, protocol, qos]:.1f}" for qos in (0, 1)]
            table.add(f"{name}, MQTT {protocol}", *cells)
    return table, measured


# --- publishing -------------------------------------------------------------------------------


def publishing(broker: BrokerProcess, count: int) -> Table:
    """Measure the CPU time per published message, in batches of 100."""
    table = Table(
        f"Publishing to {type(broker).__name__}, CPU us per message", ["client", "QoS 0", "QoS 1"]
    )
    for protocol in broker.protocols:
        for fast in (False, True):
            cells = [f"{_publish(broker, protocol, fast, qos, count):.1f}" for qos in (0, 1)]
            table.add(f"link, {'fast' if fast else 'stock'}, MQTT {protocol}", *cells)
    return table


def _publish(broker: BrokerProcess, protocol: Protocol, fast: bool, qos: int, count: int) -> float:
    config = Broker(url=broker.url, client_id="sender", protocol=protocol, fast_receive=fast)
    link = MqttLink(config)
    while not link.connected:
        link.read(0.1)
    batch = [
        Outgoing(f"decisions/device-{i % DEVICES:03d}", PAYLOAD.encode(), qos) for i in range(BATCH)
    ]
    start = time.process_time()
    for _ in range(count // BATCH):
        link.publish(batch)
        link.read(0.0)
        while link.counters["outgoing"] > 5 * BATCH:
            link.read(0.01)
    while link.counters["outgoing"]:
        link.read(0.01)
    spent = time.process_time() - start
    assert link.counters["dropped"] == 0, link.counters
    link.close()
    return spent / count * 1e6


# --- fuzzing ----------------------------------------------------------------------------------


def fuzz(packets: int, seed: int = 0) -> Table:
    """Parse streams of eight packets, a third of them damaged, up to a number of packets."""
    tally: Counter[str] = Counter()
    number = seed
    while tally["packets"] < packets:
        number += 1
        source = random.Random(number)
        protocol: Protocol = "5" if source.random() < 0.5 else "3.1.1"
        make = Packets(source, protocol)
        damage = source.choice((0.0, 0.0, 0.3))
        stream = make.stream(8, damage)
        stock_outcome, fast_outcome = both(protocol, make.cut(stream))
        tally["packets"] += 8
        tally["streams"] += 1
        tally["damaged streams"] += damage > 0
        tally["messages"] += len(fast_outcome.messages)
        tally["closed for an error"] += fast_outcome.closed
        tally["exceptions of the fast client"] += fast_outcome.raised is not None
        tally["differences"] += _differ(stock_outcome, fast_outcome, number)
    table = Table("Fuzzing", ["what", "count"])
    for name, value in tally.items():
        table.add(name, value)
    if tally["differences"] or tally["exceptions of the fast client"]:
        show([table])
        raise SystemExit("the fast client differs from stock paho")
    return table


def _differ(stock_outcome: Outcome, fast_outcome: Outcome, number: int) -> bool:
    if stock_outcome.raised is not None:  # older versions of paho leave it at that
        return False
    if stock_outcome == fast_outcome:
        return False
    print(f"stream {number}: they differ", file=sys.stderr)
    return True


def figures(measured: dict[tuple[str, str, int], float]) -> Table:
    """Compare the fast client with stock paho 3.1.1 in the same run."""
    reached = []
    for protocol in sorted({p for _, p, _ in measured}):
        for qos, limit in ((0, 0.2), (1, 0.5)):
            against = measured["paho, nothing done", "3.1.1", qos]
            ratio = measured["link, fast", protocol, qos] / against
            reached.append(Figure(f"fast MQTT {protocol} QoS {qos} / stock 3.1.1", ratio, limit))
    return figure_table(reached)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--fuzz", type=int, metavar="PACKETS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--flood", type=int, nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.flood:
        flood(*arguments.flood)
        return
    if arguments.fuzz:
        show([fuzz(arguments.fuzz, arguments.seed)], arguments.markdown)
        return
    for kind in available():
        with kind() as broker:
            table, measured = receiving(broker, arguments.messages)
            sent = publishing(broker, arguments.messages // 5)
            show([table, figures(measured), sent], arguments.markdown)


if __name__ == "__main__":
    main()
