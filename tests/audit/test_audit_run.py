"""Audits of logs, configurations and state folders, before and after holding back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from streamlvq import GLVQ
from streamlvq.audit import (
    AuditError,
    AuditVerdict,
    audit_config,
    audit_log,
    audit_snapshots,
    load_publications,
    truth_of_log,
)
from streamlvq.config import Config, FleetSection, ModelSection, ReadingsSection, loads
from streamlvq.events import Readings
from streamlvq.monitor import Monitor
from streamlvq.registry import ATTACKS, UnknownNameError
from streamlvq.snapshot import SnapshotFiles
from support.publications import FEATURES, gaussians, published

STATISTICS = ["counts-and-means", "pair-from-spread"]


def write_log(path: Path, count: int = 400, timed: bool = True) -> Path:
    rows, labels = gaussians(count)
    lines = [",".join([*(["t"] if timed else []), *FEATURES, "state"])]
    for k, (row, label) in enumerate(zip(rows, labels, strict=True)):
        cells = [repr(float(value)) for value in row]
        lines.append(",".join([*([str(10 * k)] if timed else []), *cells, label]))
    path.write_text("\n".join(lines))
    return path


def config(min_new: int = 10, model: str = "GLVQ", timed: bool = True, **fleet: float) -> Config:
    section = FleetSection(name="f", trust="everyone", min_new_per_class=min_new, **fleet)  # type: ignore[arg-type]
    return Config(
        readings=ReadingsSection(label="state", time="t" if timed else None),
        model=ModelSection(type=model),
        fleet=section,
    )


def test_counts_and_means_succeed_before_holding_back_and_fail_after(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv")
    before = audit_log(log, config(min_new=1), every=1, attacks=STATISTICS)
    found = before["counts-and-means"]
    assert found.verdict is AuditVerdict.EXACT
    assert found.figures["exact"] >= 399
    assert all(one.error is not None and one.error < 1e-9 for one in found.shown)
    after = audit_log(log, config(), every=1, attacks=STATISTICS)
    assert not after.succeeded
    assert after["counts-and-means"].verdict is AuditVerdict.NOTHING
    assert "at least 10 new readings" in after["counts-and-means"].measure


def test_publications_come_when_the_fleet_wants_them(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv")  # 4000 s
    wanted = config(1, publish_seconds=500.0, publish_after=1000, min_samples=50)
    report = audit_log(log, wanted, attacks=STATISTICS)
    # At 490 s, then every 500 s.
    assert report["counts-and-means"].figures["publications"] == 8
    assert report.notes[-1] == "8 publications, at the times that `fleet` asks for"
    untimed = write_log(tmp_path / "other.csv", timed=False)
    report = audit_log(untimed, config(1, timed=False, publish_after=150), attacks=STATISTICS)
    assert report.notes[-1] == "2 publications, one after every 150 labelled readings"


def test_long_logs_are_cut_and_say_so(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv")
    report = audit_log(log, config(1), every=50, limit=100, attacks=STATISTICS)
    assert report.notes[0] == "only the first 100 readings were audited"
    assert report["counts-and-means"].figures["readings"] == 100


def test_prototypes_of_what_is_published_are_judged_by_their_birth(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv")
    for least in (1, 10):
        report = audit_log(log, config(least), every=20, attacks=["nearest-to-born"])
        figures = report["nearest-to-born"].figures
        assert figures["born"] == figures["prototypes"] > 3
        assert "indices of birth" not in report["nearest-to-born"].measure


def test_every_attack_runs_on_a_configuration_alone() -> None:
    report = audit_config(Config(model=ModelSection(type="GMLVQ")))
    assert [finding.attack for finding in report.findings] == list(ATTACKS)
    assert all(finding.measure for finding in report.findings)
    assert report.notes[0] == "no log was given: the readings are those of a simulated machine"


@pytest.mark.parametrize("model", ["LVQCommittee", "PairwiseLVQ", "LVQ1"])
def test_other_models_are_audited_too(tmp_path: Path, model: str) -> None:
    log = write_log(tmp_path / "log.csv", 200)
    attacks = [*STATISTICS, "nearest-to-born", "gradient-lines", "metric-change", "sign-of-beta"]
    report = audit_log(log, config(1, model), every=1, attacks=attacks)
    assert report["counts-and-means"].verdict is AuditVerdict.EXACT


def test_a_transform_is_undone(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv", 200)
    plain = config(1)
    model = msgspec.structs.replace(plain.model, transform="log")
    report = audit_log(log, msgspec.structs.replace(plain, model=model), every=1)
    found = report["counts-and-means"]
    assert found.verdict is AuditVerdict.EXACT
    assert found.shown[0].error is not None and found.shown[0].error < 1e-8


def test_a_state_folder_is_audited_as_its_daemon_would_publish(tmp_path: Path) -> None:
    rows, labels = gaussians(200)
    wanted = config(1)
    monitor, files = Monitor(wanted), SnapshotFiles(tmp_path / "state")
    for k in range(200):
        monitor.step(Readings.of(FEATURES, rows[k : k + 1], labels=[labels[k]]))
        if k >= 197:
            files.write(monitor.checkpoint(), k)
    snapshots, notes = load_publications(tmp_path / "state", 1)
    assert [snapshot.samples for snapshot in snapshots] == [198, 199, 200]
    assert not any(snapshot.has_readings for snapshot in snapshots)
    assert any("in no fleet" in note for note in notes)
    assert audit_snapshots(snapshots)["counts-and-means"].figures["exact"] == 2
    (first, *later), _ = load_publications(tmp_path / "state")
    assert first.node == "state"
    assert not audit_snapshots([first, *later], attacks=STATISTICS).succeeded
    with pytest.raises(AuditError, match="expected the state folder of a daemon"):
        load_publications(tmp_path)


def test_a_log_tells_how_good_attacks_on_snapshots_are(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.csv", 200)
    rows, labels = gaussians(200)
    snapshots = list(published(GLVQ(), rows, labels, 198))
    truth = truth_of_log(log, config())
    assert np.allclose(truth.rows, rows)
    shown = audit_snapshots(snapshots, truth)["counts-and-means"].shown
    assert len(shown) == 2
    assert all(one.truth is not None for one in shown)


def test_what_cannot_be_audited_says_why(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="expected at least one snapshot, got none"):
        audit_snapshots([])
    log = write_log(tmp_path / "log.csv", 20)
    bare = Config(readings=ReadingsSection(features=list(FEATURES)))
    with pytest.raises(AuditError, match="expected readings with a label, got none"):
        audit_log(log, bare)
    with pytest.raises(UnknownNameError, match="attack: expected one of stored, counts-and-means"):
        audit_log(log, config(), attacks=["counts"])
    with pytest.raises(AuditError, match="fail_on: expected one of any, exact, never, got 'all'"):
        audit_log(log, config(), attacks=["stored"]).failures("all")


def test_snapshots_of_other_parameters_are_not_compared() -> None:
    rows, labels = gaussians(100)
    (first,) = published(GLVQ(), rows, labels, 100)
    (second,) = published(GLVQ(half_life=50), rows, labels, 100)
    report = audit_snapshots([first, second], attacks=STATISTICS)
    assert not report.succeeded


PRIVATE = """
readings: {label: state, time: t, features: [rms, heat]}
model: {type: PrivateLVQ}
state: {folder: state, journal: always}
privacy:
  epsilon: 4
  bounds: {rms: [0, 2], heat: [0, 120]}
  classes: [ok, worn]
  scale_batch: 64
  warmup: 128
  batch: 64
"""


def test_a_private_configuration_is_audited_with_its_mechanism() -> None:
    attacks = [*STATISTICS, "nearest-to-born", "membership", "known-others", "noise-scale"]
    report = audit_config(loads(PRIVATE), every=64, attacks=attacks)
    assert not report.succeeded
    assert report["noise-scale"].verdict is AuditVerdict.NOTHING
    assert report["known-others"].figures["error"] > report["known-others"].figures["mean_error"]
    assert report["counts-and-means"].figures["publications"] > 5
    assert report["membership"].verdict is AuditVerdict.NOT_APPLICABLE
    assert report.notes[0].startswith("no log was given: the readings are made up")
