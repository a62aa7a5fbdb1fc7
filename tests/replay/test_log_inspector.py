"""What a replay says about how it read a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from streamlvq.config import Config, Fields, ModelSection, ReadingsSection
from streamlvq.connect import Message
from streamlvq.events import Hint, Readings
from streamlvq.metrics import AccuracyRejectCurve
from streamlvq.replay import explain_empty, replay, summary, train
from streamlvq.replay.live import open_writer
from streamlvq.replay.report import (
    ADVICE,
    CURVE_RATES,
    Curve,
    attainable,
    feature_lines,
    refused_lines,
)
from streamlvq.replay.run import INSPECTED_READINGS, LogInspector
from support.replays import FEATURES, plain_config, rows, write_csv, write_jsonl


def readings(columns: dict[str, Any], devices: list[str] | None = None) -> Readings:
    return Readings.of(list(columns), np.array(list(columns.values())).T, devices=devices)


def config(**fields: Any) -> Config:
    return Config(readings=ReadingsSection(**fields), model=ModelSection(type="GLVQ"))


# --- features ------------------------------------------------------------------------------------


def test_features_are_named_in_the_summary(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "log.csv", rows(60))
    report = replay(path, plain_config())
    assert report.features == list(FEATURES)
    assert report.notes == []
    assert "features     4: pressure, current, noise, heat\n" in summary(report)
    assert "features     4: pressure, current" in train(path, plain_config()).summary()


def test_many_features_are_shortened() -> None:
    [line] = feature_lines([f"f{k}" for k in range(1500)])
    assert line.startswith("features     1 500: f0, f1, ")
    assert line.endswith("f11 and 1 488 more")
    assert feature_lines([]) == []


# --- clocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_csv, write_jsonl])
def test_a_clock_that_is_learnt_is_noticed(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / f"log.{'csv' if write is write_csv else 'jsonl'}", rows(90))
    report = replay(path, config(label="state", device="pump"))
    assert "'t' was learnt, but only ever rises: is 't' the time? name it with --time" in (
        report.notes
    )
    assert "is 't' the time?" in summary(report)
    assert "is 't' the time?" in train(path, config(label="state", device="pump")).summary()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (Fields(), "is 'n' the time? name it with --time"),
        (Fields(time="t"), "is 'n' a counter? name it with --sequence"),
        (Fields(time="t", sequence="k"), "leave it out by naming the others with --feature"),
    ],
)
def test_what_to_do_about_a_counter(fields: Fields, words: str) -> None:
    look = LogInspector(fields)
    look.see(readings({"n": range(30), "x": np.sin(range(30))}))
    assert words in look.notes()[-1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (Fields(), "name the time with --time and a counter with --sequence, and leave out"),
        (Fields(time="t"), "name a counter with --sequence, and leave out"),
    ],
)
def test_one_question_about_several_clocks(fields: Fields, words: str) -> None:
    look = LogInspector(fields)
    look.see(readings({"n": range(30), "x": np.sin(range(30)), "ms": range(0, 300, 10)}))
    [note] = [note for note in look.notes() if "rise" in note]
    assert note.startswith("'n' and 'ms' were learnt, but only ever rise: which is which?")
    assert words in note


def test_clocks_of_several_devices() -> None:
    clocks = [t + 1000 * (k % 2) for k, t in enumerate(range(60))]
    look = LogInspector(Fields(device="who"))
    look.see(readings({"t": clocks}, ["a", "b"] * 30))
    assert look.rising() == ["t"]
    look = LogInspector(Fields())
    look.see(readings({"t": clocks}))
    assert look.rising() == []


@pytest.mark.parametrize(
    ("column", "rising"),
    [
        (list(range(11)), True),
        (list(range(10)), False),  # too few to say
        ([k // 3 for k in range(90)], True),  # three devices that nobody tells apart
        ([k // 50 for k in range(1000)], False),  # a setting that is raised now and then
        ([*range(500), 3, *range(500, 600)], False),
        ([*range(INSPECTED_READINGS), 0, 0], True),  # what comes later does not matter
        ([5.0] * 100, False),
        ([k if k % 7 else np.nan for k in range(100)], True),
    ],
)
def test_what_rises(column: list[float], rising: bool) -> None:
    for size in (7, len(column)):
        look = LogInspector(Fields())
        for start in range(0, len(column), size):
            look.see(readings({"x": column[start : start + size]}))
        assert look.rising() == ["x"] * rising


def test_features_that_were_named_are_meant() -> None:
    look = LogInspector(Fields(features=["n"]))
    look.see(readings({"n": range(30)}))
    assert look.notes() == []


# --- names that nothing has ----------------------------------------------------------------------


def test_names_that_no_payload_has(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "log.jsonl", rows(20))
    fields = {"label": "Heat", "time": "when", "sequence": "number", "device": "pump"}
    notes = replay(path, config(**fields)).notes
    assert notes[:4] == [
        "left out, because they are not numbers: state",
        "no reading had 'Heat'; did you mean 'heat'?",
        "no reading had 'when': is --time right?",
        "no reading had 'number': is --sequence right?",
    ]


def test_names_that_no_line_has(tmp_path: Path) -> None:
    path = tmp_path / "log.lp"
    path.write_text('pump x=1.5,state="on" 1700000000000000000\n')
    assert replay(path, config(label="sate")).notes == ["no reading had 'sate': is --label right?"]
    assert replay(path, config(label="state")).notes == []


@pytest.mark.parametrize(("time", "noted"), [("t", False), ("when", True)])
def test_times_of_recordings(tmp_path: Path, time: str, noted: bool) -> None:
    path = tmp_path / "log.messages"
    with open_writer(path) as writer:
        payloads = [b'{"t": %d, "x": %d}' % (k, k % 3) for k in range(5)]
        writer.write([Message("sensors/p/readings", p, 1.0 + k) for k, p in enumerate(payloads)])
    report = replay(path, config(time=time))
    assert report.readings == 5
    assert report.notes == ["no reading had 'when': is --time right?"] * noted


# --- what was refused ----------------------------------------------------------------------------


def test_refusals_in_words() -> None:
    assert refused_lines({}, []) == []
    assert refused_lines({"row": 1}, ["line 3: no"]) == [
        "refused      1 row; such as",
        "             line 3: no",
    ]
    head = refused_lines({"payload": 1200, "topic": 2, "odd": 1}, [])[0]
    assert head == "refused      1 203: unreadable payload 1 200, unknown topic 2, odd 1; such as"


def test_why_nothing_was_read() -> None:
    assert "--config" in explain_empty({"topic": 3}, ["line 1: expected a topic like a, got b"], [])
    advice = explain_empty({"field": 3}, ["line 1: t: ..."], [], ["numeric_time"])
    assert "--time-unit s, ms, us or ns" in advice
    assert explain_empty({"row": 3, "topic": 1}, ["line 1: x"], []) == (
        "all 4 were refused; the first: line 1: x"
    )
    assert explain_empty({}, [], ["the file is empty"]) == "the file is empty"
    assert "--format" in explain_empty({}, [], [])


def test_times_as_numbers_have_a_hint_though_some_were_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"x": 1, "t": 5}\n{"x": 1, "t": "2024-05-01T12:00:00Z"}\n')
    report = replay(path, config(time="t", time_unit="iso"))
    assert report.readings == 1
    assert report.hints == {"numeric_time": 1}
    assert "--time-unit s, ms, us or ns" in summary(report)


def test_other_texts_as_times_have_no_hint(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"x": 1, "t": 5}\n{"x": 1, "t": "noon on 2024-05-01"}\n{"x": 1, "t": [5]}\n')
    report = replay(path, config(time="t"))
    assert report.refused == {"field": 2}
    assert report.hints == {}
    assert "--time-unit" not in summary(report)


def test_every_hint_has_advice() -> None:
    assert set(ADVICE) == set(get_args(Hint))


# --- what could be -------------------------------------------------------------------------------


def curve_of(right: list[bool], certainties: list[float]) -> Curve:
    metric = AccuracyRejectCurve()
    metric.update_many(right, [True] * len(right), certainties)
    rates, accuracies, thresholds = metric.points()
    return Curve(area=0.0, reject_rates=rates.tolist(), accuracies=accuracies.tolist(),
                 thresholds=thresholds.tolist())  # fmt: skip


def test_two_readings_promise_nothing(tmp_path: Path) -> None:
    assert attainable(curve_of([False, False], [0.2, 0.7])) == []
    assert attainable(curve_of([False, True] * 50, [0.5] * 100)) == []  # all together or none
    path = write_csv(tmp_path / "log.csv", rows(2, devices=1))
    assert "could be" not in summary(replay(path, plain_config()))


def test_promises_can_be_kept() -> None:
    random = np.random.default_rng(3)
    certainties = (random.random(400) * 8).round() / 8  # many ties
    right = random.random(400) < 0.5 + certainties / 2
    points = attainable(curve_of(right.tolist(), certainties.tolist()))
    assert points
    for rate, accuracy in points:
        assert rate <= max(CURVE_RATES)
        matches = [
            threshold
            for threshold in np.unique(certainties)
            if (certainties < threshold).mean() == pytest.approx(rate)
            and right[certainties >= threshold].mean() == pytest.approx(accuracy)
        ]
        assert len(matches) == 1


def test_reports_of_before_can_be_read(tmp_path: Path) -> None:
    report = replay(write_csv(tmp_path / "log.csv", rows(5)), plain_config())
    old = msgspec.json.decode(report.to_json())
    del old["features"], old["notes"]
    read = type(report).from_json(msgspec.json.encode(old))
    assert (read.features, read.notes) == ([], [])
