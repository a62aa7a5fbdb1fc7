"""`streamlvq audit`: what it prints, writes and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import streamlvq
from streamlvq.cli import main
from streamlvq.registry import ATTACKS
from streamlvq.snapshot import Snapshot
from support.publications import FEATURES, gaussians, published

MONITOR = """\
readings: {label: state}
model: {type: GLVQ}
fleet: {name: presses, trust: everyone, min_new_per_class: %d}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two snapshots one reading apart, the log they learnt, and configurations."""
    rows, labels = gaussians(120)
    model = streamlvq.GLVQ()
    for name, snapshot in zip("ab", published(model, rows, labels, 119), strict=True):
        Snapshot(snapshot.estimator_state(), "york").save(tmp_path / f"{name}.slvq")
    lines = [",".join([*FEATURES, "state"])]
    lines += [",".join([*map(repr, r.tolist()), y]) for r, y in zip(rows, labels, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    (tmp_path / "open.yaml").write_text(MONITOR % 1)
    (tmp_path / "careful.yaml").write_text(MONITOR % 10)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    assert main(["audit", *arguments]) == status
    return capsys.readouterr().out


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["audit", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamlvq: error: ") and err.count("\n") == 1
    return err


def test_two_snapshots_and_their_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, 1, "a.slvq", "b.slvq", "--log", "log.csv", "--label", "state")
    assert text.startswith("2 snapshots of 1 node\n")
    assert "counts-and-means  exact" in text
    assert "reading of class c" in text and "reconstructed" in text and "true" in text
    assert "change: publish a class only after at least 10 new readings" in text
    assert text.rstrip().endswith("attacks succeeded")


def test_one_attack_and_what_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ("a.slvq", "b.slvq")
    one = said(capsys, 1, *files, "--attack", "counts-and-means")
    assert "membership" not in one
    said(capsys, 0, *files, "--attack", "counts-and-means", "--fail-on", "never")
    said(capsys, 1, *files, "--attack", "counts-and-means", "--fail-on", "exact")
    said(capsys, 0, *files, "--fail-on", "metric-change,membership")
    assert said(capsys, 0, "a.slvq", "--attack", "metric-change,sign-of-beta", "--quiet") == ""


def test_the_same_file_twice_tells_nothing_new(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "feature-means,gradient-lines,metric-change,sign-of-beta"
    text = said(capsys, 0, "a.slvq", "a.slvq", "--attack", steps)
    assert "no attack that applies succeeded" in text


def test_a_log_with_and_without_holding_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ("--every", "1", "--attack", "counts-and-means", "--attack", "pair-from-spread")
    text = said(capsys, 1, "log.csv", "--config", "open.yaml", *how)
    assert "120 of 120 labelled readings exactly" in text
    assert "one after every 1 labelled reading" in text
    text = said(capsys, 0, "log.csv", "--config", "careful.yaml", *how)
    assert "a class always had at least 10 new readings" in " ".join(text.split())


def test_a_configuration_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, 0, "careful.yaml", "--attack", "counts-and-means")
    assert "readings are those of a simulated machine" in text


def test_page_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    what = ("a.slvq", "b.slvq", "--log", "log.csv", "--label", "state")
    text = said(capsys, 1, *what, "--report", "audit.html", "--json", "audit.json")
    assert text.rstrip().endswith("audit.html")
    page = Path("audit.html").read_text(encoding="utf-8")
    assert "What an outsider learns" in page
    found = json.loads(Path("audit.json").read_text(encoding="utf-8"))
    assert [each["attack"] for each in found["findings"]] == list(ATTACKS)
    exact = next(each for each in found["findings"] if each["attack"] == "counts-and-means")
    assert exact["verdict"] == "exact"
    assert exact["shown"][0]["error"] < 1e-9
    printed = json.loads(said(capsys, 1, "a.slvq", "b.slvq", "--json", "-"))
    assert printed["subject"] == "2 snapshots of 1 node"


def test_usage_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "expected snapshots alone, got 'log.csv'" in wrong(capsys, "a.slvq", "log.csv")
    assert "expected one log or configuration, got 2" in wrong(capsys, "log.csv", "open.yaml")
    assert "did you mean 'stored'" in wrong(capsys, "a.slvq", "--attack", "stred")
    assert "--fail-on: expected one of any" in wrong(capsys, "a.slvq", "--fail-on", "all")
    assert "expected together with snapshots" in wrong(capsys, "log.csv", "--log", "log.csv")
    assert "--every: expected together with a log" in wrong(capsys, "a.slvq", "--every", "2")
    assert "missing.slvq" in wrong(capsys, "missing.slvq")
    text = wrong(capsys, "open.yaml", "--config", "open.yaml")
    assert "got two configurations" in text
    assert "expected a file of its own" in wrong(capsys, "a.slvq", "--report", "a.slvq")


def test_help_says_what_attacks_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["audit", "--help"])
    text = capsys.readouterr().out
    assert all(name in text and ATTACKS.summary(name) in text for name in ATTACKS)
    assert "Exit status: 0 if no attack succeeded" in text
