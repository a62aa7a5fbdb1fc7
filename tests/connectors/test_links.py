"""What every link promises, tried on all links and on all brokers that are installed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from streamlvq.config import Broker
from streamlvq.connect import Link, Message, Outgoing, Subscription, links
from streamlvq_connectors.memory import MemoryLink
from streamlvq_connectors.mqtt import MqttLink
from support.brokers import Mosquitto, Nats, available

PATIENCE = 15.0  # seconds


@dataclass
class World:
    """A broker, and links to it."""

    name: str
    kind: type[Link]
    settings: dict[str, Any]
    broker: Mosquitto | Nats | None = None
    made: list[Link] = field(default_factory=list)

    def link(
        self, client_id: str, *filters: str, qos: int = 1, connect: bool = True, **more: Any
    ) -> Any:
        extra = {key: more.pop(key) for key in ("will", "birth") if key in more}
        again = more.pop("again", False)
        config = Broker(client_id=client_id, **{**self.settings, **more})
        made = self.kind(config, [Subscription(f, qos, again) for f in filters], **extra)
        self.made.append(made)
        if connect:
            wait_until(lambda: made.connected, made)
            settle(made)
        return made

    def die(self, link: Any) -> None:
        """End a link as a process that is killed does: no goodbye, nothing acknowledged."""
        if isinstance(link, MemoryLink):
            link.vanish()
        else:
            sock = link._client.socket()
            sock.close()
        if link in self.made:
            self.made.remove(link)

    def restart(self) -> None:
        if self.broker is not None:
            self.broker.restart()
        else:
            far = MemoryLink.broker_named("contract")
            far.online = False
            far.online = True


def worlds() -> list[Any]:
    found = [pytest.param(("memory", None, "5", True), id="memory")]
    for kind in available():
        for protocol in kind.protocols:
            for fast in (True, False):
                name = f"{kind.__name__}-{protocol}-{'fast' if fast else 'stock'}"
                found.append(pytest.param((name, kind, protocol, fast), id=name))
    return found


@pytest.fixture(params=worlds())
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    name, kind, protocol, fast = request.param
    if kind is None:
        MemoryLink.forget("contract")
        yield World(name, MemoryLink, {"url": "memory://contract"})
        return
    with kind() as broker:
        settings = {"url": broker.url, "protocol": protocol, "fast_receive": fast}
        made = World(name, MqttLink, {**settings, "reconnect_max_seconds": 1.0}, broker)
        yield made
        for link in made.made:
            link.close()


def wait_until(condition: Callable[[], bool], *reading: Link) -> list[Message]:
    """Run links until something is so; returns what came meanwhile."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, [link.error for link in reading]
        for link in reading:
            found += link.read(0.02)
    return found


def settle(link: Any) -> None:
    """Let a subscription take effect: the broker has answered everything that was asked."""
    if isinstance(link, MqttLink):
        wait_until(lambda: not link._asked, link)


def collect(link: Link, count: int, *others: Link) -> list[Message]:
    """So many messages, or what came until patience ends."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < deadline:
        found += link.read(0.05)
        for other in others:
            other.read(0.0)
    return found


def payloads(messages: list[Message]) -> list[bytes]:
    return [m.payload for m in messages]


def numbered(count: int, qos: int = 1, topic: str = "plant/press/readings") -> list[Outgoing]:
    return [Outgoing(topic, b"%d" % i, qos) for i in range(count)]


def test_schemes_are_registered() -> None:
    found = links()
    assert found["mqtt"] is found["mqtts"] is MqttLink
    assert found["memory"] is MemoryLink


@pytest.mark.parametrize("qos", [0, 1])
def test_delivery_in_order(world: World, qos: int) -> None:
    sender, receiver = world.link("sender"), world.link("receiver", "plant/#", qos=qos)
    sender.publish(numbered(250, qos))
    before = time.time()
    found = collect(receiver, 250, sender)
    assert payloads(found) == [b"%d" % i for i in range(250)]
    assert {m.topic for m in found} == {"plant/press/readings"}
    assert all(abs(m.received - before) < PATIENCE for m in found)
    assert not any(m.redelivered for m in found)
    assert all((m.key is None) == (qos == 0) for m in found)
    receiver.acknowledge(found)
    assert receiver.counters["received"] == 250
    assert receiver.counters["redelivered"] == 0
    wait_until(lambda: sender.counters.get("outgoing", 0) == 0, sender)
    assert sender.counters["published"] == 250
    assert sender.counters["dropped"] == 0


def test_unrelated_topics_do_not_arrive(world: World) -> None:
    sender, receiver = world.link("sender"), world.link("receiver", "plant/+/readings")
    sender.publish([Outgoing("plant/press/other", b"no", 1), Outgoing("else", b"no", 1)])
    sender.publish([Outgoing("plant/press/readings", b"yes", 1)])
    assert payloads(collect(receiver, 1, sender)) == [b"yes"]


def test_payloads_of_all_bytes_and_none(world: World) -> None:
    sender, receiver = world.link("sender"), world.link("receiver", "plant/#")
    odd = [b"", bytes(range(256)), b"x" * 200_000]
    sender.publish([Outgoing("plant/x", payload, 1) for payload in odd])
    assert payloads(collect(receiver, 3, sender)) == odd


def test_unacknowledged_messages_come_again(world: World) -> None:
    sender, first = world.link("sender"), world.link("receiver", "plant/#")
    sender.publish(numbered(20))
    found = collect(first, 20, sender)
    first.acknowledge(found[:8])
    first.read(0.2)  # or the acknowledgements would die with the connection
    world.die(first)
    second = world.link("receiver", "plant/#", connect=False)
    again = collect(second, 12)
    assert payloads(again) == payloads(found[8:])
    assert all(m.redelivered for m in again)
    assert second.counters["redelivered"] == 12
    second.acknowledge(again)
    assert second.read(0.3) == []


def test_acknowledged_messages_do_not(world: World) -> None:
    sender, first = world.link("sender"), world.link("receiver", "plant/#")
    sender.publish(numbered(20))
    first.acknowledge(collect(first, 20, sender))
    first.close()
    second = world.link("receiver", "plant/#", connect=False)
    assert second.read(0.5) == []


def test_messages_wait_for_a_client_that_is_away(world: World) -> None:
    sender, first = world.link("sender"), world.link("receiver", "plant/#")
    first.close()
    sender.publish(numbered(30))
    wait_until(lambda: sender.counters.get("outgoing", 0) == 0, sender)
    second = world.link("receiver", "plant/#", connect=False)
    found = payloads(collect(second, 30))
    if isinstance(world.broker, Nats):  # may begin in the middle and deliver the rest again later
        found.sort(key=int)
    assert found == [b"%d" % i for i in range(30)]


def test_old_keys_do_not_acknowledge_new_messages(world: World) -> None:
    sender, receiver = world.link("sender"), world.link("receiver", "plant/#")
    sender.publish(numbered(5))
    old = collect(receiver, 5, sender)
    world.restart()
    wait_until(lambda: not receiver.connected or receiver.counters["connects"] > 1, receiver)
    again = collect(receiver, 5)
    receiver.acknowledge(old)  # of the connection before: means nothing any more
    receiver.close()
    successor = world.link("receiver", "plant/#", connect=False)
    assert payloads(collect(successor, 5)) == payloads(again)


def test_subscriptions_survive_a_restart_of_the_broker(world: World) -> None:
    sender, receiver = world.link("sender"), world.link("receiver", "plant/#")
    world.restart()
    wait_until(
        lambda: (
            min(sender.counters["connects"], receiver.counters["connects"]) > 1
            and sender.connected
            and receiver.connected
        ),
        sender,
        receiver,
    )
    settle(receiver)
    sender.publish(numbered(3))
    assert payloads(collect(receiver, 3, sender)) == [b"0", b"1", b"2"]
    assert receiver.error is None


def test_qos_1_is_kept_while_the_broker_is_away(world: World) -> None:
    receiver = world.link("receiver", "plant/#")
    sender = world.link("sender", connect=False)
    sender.publish(numbered(10) + numbered(10, qos=0))
    assert sender.counters["dropped"] == 10  # QoS 0 has nowhere to go
    assert payloads(collect(receiver, 10, sender)) == [b"%d" % i for i in range(10)]


def test_what_waits_is_bounded(world: World) -> None:
    sender = world.link("sender", connect=False, outgoing_limit=15)
    sender.publish(numbered(40))
    assert sender.counters["dropped"] == 25
    receiver = world.link("receiver", "plant/#")
    assert payloads(collect(receiver, 15, sender)) == [b"%d" % i for i in range(15)]


def test_retained_messages_count_as_redelivered(world: World) -> None:
    sender = world.link("sender")
    sender.publish([Outgoing("plant/label", b"worn", 1, True)])
    wait_until(lambda: sender.counters.get("outgoing", 0) == 0, sender)
    receiver = world.link("receiver", "plant/#", connect=False)
    [message] = collect(receiver, 1)
    assert message.redelivered
    receiver.acknowledge([message])


def test_retained_messages_come_once(world: World) -> None:
    if "3.1.1" in world.name:
        pytest.skip("MQTT 3.1.1 has no way to ask for that; they count as redelivered")
    sender = world.link("sender")
    sender.publish([Outgoing("plant/label", b"worn", 1, True)])
    receiver = world.link("receiver", "plant/#", connect=False)
    receiver.acknowledge(collect(receiver, 1, sender))
    receiver.close()
    again = world.link("receiver", "plant/#", connect=False)
    assert again.read(0.5) == []
    assert again.connected


def test_retained_messages_come_again_to_who_asks(world: World) -> None:
    sender = world.link("sender")
    sender.publish([Outgoing("plant/model", b"newest", 1, True)])
    for _ in range(2):
        receiver = world.link("receiver", "plant/#", connect=False, again=True)
        received = collect(receiver, 1, sender)
        assert payloads(received) == [b"newest"]
        receiver.acknowledge(received)
        receiver.close()


def test_birth_and_will(world: World) -> None:
    watcher = world.link("watcher", "status/#")
    status = {
        "birth": Outgoing("status/x", b"online", 1, True),
        "will": Outgoing("status/x", b"offline", 1, True),
    }
    first = world.link("x", **status)
    assert payloads(collect(watcher, 1, first)) == [b"online"]
    world.die(first)
    assert payloads(collect(watcher, 1)) == [b"offline"]


def test_farewell_instead_of_the_will(world: World) -> None:
    watcher = world.link("watcher", "status/#")
    link = world.link("x", will=Outgoing("status/x", b"died", 1, True))
    link.close([Outgoing("status/x", b"left", 1, True)])
    assert payloads(collect(watcher, 1)) == [b"left"]
    assert watcher.read(0.3) == []
    assert not link.connected
    with pytest.raises(RuntimeError, match="closed"):
        link.read(0.0)
    link.close()  # twice is no harm


def test_birth_after_every_connect(world: World) -> None:
    watcher = world.link("watcher", "status/#", qos=0)
    link = world.link("x", birth=Outgoing("status/x", b"online", 0))
    collect(watcher, 1, link)
    world.restart()
    wait_until(
        lambda: watcher.connected and watcher.counters["connects"] > 1 and not asked(watcher),
        watcher,
    )
    assert payloads(collect(watcher, 1, link)) == [b"online"]
    assert link.counters["connects"] == 2


def asked(link: Any) -> bool:
    return bool(getattr(link, "_asked", None))


def test_what_is_published_reaches_the_broker_before_the_acknowledgement(world: World) -> None:
    """Seen from outside: a reading that does not come again has its decision delivered."""
    watcher = world.link("watcher", "decisions/#")
    sender, worker = world.link("sender"), world.link("worker", "plant/#")
    for turn in range(3):
        sender.publish(numbered(300)[turn * 100 : turn * 100 + 100])
        batch = collect(worker, 1, sender)
        worker.publish([Outgoing("decisions/x", m.payload, 0) for m in batch])
        worker.acknowledge(batch)
    world.die(worker)
    silence = 2.5 if isinstance(world.broker, Nats) else 0.6
    settled = {m.payload for m in collect_all(watcher, silence, sender)}
    successor = world.link("worker", "plant/#", connect=False)
    again = {m.payload for m in collect_all(successor, silence)}
    assert settled | again >= {b"%d" % i for i in range(300)}
    assert settled


def collect_all(link: Link, silence: float, *others: Link) -> list[Message]:
    """Everything until it has been silent for longer than a broker waits to redeliver."""
    found: list[Message] = []
    last = time.monotonic()
    while time.monotonic() - last < silence:
        batch = link.read(0.1)
        for other in others:
            other.read(0.0)
        link.acknowledge(batch)
        found += batch
        last = time.monotonic() if batch else last
    return found


def test_acknowledgements_wait_behind_qos_1(world: World) -> None:
    if world.kind is not MqttLink:
        pytest.skip("there is no window in memory")
    sender, worker = world.link("sender"), world.link("worker", "plant/#")
    watcher = world.link("watcher", "decisions/#")
    sender.publish(numbered(400))
    batch = collect(worker, 400, sender)
    worker.publish([Outgoing("decisions/x", m.payload, 1) for m in batch])
    worker.acknowledge(batch)
    assert worker._outbox._queue  # the window is full: messages, then the acknowledgement
    assert isinstance(worker._outbox._queue[-1], list)
    assert len(collect(watcher, 400, worker)) == 400
    wait_until(lambda: not worker._outbox._queue, worker)
    worker.close()
    successor = world.link("worker", "plant/#", connect=False)
    assert successor.read(0.5) == []


def test_filters_that_left_the_configuration_are_forgotten(world: World) -> None:
    first = world.link("receiver", "plant/#", "old/#")
    first.close()
    second = world.link("receiver", "plant/#", connect=False)
    second.previous_filters = ("plant/#", "old/#")
    wait_until(lambda: second.connected, second)
    settle(second)
    second.read(0.2)
    sender = world.link("sender")
    sender.publish([Outgoing("old/x", b"old", 1), Outgoing("plant/x", b"new", 1)])
    assert payloads(collect(second, 1, sender)) == [b"new"]


def test_no_more_than_the_window_is_on_its_way(world: World) -> None:
    if isinstance(world.broker, Nats) or "3.1.1" in world.name:
        pytest.skip("in MQTT 3.1.1 the broker sets the window")
    sender = world.link("sender")
    receiver = world.link("receiver", "plant/#", receive_maximum=7)
    sender.publish(numbered(20))
    found = wait_until(lambda: sender.counters.get("outgoing", 0) == 0, sender, receiver)
    found += receiver.read(0.3)
    assert len(found) == 7
    receiver.acknowledge(found)
    # Mosquitto 2.0 opens its window too far after that, so only the order is certain.
    assert payloads(collect(receiver, 7))[:7] == [b"%d" % i for i in range(7, 14)]


def test_payloads_that_are_too_large_arrive_cut_and_go_away(world: World) -> None:
    if world.kind is not MqttLink:
        pytest.skip("there are no packets in memory")
    sender = world.link("sender")
    receiver = world.link("receiver", "plant/#", max_payload_bytes=1000)
    sizes = [1000, 1001, 60_000, 5]
    sender.publish([Outgoing("plant/x", b"." * size, 1) for size in sizes])
    found = collect(receiver, 4, sender)
    assert [len(m.payload) for m in found] == [1000, 1001, 1001, 5]
    assert receiver.counters["oversized"] == 2
    receiver.acknowledge(found)
    receiver.close()
    successor = world.link("receiver", "plant/#", connect=False)
    assert successor.read(0.5) == []


def test_topics_that_a_broker_would_not_take(world: World) -> None:
    if world.kind is not MqttLink:
        pytest.skip("nothing can go wrong in memory")
    sender, receiver = world.link("sender"), world.link("receiver", "plant/#")
    bad = ["", "plant/+", "plant/#", "plant/\0", "plant/\ud800", "$SYS/x", "p" * 70_000]
    sender.publish([Outgoing(topic, b"x", qos) for topic in bad for qos in (0, 1)])
    sender.publish([Outgoing("plant/good", b"yes", 1)])
    assert payloads(collect(receiver, 1, sender)) == [b"yes"]
    assert sender.counters["dropped"] == 2 * len(bad)
    assert sender.counters["connects"] == 1


def test_read_returns_in_time(world: World) -> None:
    link = world.link("receiver", "plant/#")
    start = time.monotonic()
    assert link.read(0.3) == []
    assert 0.25 < time.monotonic() - start < 2.0
    start = time.monotonic()
    assert link.read(0.0) == []
    assert time.monotonic() - start < 1.0
