"""The page of a replay: complete, readable without a network, safe whatever names things have."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

import streamlvq
from streamlvq.plot.style import colours_of
from streamlvq.replay import Report, load_monitor, replay
from streamlvq.report.replay_page import (
    course_drawing,
    model_pictures,
    moment,
    replay_html,
    time_axis,
    track_drawing,
)
from support.pages import read
from support.replays import chain_config, plain_config, rows, write_csv
from support.samples import blobs, taught

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, dict[str, Any]]:
    path = write_csv(tmp_path_factory.mktemp("log") / "plant.csv", rows(1500, labelled=0.9))
    config = chain_config("GMLVQ")
    monitor = load_monitor(config)
    return replay(path, config, monitor=monitor), monitor.models()


def test_the_page_shows_everything(replayed: tuple[Report, dict[str, Any]]) -> None:
    reader = read(replay_html(*replayed))
    words = " ".join(reader.words)
    for wanted in (
        "Replay of plant.csv", "1 500", "accuracy of accepted", "pump0", "pump2", "worn",
        "Labels and decisions", "Certainty", "recall", "What the model has learnt",
    ):  # fmt: skip
        assert wanted in words
    assert reader.tags.count("svg") >= 3 + 1  # a strip for each device, and the course
    assert reader.tags.count("img") == 4  # curve, reliability, relevances, prototypes


def test_the_page_needs_nothing_else(replayed: tuple[Report, dict[str, Any]]) -> None:
    text = replay_html(*replayed)
    reader = read(text)
    assert all(
        reference.startswith("data:image/svg+xml;base64,") for reference in reader.references
    )
    assert not re.search(r"https?:|//[a-z]+\.|@import|<script|<link|<iframe", text)
    assert re.findall(r"url\((.*?)\)", text) == ["#hatch"]
    for reference in reader.references:
        inner = base64.b64decode(reference.partition(",")[2]).decode()
        root = ElementTree.fromstring(inner)
        links = [v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href")]
        assert all(link.startswith(("#", "data:")) for link in links)


def test_the_same_replay_gives_the_same_page(replayed: tuple[Report, dict[str, Any]]) -> None:
    report, _ = replayed
    assert replay_html(report) == replay_html(Report.from_json(report.to_json()))


def test_light_and_dark(replayed: tuple[Report, dict[str, Any]]) -> None:
    text = replay_html(*replayed)
    assert "prefers-color-scheme: dark" in text
    used = set(re.findall(r"var\((--[a-z]+)\)", text)) - {"--share"}
    light, _, dark = text.partition("prefers-color-scheme: dark")
    for name in used:
        assert f"{name}:" in light
        assert f"{name}:" in dark


def test_names_cannot_break_the_page(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>&\'"'
    log = [row._replace(state=f"{evil}{row.state}", pump=f"{evil}{row.pump}") for row in rows(60)]
    report = replay(write_csv(tmp_path / "<b>.csv", log), plain_config())
    report.refused, report.refused_examples = {"<i>": 1}, [evil]
    reader = read(replay_html(report))
    assert "script" not in reader.tags
    assert "i" not in [tag for tag in reader.tags if tag == "script"]
    assert any(evil in word for word in reader.words)


def test_pages_of_little(tmp_path: Path) -> None:
    for count, labelled in ((0, 1.0), (1, 1.0), (5, 0.0)):
        config = plain_config()
        monitor = load_monitor(config)
        path = write_csv(tmp_path / "log.csv", rows(count, labelled=labelled))
        report = replay(path, config, monitor=monitor)
        assert "Replay of log.csv" in " ".join(read(replay_html(report, monitor.models())).words)


def test_without_matplotlib_it_says_what_to_install(
    replayed: tuple[Report, dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "report.json").write_bytes(replayed[0].to_json())
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
        "from streamlvq.replay import Report\n"
        "from streamlvq.report.replay_page import replay_html\n"
        "from streamlvq.errors import MissingExtraError\n"
        f"report = Report.from_json(open({str(tmp_path / 'report.json')!r}, 'rb').read())\n"
        "try: replay_html(report)\n"
        "except MissingExtraError as error: print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'streamlvq[plot]'" in out.stdout


def test_a_page_stays_small(replayed: tuple[Report, dict[str, Any]]) -> None:
    """However long the log, there are so many cells and no more."""
    report, _ = replayed
    track = report.tracks[0]
    worst = msgspec.structs.replace(
        track, decided=(["worn", "leak"] * len(track.decided))[: len(track.decided)]
    )
    assert len(track_drawing(worst, colours_of(report.confusion.labels))) < 200_000


# --- strips and axes -----------------------------------------------------------------------------


def boxes(drawing: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(drawing).iter("rect")]


def test_strips_cover_the_time_without_overlap(replayed: tuple[Report, dict[str, Any]]) -> None:
    report, _ = replayed
    drawing = track_drawing(report.tracks[0], colours_of(report.confusion.labels))
    strip = [b for b in boxes(drawing) if b.get("fill") and b["y"] == "5.0"]
    edges = [(float(b["x"]), float(b["x"]) + float(b["width"])) for b in strip]
    assert edges == sorted(edges)
    for (_, end), (start, _) in pairwise(edges):
        assert start == pytest.approx(end, abs=0.11)
    assert edges[0][0] == 84.0
    assert edges[-1][1] == pytest.approx(976.0, abs=0.11)


def test_gaps_in_time_stay_empty(replayed: tuple[Report, dict[str, Any]]) -> None:
    track = msgspec.structs.replace(replayed[0].tracks[0])
    half = len(track.first) // 2
    for times in (track.first, track.last):
        times[half:] = [t + 10_000 for t in times[half:] if t is not None]
    axis = time_axis(track.first, track.last, track.readings)
    assert axis.starts[half] - axis.ends[half - 1] > 0.5
    drawn = sum(float(b["width"]) for b in boxes(track_drawing(track, {})) if b["y"] == "5.0")
    assert drawn < 0.5 * 892


def test_axes() -> None:
    dates = time_axis([1.7e9, 1.7e9 + 60], [1.7e9 + 59, 1.7e9 + 120], [60, 60])
    assert dates.name == "time (UTC)"
    assert (dates.starts[0], dates.ends[-1]) == (0.0, 1.0)
    assert all(0 <= at <= 1 and re.fullmatch(r"\d\d:\d\d:\d\d", text) for at, text in dates.ticks)
    assert 2 <= len(dates.ticks) <= 9
    seconds = time_axis([0.0, 10.0], [9.0, 19.0], [10, 10])
    assert seconds.name == "time (s)"
    assert "10" in [text for _, text in seconds.ticks]
    for first in ([None, None], [5.0, 1.0]):
        assert time_axis(first, first, [10, 30]).name == "readings"
        assert time_axis(first, first, [10, 30]).ends == [0.25, 1.0]
    assert time_axis([], [], []).starts == []
    one = time_axis([5.0], [5.0], [1])
    assert (one.starts, one.ends) == ([0.0], [1.0])


@pytest.mark.parametrize("width", [0.01, 30, 4000, 90_000, 1e6, 1e8])
def test_ticks_are_few_and_within(width: float) -> None:
    axis = time_axis([1.7e9, 1.7e9 + width / 2], [1.7e9 + width / 2, 1.7e9 + width], [1, 1])
    assert len(axis.ticks) <= 9
    assert all(0 <= at <= 1 for at, _ in axis.ticks)


def test_moments() -> None:
    assert moment(1.7e9) == "2023-11-14 22:13:20 UTC"
    assert moment(12.5) == "12.5 s"
    assert moment(1e18) == "1e+18 s"


def test_course_leaves_out_what_is_not_known(replayed: tuple[Report, dict[str, Any]]) -> None:
    course = msgspec.structs.replace(replayed[0].course)
    course.labelled = [0] * len(course.labelled)
    drawing = ElementTree.fromstring(course_drawing(course))
    lines = {e.attrib["class"]: e.attrib["d"] for e in drawing.iter("path")}
    assert lines["line right"] == ""
    assert lines["line rejected"].startswith("M")


def test_colours_differ() -> None:
    names = [f"class {k}" for k in range(24)]
    colours = colours_of(names)
    assert len(set(colours.values())) == 24
    assert all(re.fullmatch(r"#[0-9A-Fa-f]{6}", colour) for colour in colours.values())


def test_a_committee_is_drawn_as_its_learner() -> None:
    X, y = blobs(80)
    model = taught(streamlvq.LVQCommittee(), X, y.tolist())
    assert model_pictures(model) == model_pictures(model.parts["learner"]) != []
    assert model_pictures(taught(streamlvq.LVQCommittee(members=["bins"]), X, y.tolist())) == []
