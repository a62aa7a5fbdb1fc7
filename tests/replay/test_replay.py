"""Replay, train and what they write, from the file to the report."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace as with_columns
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from streamlvq.config import Config, LabelsSection, ModelSection, ReadingsSection
from streamlvq.connect import Message, UnknownConnectorError, open_log
from streamlvq.errors import StreamLVQError
from streamlvq.events import DecisionRecord, Readings
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder, Encoder
from streamlvq.replay import (
    Report,
    inspect,
    load_monitor,
    replay,
    save_monitor,
    summary,
    train,
)
from streamlvq.replay.live import open_writer
from streamlvq.replay.run import DecisionWriter, LogBatch, LogReader, ReplayRun
from streamlvq.service.processor import MessageProcessor
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotFiles
from streamlvq.text import plural
from support.replays import (
    FEATURES,
    STATES,
    Row,
    chain_config,
    plain_config,
    plain_loop,
    rows,
    write_csv,
    write_jsonl,
)

WRITERS = {"csv": write_csv, "jsonl": write_jsonl}


def decisions_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- the same as a plain loop --------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("labelled", [1.0, 0.6])
@pytest.mark.parametrize("model", ["GLVQ", "LGMLVQ"])
def test_replay_decides_like_a_plain_loop(
    tmp_path: Path, kind: str, labelled: float, model: str
) -> None:
    log, config = rows(600, labelled=labelled), chain_config(model)
    path = WRITERS[kind](tmp_path / f"log.{kind}", log)
    run = ReplayRun(config)
    made = [
        record
        for portion in LogReader(path, config)
        for decisions in run.step(portion)
        for record in decisions.records()
    ]
    expected = list(plain_loop(config, log))
    assert len(made) == len(expected)
    for one, wanted, row in zip(made, expected, log, strict=True):
        assert (one.label, one.accepted, one.reason, one.outlier_by) == (
            wanted.label,
            wanted.accepted,
            wanted.reason,
            wanted.outlier_by,
        )
        assert one.novelty == wanted.novelty
        assert one.certainty == pytest.approx(wanted.certainty, abs=1e-12)
        assert one.probabilities == pytest.approx(wanted.probabilities, abs=1e-12)
        assert (one.device, one.t) == (row.pump, row.t)
    report = replay(path, config, decisions=tmp_path / "decisions.jsonl")
    assert report.readings == len(expected)
    assert decisions_of(tmp_path / "decisions.jsonl") == [rounded(one) for one in made]


def rounded(record: DecisionRecord) -> dict[str, Any]:
    """A decision as files and messages hold it."""
    numbers = {name: np.round(p, 6) for name, p in record.probabilities.items()}
    found: dict[str, Any] = msgspec.to_builtins(record)
    for name in ("certainty", "threshold", "novelty"):
        found[name] = None if found[name] is None else np.round(found[name], 6)
    return found | {"probabilities": numbers}


def test_replay_writes_what_the_daemon_publishes(tmp_path: Path) -> None:
    config = late_config("sequence")
    path = write_late(tmp_path / "log.messages", rows(300))
    replay(path, config, decisions=tmp_path / "decisions.jsonl")
    processor = MessageProcessor(Decoder(config), Monitor(config))
    encoder = Encoder(config)
    published = [
        outgoing.payload
        for batch in LogReader(path, config).batches()
        for decisions in processor.process(batch).decisions
        for outgoing in encoder.encode(decisions)
    ]
    assert len(published) == 300
    assert (tmp_path / "decisions.jsonl").read_bytes() == b"\n".join([*published, b""])
    digits = {len(str(json.loads(one)["certainty"])) for one in published}
    assert max(digits) == len("0.123456")


def test_decisions_about_devices_that_utf8_cannot_say_are_written(tmp_path: Path) -> None:
    found = Readings.of(["x"], [[1.0]], devices=["p\udcff"], labels=["a"])
    with DecisionWriter(tmp_path / "decisions.jsonl") as file:
        for made in ReplayRun(plain_config()).step(LogBatch([found], [])):
            file.write(made)
    assert [one["device"] for one in decisions_of(tmp_path / "decisions.jsonl")] == ["p?"]


def test_replay_agrees_when_the_rejector_has_forgotten(tmp_path: Path) -> None:
    """Its memory holds 1000 certainties; after that the oldest make room."""
    log, config = rows(2500, labelled=0.7), chain_config()
    replay(write_csv(tmp_path / "log.csv", log), config, decisions=tmp_path / "d.jsonl")
    made = [(d["label"], d["accepted"], d["reason"]) for d in decisions_of(tmp_path / "d.jsonl")]
    assert made == [(d.label, d.accepted, d.reason) for d in plain_loop(config, log)]
    assert len({accepted for _, accepted, _ in made[1000:]}) == 2


@pytest.mark.parametrize("kind", WRITERS)
def test_report_counts_what_the_plain_loop_counts(tmp_path: Path, kind: str) -> None:
    log, config = rows(500, labelled=0.8, seed=3), chain_config()
    report = replay(WRITERS[kind](tmp_path / f"log.{kind}", log), config)
    pairs = list(zip(log, plain_loop(config, log), strict=True))
    known = [(row, d) for row, d in pairs if row.state is not None]
    kept = [(row, d) for row, d in known if d.accepted]
    assert report.labelled == report.learnt == len(known)
    assert report.accuracy == sum(row.state == d.label for row, d in known) / len(known)
    assert report.accuracy_of_accepted == sum(row.state == d.label for row, d in kept) / len(kept)
    assert report.reject_rate == sum(not d.accepted for _, d in pairs) / len(pairs)
    for reason, count in report.reasons.items():
        assert count == sum(d.reason == reason for _, d in pairs)
    assert sum(report.reasons.values()) == sum(not d.accepted for _, d in pairs)
    place = {label: k for k, label in enumerate(report.confusion.labels)}
    for true in STATES:
        for said in STATES:
            count = sum(row.state == true and d.label == said for row, d in known)
            assert report.confusion.counts[place[true]][place[said]] == count
    for row in report.devices:
        mine = [(r, d) for r, d in known if r.pump == row.device]
        assert row.labelled == len(mine)
        assert row.accuracy == sum(r.state == d.label for r, d in mine) / len(mine)


def test_formats_agree(tmp_path: Path) -> None:
    log = rows(300)
    reports = [
        replay(write(tmp_path / f"log.{kind}", log), chain_config())
        for kind, write in WRITERS.items()
    ]
    first, second = (msgspec.structs.asdict(report) for report in reports)
    for name in ("log", "format", "cpu_seconds", "wall_seconds"):
        del first[name], second[name]
    assert set(first.pop("features")) == set(second.pop("features"))  # objects have no order
    assert first == second


def test_compressed_logs(tmp_path: Path) -> None:
    plain = write_csv(tmp_path / "log.csv", rows(200))
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert replay(packed, plain_config()).accuracy == replay(plain, plain_config()).accuracy


# --- how much, and with or without learning ------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("limit", [1, 77, 200, 1000])
def test_limit(tmp_path: Path, kind: str, limit: int) -> None:
    path = WRITERS[kind](tmp_path / f"log.{kind}", rows(200))
    assert replay(path, plain_config(), limit=limit).readings == min(limit, 200)


def test_limit_gives_the_first_ones(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(200))
    replay(path, plain_config(), decisions=tmp_path / "all.jsonl")
    replay(path, plain_config(), limit=50, decisions=tmp_path / "some.jsonl")
    assert decisions_of(tmp_path / "some.jsonl") == decisions_of(tmp_path / "all.jsonl")[:50]


def test_without_learning_labels_are_compared_only(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(300))
    config = plain_config()
    monitor = load_monitor(config)
    replay(path, config, monitor=monitor)
    before = monitor.checkpoint()
    report = replay(path, config, monitor=monitor, learn=False)
    assert monitor.checkpoint() == before
    assert report.learnt == 0
    assert report.labelled == 300
    assert report.accuracy is not None
    assert report.accuracy > 0.8
    assert not report.learning


def test_without_labels_it_says_what_to_do(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(20, labelled=0.0))
    report = replay(path, plain_config())
    assert report.accuracy is None
    assert report.curve is None
    assert report.calibration is None
    assert "--label" in summary(report)


def test_refused_rows_are_counted_and_shown(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(30))
    lines = path.read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[2], "broken")
    lines[9] = "1,pump0,1,2"
    path.write_text("\n".join(lines))
    report = replay(path, plain_config())
    assert report.readings == 28
    assert sum(report.refused.values()) == 2
    assert "line 6" in report.refused_examples[0]
    assert "broken" in summary(report)
    assert "refused      2 rows; such as\n             line 6: " in summary(report)


def test_refused_payloads_are_counted_by_reason(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", rows(30))
    path.write_text(path.read_text() + 'not json\n{"t": 1, "pump": "p", "state": "x"}\n')
    report = replay(path, plain_config())
    assert report.readings == 30
    assert report.refused["payload"] == 1
    assert sum(report.refused.values()) == 2
    assert [text.split(":")[0] for text in report.refused_examples] == ["line 31", "line 32"]
    assert re.search(r"refused      2: .*unreadable payload 1.*; such as", summary(report))


def test_classes_beyond_the_limit_are_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    config = msgspec.structs.replace(plain_config(), model=ModelSection(type="GLVQ", max_classes=2))
    path = write_csv(tmp_path / "log.csv", rows(300))
    report = replay(path, config)
    assert report.refused["model"] == 300 - report.readings
    assert len(report.confusion.labels) == 2
    alone = replay(path, config, learn=False)  # nothing to refuse where nothing is learnt
    assert alone.readings == 300


def test_a_model_per_device(tmp_path: Path) -> None:
    config = msgspec.structs.replace(plain_config(), model=ModelSection(type="GLVQ", per="device"))
    for kind, write in WRITERS.items():
        monitor = load_monitor(config)
        replay(write(tmp_path / f"log.{kind}", rows(90)), config, monitor=monitor)
        assert set(monitor.models()) == {"pump0", "pump1", "pump2"}


def test_an_empty_log(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", [])
    report = replay(path, plain_config())
    assert report.readings == 0
    assert report.reject_rate is None
    assert "nothing could be read" in summary(report)
    assert Report.from_json(report.to_json()) == report


# --- which kind of log ---------------------------------------------------------------------------


def test_formats_are_found_out(tmp_path: Path) -> None:
    log = rows(5)
    odd = {kind: write(tmp_path / f"log-{kind}.txt", log) for kind, write in WRITERS.items()}
    with open_writer(tmp_path / "log.messages") as writer:
        writer.write([Message("a/b", b"{}", 1.0)])
    odd["messages"] = tmp_path / "log.messages"
    for kind, path in odd.items():
        opened = open_log(path, plain_config().readings)
        name = opened.format
        opened.close()
        assert name == kind


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "picture.bin"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(UnknownConnectorError, match="expected a log of a known format"):
        replay(path, plain_config())
    (tmp_path / "x.gz").write_bytes(b"not gzip")
    with pytest.raises(UnknownConnectorError, match="expected gzip"):
        replay(tmp_path / "x.gz", plain_config())
    with pytest.raises(UnknownConnectorError, match="did you mean 'csv'"):
        replay(path, plain_config(), format="cvs")


# --- late labels ---------------------------------------------------------------------------------


def late_config(by: str) -> Config:
    return Config(
        readings=ReadingsSection(topic="s/{device}/readings", sequence="n", time="t"),
        labels=LabelsSection(topic="s/{device}/label", **{by: "n" if by == "sequence" else "t"}),
        model=ModelSection(type="GLVQ"),
    )


def write_late(path: Path, log: list[Row], delay: int = 7) -> Path:
    """Readings, and the label of each some readings later."""
    messages = []
    for k in range(len(log) + delay):
        if k < len(log):
            row = log[k]
            body = {"t": row.t, "n": k, **dict(zip(FEATURES, row.values, strict=True))}
            messages.append(Message(f"s/{row.pump}/readings", json.dumps(body).encode(), row.t))
        if 0 <= k - delay < len(log):
            row = log[k - delay]
            body = {"t": row.t, "n": k - delay, "label": row.state}
            messages.append(Message(f"s/{row.pump}/label", json.dumps(body).encode(), row.t + 5))
    with open_writer(path) as writer:
        writer.write(messages)
    return path


@pytest.mark.parametrize("by", ["sequence", "time"])
def test_late_labels_are_learnt_and_judged(tmp_path: Path, by: str) -> None:
    log = rows(300)
    path = write_late(tmp_path / "log.messages", log)
    report = replay(path, late_config(by), decisions=tmp_path / "decisions.jsonl")
    assert (report.readings, report.late_labels, report.learnt) == (300, 300, 300)
    made = decisions_of(tmp_path / "decisions.jsonl")
    right = sum(one["label"] == row.state for one, row in zip(made, log, strict=True))
    assert report.accuracy == right / 300
    assert right > 200
    assert report.devices[0].labelled == 100
    assert sum(label is not None for label in report.tracks[0].true) == len(report.tracks[0].true)
    assert "of them late" in summary(report)


def test_late_labels_without_learning(tmp_path: Path) -> None:
    path = write_late(tmp_path / "log.messages", rows(200))
    config = late_config("sequence")
    monitor = load_monitor(config)
    replay(path, config, monitor=monitor)
    before = monitor.models()[""].samples
    report = replay(path, config, monitor=monitor, learn=False)
    assert monitor.models()[""].samples == before
    assert report.learnt == 0


# --- snapshots -----------------------------------------------------------------------------------


def test_going_on_from_a_file_is_as_if_never_stopped(tmp_path: Path) -> None:
    log, config = rows(400), chain_config("LGMLVQ")
    whole = write_csv(tmp_path / "whole.csv", log)
    replay(whole, config, decisions=tmp_path / "whole.jsonl")
    first, second = (
        write_csv(tmp_path / "a.csv", log[:170]),
        write_csv(tmp_path / "b.csv", log[170:]),
    )
    monitor = load_monitor(config)
    replay(first, config, monitor=monitor)
    save_monitor(monitor, tmp_path / "half.slvq")
    again = load_monitor(config, tmp_path / "half.slvq")
    replay(second, config, monitor=again, decisions=tmp_path / "rest.jsonl")
    assert decisions_of(tmp_path / "rest.jsonl") == decisions_of(tmp_path / "whole.jsonl")[170:]


def test_snapshots_of_daemons_and_damaged_ones(tmp_path: Path) -> None:
    config = plain_config()
    monitor = load_monitor(config)
    replay(write_csv(tmp_path / "log.csv", rows(100)), config, monitor=monitor)
    store = SnapshotFiles(tmp_path / "state")
    store.write(monitor.checkpoint(), 3)
    newest = store.write(monitor.checkpoint(), 7)
    newest.write_bytes(newest.read_bytes()[:-1] + b"!")
    loaded = load_monitor(config, tmp_path / "state")  # the older one, which is good
    assert loaded.checkpoint() == monitor.checkpoint()
    assert "GLVQ of all devices" in inspect(tmp_path / "state")
    with pytest.raises(SnapshotError, match=str(newest.name)):
        load_monitor(config, newest)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match="expected a valid snapshot in this folder"):
        inspect(tmp_path / "empty")


def test_a_snapshot_of_another_model_is_refused(tmp_path: Path) -> None:
    trained = train(write_csv(tmp_path / "log.csv", rows(100)), plain_config("GLVQ"))
    trained.snapshot().save(tmp_path / "glvq.slvq")
    with pytest.raises(StreamLVQError, match="GLVQ"):
        load_monitor(plain_config("GMLVQ"), tmp_path / "glvq.slvq")


# --- train ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("make", [plain_config, chain_config])
def test_train_makes_a_start(tmp_path: Path, epochs: int, make: Any) -> None:
    config = make("GMLVQ")
    path = write_csv(tmp_path / "log.csv", rows(500))
    trained = train(path, config, epochs=epochs, hold_out=0.2)
    assert trained.held_out is not None
    assert trained.held_out.labelled == 100
    assert trained.held_out.learnt == 0
    assert trained.held_out.accuracy is not None
    assert trained.held_out.accuracy > 0.85
    assert (trained.learnt is None) == (epochs > 1)
    assert "held out" in trained.summary()
    trained.snapshot("bench").save(tmp_path / "first.slvq")
    snapshot = Snapshot.load(tmp_path / "first.slvq")
    assert snapshot.node == "bench"
    assert set(snapshot.labels) == set(STATES)
    fresh = replay(write_csv(tmp_path / "new.csv", rows(60, seed=9)), config)
    known = replay(
        tmp_path / "new.csv", config, monitor=load_monitor(config, tmp_path / "first.slvq")
    )
    assert fresh.accuracy is not None
    assert known.accuracy is not None
    assert known.accuracy > fresh.accuracy
    assert known.reasons.get("no_model", 0) == 0


def test_one_epoch_is_a_replay(tmp_path: Path) -> None:
    config, path = plain_config(), write_csv(tmp_path / "log.csv", rows(200))
    monitor = load_monitor(config)
    report = replay(path, config, monitor=monitor)
    trained = train(path, config, hold_out=0.0)
    assert trained.held_out is None
    assert trained.learnt is not None
    assert trained.learnt.accuracy == report.accuracy
    assert trained.monitor.checkpoint() == monitor.checkpoint()


def test_train_is_repeatable(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(200))
    made = [train(path, plain_config(), epochs=2, seed=s).snapshot().to_bytes() for s in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_train_learns_one_model_for_all_devices(tmp_path: Path) -> None:
    config = msgspec.structs.replace(plain_config(), model=ModelSection(type="GLVQ", per="device"))
    trained = train(write_csv(tmp_path / "log.csv", rows(90)), config)
    assert trained.snapshot().samples == 90


@pytest.mark.parametrize("epochs", [1, 2])
def test_train_with_late_labels(tmp_path: Path, epochs: int) -> None:
    path = write_late(tmp_path / "log.messages", rows(300))
    trained = train(path, late_config("sequence"), epochs=epochs)
    assert set(trained.snapshot().labels) == set(STATES)
    assert trained.snapshot().samples >= 280


@pytest.mark.parametrize("epochs", [1, 2])
def test_train_without_labels_says_so(tmp_path: Path, epochs: int) -> None:
    path = write_csv(tmp_path / "log.csv", rows(50, labelled=0.0))
    with pytest.raises(StreamLVQError, match="--label"):
        train(path, plain_config(), epochs=epochs)


# --- feeds ---------------------------------------------------------------------------------------


def test_a_feed_closes_its_log(tmp_path: Path) -> None:
    feed = LogReader(write_csv(tmp_path / "log.csv", rows(10)), plain_config())
    (portion,) = feed
    (readings,) = portion.events
    assert isinstance(readings, Readings)
    assert with_columns(readings).devices[:2] == ["pump0", "pump1"]
    assert feed.progress[0] == feed.progress[1] == (tmp_path / "log.csv").stat().st_size


def test_without_a_rejector_nothing_is_rejected(tmp_path: Path) -> None:
    """The first readings get no answer, as fewer than two classes are known."""
    path = write_csv(tmp_path / "log.csv", rows(60))
    report = replay(path, plain_config())
    assert report.reasons.keys() == {"no_model"}
    count = report.reasons["no_model"]
    text = summary(report)
    assert f"no answer    {plural(count, 'reading')}, before two classes were known" in text
    assert "rejected     " not in text and "accepted     " not in text
