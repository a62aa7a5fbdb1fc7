"""kill -9 at random moments: every reading has exactly one effect and at least one decision."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from support.brokers import Mosquitto, Nats, Proxy, available, mosquitto  # noqa: F401
from support.daemons import Client, Daemon, readings, settings, undisturbed, until

KILLS = 6


def await_decisions(client: Client, count: int, silence: float = 3.0) -> None:
    """Wait until so many have come, without the milliseconds that would let more follow.

    A fast machine may have none left to decide: then it is silent.
    """
    had, since, end = 0, time.monotonic(), time.monotonic() + 30
    while len(client.got) < count:
        now = time.monotonic()
        assert now < end
        if len(client.got) > had:
            had, since = len(client.got), now
        elif had and now - since > silence:
            return
        time.sleep(0.0002)


def test_killed_again_and_again(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    config = settings(
        mosquitto,
        tmp_path,
        broker={"receive_maximum": 10},  # small batches, so that there is much to interrupt
        labels={"topic": "plant/{device}/labels", "sequence": "n"},
        state={"snapshot_seconds": 0.2},
    )
    rng = random.Random(1)
    messages = readings(3000, late=True)
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        until(lambda: daemon.health()[0] == 200, 20, "healthy")
        daemon.kill()
        client.send(messages)  # the broker keeps them for the session
        for k in range(KILLS):
            if k % 3 == 2:  # while it starts and reads the journal
                daemon.launch()
                time.sleep(rng.uniform(0.2, 3.0))
            else:
                daemon.start()
                await_decisions(client, len(client.got) + rng.randrange(1, 300))
                time.sleep(rng.uniform(0, 0.01))
            daemon.kill()
        daemon.start()
        numbers = range(3000)
        until(lambda: {d["sequence"] for d in client.decisions()} == set(numbers), 60, "all")
        assert daemon.stop() == 0
        decisions = client.decisions()
        state = daemon.snapshot()
    same_reading_same_number(decisions)
    assert state == undisturbed(daemon.path, messages)


def test_killed_between_journal_and_acknowledgement(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    """All that came is durable and decided, and the broker hears nothing of it."""
    messages = readings(50)
    with Proxy(mosquitto.port) as proxy, Client(mosquitto, "plant/+/decision") as client:
        config = settings(mosquitto, tmp_path, broker={"url": proxy.url})
        with Daemon(tmp_path, config) as daemon:
            until(lambda: daemon.health()[0] == 200, 20, "healthy")
            proxy.stall("up")
            client.send(messages)
            until(lambda: daemon.metrics()["streamlvq_readings_total"] == 50, 20, "decided")
            assert client.decisions() == []
            daemon.kill()
            proxy.drop()
            proxy.heal()
            daemon.start()
            until(lambda: len(client.decisions()) >= 50, 20, "decisions")
            assert daemon.metrics()["streamlvq_replayed_total"] <= 50
            assert daemon.metrics()["streamlvq_learnt_total"] == 0
            assert daemon.stop() == 0
        decisions = client.decisions()
    assert [d["sequence"] for d in decisions] == list(range(50))
    assert all(d["duplicate"] for d in decisions)
    assert daemon.snapshot() == undisturbed(daemon.path, messages)


def same_reading_same_number(decisions: list[dict[str, object]]) -> None:
    first: dict[object, dict[str, object]] = {}
    for decision in decisions:
        known = first.setdefault(decision["sequence"], decision)
        assert (known["device"], known["t"]) == (decision["device"], decision["t"])


@pytest.mark.skipif(Nats not in available(), reason="nats-server is not installed")
def test_killed_with_the_bundled_broker(tmp_path: Path) -> None:
    with Nats() as broker:
        config = settings(broker, tmp_path, state={"snapshot_seconds": 0.2, "sync": False})
        messages = readings(900)
        with Client(broker, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
            until(lambda: daemon.health()[0] == 200, 20, "healthy")
            daemon.kill()
            for k in range(3):
                client.send(messages[300 * k : 300 * (k + 1)])
                daemon.start()
                await_decisions(client, len(client.got) + 100)
                daemon.kill()
            daemon.start()
            until(lambda: len({d["sequence"] for d in client.decisions()}) == 900, 60, "all")
            labelled = sum(b'"y"' in message.payload for message in messages)
            client.send(readings(1, first=900, labelled=0.0))
            until(lambda: client.decisions()[-1]["sequence"] == 900, 20, "one more")
            assert client.decisions()[-1]["version"] == labelled
            assert daemon.stop() == 0


def test_killed_and_started_with_another_configuration(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    """What was acknowledged is in the journal alone, and means what it meant."""
    messages, state = readings(500), {"snapshot_seconds": 300}
    config = settings(mosquitto, tmp_path, state=state)
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        until(lambda: daemon.health()[0] == 200, 20, "healthy")
        client.send(messages)
        until(lambda: len(client.decisions()) == 500, 20, "decisions")
        expected = undisturbed(daemon.path, messages)
        daemon.kill()
        changed = {"topic": "site/{device}/raw", "label": "truth", "format": "msgpack"}
        daemon.write(settings(mosquitto, tmp_path, state=state, readings=changed))
        daemon.start()
        assert daemon.metrics()["streamlvq_replayed_total"] == 500
        assert "streamlvq_replay_refused_total" not in str(daemon.metrics())
        assert daemon.stop() == 0
        assert daemon.snapshot() == expected
