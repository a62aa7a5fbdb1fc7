"""The fast client against stock paho, packet by packet."""

from __future__ import annotations

import random
from typing import Any

import paho.mqtt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paho.mqtt.enums import MQTTErrorCode

from streamlvq.config import Broker
from streamlvq.connect import Outgoing
from streamlvq_connectors.mqtt import fast_client
from streamlvq_connectors.mqtt.fast_client import (
    FastClient,
    read_varint,
    skip_properties,
    unsupported_reason,
    varint,
)
from streamlvq_connectors.mqtt.link import MqttLink, choose_client
from streamlvq_connectors.mqtt.paho_client import GENERATION_SHIFT, PahoClient
from support.mqtt_streams import Chunks, Outcome, Packets, Protocol, both, connected, outcome

OLD = paho.mqtt.__version__.startswith("2.1.")
protocols = st.sampled_from(["5", "3.1.1"])
quietly = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def same(stock: Outcome, quick: Outcome) -> None:
    assert quick.raised is None
    if OLD:  # it does not see why the broker says goodbye; the fast client does
        for each in (stock, quick):
            each.events = [event for event in each.events if event[0] != "on_disconnect"]
    if stock.raised is None:  # before 2.2, paho raises whatever goes wrong in a malformed packet
        assert quick == stock


def broker(protocol: Protocol = "3.1.1", largest: int = 1000) -> Broker:
    return Broker(protocol=protocol, client_id="test", max_payload_bytes=largest)


def publish(topic: bytes, payload: bytes, mid: int = 0, command: int = 0x30) -> bytes:
    number = mid.to_bytes(2, "big") if mid else b""
    return Packets.framed(command, Packets.text(topic) + number + payload)


# --- equal to stock paho


@quietly
@given(protocol=protocols, source=st.randoms(use_true_random=False), packets=st.integers(1, 12))
def test_good_packets_cut_anywhere(protocol: Protocol, source: Any, packets: int) -> None:
    make = Packets(source, protocol)
    stock, quick = both(protocol, make.cut(make.stream(packets)))
    same(stock, quick)


@quietly
@given(protocol=protocols, source=st.randoms(use_true_random=False), packets=st.integers(1, 8))
def test_damaged_packets_cut_anywhere(protocol: Protocol, source: Any, packets: int) -> None:
    make = Packets(source, protocol)
    same(*both(protocol, make.cut(make.stream(packets, damage=0.5))))


@quietly
@given(protocol=protocols, pieces=st.lists(st.binary(min_size=1, max_size=60), max_size=10))
def test_garbage(protocol: Protocol, pieces: list[bytes]) -> None:
    same(*both(protocol, pieces))


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_many_seeds(protocol: Protocol) -> None:
    messages = 0
    for seed in range(300):
        make = Packets(random.Random(seed), protocol)
        stock, quick = both(protocol, make.cut(make.stream(10, damage=0.1 if seed % 2 else 0.0)))
        same(stock, quick)
        messages += len(quick.messages)
    assert messages > 500  # or the streams say little


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1])
def test_every_place_to_cut(protocol: Protocol, qos: int) -> None:
    properties = b"\x05\x02\0\0\0\x09" if protocol == "5" else b""
    packet = publish(b"plant/press", properties + b"x" * 130, 7 * qos, 0x30 | qos << 1)
    whole = outcome(FastClient, broker(protocol), [packet * 2])
    assert [m[1] for m in whole.messages] == [b"x" * 130] * 2
    for cut in range(1, 2 * len(packet)):
        pieces = [(packet * 2)[:cut], (packet * 2)[cut:]]
        assert outcome(FastClient, broker(protocol), pieces) == whole


@pytest.mark.parametrize("body", [b"", b"\x8e", b"\x8e\0", b"\x8e\x01", b"\x8e\0\0", b"\x05"])
@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_goodbyes(protocol: Protocol, body: bytes) -> None:
    stock, quick = both(protocol, [Packets.framed(0xE0, body)])
    if protocol == "5" and body[:1] == b"\x8e" and body != b"\x8e\x01":
        assert "Session taken over" in str(quick.events)
    same(stock, quick)


# --- the parts


def test_flags_and_keys() -> None:
    stream = publish(b"t", b"a", 258, 0x32) + publish(b"t", b"b", 3, 0x3A) + publish(b"t", b"c")
    stream += publish(b"t", b"d", command=0x31)
    found = outcome(FastClient, broker(), [stream]).messages
    generation = 1 << GENERATION_SHIFT
    assert found == [
        ("t", b"a", False, generation | 258),
        ("t", b"b", True, generation | 3),  # DUP
        ("t", b"c", False, None),
        ("t", b"d", True, None),  # retained: it may well have come before
    ]


def test_topic_that_is_no_text_arrives_to_be_refused() -> None:
    found = outcome(FastClient, broker(), [publish(b"\xff/x", b"1", 9, 0x32)])
    assert found.messages[0][0] == "\ufffd/x"
    assert not found.closed


def test_topics_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_client, "MAX_CACHED_TOPICS", 5)
    network = Chunks([publish(b"t%d" % i, b"x") for i in range(12)])
    client = connected(FastClient, broker(), network)
    for _ in range(12):
        client.loop_read()
    assert [m.topic for m in client.take()] == [f"t{i}" for i in range(12)]
    assert isinstance(client, FastClient)
    assert len(client._topics) <= 5


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 2_097_152, 268_435_455])
def test_lengths(value: int) -> None:
    raw = varint(value)
    assert read_varint(raw + b"\xff", 0, len(raw) + 1) == (value, len(raw))
    assert read_varint(raw, 0, len(raw) - 1) is None


@pytest.mark.parametrize("value", [-1, 268_435_456])
def test_lengths_that_do_not_fit(value: int) -> None:
    with pytest.raises(ValueError, match=f"got {value}"):
        varint(value)


def test_properties_that_are_usual() -> None:
    user = b"\x26" + Packets.text(b"unit") + Packets.text(b"bar")
    body = b"\x01\x01\x02\0\0\0\x05" + user + user + b"\x03" + Packets.text(b"text")
    data = varint(len(body)) + body + b"payload"
    assert data[skip_properties(data, 0, len(data)) :] == b"payload"


@pytest.mark.parametrize(
    "body",
    [
        b"\x23\0\x01",  # a topic alias
        b"\x01\x01\x01\x01",  # twice
        b"\x01\x41",  # neither 0 nor 1
        b"\x02\0\0\0\x05\x01",  # nothing after the last
        b"\x26\0\x09unit",  # longer than there is
        b"\x03\0\x02\xc3\xbc",  # beyond ASCII
        b"\x7f\0",  # nothing we know
        b"\x02\0\0",  # too short
    ],
)
def test_properties_left_to_paho(body: bytes) -> None:
    data = varint(len(body)) + body + b"payload"
    assert skip_properties(data, 0, len(data)) == 0
    same(*both("5", [publish(b"t", data), publish(b"t", b"\0next")]))


# --- too large


@pytest.mark.parametrize("kind", [PahoClient, FastClient])
@pytest.mark.parametrize("size", [1001, 5000, 200_000])
def test_large_payloads_arrive_cut(kind: type[PahoClient], size: int) -> None:
    stream = publish(b"t", b"y" * size, 5, 0x32) + publish(b"t", b"next", 6, 0x32)
    pieces = [stream[i : i + 40_000] for i in range(0, len(stream), 40_000)]
    found = outcome(kind, broker(), pieces)
    assert [(len(m[1]), m[3] & 0xFFFF) for m in found.messages] == [(1001, 5), (4, 6)]
    assert found.oversized == 1
    assert not found.closed


@pytest.mark.parametrize("size", [999, 1000])
def test_payloads_up_to_the_limit_arrive_whole(size: int) -> None:
    found = outcome(FastClient, broker(), [publish(b"t", b"y" * size)])
    assert [len(m[1]) for m in found.messages] == [size]
    assert found.oversized == 0


def test_a_huge_packet_is_not_kept() -> None:
    huge = publish(b"t", b"z" * 3_000_000, 5, 0x32)
    client = connected(FastClient, broker(), Chunks([]))
    assert isinstance(client, FastClient)
    network = client._sock
    assert isinstance(network, Chunks)
    most = 0
    for at in range(0, len(huge), 65_536):
        network.chunks.append(huge[at : at + 65_536])
        assert not client.arrived  # it is acknowledged only when all of it has come
        client.loop_read()
        most = max(most, sum(map(len, client._chunks)))
    assert most < 200_000
    assert [len(m.payload) for m in client.take()] == [1001]


@pytest.mark.parametrize("command", [0x34, 0x20, 0x90, 0xF0])
def test_other_huge_packets_end_the_connection(command: int) -> None:
    pieces = [Packets.framed(command, b"\0\x01t" + b"z" * 500_000)[: 65_536 * 2]]
    found = outcome(FastClient, broker(), pieces)
    assert found.closed
    assert not found.messages


# --- what goes out


def test_acknowledgements_go_out_as_one() -> None:
    network = Chunks([publish(b"t", b"x", mid, 0x32) for mid in (1, 515, 65535)])
    client = connected(FastClient, broker(), network)
    for _ in range(3):
        client.loop_read()
    keys = [m.key for m in client.take()]
    writes: list[bytes] = []
    network.send = lambda data: writes.append(bytes(data)) or len(data)  # type: ignore[assignment,method-assign,func-returns-value]
    client.confirm(keys)
    assert writes == [bytes.fromhex("40020001 40020203 4002ffff")]


@pytest.mark.parametrize("kind", [PahoClient, FastClient])
def test_acknowledgements_of_an_earlier_connection_stay_home(kind: type[PahoClient]) -> None:
    network = Chunks([publish(b"t", b"x", 1, 0x32)])
    client = connected(kind, broker(), network)
    client.loop_read()
    [message] = client.take()
    client.generation += 1
    client.confirm([message.key])
    assert not network.sent


@pytest.mark.parametrize("kind", [PahoClient, FastClient])
def test_qos_2_is_paho_s(kind: type[PahoClient]) -> None:
    network = Chunks([publish(b"t", b"x", 9, 0x34), Packets.framed(0x62, b"\0\x09")])
    client = connected(kind, broker(), network)
    while network.chunks:
        client.loop_read()
    [message] = client.take()
    assert network.sent == bytes.fromhex("50020009")  # PUBREC
    client.confirm([message.key])
    assert network.sent == bytes.fromhex("50020009 70020009")  # and PUBCOMP when it is done


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_both_clients_publish_the_same_bytes(protocol: Protocol) -> None:
    messages = [
        Outgoing("plant/größe", b"x" * size, 0, bool(size % 2)) for size in (0, 1, 99, 285, 20_000)
    ]
    sent = []
    for kind in (PahoClient, FastClient):
        network = Chunks([])
        connected(kind, broker(protocol), network).send(messages)
        sent.append(bytes(network.sent))
    assert sent[0] == sent[1]


def test_a_network_that_takes_little_at_a_time() -> None:
    whole, slow = Chunks([]), Chunks([])
    messages = [Outgoing("t", b"x" * 300)] * 10
    connected(FastClient, broker(), whole).send(messages)
    calls = 0

    def send(data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise BlockingIOError
        return Chunks.send(slow, data[:100])

    slow.send = send  # type: ignore[method-assign]
    client = connected(FastClient, broker(), slow)
    client.send(messages)
    assert client.unwritten() == 10
    while client.want_write():
        client.loop_write()
    assert slow.sent == whole.sent
    assert client.unwritten() == 0


def test_unwritten_messages_are_counted() -> None:
    network = Chunks([])

    def send(data: bytes) -> int:
        raise BlockingIOError

    network.send = send  # type: ignore[method-assign]
    client = connected(FastClient, broker(), network)
    client.send([Outgoing("t", b"x")] * 7)
    client.send([Outgoing("t", b"x" * 70_000)] * 2)
    assert client.unwritten() == 9


# --- when it is used


def test_the_version_here_is_one_that_was_tested() -> None:
    assert unsupported_reason(PahoClient(broker())) is None
    assert choose_client(broker()).fast


def test_other_versions_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paho.mqtt, "__version__", "2.9.0")
    assert "2.9.0 is not a version" in str(unsupported_reason(PahoClient(broker())))
    assert not choose_client(broker()).fast


def test_changed_private_names_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PahoClient, "_packet_handle", lambda self, more: None)
    assert "_packet_handle" in str(unsupported_reason(PahoClient(broker())))
    monkeypatch.undo()
    client = PahoClient(broker())
    client._in_packet = {"other": 1}  # type: ignore[typeddict-item,typeddict-unknown-key]
    assert "_in_packet" in str(unsupported_reason(client))
    del client._out_packet
    assert "_out_packet" in str(unsupported_reason(client))


def test_the_configuration_can_forbid_it() -> None:
    assert not choose_client(Broker(client_id="test", fast_receive=False)).fast


def test_keep_alive_sees_what_comes() -> None:
    client = connected(FastClient, broker(), Chunks([publish(b"t", b"x")]))
    assert isinstance(client, FastClient)
    setattr(client, client._last_in, 0.0)
    assert client.loop_read() == MQTTErrorCode.MQTT_ERR_SUCCESS
    assert getattr(client, client._last_in) > 0.0


def test_errors_in_callbacks_surface_in_read() -> None:
    link = MqttLink(broker("5"))
    network = Chunks([b"\x20\x03\0\0\0"])
    link._client._sock = network  # type: ignore[assignment]

    def broken(*_: object) -> None:
        raise ZeroDivisionError("as itself")

    link._client.on_connect = link._guarded(broken)
    link._client.loop_read()
    with pytest.raises(ZeroDivisionError, match="as itself"):
        link._after_reading()
