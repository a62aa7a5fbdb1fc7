"""The daemon as a process, between a real broker and a real folder, through good and bad times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlvq.config import Config, load
from streamlvq.connect import Message
from streamlvq.monitor import Monitor
from streamlvq.service.session import make_link
from support.brokers import Mosquitto, Proxy, mosquitto  # noqa: F401
from support.daemons import Client, Daemon, readings, settings, undisturbed, until
from support.service_doubles import parse

POISON = [
    b"",
    b"{",
    b"[1, 2]",
    b'{"x0": "hot"}',
    b'{"x0": 1e999}',
    b'{"x0": 1, "n": "seven"}',
    b"\xff\xfe",
]


def poison(device: str = "d0") -> list[Message]:
    return [Message(f"plant/{device}/readings", payload, 1.0) for payload in POISON]


def healthy(daemon: Daemon) -> None:
    until(lambda: daemon.health()[0] == 200, 20, f"healthy, but {daemon.health()}")


def sick(daemon: Daemon, why: str) -> None:
    until(lambda: daemon.health()[0] == 503 and why in str(daemon.health()[1]), 20, why)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "state"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system of its own needs to be allowed")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_from_start_to_end(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    out = tmp_path / "decisions.jsonl"
    config = settings(
        mosquitto, tmp_path, decisions={"file": str(out)}, status={"home_assistant": "ha"}
    )
    messages = readings(200)
    with (
        Client(mosquitto, "plant/+/decision", "streamlvq/#", "ha/#") as client,
        Daemon(tmp_path, config, WATCHDOG_USEC="400000") as daemon,
    ):
        healthy(daemon)
        client.send(messages[:100] + poison() + messages[100:])
        until(lambda: len(client.decisions()) == 200, 20, "decisions")
        until(lambda: len(client.on("/dead")) == len(POISON), 20, "dead letters")
        _look_at_metrics(daemon)
        until(lambda: daemon.heard.count("WATCHDOG=1") >= 2, 20, "signs of life")
        assert daemon.stop() == 0
        until(lambda: client.on("/status")[-1]["state"] == "offline", 20, "offline")
        states = [said["state"] for said in client.on("/status")]
        assert states[0] == "online"
        assert states.count("offline") == 1
        last = client.on("/status")[-1]
        assert (last["readings"], last["devices"], last["models"]) == (200, 7, 1)
        assert len([t for t, _ in client.got if t.startswith("ha/sensor/daemon/")]) == 14
        decisions = client.decisions()
    assert [d["sequence"] for d in decisions] == list(range(200))
    assert [json.loads(line) for line in out.read_text().splitlines()] == decisions
    assert daemon.heard[-1] == "STOPPING=1"
    assert daemon.snapshot() == undisturbed(daemon.path, messages)
    newest = max((tmp_path / "state").glob("snapshot-*")).stem.partition("-")[2]
    firsts = [path.stem.partition("-")[2] for path in (tmp_path / "state").glob("journal-*")]
    assert all(int(first) < int(newest) for first in firsts), "the snapshot knows all of it"


def _look_at_metrics(daemon: Daemon) -> None:
    import urllib.request

    with urllib.request.urlopen(daemon._url("metrics")) as answer:
        read = parse(answer.read().decode())
    assert read["streamlvq_readings_total", ()] == 200
    assert read["streamlvq_connected", ()] == 1
    assert read["streamlvq_connects_total", ()] == 1
    assert read["streamlvq_received_total", ()] == 200 + len(POISON)
    assert sum(v for (n, _), v in read.items() if n == "streamlvq_decisions_total") == 200
    assert sum(v for (n, _), v in read.items() if n == "streamlvq_refused_total") == len(POISON)
    assert sum(v for (n, _), v in read.items() if n == "streamlvq_device_readings_total") == 200
    assert read["streamlvq_batch_messages_sum", ()] == 200 + len(POISON)
    assert read["streamlvq_step_seconds_count", ()] == read["streamlvq_batch_messages_count", ()]


def test_looking_over_its_shoulder(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    config = settings(mosquitto, tmp_path)
    with Client(mosquitto, "#") as client, Daemon(tmp_path, config) as daemon:
        healthy(daemon)
        client.send(readings(100))
        until(lambda: len(client.decisions()) == 100, 20, "decisions")
        until(lambda: list((tmp_path / "state").glob("snapshot-*")), 20, "a snapshot")
        command = [sys.executable, "-m", "streamlvq", "run", str(daemon.path), "--test"]
        with subprocess.Popen(
            [*command, "--test-wait", "4"], stdout=subprocess.PIPE, text=True
        ) as guest:
            assert guest.stdout is not None
            assert "nothing is published, nothing is learnt" in guest.stdout.readline()
            until(lambda: "-test-" in mosquitto.log, 20, "the guest")
            time.sleep(0.5)
            client.send(readings(5, first=100) + poison()[:1])
            lines = guest.stdout.read().splitlines()
            assert guest.wait() == 0
        assert sum(" -> '" in line for line in lines) == 5
        assert sum("label=" in line for line in lines) == sum(
            b'"y"' in m.payload for m in readings(5, first=100)
        )
        assert sum("refused (payload)" in line for line in lines) == 1
        assert lines[-1] == "5 readings, 0 labels, 1 refused, 0 skipped"
        until(lambda: len(client.decisions()) == 105, 20, "decisions of the daemon alone")
        assert daemon.metrics()["streamlvq_connects_total"] == 1, "the guest took its session"
        assert len(client.on("/dead")) == 1
        assert daemon.stop() == 0
    assert daemon.snapshot() == undisturbed(daemon.path, readings(105))


def test_reload(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    config = settings(mosquitto, tmp_path)
    with Client(mosquitto, "#") as client, Daemon(tmp_path, config) as daemon:
        healthy(daemon)
        client.send(readings(50))
        until(lambda: len(client.decisions()) == 50, 20, "decisions")

        daemon.write("broker: {url: [}")
        daemon.reload()
        until(lambda: daemon.log.count("kept the old configuration") == 1, 20, "a complaint")
        daemon.write(settings(mosquitto, tmp_path, model={"type": "LGMLVQ"}))
        daemon.reload()
        until(lambda: daemon.log.count("kept the old configuration") == 2, 20, "a complaint")
        assert "model.type can only change with a restart" in daemon.log
        lost = settings(mosquitto, tmp_path, broker={"tls": {"ca_file": "/nowhere/ca.crt"}})
        lost["broker"]["url"] = mosquitto.url.replace("mqtt:", "mqtts:")
        daemon.write(lost)
        daemon.reload()
        until(lambda: daemon.log.count("kept the old configuration") == 3, 20, "a complaint")
        client.send(readings(1, first=50))
        until(lambda: len(client.decisions()) == 51, 20, "decisions")

        good = settings(
            mosquitto,
            tmp_path,
            readings={"topic": "site/{device}/raw"},
            decisions={"topic": "new/{device}/decision"},
            rejector={"target_rate": 0.5},
            logging={"format": "json"},
            health={"silence_seconds": 0.3},
        )
        daemon.write(good)
        daemon.reload()
        until(lambda: daemon.log.count("configuration read again") == 1, 20, "a change")
        assert '"message":"configuration read again: readings.topic' in daemon.log
        until(lambda: daemon.metrics()["streamlvq_connects_total"] == 2, 20, "another link")
        sick(daemon, "silence")
        until(lambda: "no longer subscribed to plant/+/readings" in daemon.log, 20, "unsubscribed")
        moved = Message("site/d1/raw", readings(1, first=51)[0].payload, 1.0)
        client.send([moved, *readings(1, first=52)])
        until(lambda: "new/d1/decision" in [topic for topic, _ in client.got], 20, "a decision")
        measured = daemon.metrics()
        assert measured['streamlvq_reloads_total{outcome="refused"}'] == 3
        assert measured['streamlvq_reloads_total{outcome="done"}'] == 1
        assert measured["streamlvq_readings_total"] == 52
        assert daemon.stop() == 0


def test_the_broker_and_the_network_go_and_come(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    messages = readings(2000)
    with Proxy(mosquitto.port) as proxy:
        config = settings(mosquitto, tmp_path, broker={"url": proxy.url, "keepalive_seconds": 2})
        with Daemon(tmp_path, config) as daemon:
            healthy(daemon)
            mosquitto.stop()
            sick(daemon, "not connected")
            mosquitto.start()
            with Client(mosquitto, "plant/+/decision") as client:
                client.send(messages[:100])  # before it is back
                until(lambda: len(client.decisions()) == 100, 20, "decisions")
                healthy(daemon)
                proxy.cut()
                sick(daemon, "not connected")
                client.send(messages[100:200])
                proxy.heal()
                until(lambda: numbers(client) == set(range(200)), 20, "decisions")
                proxy.stall()  # the connection stays, nothing comes through
                client.send(messages[200:300])
                sick(daemon, "not connected")
                proxy.heal()
                until(lambda: numbers(client) == set(range(300)), 20, "decisions")
                healthy(daemon)
                assert daemon.process is not None
                daemon.process.send_signal(signal.SIGSTOP)  # a consumer as slow as can be
                client.send(messages[300:])
                time.sleep(4)  # longer than the broker waits for a sign of life
                daemon.process.send_signal(signal.SIGCONT)
                until(lambda: numbers(client) == set(range(2000)), 20, "decisions")
                assert daemon.stop() == 0
    assert daemon.snapshot() == undisturbed(daemon.path, messages)


@pytest.mark.skipif(not Mosquitto.installed(), reason="Mosquitto is not installed")
@pytest.mark.parametrize("persistence", [False, True])
def test_a_broker_without_persistence_is_noticed(persistence: bool, tmp_path: Path) -> None:
    """What the broker does not keep is lost when it restarts; the daemon can but say so."""
    if "resumed" not in make_link(Config(), []).counters:
        pytest.skip("this link does not tell whether the broker had kept the session")
    forgotten = "the broker did not keep our session"
    with (
        Mosquitto(persistence=persistence) as broker,
        Daemon(tmp_path, settings(broker, tmp_path)) as daemon,
    ):
        healthy(daemon)
        assert "ready, connecting to mqtt://" in daemon.log
        assert forgotten not in daemon.log
        broker.stop()
        sick(daemon, "not connected")
        broker.start()
        healthy(daemon)
        until(lambda: daemon.log.count("connected to 127.0.0.1") == 2, 20, "connected again")
        assert daemon.stop() == 0
    assert (forgotten in daemon.log) is not persistence


def numbers(client: Client) -> set[int]:
    return {decision["sequence"] for decision in client.decisions()}


def test_full_and_read_only_disk(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
    small_disk: Path,
) -> None:
    messages = readings(300)
    config = settings(mosquitto, tmp_path, state={"keep": 1})
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        healthy(daemon)
        client.send(messages[:100])
        until(lambda: len(client.decisions()) == 100, 20, "decisions")
        until(lambda: list(small_disk.glob("snapshot-*")), 20, "a snapshot")
        until(lambda: not list(small_disk.glob("journal-*")), 20, "what it knows is deleted")

        ballast = small_disk / "ballast"
        _fill(ballast)
        client.send(messages[100:200])
        sick(daemon, "journal: ")
        assert "No space left on device" in daemon.log
        assert daemon.metrics()["streamlvq_journal_failures_total"] >= 1
        undecided = 200 - len(client.decisions())
        assert undecided > 0, "decided on readings that were not durable"
        ballast.unlink()
        until(lambda: numbers(client) == set(range(200)), 40, "decisions")
        healthy(daemon)

        until(lambda: not list(small_disk.glob("journal-*")), 20, "no file open for writing")
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
        client.send(messages[200:])
        sick(daemon, "Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        until(lambda: numbers(client) == set(range(300)), 40, "decisions")
        healthy(daemon)
        assert daemon.stop() == 0
        assert daemon.snapshot() == undisturbed(daemon.path, messages)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def test_leaves_while_the_disk_is_full(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
    small_disk: Path,
) -> None:
    """Nothing is acknowledged, so nothing is lost."""
    messages = readings(30)
    with Client(mosquitto, "plant/+/decision") as client:
        daemon = Daemon(tmp_path, settings(mosquitto, tmp_path))
        with daemon:
            healthy(daemon)
            _fill(small_disk / "ballast")
            client.send(messages)
            sick(daemon, "journal: ")
            assert daemon.stop() == 0
            assert client.decisions() == []
            (small_disk / "ballast").unlink()
            daemon.start()
            until(lambda: numbers(client) == set(range(30)), 20, "decisions")
            assert daemon.stop() == 0
        assert daemon.snapshot() == undisturbed(daemon.path, messages)


def test_damaged_files(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    """A torn journal and a damaged snapshot cost nothing; worse damage is an error, not a loss."""
    messages = readings(240)
    state = tmp_path / "state"
    with (
        Client(mosquitto, "plant/+/decision") as client,
        Daemon(tmp_path, settings(mosquitto, tmp_path, state={"snapshot_seconds": 0.3})) as daemon,
    ):
        healthy(daemon)
        for first in range(0, 240, 60):
            client.send(messages[first : first + 60])
            count = len(list(state.glob("snapshot-*")))
            until(lambda n=first + 60: len(client.decisions()) == n, 20, "decisions")
            until(lambda n=count: len(list(state.glob("snapshot-*"))) > n, 20, "a snapshot")
        daemon.kill()
        newest = max(state.glob("snapshot-*"))
        *whole, end = newest.read_bytes()
        newest.write_bytes(bytes([*whole, end ^ 0xFF]))
        last = max(state.glob("journal-*"))
        last.write_bytes(last.read_bytes() + b"SLJ2 torn")
        daemon.start()
        assert "is of no use" in daemon.log
        assert "cut a torn record of 9 bytes" in daemon.log
        assert daemon.stop() == 0
        assert daemon.snapshot() == undisturbed(daemon.path, messages)

        for path in state.glob("snapshot-*"):
            path.write_bytes(b"nothing good")
        daemon.launch()
        assert daemon.wait() == 1
        assert "expected a snapshot that fits the configuration" in daemon.log


def test_one_folder_one_daemon(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    with Daemon(tmp_path, settings(mosquitto, tmp_path)) as daemon:
        other = Daemon(tmp_path / "other", settings(mosquitto, tmp_path))
        assert other.launch().wait() == 1
        assert daemon.process is not None
        assert f"is held by process {daemon.process.pid}; stop it, or give" in other.log
        assert daemon.stop() == 0


def test_one_name_two_daemons(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    """They throw each other out; whoever is out says so, and every reading reaches one of them."""
    with Client(mosquitto, "plant/+/decision") as client:
        config = settings(mosquitto, tmp_path / "a", broker={"reconnect_max_seconds": 2})
        again = settings(mosquitto, tmp_path / "b", broker={"reconnect_max_seconds": 2})
        with Daemon(tmp_path / "a", config) as one:
            healthy(one)
            with Daemon(tmp_path / "b", again) as two:
                until(lambda: 503 in (one.health()[0], two.health()[0]), 20, "a complaint")
                for n in range(20):
                    client.send(readings(5, first=5 * n))
                    time.sleep(0.1)
                until(lambda: numbers(client) == set(range(100)), 40, "decisions")
                until(lambda: "broker.client_id" in one.log + two.log, 40, "an explanation")


def test_two_daemons_share_the_devices(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    messages = readings(200, devices=20)
    with Client(mosquitto, "plant/+/decision") as client:
        shards = [
            Daemon(
                tmp_path / str(index),
                settings(
                    mosquitto,
                    tmp_path / str(index),
                    broker={"client_id": f"shard-{index}"},
                    shard={"index": index, "count": 2},
                ),
            ).launch()
            for index in range(2)
        ]
        with shards[0] as one, shards[1] as two:
            healthy(one)
            healthy(two)
            client.send(messages)
            until(lambda: len(client.decisions()) == 200, 20, "decisions")
            read = [shard.metrics()["streamlvq_readings_total"] for shard in shards]
            skipped = [shard.metrics()["streamlvq_skipped_total"] for shard in shards]
            assert sum(read) == 200
            assert min(read) > 0
            assert skipped == read[::-1]
            assert one.stop() == two.stop() == 0
    assert sorted(decision["sequence"] for decision in client.decisions()) == list(range(200))


def test_a_clock_that_jumps(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    """Hours back and forth at every look at the wall clock; timers do not care."""
    (tmp_path / "sitecustomize.py").write_text(
        "import itertools, time\n"
        "real, jumps = time.time, itertools.cycle([0, 86400, -86400, 3e6, -3e6])\n"
        "time.time = lambda: real() + next(jumps)\n"
    )
    config = settings(
        mosquitto,
        tmp_path,
        readings={"time": None},  # then the time of receiving counts
        health={"silence_seconds": 3, "snapshot_age_seconds": 3},
    )
    with (
        Client(mosquitto, "plant/+/decision") as client,
        Daemon(tmp_path, config, PYTHONPATH=str(tmp_path), WATCHDOG_USEC="400000") as daemon,
    ):
        healthy(daemon)
        for n in range(20):
            client.send(readings(5, first=5 * n))
            time.sleep(0.1)
            assert daemon.health() == (200, [])
        until(lambda: len(client.decisions()) == 100, 20, "decisions")
        times = [decision["t"] for decision in client.decisions()]
        assert max(times) - min(times) > 86400
        assert 1 <= daemon.metrics()["streamlvq_snapshots_total"] <= 20
        assert daemon.heard.count("WATCHDOG=1") >= 5
        assert daemon.metrics()["streamlvq_connects_total"] == 1
        sick(daemon, "silence: no reading for 3 s")
        assert daemon.stop() == 0


def test_qos_0_needs_no_journal(mosquitto: Mosquitto, tmp_path: Path) -> None:  # noqa: F811
    config = settings(mosquitto, tmp_path, readings={"qos": 0}, broker={"protocol": "3.1.1"})
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        healthy(daemon)
        client.send(readings(50), qos=0)
        until(lambda: len(client.decisions()) == 50, 20, "decisions")
        assert daemon.metrics()["streamlvq_journal_bytes"] == 0
        assert daemon.stop() == 0
    assert not list((tmp_path / "state").glob("journal-*"))
    assert daemon.snapshot() == undisturbed(daemon.path, readings(50))


def test_ctrl_c_while_the_broker_is_away(tmp_path: Path) -> None:
    with Daemon(tmp_path, settings(None, tmp_path)) as daemon:
        sick(daemon, "not connected")
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.wait() == 0
    assert "nothing listens at 127.0.0.1:1" in daemon.log


def test_a_wrong_configuration_is_explained(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings(None, tmp_path))
    daemon.write("readings: {topc: a}\n")
    assert daemon.launch().wait() == 2
    assert "readings.topc: unknown key; did you mean 'topic'?" in daemon.log


def test_junk_changes_nothing_but_the_health(
    mosquitto: Mosquitto,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Invented fields and labels are decided on, not learnt, counted, and kept across a kill."""
    config = settings(
        mosquitto, tmp_path, admission={"commissioning": 20}, health={"warnings_fail": True}
    )
    with Client(mosquitto, "plant/+/decision") as client, Daemon(tmp_path, config) as daemon:
        client.send(readings(100, labelled=1.0))
        until(lambda: len(client.decisions()) == 100, 60)
        healthy(daemon)
        learnt = daemon.metrics()["streamlvq_learnt_total"]
        item = {"x0": 1.0, "t": 1.7e9, "n": 5000, "y": "ok"} | {f"j{k}": k for k in range(900)}
        junk = [Message("plant/d0/readings", json.dumps(item).encode(), 1.0)]
        for k in range(30):
            item = {"x0": 1.0, "t": 1.7e9 + k, "n": 6000 + k, "y": f"junk {k}"}
            junk.append(Message("plant/d0/readings", json.dumps(item).encode(), 1.0))
        client.send(junk)
        until(lambda: len(client.decisions()) == 131, 60)
        sick(daemon, "probation: ")
        metrics = daemon.metrics()
        assert metrics["streamlvq_held_total"] == 30
        assert metrics["streamlvq_learnt_total"] == learnt + 1
        assert metrics['streamlvq_dropped_fields_total{reason="probation"}'] == 900
        assert "left out fields that have come too rarely so far" in daemon.log
        daemon.kill()
        daemon.start()
        sick(daemon, "30 classes came too rarely to be learnt")
        assert daemon.stop() == 0
    model = Monitor.restore(load(daemon.path), daemon.snapshot()).local("")
    assert not [name for name in (*model.features, *model.classes) if str(name).startswith("j")]
