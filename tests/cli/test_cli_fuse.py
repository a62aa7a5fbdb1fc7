"""`streamlvq fuse`, mostly as a real process."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq.cli import main
from streamlvq.cli.commands.fuse import WEIGHTINGS, _file_name, add_arguments
from streamlvq.fusion import FusionReport, fuse, fuse_rounds
from streamlvq.fusion.fuse import WEIGHTINGS as ALL_WEIGHTINGS
from streamlvq.registry import AGGREGATORS, CORRECTIONS
from streamlvq.replay import load_monitor, load_snapshots, replay, save_monitor
from streamlvq.snapshot import Snapshot, SnapshotFiles, decode, encode
from support.pages import read
from support.replays import plain_config, rows, write_csv
from support.small_fleet import FEATURES, LABELS, OFF, accuracy, fleet, learnt

FILES = [f"{node}.slvq" for node in OFF]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The snapshots of a fleet, in the folder that the command runs in."""
    for snapshot in fleet():
        snapshot.save(tmp_path / f"{snapshot.node}.slvq")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints."""
    assert main(["fuse", *arguments]) == 0
    return capsys.readouterr().out


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a failing command says; it must have written nothing."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(["fuse", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamlvq: error: ")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err


# --- what it gives -------------------------------------------------------------------------------


def test_files_hold_the_same_bits_as_the_function(folder: Path) -> None:
    """As a real process, in any order."""
    command = [sys.executable, "-m", "streamlvq", "fuse", *reversed(FILES), "-o", "all.slvq",
               "--each", "own", "--for", "york=york-new.slvq",
               "--drift", "least_squares"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    fused = fuse(fleet(), drift="least_squares")
    assert (folder / "all.slvq").read_bytes() == fused.snapshot().to_bytes()
    for node in OFF:
        written = (folder / "own" / f"{node}.slvq").read_bytes()
        assert written == fused.snapshot(node).to_bytes()
    assert (folder / "york-new.slvq").read_bytes() == fused.snapshot("york").to_bytes()
    assert not list(folder.rglob(".*"))  # nothing unfinished
    assert "own/york.slvq" in done.stdout
    assert done.stderr == ""


def test_a_node_gains_a_class_and_keeps_its_coordinates(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, *FILES, "--each", "own")
    for node in OFF:
        model = Snapshot.load(folder / "own" / f"{node}.slvq").classifier()
        assert accuracy(model, node) > 0.97
    assert accuracy(fleet()[2].classifier(), "york") < 0.7
    assert "worn" in next(line for line in out.splitlines() if line.startswith("york"))


def test_the_table_says_what_became_of_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *lines = said(capsys, *FILES).splitlines()
    titles = ("node", "samples", "classes", "gained", "off by", "left over", "weight", "remarks")
    assert all(title in head for title in titles)
    assert [line.split()[0] for line in lines[:3]] == list(OFF)
    assert lines[2].split()[1:4] == ["240", "2", "worn"]
    text = "\n".join(lines)
    assert "correction   least_squares: with classes hidden from nodes" in text
    assert "log loss     none" in text
    assert "too few nodes to tell a mistake from the truth about worn" in text
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)  # nothing was asked for


def test_pools_are_shown_if_nodes_bring_their_readings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for node in OFF:
        Snapshot.of(learnt(node), node).save(f"{node}.slvq")
    out = said(capsys, *FILES, "--report", "fleet.html", "--json", "fleet.json")
    assert out.count("weight of") == 1
    assert "dropped      bath: " in out
    found = msgspec.json.decode(Path("fleet.json").read_bytes())["pools"]
    assert found.keys() == OFF.keys()
    assert found["york"]["losses"]["pool"] < found["york"]["losses"]["local"]
    reader = read(Path("fleet.html").read_text(encoding="utf-8"))
    assert "Who is weighed how" in " ".join(reader.words)
    assert said(capsys, *FILES, "--quiet", "-o", "all.slvq") == ""


def test_the_report_and_the_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *FILES, "--report", "fleet.html", "--json", "fleet.json")
    assert "report       fleet.html" in out
    assert "json         fleet.json" in out
    found = msgspec.json.decode((folder / "fleet.json").read_bytes(), type=FusionReport)
    assert found == fuse(fleet()).report
    reader = read((folder / "fleet.html").read_text(encoding="utf-8"))
    words = " ".join(reader.words)
    assert all(name in words for name in (*OFF, *FEATURES, *LABELS))
    assert reader.references == []


def test_numbers_to_standard_output_and_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(json.loads(said(capsys, *FILES, "--json", "-"))["nodes"]) == set(OFF)
    assert said(capsys, *FILES, "--quiet", "-o", "all.slvq") == ""
    assert (folder / "all.slvq").exists()


@pytest.mark.parametrize("drift", CORRECTIONS.names)
def test_what_is_asked_for_is_done(
    drift: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(said(capsys, *FILES, "--drift", drift, "--weighting", "uniform",
                            "--aggregator", "median", "--json", "-"))  # fmt: skip
    assert (found["drift"], found["weighting"], found["aggregator"]) == (drift, "uniform", "median")


@pytest.mark.parametrize("rank", ["keep", "full", "1"])
def test_rank_of_metrics(rank: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, *FILES, "--rank", rank, "-o", "all.slvq")
    wish: Any = int(rank) if rank.isdigit() else rank
    assert Path("all.slvq").read_bytes() == fuse(fleet(), rank=wish).snapshot().to_bytes()


def test_all_that_fusion_can_do_can_be_asked_for() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    choices = {action.dest: action.choices for action in parser._actions}
    assert choices["drift"] == ("auto", *CORRECTIONS)
    assert choices["aggregator"] == AGGREGATORS.names
    assert set(WEIGHTINGS) == set(ALL_WEIGHTINGS)
    text = " ".join(parser.format_help().split())
    for registry in (CORRECTIONS, AGGREGATORS):
        assert all(registry.summary(name) in text for name in registry)


def test_fused_files_can_be_fused_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, *FILES[:2], "-o", "south.slvq")
    assert Snapshot.load("south.slvq").node == "fused"
    assert main(["inspect", "south.slvq"]) == 0
    shown = capsys.readouterr().out
    assert "fused from several nodes" in shown
    assert "fit no sensor exactly" in shown
    out = said(capsys, "south=south.slvq", FILES[2], "--each", "own")
    assert "south " in out
    assert accuracy(Snapshot.load(folder / "own" / "york.slvq").classifier(), "york") > 0.97


def test_a_node_that_lies_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for k in range(3):
        Snapshot.of(learnt("bath"), f"honest {k}", readings=False).save(f"honest{k}.slvq")
    liar: Any = streamlvq.GMLVQ()
    random = np.random.default_rng(1)
    liar.learn_array(1e3 * random.normal(size=(240, 4)) * (1 + np.arange(240) % 3)[:, None],
                     [LABELS[k % 3] for k in range(240)], features=FEATURES)  # fmt: skip
    Snapshot.of(liar, "liar", readings=False).save("liar.slvq")
    out = said(capsys, *FILES, *(f"honest{k}.slvq" for k in range(3)), "liar.slvq",
               "--report", "fleet.html")  # fmt: skip
    line = next(line for line in out.splitlines() if line.startswith("liar "))
    assert line.endswith(("left out", "clipped"))
    assert "warning      node 'liar'" in out
    assert "node 'liar'" in " ".join(read(Path("fleet.html").read_text("utf-8")).words)


# --- names ---------------------------------------------------------------------------------------


def test_two_files_of_one_node_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows whether one is older or whether names were mixed up."""
    Snapshot.of(learnt("bath", lacks="worn"), "bath", created=1.0).save("old.slvq")
    for more in ([], ["--quiet"], ["--json", "-"]):
        error = wrong(capsys, "bath.slvq", "old.slvq", "leeds.slvq", "-o", "all.slvq", *more)
        assert (
            "expected one file of each node, got bath.slvq and old.slvq, all of node 'bath'"
            in error
        )
        assert "name them here (NODE=bath.slvq)" in error
        assert "`streamlvq train --node NODE`" in error
        assert "give the newest alone" in error


def test_the_same_file_twice_is_one_node(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "bath.slvq", "leeds.slvq", "./bath.slvq", "-o", "all.slvq")
    assert "warning" not in out
    assert Path("all.slvq").read_bytes() == fuse(fleet()[:2]).snapshot().to_bytes()


def test_one_node_has_nothing_to_be_compared_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for files in (["bath.slvq"], ["bath.slvq", "bath.slvq"]):
        out = said(capsys, *files)
        assert "correction   no correction: a single node has nothing to be compared with" in out
        assert "warning      only one node was given, 'bath': nothing was fused" in out
        assert "share at least two classes" not in out


def test_nodes_can_be_given_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`train` calls all nodes the same unless it is told."""
    for node in OFF:
        Snapshot.of(learnt(node), "train", readings=False).save(f"{node}.slvq")
    error = wrong(capsys, *FILES, "--quiet", "--each", "own")
    assert "bath.slvq and leeds.slvq and york.slvq, all of node 'train'" in error
    out = said(capsys, *(f"{node}={node}.slvq" for node in OFF))
    assert [line.split()[0] for line in out.splitlines()[1:4]] == list(OFF)


def test_a_path_may_hold_an_equals_sign(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("york.slvq").rename("a=b.slvq")
    assert "\nyork " in said(capsys, "a=b.slvq", *FILES[:2])


def test_files_and_folders_of_monitors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `replay --save` and a daemon write: a node for each model."""
    config = plain_config()
    monitor = load_monitor(config)
    replay(write_csv(folder / "plant.csv", rows(300)), config, monitor=monitor)
    save_monitor(monitor, "site.slvq")
    (only,) = load_snapshots("site.slvq")
    assert only.node == "site"
    assert "\nleeds " in said(capsys, "leeds=site.slvq", "site.slvq")
    SnapshotFiles("state").write(monitor.checkpoint(), 300)
    (of_folder,) = load_snapshots("state", "hull")
    assert of_folder.node == "hull"
    assert of_folder.means == only.means
    assert "\nhull " in said(capsys, "hull=state", "site.slvq")


def test_names_of_nodes_become_names_of_files() -> None:
    assert _file_name("press 1") == "press 1.slvq"
    assert _file_name("../a") == "..%2Fa.slvq"
    assert _file_name("50%") == "50%25.slvq"
    assert "/" not in _file_name("a/b\\c:d")


def test_a_node_cannot_write_outside_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Snapshot.of(learnt("york"), "../../york", readings=False).save("york.slvq")
    said(capsys, *FILES, "--each", "deep/own")
    assert sorted(os.listdir("deep/own")) == ["..%2F..%2Fyork.slvq", "bath.slvq", "leeds.slvq"]


# --- rounds --------------------------------------------------------------------------------------


def with_readings() -> list[Snapshot]:
    return [Snapshot.of(learnt(each.node, buffer_size=60), each.node) for each in fleet()]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Snapshots with readings, in the folder that the command runs in."""
    for snapshot in with_readings():
        snapshot.save(tmp_path / f"{snapshot.node}.slvq")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "how"),
    [
        ([], {}),
        (["--passes", "2", "--pull", "0.5"], {"passes": 2, "pull": 0.5}),
        (["--drift", "least_squares", "--pull", "0"], {"drift": "least_squares"}),
    ],
)
def test_rounds_hold_the_same_bits_as_the_function(
    arguments: list[str], how: dict[str, Any], stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, *reversed(FILES), "--rounds", "3", *arguments, "--each", "own", "-o", "all.slvq")
    fused = fuse_rounds(with_readings(), rounds=3, **how)
    assert Path("all.slvq").read_bytes() == fused.snapshot().to_bytes()
    for node in OFF:
        assert Path("own", f"{node}.slvq").read_bytes() == fused.snapshot(node).to_bytes()
    assert all(Snapshot.load(name).has_readings for name in FILES)  # what was read stays


def test_rounds_are_named(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, *FILES, "--rounds", "2")
    assert "rounds       2, each of 1 pass over the 60 readings that nodes store" in out
    pools = str(said(capsys, *FILES)).rpartition("\n\n")[2].strip()
    assert pools.startswith("weight of") and pools in out
    Snapshot.of(learnt("york", buffer_size=40), "york").save("york.slvq")
    out = said(capsys, *FILES, "--rounds", "1", "--passes", "3", "--pull", "0.25")
    assert "1, each of 3 passes with pull 0.25 over the 40 to 60 readings" in out
    assert "rounds" not in said(capsys, *FILES)
    assert said(capsys, *FILES, "--rounds", "1", "--quiet") == ""


def test_rounds_over_folders_of_daemons(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They hold readings: as many rounds as anybody likes, and nothing is written there."""
    for node in ("a", "b"):
        config = plain_config()
        monitor = load_monitor(config)
        replay(write_csv(stored / "plant.csv", rows(300)), config, monitor=monitor)
        SnapshotFiles(f"{node}/state").write(monitor.checkpoint(), 300)
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    out = said(capsys, "a=a/state", "b=b/state", "--rounds", "5")
    assert "rounds       5, each of 1 pass" in out and "\nb " in out
    assert {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()} == before


def test_rounds_show_their_progress_on_a_terminal(stored: Path) -> None:
    command = [sys.executable, "-m", "streamlvq", "fuse", *FILES, "--rounds", "4"]
    terminal, end = os.openpty()
    termios.tcsetwinsize(end, (24, 100))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=True)
    os.set_blocking(terminal, False)
    shown = os.read(terminal, 10**6).decode()
    os.close(end)
    os.close(terminal)
    assert "/4 [" in shown and "rounds/s" in shown
    assert b"rounds       4" in done.stdout
    quiet = subprocess.run(command, capture_output=True, check=True)
    assert quiet.stderr == b""


def test_rounds_without_readings_name_who_has_none(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Snapshot.of(learnt("york"), "york", readings=False).save("york.slvq")
    error = wrong(capsys, *FILES, "--rounds", "2", "-o", "all.slvq")
    assert "expected snapshots that hold the readings that nodes have stored" in error
    assert "got none from 'york'" in error and "the state folder of the daemon" in error


def test_settings_of_rounds_need_rounds(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--passes", "--pull"):
        assert f"{option}: expected --rounds too" in wrong(capsys, *FILES, option, "1")
    for given in (["--rounds", "0"], ["--rounds", "2", "--pull", "-1"], ["--passes", "half"]):
        with pytest.raises(SystemExit) as done:
            main(["fuse", *FILES, *given])
        assert done.value.code == 2


# --- mistakes ------------------------------------------------------------------------------------


def test_files_that_cannot_be_read_are_all_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Path("bath.slvq").read_bytes()
    Path("cut.slvq").write_bytes(good[: len(good) // 2])
    Path("text.slvq").write_text("hello")
    arrays, metadata = decode(good)
    arrays["class_mean"] = np.full_like(arrays["class_mean"], np.nan)
    Path("lie.slvq").write_bytes(encode(arrays, metadata))
    names = ("cut.slvq", "text.slvq", "lie.slvq", "missing.slvq")
    error = wrong(capsys, *FILES, *names, "-o", "all.slvq", "--report", "r.html", "--each", "own")
    assert all(f"{name}: " in error for name in names)
    assert "missing.slvq: No such file" in error
    assert "text.slvq: not a snapshot of streamlvq: expected at least 8 bytes, got 5" in error
    assert "bath.slvq" not in error
    assert error.endswith("nothing was written\n")
    assert not Path("own").exists()


def test_models_of_different_types_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Snapshot.of(learnt("york", "GLVQ"), "york").save("york.slvq")
    error = wrong(capsys, *FILES, "-o", "all.slvq")
    assert "expected models of one kind" in error
    assert "GMLVQ in bath.slvq, leeds.slvq and GLVQ in york.slvq" in error
    assert "train the others again with the same `model:`" in error


def test_other_transforms_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = streamlvq.FeatureTransform(streamlvq.GMLVQ(), "asinh")
    model.learn_one(dict.fromkeys(FEATURES, 1.0), "idle")
    Snapshot.of(model, "york").save("york.slvq")
    error = wrong(capsys, *FILES, "-o", "all.slvq")
    other = "FeatureTransform(GMLVQ) (asinh of all features) in york.slvq"
    assert f"GMLVQ in bath.slvq, leeds.slvq and {other}" in error


def test_a_class_that_too_few_have_is_withheld_and_that_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, *FILES, "--aggregator", "median", "--each", "own")
    words = (
        "'worn': only 2 nodes have it and aggregator median needs 3; it was not given to the others"
    )
    assert f"warning      {words}" in out
    assert "worn" not in Snapshot.load("own/york.slvq").labels
    assert "was not given" not in said(capsys, *FILES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "bath.slvq"], "-o: expected a file of its own, got 'bath.slvq', which is read too"),
        (["--each", "."], "--each: expected a folder of its own, got '.'"),
        (["--each", "bath.slvq"], "--each: expected a folder, got 'bath.slvq'"),
        (["--for", "york"], "--for: expected NODE=FILE, got 'york'"),
        (["--for", "hull=x"], "--for: expected one of bath, leeds, york, got 'hull'"),
        (["-o", "no/x.slvq"], "make the folder 'no' first"),
        (["-o", "x", "--report", "x"], "which is -o too"),
        (["--report", "leeds.slvq"], "which is read too"),
    ],
)
def test_wishes_that_cannot_be_fulfilled(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in wrong(capsys, *FILES, *arguments)


def test_unknown_words_are_refused(folder: Path) -> None:
    for option in (
        ["--drift", "tre"],
        ["--aggregator", "max"],
        ["--weighting", "me"],
        ["--rank", "0"],
    ):
        with pytest.raises(SystemExit) as done:
            main(["fuse", *FILES, *option])
        assert done.value.code == 2


def test_a_wrong_rank_says_what_is_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fuse", *FILES, "--rank", "banana"])
    assert "expected keep, full or a whole number of at least 1, got 'banana'" in (
        capsys.readouterr().err
    )


def test_a_table_of_readings_is_not_a_snapshot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plant.slvq").write_text("t,heat,state\n0,40.0,idle\n")
    error = wrong(capsys, *FILES, "plant.slvq")
    assert "plant.slvq: not a snapshot of streamlvq: expected a header, got a file" in error
    assert "begins 't,heat,state" in error


def test_nothing_in_common(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Groups that share no class have models of their own, but no common coordinates."""
    random = np.random.default_rng(0)
    for name, labels in {"a": "xy", "b": "xy", "c": "uv", "d": "uv"}.items():
        model: Any = streamlvq.GLVQ()
        model.learn_array(random.normal(size=(40, 2)), list(labels) * 20, features=["p", "q"])
        Snapshot.of(model, name, readings=False).save(f"{name}.slvq")
    groups = [f"{name}.slvq" for name in "abcd"]
    shifts = ["--drift", "least_squares"]
    assert "no common coordinates" in wrong(capsys, *groups, *shifts, "-o", "all.slvq")
    out = said(capsys, *groups, *shifts, "--each", "own", "--report", "r.html")
    assert "part" in out.splitlines()[0]
    assert "2 groups that share no class" in out
    assert len(os.listdir("own")) == 4


def test_a_folder_that_cannot_be_written_is_named_with_what_was_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that is too long for a file: the others are written."""
    long = "y" * 100 + "\N{SNOWMAN}" * 60  # 280 bytes
    Snapshot.of(learnt("york"), long, readings=False).save("york.slvq")
    assert main(["fuse", *FILES, "--each", "own"]) == 2
    out, err = capsys.readouterr()
    assert "could not be written: File name too long" in err
    assert "for bath     own/bath.slvq" in out
    assert sorted(os.listdir("own")) == ["bath.slvq", "leeds.slvq"]
