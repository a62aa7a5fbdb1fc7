"""The README: its example runs from top to bottom, and it stays short."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from support import ROOT
from support.walks import Walk, blocks, walked

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 250


def test_is_short() -> None:
    assert README.count("\n") <= MAX_LINES


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http|#)([^)#]+)[^)]*\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize(("page", "heading"), re.findall(r"\]\(([^)#]+\.md)#([^)]+)\)", README))
def test_links_lead_to_a_heading(page: str, heading: str) -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert heading in [re.sub(r"[^\w\- ]", "", name).lower().replace(" ", "-") for name in headings]


def test_figures_are_those_of_the_benchmarks_page() -> None:
    """The table is an extract of the one in docs/benchmarks.md."""
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    streams = {row[0]: set(row) for row in rows(page) if len(row) > 8}
    compared = [row for row in rows(README) if len(row) == 8]
    assert len(compared) == 10
    for row in compared:
        assert set(row) <= streams[row[0]], row[0]


def rows(page: str) -> list[list[str]]:
    """Cells of the rows of tables that hold numbers."""
    found = re.findall(r"^\| (.*\d.*) \|$", page, flags=re.MULTILINE)
    return [[cell.strip(" *") for cell in line.split("|")] for line in found]


# --- the example ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """The example, without the two commands above it, which have tests of their own."""
    with walked("README.md", tmp_path_factory.mktemp("readme"), first=2) as walk:
        yield walk


def test_example_runs(walk: Walk) -> None:
    for name in ("plant.csv", "monitor.yaml", "plant.html", "first.slvq", "state"):
        assert (walk.folder / name).exists(), name
    walk.stop_daemon()


def test_replay_has_the_figures_of_the_text(walk: Walk) -> None:
    (printed,) = [text for command, text in walk.printed.items() if " replay " in command]
    accuracy, accepted, rejected = (
        float(re.findall(rf"^{word} +([\d.]+) %", printed, flags=re.MULTILINE)[0])
        for word in ("accuracy", "accepted", "rejected")
    )
    told = re.search(r"([\d.]+) % are right, and ([\d.]+) % of the (\d+) % that it accepts", README)
    assert told is not None
    assert accuracy == pytest.approx(float(told[1]), abs=0.2)
    assert accepted == pytest.approx(float(told[2]), abs=0.2)
    assert 100 - rejected == pytest.approx(float(told[3]), abs=0.5)


def test_trial_run_shows_readings_and_decisions(walk: Walk) -> None:
    (printed,) = [text for command, text in walk.printed.items() if "--test" in command]
    assert "press-1" in printed
    assert "running" in printed


def test_daemon_decides(walk: Walk) -> None:
    if "mosquitto_sub -t 'plant/+/decision' -C 4" in walk.printed:
        lines = walk.printed["mosquitto_sub -t 'plant/+/decision' -C 4"].splitlines()
        decisions = [json.loads(line) for line in lines]
        (shown,) = [json.loads(block) for kind, block in blocks("README.md") if kind == "json"]
        assert [decision.keys() for decision in decisions] == [shown.keys()] * 4
        assert all(decision["version"] >= 8000 for decision in decisions)  # learnt by `train`
    for command, printed in walk.printed.items():
        if command.startswith("curl"):
            assert re.search(r"streamlvq_decisions_total\{.*\} [1-9]", printed)
