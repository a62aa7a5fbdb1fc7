"""`replay`, `train`, `inspect` and `fuse` of what learns under privacy."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from streamlvq.cli import main
from streamlvq.config import Config, check
from streamlvq.privacy.ledger import read_ledger
from streamlvq.role import Health
from streamlvq.service.journal import Received
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.state_store import StateStore
from streamlvq.snapshot import Snapshot, SnapshotFiles
from support.private import FEATURES, PRIVACY, readings_of

SECTIONS: dict[str, Any] = {
    "readings": {"features": list(FEATURES), "label": "y", "time": "t", "sequence": "n"},
    "model": {"type": "PrivateLVQ"},
    "privacy": PRIVACY,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, a configuration, and the state of a daemon that has learnt as many readings."""
    folder = tmp_path_factory.mktemp("private")
    rows = [json.loads(message.payload) for message in readings_of(900)]
    names = [*FEATURES, "t", "n", "y"]
    lines = [",".join(names), *(",".join(str(row[name]) for name in names) for row in rows)]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    sections = {**SECTIONS, "state": {"folder": str(folder / "state")}}
    sections["readings"] = {**SECTIONS["readings"], "topic": "plant/{device}/readings"}
    (folder / "node.yaml").write_text(yaml.safe_dump(sections))
    config = check(msgspec.convert(sections, Config))
    health = Health(config.health)
    store = StateStore(config, health, ServiceMetrics(health, 1))
    processor = store.restore(config, print)
    messages = readings_of(900)
    store.append(Received(messages))
    processor.process(messages)
    health.unsaved = True
    assert store.save(processor.monitor)
    store.close()
    return folder


def young_state(path: Path) -> Path:
    """The state of a private daemon that has just been started."""
    sections = {**SECTIONS, "state": {"folder": str(path)}}
    sections["readings"] = {**SECTIONS["readings"], "topic": "plant/{device}/readings"}
    config = check(msgspec.convert(sections, Config))
    health = Health(config.health)
    store = StateStore(config, health, ServiceMetrics(health, 1))
    store.restore(config, print)
    store.close()
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main([str(each) for each in arguments]) == 0
    return capsys.readouterr().out


def test_a_replay_works_and_leaves_the_ledger_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = folder / "state" / "privacy.ledger"
    before = ledger.read_bytes()
    text = said(capsys, "replay", folder / "log.csv", "--config", folder / "node.yaml")
    assert "900" in text
    assert ledger.read_bytes() == before


def test_training_writes_what_was_released(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ledger = folder / "state" / "privacy.ledger"
    before, out = ledger.read_bytes(), tmp_path / "first.slvq"
    config = folder / "node.yaml"
    said(capsys, "train", folder / "log.csv", "--config", config, "-o", out)
    snapshot = Snapshot.load(out)
    assert (snapshot.type_name, len(snapshot.labels)) == ("GMLVQ", 3)
    assert not snapshot.has_readings
    assert ledger.read_bytes() == before
    again = ["train", folder / "log.csv", "--config", config, "-o", out, "--epochs", "2"]
    assert main([str(each) for each in again]) == 2
    assert "expected 1 epoch with privacy, got 2" in capsys.readouterr().err


def test_inspect_shows_model_and_ledger(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "inspect", folder / "state")
    assert "900 labelled readings, 15 releases; released:" in text
    assert "promised    epsilon 4, delta 1e-05\n" in text
    assert "spent       epsilon 4, delta 1e-05 for each reading\n" in text
    assert "releases    15, of which the vectors from 0 on are kept; 16 reserved\n" in text
    alone = said(capsys, "inspect", folder / "state" / "privacy.ledger")
    assert text.endswith(alone)
    head = read_ledger(folder / "state" / "privacy.ledger").head.hex()
    assert alone.endswith(f"head        {head}\n")


def test_fusing_a_state_folder_uses_what_was_released(folder: Path) -> None:
    from streamlvq.monitor.files import load_snapshots

    (snapshot,) = load_snapshots(folder / "state")
    assert snapshot.type_name == "GMLVQ"


def test_audits_of_a_state_folder_leave_out_snapshots_without_a_release_and_run_its_mechanism(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ("--attack", "counts-and-means,noise-scale", "--fail-on", "never")
    text = " ".join(said(capsys, "audit", folder / "state", *how).split())
    assert text.startswith("1 snapshot of 1 node ")
    assert "left out 1 snapshot without a release" in text
    assert "noise-scale: noise is " in text
    assert "needs a private model" not in text


def test_audits_of_a_young_state_folder_say_that_it_has_published_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = young_state(tmp_path / "state")
    (snapshot,) = SnapshotFiles(state).paths()
    for what in (state, snapshot):
        assert main(["audit", str(what)]) == 2
        error = capsys.readouterr().err
        assert f"{what}: expected a release of its private model, got none so far" in error
        assert "`streamlvq audit CONFIG` audits the mechanism alone" in error


def test_an_audit_counts_no_readings_of_noisy_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ("--attack", "counts-and-means,pair-from-spread", "--every", "40")
    config = ("--config", folder / "node.yaml")
    text = said(capsys, "audit", folder / "log.csv", *config, *how)
    assert "labelled readings exactly" in text
    assert "new readings" not in " ".join(text.split())


def test_inspect_says_if_the_ledger_is_missing_or_behind_the_state(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "warning" not in said(capsys, "inspect", folder / "state")
    state = tmp_path / "state"
    shutil.copytree(folder / "state", state)
    ledger = state / "privacy.ledger"
    older = young_state(tmp_path / "young") / "privacy.ledger"
    ledger.write_bytes(older.read_bytes())
    start = "warning: the daemon will not start with this folder: expected a ledger of at least 15"
    text = said(capsys, "inspect", state)
    assert start in text and f"got 0 in {ledger}: an older ledger was put back" in text
    ledger.unlink()
    text = said(capsys, "inspect", state)
    assert start in text and f"got 0 in {ledger}: the ledger is missing" in text
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("promise", "message"),
    [
        (
            {"unit": "segment", "segment": 1000, "epsilon": 0.01},
            "privacy.segment: expected a promise with noise up to 16384, got",
        ),
        ({"epsilon": 1e-4}, "privacy.epsilon: expected a promise with noise up to 16384, got"),
    ],
)
def test_a_promise_that_only_noise_could_keep_is_named_by_its_key(
    promise: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {**SECTIONS, "privacy": {**PRIVACY, **promise}}
    sections["readings"] = {**SECTIONS["readings"], "topic": "plant/{device}/readings"}
    path = tmp_path / "node.yaml"
    path.write_text(yaml.safe_dump(sections))
    assert main(["config", "check", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    key = message.split(":", maxsplit=1)[0].removeprefix("privacy.")
    at = 1 + next(
        k for k, s in enumerate(path.read_text().splitlines()) if s.startswith(f"  {key}:")
    )
    assert f"{path}:{at}: {message}" in line
    assert "protect a smaller unit" in line and "raise epsilon" in line
