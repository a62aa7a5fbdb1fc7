"""The demo's second act: what is simulated, seen, drawn and said."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq.config import load
from streamlvq.connect import Message, Outgoing
from streamlvq.demo import fleet
from streamlvq.demo import run as run_module
from streamlvq.demo.fleet import (
    FLEET_STATES,
    FLEET_STORY_SECONDS,
    HALLS,
    LABELS_TO_JOIN,
    MIN_ROUND_READINGS,
    RARE_STATES,
    UNSEEN_STATES,
    FleetPhase,
    FleetScript,
    PressSimulator,
    SettlingCheck,
    create_keys,
    fleet_phases,
    join_times,
    make_press,
    node_config,
)
from streamlvq.demo.messages import (
    FLEET_NAME,
    FLEET_STORY_TOPIC,
    ChapterMessage,
    DecisionMessage,
    StatusMessage,
    TruthMessage,
    fleet_topic,
    snapshot_topic,
    source_of,
    status_topic,
)
from streamlvq.demo.processes import FLEET_FOLDER
from streamlvq.demo.run import act_lengths, run
from streamlvq.demo.summary import fleet_summary, next_steps
from streamlvq.demo.tracker import CONVINCING_RUN, FleetTracker, SensorShift
from streamlvq.demo.views import draw_fleet, fleet_line
from streamlvq.errors import MissingExtraError
from streamlvq.fleet import Header, PrivateKey, TrustedKeys, seal
from streamlvq.snapshot import Snapshot
from streamlvq.synth import BEARING_FAULT, FEATURES
from streamlvq.topics import Template

encode = msgspec.json.encode

# --- the story -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [None, 4.0, 32.0, 300.0])
@pytest.mark.parametrize("rate", [5.0, 20.0, 200.0])
def test_the_phases_fill_the_time(seconds: float | None, rate: float) -> None:
    story = fleet_phases(rate, seconds)
    assert [phase.name for phase in story] == ["learning", "alone", "joining", "together"]
    assert sum(phase.seconds for phase in story) == pytest.approx(seconds or FLEET_STORY_SECONDS)
    assert story[0].readings == LABELS_TO_JOIN - 1
    assert story[1].readings == story[3].readings >= MIN_ROUND_READINGS
    assert story[1].rate == pytest.approx(
        max(rate, MIN_ROUND_READINGS / story[1].seconds), rel=0.02
    )
    assert [phase.open_end for phase in story] == [False, False, True, False]


def test_nodes_join_one_after_the_other_in_time() -> None:
    phase = fleet_phases(20)[2]
    times, nodes = zip(*join_times(phase), strict=True)
    assert nodes == tuple(HALLS)
    assert times == tuple(sorted(set(times)))
    assert times[-1] < phase.seconds


def test_both_rounds_are_the_same_readings_and_no_others() -> None:
    for node in HALLS:
        alone, together = (
            make_press(node, "alone").take(300),
            make_press(node, "together").take(300),
        )
        assert alone.rows.tobytes() == together.rows.tobytes()
        assert alone.states == together.states
        assert set(alone.states) == set(FLEET_STATES)
        for other in ("learning", "joining"):
            assert not np.isin(make_press(node, other).take(300).rows, alone.rows).any()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_learns_all_but_what_it_lacks(seed: int) -> None:
    for node in HALLS:
        states = make_press(node, "learning", seed).take(LABELS_TO_JOIN).states
        assert set(states) == set(FLEET_STATES) - {UNSEEN_STATES.get(node)}
        if node in RARE_STATES:
            assert states.count(RARE_STATES[node]) <= 5


def test_sensors_are_off_by_what_is_said() -> None:
    """In the mean of many readings of a state, as physics and noise are the same everywhere."""
    means = {}
    for node in HALLS:
        samples = make_press(node, "alone").take(20_000)
        running = np.array(samples.states) == "running"
        means[node] = samples.rows[running].mean(axis=0)
    for node, offsets in HALLS.items():
        for feature, value in offsets.items():
            k = FEATURES.index(feature)
            assert means[node][k] - means["north"][k] == pytest.approx(
                value, abs=0.25 + 0.05 * abs(value)
            )


def test_fusing_helps_on_seeds_that_nobody_has_chosen() -> None:
    """What the demo shows is no luck of its seed: the mean of several others says the same."""
    gains: dict[str, list[float]] = {node: [] for node in HALLS}
    found = []
    for seed in range(500, 530, 3):
        models = {node: _learnt(node, seed) for node in HALLS}
        fused = streamlvq.fuse(Snapshot.of(m, n, readings=False) for n, m in models.items())
        for node, model in models.items():
            own, theirs = _right(model, node, seed), _right(fused.for_node(node), node, seed)
            gains[node].append(float(theirs.mean() - own.mean()))
            if node in UNSEEN_STATES:
                lacking = (
                    np.array(make_press(node, "alone", seed).take(150).states)
                    == UNSEEN_STATES[node]
                )
                assert not own[lacking].any()
                found += theirs[lacking].tolist()
    assert np.mean(gains["west"]) > 0.1
    assert np.mean(gains["north"]) > 0.0
    assert np.mean(gains["south"]) > 0.0
    assert np.mean(found) > 0.9


def _learnt(node: str, seed: int) -> Any:
    samples = make_press(node, "learning", seed).take(LABELS_TO_JOIN)
    model = streamlvq.GMLVQ()
    model.learn_array(samples.rows, samples.states, features=FEATURES)
    return model


def _right(model: Any, node: str, seed: int) -> np.ndarray:
    samples = make_press(node, "alone", seed).take(150)
    rows = (dict(zip(FEATURES, row, strict=True)) for row in samples.rows.tolist())
    said = [model.predict_one(x) for x in rows]
    return np.array([a == b for a, b in zip(said, samples.states, strict=True)])


# --- the presses ---------------------------------------------------------------------------------


def through(node: str, story: list[FleetPhase]) -> Iterator[tuple[str, Outgoing]]:
    """All that a press publishes, with the phase; what makes it join comes amidst its phase."""
    one = PressSimulator(node)
    for phase in story:
        for n in range(1, 21):
            yield from ((phase.name, m) for m in one.due(phase, phase.seconds * n / 20))
            if phase.open_end and n == 10:
                yield from ((phase.name, m) for m in one.last_label(phase))


@pytest.mark.parametrize("node", HALLS)
def test_a_press_sends_what_the_story_wants(node: str) -> None:
    story = fleet_phases(20)
    truths: list[TruthMessage] = []
    readings: dict[str, list[dict[str, Any]]] = {phase.name: [] for phase in story}
    for name, message in through(node, story):
        if message.topic == fleet_topic(node, "truth"):
            truths.append(msgspec.json.decode(message.payload, type=TruthMessage))
            assert truths[-1].phase == name
        else:
            assert (message.topic, message.qos) == (fleet_topic(node, "readings"), 1)
            readings[name].append(msgspec.json.decode(message.payload))
    everything = [reading for part in readings.values() for reading in part]
    assert [one["sequence"] for one in everything] == list(range(len(truths)))
    labels = [one["label"] for one in everything if "label" in one]
    assert labels == make_press(node, "learning").take(LABELS_TO_JOIN).states
    assert all("label" in one for one in readings["learning"])
    assert sum("label" in one for one in readings["joining"]) == 1
    assert not any("label" in one for one in readings["alone"] + readings["together"])
    for name in ("alone", "together"):
        values = [[one[feature] for feature in FEATURES] for one in readings[name]]
        assert values == make_press(node, name).take(200).rows.round(3).tolist()


def test_readings_go_on_until_all_have_joined() -> None:
    one, joining = PressSimulator("north"), fleet_phases(20)[2]
    usual = len(one.due(joining, joining.seconds))
    assert len(one.due(joining, 2 * joining.seconds)) == usual > 0


def test_the_second_round_waits_for_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "SETTLED_SECONDS", 0.05)
    models = SettlingCheck()
    for node in HALLS:
        assert not models.settled()
        models.take(node, record(0, "idle", 60))
        models.take(node, record(1, "idle", -1))
        time.sleep(0.06)
    assert models.settled()
    models.take("north", record(2, "idle", -2))
    assert not models.settled()  # another one has joined
    time.sleep(0.06)
    assert models.settled()


# --- what is seen of it --------------------------------------------------------------------------


def record(sequence: int, label: str, version: int) -> DecisionMessage:
    """A decision; below zero: of a model of the fleet."""
    model = "fused" if version < 0 else "local"
    return DecisionMessage(
        "press", label, True, None, 0.8, None, sequence, abs(version), model=model
    )


def decided(
    node: str, sequence: int, state: str, label: str, version: int, phase: str
) -> list[Message]:
    truth = TruthMessage("press", sequence, state, phase=phase)
    said = record(sequence, label, version)
    return [
        Message(fleet_topic(node, "truth"), encode(truth), 0.0),
        Message(fleet_topic(node, "decision"), encode(said), 0.0),
    ]


def told(kind: str, node: str = "") -> Message:
    return Message(
        FLEET_STORY_TOPIC, encode(ChapterMessage(0.0, kind, f"{kind} {node}", node)), 0.0
    )


KEYS = {node: PrivateKey.new() for node in HALLS}


def snapshot(node: str, sequence: int = 1, key: PrivateKey | None = None) -> Message:
    payload = Snapshot.of(_learnt(node, 1), node, readings=False).to_bytes()
    header = Header(FLEET_NAME, node, "snapshot", 1, sequence, created=time.time())
    data = seal(payload, header, key or KEYS[node])
    return Message(snapshot_topic(node), data, 0.0)


def tracking() -> FleetTracker:
    tracker = FleetTracker(HALLS, UNSEEN_STATES)
    tracker.insight.trust(TrustedKeys({node: key.public for node, key in KEYS.items()}))
    return tracker


def through_the_story() -> FleetTracker:
    """Two rounds of ten readings; the fleet is right more often."""
    tracker = tracking()
    tracker.take([told("learning")])
    tracker.take(decided("west", 0, "idle", "idle", 59, "learning"))
    tracker.take([told("alone")])
    for n in range(1, 11):
        state = BEARING_FAULT if n > 5 else "idle"
        for node in HALLS:
            label = "idle" if node == "west" else state
            tracker.take(decided(node, n, state, label, 59, "alone"))
    tracker.take([told("joining")])
    for node in HALLS:
        tracker.take([told("label", node), snapshot(node)])
    tracker.take([told("together")])
    for n in range(21, 31):
        state = BEARING_FAULT if n > 25 else "idle"
        for node in HALLS:
            label = "running" if n == 21 else state
            tracker.take(decided(node, n, state, label, -1, "together"))
    tracker.take([told("over")])
    return tracker


def test_each_decision_counts_for_the_model_that_made_it() -> None:
    tracker = tracking()
    tracker.take(decided("north", 0, "idle", "idle", 60, "alone"))
    tracker.take(decided("north", 1, "idle", "running", 60, "alone")[::-1])
    tracker.take(decided("north", 2, "idle", "idle", 60, "together"))  # too late, its own still
    tracker.take(decided("north", 3, "idle", "idle", -1, "joining"))
    node = tracker.nodes["north"]
    assert (node.alone.correct, node.alone.decided) == (1, 2)
    assert node.together.decided == 0
    tracker.take(decided("north", 4, "idle", "running", -1, "together"))
    assert (node.together.correct, node.together.decided) == (0, 1)
    tracker.take(decided("north", 5, "idle", "idle", -2, "together"))  # another model, from zero
    assert (node.together.correct, node.together.decided) == (1, 1)
    tracker.take(decided("north", 6, "idle", "idle", -2, "alone"))  # late, and not its own
    assert (node.alone.decided, tracker.decided, node.labels) == (2, 7, 60)


def test_who_joins_is_told_once_and_what_is_gained() -> None:
    tracker = through_the_story()
    assert all(node.joined for node in tracker.nodes.values())
    tracker.take([snapshot("north", sequence=2)])
    texts = [note.text for note in tracker.notes]
    assert sum(text.startswith("north has joined") for text in texts) == 1
    assert [text for text in texts if "gains" in text] == [
        f"west gains the class {BEARING_FAULT}, as its own sensors would see it"
    ]
    assert texts.count("the fleet decides on west from now on") == 1
    assert (
        texts.count(f"west recognises a {BEARING_FAULT}, which nobody has ever labelled there") == 1
    )


def test_fewer_in_a_row_do_not_convince() -> None:
    tracker = tracking()
    for n in range(10 * CONVINCING_RUN):
        label = "idle" if n % CONVINCING_RUN == CONVINCING_RUN - 1 else BEARING_FAULT
        tracker.take(decided("west", n, BEARING_FAULT, label, -1, "together"))
    assert not any("recognises" in note.text for note in tracker.notes)


@pytest.mark.parametrize("wrong", ["key", "author"])
def test_a_forged_snapshot_does_not_join(wrong: str) -> None:
    tracker = tracking()
    forged = snapshot("south", key=PrivateKey.new() if wrong == "key" else KEYS["west"])
    tracker.take([snapshot("north"), forged])
    assert tracker.nodes["north"].joined
    assert not tracker.nodes["south"].joined
    assert tracker.insight.report is None
    assert tracker.notes[-1].text.startswith("a message of south is refused: ")


def test_nobody_is_believed_without_keys() -> None:
    with pytest.raises(RuntimeError, match=r"expected trust\(\) before the first message"):
        FleetTracker(HALLS, UNSEEN_STATES).take([snapshot("north")])


def test_shifts_are_found_as_they_were_built() -> None:
    insight = through_the_story().insight
    assert insight.shifts("north") == []
    for node in ("south", "west"):
        off = insight.shifts(node)
        assert len(off) == 3
        for one in off:
            assert one.true == HALLS[node][one.feature]  # the worst are those that were moved
            assert one.found == pytest.approx(one.true, rel=0.35)
    sizes = [insight.drift(node) for node in HALLS]
    assert None not in sizes
    assert sizes[0] < min(sizes[1:])  # type: ignore[type-var]


def test_all_nodes_must_be_up() -> None:
    tracker = FleetTracker(HALLS, UNSEEN_STATES)
    for node in HALLS:
        assert not tracker.online
        tracker.take([Message(status_topic(node), encode(StatusMessage("online")), 0.0)])
    assert tracker.online
    tracker.take([Message(status_topic("north"), encode(StatusMessage("offline")), 0.0)])
    assert not tracker.online


def test_the_clock_stands_still_in_the_end() -> None:
    tracker = through_the_story()
    assert tracker.finished is not None
    tracker.stop()
    before = tracker.seconds
    time.sleep(0.02)
    tracker.stop()
    assert tracker.seconds == before


# --- what is said of it --------------------------------------------------------------------------


def test_the_summary_has_what_was_counted() -> None:
    lines = fleet_summary(through_the_story()).splitlines()
    rows = {line.split()[0]: line.split() for line in lines[3:6]}
    assert " ".join(rows["north"][2:]) == "100.0% (10 of 10) 90.0% (9 of 10) -10.0"
    assert " ".join(rows["west"][1:]) == "59 50.0% (5 of 10) 90.0% (9 of 10) +40.0"
    words = "never labelled there: recognised 0 of 5 alone, 5 of 5 together"
    assert f"{BEARING_FAULT} on west, {words}" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  correction between the sensors: least_squares") for line in lines)
    assert any(line.startswith("  west against north (in truth): ") for line in lines)


def test_a_summary_of_nothing_claims_nothing() -> None:
    tracker = tracking()
    assert fleet_summary(tracker) == "\nThe fleet was stopped before its presses were switched on."
    tracker.take([told("learning")])
    text = fleet_summary(tracker)
    assert "%" not in text
    assert "never labelled there: not asked yet" in text
    assert "nothing was fused: too few nodes had joined" in text


def test_a_line_says_how_things_are() -> None:
    line = fleet_line(through_the_story())
    assert line.startswith("north: 59 labels, alone 100.0%, together 90.0% | south: ")
    assert fleet_line(tracking()) == "north: 0 labels | south: 0 labels | west: 0 labels"


def drawn(tracker: FleetTracker, width: int) -> list[str]:
    rich_console = pytest.importorskip("rich.console")
    from streamlvq.demo.pictures import PictureView

    console = rich_console.Console(width=width, file=io.StringIO())
    console.print(PictureView("the title", draw_fleet, console).draw(tracker))
    lines: list[str] = console.file.getvalue().splitlines()
    return lines


@pytest.mark.parametrize("width", [50, 60, 70, 80, 100, 118, 200])
def test_the_picture_fits(width: int) -> None:
    for tracker in (tracking(), through_the_story()):
        lines = drawn(tracker, width)
        assert len(lines) <= (24 if width >= 80 else 26)
        assert max(map(len, lines)) <= width
        titles = next(line for line in lines if "alone" in line)
        assert "together" in titles
        assert "…" not in titles
        assert ("sensors off" in titles) == (width >= 80)
        assert ("learnt" in titles) == (width >= 100)


def test_the_picture_says_what_matters() -> None:
    lines = drawn(through_the_story(), 118)
    rows = {line.split()[0]: line for line in lines if line.strip().startswith(tuple(HALLS))}
    assert " ".join(rows["west"].split()[:3]) == "west 59 yes"
    assert "the fleet" in rows["west"]
    assert "50.0%" in rows["west"]
    assert "90.0%" in rows["west"]
    assert "▀" in rows["west"]
    text = "\n".join(lines)
    assert "recognised 0 of 5 alone, 5 of 5 together" in text
    assert "south against north: " in text


def test_a_picture_can_be_kept(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    from streamlvq.demo.pictures import save_picture

    save_picture(through_the_story(), "the title", tmp_path / "fleet.svg", draw_fleet)
    text = (tmp_path / "fleet.svg").read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "together" in text
    assert "url(http" not in text


def test_what_is_off_says_its_unit() -> None:
    assert str(SensorShift("speed", 39.84, 40.0)) == "speed +39.8 1/min (+40.0)"


# --- how it is set up ----------------------------------------------------------------------------


def test_every_node_has_a_key_and_a_valid_configuration(tmp_path: Path) -> None:
    trust = create_keys(tmp_path)
    assert list(trust) == list(HALLS)
    for node in HALLS:
        file = tmp_path / FLEET_FOLDER / node / "monitor.yaml"
        file.write_text(node_config("mqtt://127.0.0.1:1", tmp_path, node))
        config = load(file)
        assert config.fleet is not None
        assert (config.fleet.node, config.fleet.name, config.fleet.role) == (
            node,
            FLEET_NAME,
            "peer",
        )
        assert config.fleet.min_samples == LABELS_TO_JOIN
        assert config.fleet.trust == str(tmp_path / FLEET_FOLDER / "trusted-keys")
        assert PrivateKey.load(str(config.fleet.key_file)).public == trust[node]
        assert Path(str(config.fleet.key_file)).stat().st_mode & 0o777 == 0o600
        assert f"streamlvq/{config.broker.client_id}/status" in FleetScript().filters
        for text, kind in (
            (config.readings.topic, "readings"),
            (config.decisions.topic, "decision"),
        ):
            assert Template(str(text)).match(fleet_topic(node, kind)) == {"device": "press"}
    assert len({node_config("mqtt://x:1", tmp_path, node) for node in HALLS}) == len(HALLS)


def test_topics_name_their_node() -> None:
    assert [source_of(fleet_topic(node, "truth")) for node in HALLS] == list(HALLS)


def test_time_is_shared_between_the_acts() -> None:
    both = act_lengths(30.0, None)
    assert list(both) == [1, 2]
    assert sum(filter(None, both.values())) == pytest.approx(30.0)
    assert act_lengths(30.0, 2) == {2: 30.0}
    assert act_lengths(None, 2) == {2: None}


def test_without_signatures_there_is_only_the_first_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "can_sign", lambda: False)
    assert run_module._possible(None) == run_module._possible(1) == 1
    with pytest.raises(MissingExtraError, match=r"pip install 'streamlvq\[demo\]'"):
        run(act=2)


def test_next_steps_name_what_was_kept(tmp_path: Path) -> None:
    assert "--act 2" in next_steps(None, fleet=False)
    assert "--act 2" not in next_steps(None, fleet=True)
    (tmp_path / FLEET_FOLDER).mkdir()
    text = next_steps(tmp_path, fleet=True)
    assert f"  {tmp_path / FLEET_FOLDER}   the nodes of the fleet" in text
    assert "streamlvq inspect" not in text  # there was no first act
