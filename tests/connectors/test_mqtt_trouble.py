"""What goes wrong between a client and a broker, with real brokers and a network that fails."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt
import pytest

from streamlvq.config import Broker, Tls
from streamlvq.connect import Message, Outgoing, Subscription
from streamlvq_connectors.mqtt import MqttLink, errors
from streamlvq_connectors.mqtt.link import Backoff
from streamlvq_connectors.mqtt.paho_client import PahoClient
from support.brokers import Certificates, Mosquitto, Nats, Proxy, free_port, mosquitto  # noqa: F401

pytestmark = pytest.mark.skipif(not Mosquitto.installed(), reason="Mosquitto is not installed")
PATIENCE = 15.0
ways = pytest.mark.parametrize("fast", [True, False], ids=["fast", "stock"])
protocols = pytest.mark.parametrize("protocol", ["5", "3.1.1"])


def make(url: str, client_id: str = "receiver", *filters: str, **settings: Any) -> MqttLink:
    settings = {"reconnect_max_seconds": 1.0, "connect_timeout_seconds": 2.0, **settings}
    broker = Broker(url=url, client_id=client_id, **settings)
    return MqttLink(broker, [Subscription(f, 1) for f in filters])


def run_until(condition: Callable[[], bool], *links: MqttLink) -> list[Message]:
    """Run links, acknowledging what comes, until something is so."""
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, [(link.error, link.counters) for link in links]
        for link in links:
            batch = link.read(0.02)
            link.acknowledge(batch)
            found += batch
    return found


def connect(link: MqttLink) -> MqttLink:
    run_until(lambda: link.connected and not link._asked, link)
    return link


@pytest.fixture
def proxy(mosquitto: Mosquitto) -> Iterator[Proxy]:  # noqa: F811
    with Proxy(mosquitto.port) as running:
        yield running


# --- the broker goes away and comes back


@ways
@protocols
def test_broker_stopped_and_started(protocol: str, fast: bool) -> None:
    """Everything that was published arrives, whoever was away when."""
    with Mosquitto() as broker:
        sender = connect(make(broker.url, "sender", protocol=protocol, fast_receive=fast))
        link = connect(make(broker.url, "receiver", "t/#", protocol=protocol, fast_receive=fast))
        found: list[Message] = []
        for turn in range(3):
            sender.publish([Outgoing("t/x", b"%d" % (100 * turn + i), 1) for i in range(100)])
            found += link.read(0.05)
            if turn < 2:
                broker.stop()
                found += link.read(0.3)  # a broker that is away is no error
                broker.start()
        expected = {b"%d" % i for i in range(300)}
        deadline = time.monotonic() + PATIENCE
        while {m.payload for m in found} != expected and time.monotonic() < deadline:
            sender.read(0.0)
            batch = link.read(0.02)
            link.acknowledge(batch)
            found += batch
        assert {m.payload for m in found} == expected
        assert link.counters["connects"] >= 2
        assert link.error is None
        sender.close()
        link.close()


def test_a_broker_that_is_not_there_is_tried_again_and_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = make(f"mqtt://127.0.0.1:{free_port()}")
    run_until(lambda: link.counters["connect_failures"] >= 3, link)
    assert "nothing listens at 127.0.0.1" in str(link.error)
    assert caplog.text.count("; trying again until it works") == 1  # said once, not each time
    assert not link.connected
    assert link.counters["connects"] == 0
    link.close([Outgoing("t", b"x")])
    assert link.counters["dropped"] == 1


def test_delays_grow_up_to_the_limit() -> None:
    backoff = Backoff(4.0)
    seen = []
    for _ in range(8):
        backoff.fail()
        seen.append(backoff.remaining())
    assert all(0.2 < delay <= 4.0 for delay in seen)
    assert max(seen[:1]) <= 0.5
    assert min(seen[5:]) > 1.9
    assert len({round(delay, 6) for delay in seen[4:]}) > 1  # not in step with others
    backoff.succeed()
    backoff.fail()
    assert backoff.remaining() <= 0.5


# --- the network


@ways
def test_network_cut(mosquitto: Mosquitto, proxy: Proxy, fast: bool) -> None:  # noqa: F811
    sender = connect(make(mosquitto.url, "sender"))
    link = connect(make(proxy.url, "receiver", "t/#", fast_receive=fast))
    sender.publish([Outgoing("t/x", b"%d" % i, 1) for i in range(50)])
    found = run_until(lambda: link.counters["received"] >= 50, sender, link)
    proxy.cut()
    run_until(lambda: not link.connected, link)
    assert link.error
    sender.publish([Outgoing("t/x", b"%d" % i, 1) for i in range(50, 100)])
    run_until(lambda: not sender.counters["outgoing"], sender)
    proxy.heal()
    found += run_until(lambda: link.connected, link)
    every, end = {b"%d" % i for i in range(100)}, time.monotonic() + 20
    while {m.payload for m in found} != every and time.monotonic() < end:
        found += link.read(0.1)  # what was not acknowledged comes again, before what is new
    assert {m.payload for m in found} == every
    assert link.error is None
    link.close()
    sender.close()


def test_silent_network_is_noticed_by_the_keep_alive(proxy: Proxy) -> None:
    link = connect(make(proxy.url, "receiver", "t/#", keepalive_seconds=1))
    proxy.stall()
    start = time.monotonic()
    run_until(lambda: not link.connected, link)
    assert time.monotonic() - start < 6
    assert "not answered for the keep-alive time" in str(link.error)
    proxy.drop()
    proxy.heal()
    run_until(lambda: link.connected, link)
    link.close()


@ways
def test_broker_that_takes_no_data(
    mosquitto: Mosquitto,  # noqa: F811
    proxy: Proxy,
    fast: bool,
) -> None:
    """What waits is bounded, the rest is dropped and counted, and nothing blocks."""
    watcher = connect(make(mosquitto.url, "watcher", "d/#"))
    link = connect(make(proxy.url, "sender", fast_receive=fast, outgoing_limit=200))
    proxy.stall("up")
    start, asked = time.monotonic(), 0
    while link.counters["dropped"] < 300:
        link.publish([Outgoing("d/x", b"%07d" % (asked + i) + b"." * 5000) for i in range(100)])
        link.read(0.0)
        asked += 100
        assert time.monotonic() - start < PATIENCE
    assert link._client.unwritten() <= 200
    proxy.heal()
    run_until(lambda: not link._client.want_write(), link)
    counters = link.counters
    assert counters["published"] + counters["dropped"] == asked
    run_until(lambda: watcher.counters["received"] >= counters["published"], watcher)
    assert watcher.counters["received"] == counters["published"]
    link.publish([Outgoing("d/x", b"again")])
    found = run_until(lambda: watcher.counters["received"] > counters["published"], watcher)
    assert found[-1].payload == b"again"
    link.close()
    watcher.close()


def test_slow_consumer_loses_nothing(mosquitto: Mosquitto) -> None:  # noqa: F811
    """Who does not read leaves its messages at the broker, more than any socket holds."""
    sender = connect(make(mosquitto.url, "sender"))
    link = connect(make(mosquitto.url, "receiver", "t/#", receive_maximum=10))
    body = b"." * 20_000
    sender.publish([Outgoing("t/x", b"%04d" % i + body, 1) for i in range(300)])
    run_until(lambda: not sender.counters["outgoing"], sender)
    found = run_until(lambda: link.counters["received"] >= 300, link)
    assert [int(m.payload[:4]) for m in found] == list(range(300))
    assert link.counters["connects"] == 1
    link.close()
    sender.close()


def test_unsent_messages_of_a_lost_connection_are_counted(proxy: Proxy) -> None:
    link = connect(make(proxy.url, "sender", outgoing_limit=10_000))
    proxy.stall("up")
    while link._client.unwritten() < 50:
        link.publish([Outgoing("d/x", b"." * 50_000)] * 10)
    asked = link.counters["published"] + link.counters["dropped"]
    proxy.cut()
    run_until(lambda: not link.connected, link)
    assert link.counters["dropped"] >= 50
    assert link.counters["published"] + link.counters["dropped"] == asked
    link.close()


class Scripted:
    """A broker that accepts its first client, says something of its own, and hands all others on
    to a real one."""

    def __init__(self, target: int, says: bytes) -> None:
        self.says = says
        self.behind = Proxy(target)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ends: list[socket.socket] = []
        threading.Thread(target=self.run, daemon=True).start()

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()
        self.behind.close()
        for end in self.ends:
            end.close()

    def run(self) -> None:
        first, _ = self.listener.accept()
        self.ends.append(first)
        first.recv(4096)
        first.sendall(b"\x20\x03\0\0\0")
        first.recv(4096)  # it subscribes
        first.sendall(self.says)
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.behind.port))
            self.ends += [client, server]
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(a, b), daemon=True).start()

    @staticmethod
    def pass_on(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(4096):
                target.sendall(data)
        except OSError:
            return


@ways
@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x30\x05\0\x64abc",
        b"\xf0\0",
        b"\x30\xff\xff\xff\xff\xff",
        b"\x90\x02\0\x01",
        b"GET / HTTP",
    ],
    ids=["short", "type", "length", "suback", "http"],
)
def test_packets_that_make_no_sense_lead_to_a_new_connection(
    mosquitto: Mosquitto,  # noqa: F811
    fast: bool,
    nonsense: bytes,
) -> None:
    with Scripted(mosquitto.port, nonsense) as garbled:
        link = make(garbled.url, "receiver", "t/#", fast_receive=fast, keepalive_seconds=2)
        run_until(lambda: link.counters["connects"] >= 2 and link.connected, link)
        sender = connect(make(mosquitto.url, "sender"))
        sender.publish([Outgoing("t/x", b"fine", 1)])
        found = run_until(lambda: link.counters["received"] > 0, sender, link)
        assert [m.payload for m in found] == [b"fine"]
        assert link.error is None
        link.close()
        sender.close()


# --- those who refuse us


@protocols
def test_wrong_password(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "wrong")
    with Mosquitto(users={"ada": "right"}) as broker:
        link = make(broker.url, username="ada", password_env="TEST_PASSWORD", protocol=protocol)
        run_until(lambda: link.counters["connect_failures"] >= 2, link)
        assert "broker.username" in str(link.error)
        assert "wrong" not in str(link.error)
        assert link.counters["connects"] == 0
        link.close()
        secret = tmp_path / "secret"
        secret.write_text("right\n")
        link = make(broker.url, username="ada", password_file=str(secret), protocol=protocol)
        connect(link).close()


def test_the_wrong_version_of_mqtt() -> None:
    if not Nats.installed():
        pytest.skip("NATS is not installed")
    with Nats() as broker:
        link = make(broker.url, protocol="5")
        run_until(lambda: link.counters["connect_failures"] >= 1, link)
        assert "broker.protocol" in str(link.error)
        link.close()


@ways
def test_session_taken_over(mosquitto: Mosquitto, fast: bool) -> None:  # noqa: F811
    """As MQTT 5 wants it: the broker says so, and we let the other one work."""
    if not fast and paho.mqtt.__version__.startswith("2.1."):
        pytest.skip("paho 2.1 does not read a reason that comes without properties")
    with Scripted(mosquitto.port, b"\xe0\x01\x8e") as broker:
        link = make(broker.url, "twin", "t/#", reconnect_max_seconds=30.0, fast_receive=fast)
        run_until(lambda: link.counters["connects"] == 1 and not link.connected, link)
        assert "another client with the id 'twin'" in str(link.error)
        assert link._backoff.remaining() > 25
        link.close()


@protocols
def test_two_clients_with_the_same_id(mosquitto: Mosquitto, protocol: str) -> None:  # noqa: F811
    """Mosquitto does not say why; after some rounds it is clear enough."""
    twins = [
        make(mosquitto.url, "twin", "t/#", protocol=protocol, reconnect_max_seconds=3.0)
        for _ in range(2)
    ]
    run_until(lambda: any("uses the id 'twin'" in t for t in troubles(twins)), *twins)
    assert sum(link.counters["connects"] for link in twins) < 15
    sender = connect(make(mosquitto.url, "sender"))
    sender.publish([Outgoing("t/x", b"%d" % i, 1) for i in range(10)])
    found = {m.payload for m in run_until(lambda: received(twins) >= 10, sender, *twins)}
    assert found == {b"%d" % i for i in range(10)}  # whoever of them has the session
    for link in (sender, *twins):
        link.close()


def received(links: list[MqttLink]) -> int:
    return sum(link.counters["received"] for link in links)


def troubles(links: list[MqttLink]) -> list[str]:
    return [str(link.error) for link in links]


@ways
def test_a_subscription_that_is_refused(mosquitto: Mosquitto, fast: bool) -> None:  # noqa: F811
    refused = b"\x90\x04\0\x01\0\x87"  # SUBACK to packet 1: not authorized
    with Scripted(mosquitto.port, refused) as broker:
        link = make(broker.url, "receiver", "secret/#", fast_receive=fast)
        run_until(lambda: link.error is not None and link.connected, link)
        run_until(lambda: "secret" in str(link.error), link)
        assert link.error == "the broker refused the subscription to 'secret/#': Not authorized"
        link.close()


def test_rights_that_are_missing_are_not_said() -> None:
    """Mosquitto grants the subscription and stays silent: only the silence can be noticed."""
    with Mosquitto(acl="topic readwrite allowed/#\n") as broker:
        link = connect(make(broker.url, "receiver", "forbidden/#"))
        sender = connect(make(broker.url, "sender"))
        sender.publish([Outgoing("forbidden/x", b"1", 1)])
        run_until(lambda: not sender.counters["outgoing"], sender)
        assert link.read(0.3) == []
        assert link.error is None
        assert sender.counters["dropped"] == 1  # MQTT 5 tells who publishes
        link.close()
        sender.close()


def test_packets_too_large_for_the_broker_are_not_sent() -> None:
    """It would close the connection, and at QoS 1 again and again."""
    with Mosquitto(extra="max_packet_size 1000") as broker:
        link = connect(make(broker.url, "receiver", "t/#"))
        link.publish([Outgoing("t/x", b"." * 1200, qos) for qos in (0, 1)])
        link.publish([Outgoing("t/x", b"." * 900, 1)])
        found = run_until(lambda: link.counters["received"] >= 1, link)
        assert [len(m.payload) for m in found] == [900]
        assert link.counters["dropped"] == 2
        assert link.counters["connects"] == 1
        link.close()


def test_a_name_that_does_not_exist() -> None:
    link = make("mqtt://no-such-host.invalid")
    run_until(lambda: link.counters["connect_failures"] >= 1, link)
    assert "cannot be resolved" in str(link.error)
    link.close()


def test_somebody_who_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link = make(f"mqtt://127.0.0.1:{silent.getsockname()[1]}", connect_timeout_seconds=0.3)
        run_until(lambda: link.counters["connect_failures"] >= 1, link)
        assert "does not answer within 0.3 s" in str(link.error)
        link.close()


def test_an_address_that_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="http"):
        make("http://localhost")


# --- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if not Certificates.possible():
        pytest.skip("openssl is not installed")
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_broker(certificates: Certificates) -> Iterator[Mosquitto]:
    with Mosquitto(tls=certificates) as running:
        yield running


@ways
@protocols
def test_tls(tls_broker: Mosquitto, certificates: Certificates, fast: bool, protocol: str) -> None:
    """Many messages larger than a record of TLS, so that some wait inside the library."""
    settings = {
        "tls": Tls(ca_file=certificates.path("ca.crt")),
        "fast_receive": fast,
        "protocol": protocol,
    }
    name = f"{protocol[0]}-{fast}"
    sender = connect(make(tls_broker.url, f"sender-{name}", **settings))
    link = connect(make(tls_broker.url, f"receiver-{name}", f"{name}/#", **settings))
    sizes = [10, 300, 20_000, 70_000] * 25
    sender.publish([Outgoing(f"{name}/x", b"%03d" % i + b"." * n, 1) for i, n in enumerate(sizes)])
    found = run_until(lambda: link.counters["received"] >= 100, sender, link)
    assert [(int(m.payload[:3]), len(m.payload) - 3) for m in found] == list(enumerate(sizes))
    assert link.counters["connects"] == 1
    link.close()
    sender.close()


def test_certificate_of_an_unknown_authority(tls_broker: Mosquitto) -> None:
    link = make(tls_broker.url)
    run_until(lambda: link.counters["connect_failures"] >= 1, link)
    assert "cannot be trusted" in str(link.error)
    assert "broker.tls.ca_file" in str(link.error)
    link.close()


def test_tls_without_verification(tls_broker: Mosquitto) -> None:
    connect(make(tls_broker.url, tls=Tls(verify=False))).close()


def test_certificate_for_another_name(tmp_path: Path) -> None:
    if not Certificates.possible():
        pytest.skip("openssl is not installed")
    foreign = Certificates(tmp_path, server="elsewhere")
    with Mosquitto(tls=foreign) as broker:
        link = make(broker.url, tls=Tls(ca_file=foreign.path("ca.crt")))
        run_until(lambda: link.counters["connect_failures"] >= 1, link)
        assert "not valid for 'localhost'" in str(link.error)
        link.close()


def test_tls_where_nobody_speaks_it(
    mosquitto: Mosquitto,  # noqa: F811
    certificates: Certificates,
) -> None:
    url = mosquitto.url.replace("mqtt:", "mqtts:")
    link = make(url, tls=Tls(ca_file=certificates.path("ca.crt")))
    run_until(lambda: link.counters["connect_failures"] >= 1, link)
    assert "does this port speak TLS?" in str(link.error)
    link.close()


def test_no_tls_where_it_is_expected(tls_broker: Mosquitto) -> None:
    link = make(tls_broker.url.replace("mqtts:", "mqtt:"), connect_timeout_seconds=1.0)
    run_until(lambda: link.counters["connect_failures"] >= 1, link)
    assert "expect TLS (mqtts://)" in str(link.error)
    link.close()


@ways
def test_client_certificates(certificates: Certificates, fast: bool) -> None:
    with Mosquitto(tls=certificates, require_certificate=True) as broker:
        without = Tls(ca_file=certificates.path("ca.crt"))
        link = make(broker.url, tls=without, fast_receive=fast)
        run_until(lambda: link.counters["connect_failures"] >= 1, link)
        assert "certificate" in str(link.error)
        link.close()
        complete = Tls(
            ca_file=certificates.path("ca.crt"),
            cert_file=certificates.path("client.crt"),
            key_file=certificates.path("client.key"),
        )
        connect(make(broker.url, tls=complete, fast_receive=fast)).close()


def test_missing_files_are_named_at_once() -> None:
    with pytest.raises(OSError, match="nowhere"):
        make("mqtts://localhost", tls=Tls(ca_file="nowhere.crt"))


# --- words


def test_words_say_what_to_do() -> None:
    broker = Broker(client_id="twin")
    assert "broker.client_id" in errors.disconnect_reason(142, "Session taken over", broker)
    assert "Made up" in errors.disconnect_reason(200, "Made up", broker)
    assert "'twin'" in errors.refusal(133, "Client identifier not valid", broker)
    assert "Made up" in errors.refusal(200, "Made up", broker)
    required = "tlsv13 alert certificate required"
    assert "wants a client certificate" in errors.closed_before_answer(required, "host:1", broker)
    assert "certificate" in errors.silence("host:1", Broker(url="mqtts://host"))
    assert "TLS" in errors.silence("host:1", broker)
    assert "TLS" in errors.closed_before_answer(None, "host:1", broker)
    complete = Broker(url="mqtts://host", tls=Tls(cert_file="c", key_file="k"))
    assert "trust our" in errors.closed_before_answer("EOF", "host:1", complete)
    assert errors.loss("gone", "host:1") == "lost the connection to host:1: gone"


def test_errors_that_are_no_trouble_of_the_network_surface(
    mosquitto: Mosquitto,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A defect of ours must not look like a broker that is away."""

    def broken(self: PahoClient, message: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(PahoClient, "_dress", broken)
    sender = connect(make(mosquitto.url, "sender"))
    link = connect(make(mosquitto.url, "receiver", "t/#", fast_receive=False))
    sender.publish([Outgoing("t/x", b"1", 1)])
    run_until(lambda: not sender.counters["outgoing"], sender)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        link.read(2.0)
    link.close()
    sender.close()
