"""The command line, mostly as a real process."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import streamlvq
from streamlvq.cli import arguments, main
from streamlvq.cli.main import COMMANDS, make_parser
from streamlvq.replay import Report
from streamlvq.snapshot import Snapshot
from support.replays import FEATURES, rows, write_csv

CONFIG = """\
readings: {label: state, time: t, device: pump}
model: {type: GLVQ}
"""


def start(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "streamlvq", *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def run(
    *arguments: str | Path, cwd: Path | None = None, **environment: str
) -> tuple[int, str, str]:
    """Exit status, standard output, standard error."""
    process = start(*arguments, cwd=cwd, **environment)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def fails(*arguments: str | Path, cwd: Path | None = None) -> str:
    """The one line that a failing command says."""
    status, out, err = run(*arguments, cwd=cwd)
    assert (status, out) == (2, "")
    assert err.startswith("streamlvq: error: ")
    assert err.count("\n") == 1, err
    return err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CONFIG)
    write_csv(tmp_path / "plant.csv", rows(300))
    return tmp_path


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main([name, "--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    examples = re.findall(r"^  streamlvq (.*)$", text.partition("examples:\n")[2], re.MULTILINE)
    assert 2 <= len(examples) <= 5
    assert any(example.split()[0] == name for example in examples)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_accepted(name: str) -> None:
    """Every example parses: none speaks of an option that is not there."""
    text: str = importlib.import_module(f"streamlvq.cli.commands.{name}").EXAMPLES
    for line in re.findall(r"^  streamlvq (.*)$", text, re.MULTILINE):
        words = re.split(r"\s{2,}|\s[>|]\s", line)[0]  # what follows two spaces is a comment
        given = shlex.split(words)
        assert make_parser(given[0]).parse_args(given).run is not None


def test_help_lists_every_command_and_is_quick() -> None:
    status, out, _ = run("--help")
    assert status == 0
    assert all(re.search(rf"^    {name} ", out, re.MULTILINE) for name in COMMANDS)
    heavy = "{'numba', 'matplotlib', 'yaml', 'paho', 'safetensors', 'tqdm', 'pandas'}"
    code = (
        "import sys\nfrom streamlvq.cli import main\n"
        "try: main(['replay', '--help'])\nexcept SystemExit: pass\n"
        f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_without_a_command_it_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "usage: streamlvq" in capsys.readouterr().out


def test_versions() -> None:
    assert run("version", "--short") == (0, f"{streamlvq.__version__}\n", "")
    assert run("--version")[1] == f"streamlvq {streamlvq.__version__}\n"
    status, out, _ = run("version")
    assert status == 0
    for name in ("python", "numba", "paho-mqtt"):
        assert re.search(rf"^  {name} +\d", out, re.MULTILINE)


def test_the_installed_command_is_the_same() -> None:
    script = Path(sys.executable).with_name("streamlvq")
    if not script.exists():
        pytest.skip("streamlvq is not installed as a command here")
    done = subprocess.run(
        [script, "version", "--short"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{streamlvq.__version__}\n"


# --- mistakes ------------------------------------------------------------------------------------


def test_unknown_commands() -> None:
    assert "did you mean `streamlvq replay`?" in fails("repaly", "x.csv")
    assert "expected one of demo, run" in fails("frobnicate")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "LOG"),
        (["replay", "missing.csv"], "missing.csv: No such file"),
        (["replay", "plant.csv", "--config", "missing.yaml"], "missing.yaml"),
        (["replay", "plant.csv", "--frmat", "csv"], "--frmat"),
        (["replay", "plant.csv", "--format", "cvs"], "did you mean 'csv'?"),
        (["replay", "plant.csv", "--limit", "0"], "whole number of at least 1"),
        (["replay", "plant.csv", "--model", "GLQV"], "did you mean 'GLVQ'"),
        (["replay", "plant.csv", "--feature", "presure"], "presure"),
        (["replay", "plant.csv", "--speed", "10x"], "--publish"),
        (["replay", "plant.csv", "--snapshot", "plant.csv"], "plant.csv"),
        (["replay", "plant.csv", "--publish", "--speed", "fast"], "10x"),
        (["replay", ".", "--label", "state"], "directory"),
        (["train", "plant.csv", "-o", "x.slvq"], "--label"),
        (["train", "plant.csv"], "-o"),
        (["inspect", "missing.slvq"], "missing.slvq: No such file"),
        (["inspect", "c.yaml"], "c.yaml"),
        (
            ["config", "check"],
            "expected a file, got none; try `streamlvq config check monitor.yaml`",
        ),
        (["config", "sample", "x.yaml"], "expected no file, got x.yaml"),
        (["replay", "plant.csv", "--label", "State"], "did you mean 'state'?"),
        (["train", "plant.csv", "--label", "state", "--time", "time", "-o", "x"], "--time ''"),
        (["config", "chekc", "c.yaml"], "chekc"),
        (["record", "-o", "x"], "--config"),
        (["run", "missing.yaml", "--test-wait", "soon"], "15m"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_clear_line(folder: Path, arguments: Sequence[str], words: str) -> None:
    assert words in fails(*arguments, cwd=folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "the file is empty"),
        ("head.csv", b"t,x,state\n", "the names of its columns, but no row after them"),
        ("latin.csv", b"x,state\n1,k\xfchl\n2,k\xfchl\n", "line 2: state: expected text in UTF-8"),
        ("values.csv", b"1,2,3\n4,5,6\n", "expected the names of the columns first"),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\x00", "a picture"),
        ("time.jsonl", b'{"state": "soon", "x": 1}\n', "state: expected a time"),
        (
            "other.messages",
            b'{"streamlvq":"messages","version":1}\n{"received":1,"topic":"a/b","payload":"{}"}\n',
            "--config",
        ),
    ],
)
def test_when_nothing_can_be_read(folder: Path, name: str, content: bytes, words: str) -> None:
    (folder / name).write_bytes(content)
    role = "--time" if name.startswith("time") else "--label"
    options = [] if name.startswith(("empty", "values", "pict")) else [role, "state"]
    for command in (["replay"], ["train", "-o", "x.slvq"]):
        status, _, err = run(*command, name, *options, cwd=folder)
        assert status == 2
        assert f"{name}: expected" in err
        assert words in err
        assert "Traceback" not in err
    assert not (folder / "x.slvq").exists()


def test_what_a_configuration_names_can_be_taken_back(folder: Path) -> None:
    (folder / "new.csv").write_text("t,pump,heat\n1,a,2.5\n")
    command = ["replay", "new.csv", "--config", "c.yaml"]
    assert "expected a column 'state' (the label)" in fails(*command, cwd=folder)
    status, out, _ = run(*command, "--label", "", cwd=folder)
    assert status == 0
    assert "1 reading of 1 device" in out


def test_bad_configurations_are_told_with_their_lines(folder: Path) -> None:
    (folder / "bad.yaml").write_text("readings:\n  topc: x\nmodle: {}\n")
    for command in (["config", "check"], ["config", "show"]):
        status, out, err = run(*command, "bad.yaml", cwd=folder)
        assert (status, out) == (2, "")
        assert "bad.yaml:2: readings.topc" in err
        assert "bad.yaml:3: modle" in err
        assert "Traceback" not in err


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_tracebacks_on_demand(folder: Path, how: str) -> None:
    more = ["--debug"] if how == "argument" else []
    variables = {} if how == "argument" else {"STREAMLVQ_DEBUG": "1"}
    status, _, err = run("replay", "missing.csv", *more, cwd=folder, **variables)
    assert status != 0
    assert "Traceback" in err
    assert "FileNotFoundError" in err


def test_a_full_disk_is_an_error_line(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    for option in ("--json", "--decisions"):
        assert "No space left" in fails(
            "replay", "plant.csv", "--config", "c.yaml", option, "/dev/full", "--quiet", cwd=folder
        )


def test_what_cannot_be_written_is_said_before_the_work(folder: Path) -> None:
    before = sorted(folder.iterdir())
    for option in ("--report", "--json", "--decisions", "--save"):
        command = ["replay", "plant.csv", "--config", "c.yaml", option]
        assert f"{option}: expected a file in a folder that exists, got 'no/x'" in fails(
            *command, "no/x", cwd=folder
        )
        assert "which is a folder" in fails(*command, ".", cwd=folder)
        assert "which is LOG too" in fails(*command, "./plant.csv", cwd=folder)
    train = ["train", "plant.csv", "--config", "c.yaml", "-o"]
    assert "make the folder 'no' first" in fails(*train, "no/x.slvq", cwd=folder)
    twice = ["replay", "plant.csv", "--json", "x", "--save", "x"]
    assert "--save: expected a file of its own, got 'x', which is --json too" in fails(
        *twice, cwd=folder
    )
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_files_that_may_not_be_written(folder: Path) -> None:
    (folder / "kept.json").touch(mode=0o444)
    command = ["replay", "plant.csv", "--config", "c.yaml", "--json", "kept.json"]
    assert "Permission denied" in fails(*command, cwd=folder)


def test_reports_need_matplotlib_before_the_work(folder: Path) -> None:
    (folder / "matplotlib.py").write_text("raise ImportError('not here')")
    status, out, err = run(
        "replay", "plant.csv", "--report", "r.html", cwd=folder, PYTHONPATH=str(folder)
    )
    assert (status, out) == (2, "")
    assert "pip install 'streamlvq[plot]'" in err
    assert not (folder / "r.html").exists()


def test_results_are_printed_whatever_cannot_be_written(folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    for option in ("--json", "--decisions", "--report"):
        status, out, err = run(
            "replay", "plant.csv", "--config", "c.yaml", option, "/dev/full", "--save", "s.slvq",
            cwd=folder,
        )  # fmt: skip
        assert status == 2
        assert "300 readings of 3 devices" in out
        assert "save         s.slvq" in out
        assert "/dev/full" not in out
        assert f"{option} could not be written: No space left" in err
        (folder / "s.slvq").unlink()


def test_a_closed_pipe_is_no_error() -> None:
    process = start("config", "sample")
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) in (0, 141)
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_interrupting_is_no_traceback(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    process = start("replay", "pipe.csv", "--config", "c.yaml", "--format", "csv", cwd=folder)
    time.sleep(3.0)  # it waits for somebody to write
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


# --- commands ------------------------------------------------------------------------------------


def test_replay_writes_what_it_is_told_to(folder: Path) -> None:
    status, out, err = run(
        "replay", "plant.csv", "--config", "c.yaml", "--report", "r.html", "--json", "r.json",
        "--decisions", "d.jsonl", "--save", "s.slvq", cwd=folder,
    )  # fmt: skip
    assert (status, "Traceback" in err) == (0, False)
    report = Report.from_json((folder / "r.json").read_bytes())
    assert report.readings == 300
    assert f"accuracy     {100 * (report.accuracy or 0):.1f} %" in out
    assert "300 readings of 3 devices" in out
    assert len((folder / "d.jsonl").read_text().splitlines()) == 300
    assert "<title>Replay of plant.csv</title>" in (folder / "r.html").read_text()
    status, out, _ = run("inspect", "s.slvq", cwd=folder)
    assert status == 0
    assert "300 samples, 4 features, 3 classes" in out


def test_replay_without_a_configuration(folder: Path) -> None:
    status, out, _ = run(
        "replay", "plant.csv", "--label", "state", "--time", "t", "--device", "pump", "--model",
        "GLVQ", "--json", "-", cwd=folder,
    )  # fmt: skip
    assert status == 0
    named = json.loads(out)
    configured = json.loads(
        run("replay", "plant.csv", "--config", "c.yaml", "--json", "-", cwd=folder)[1]
    )
    for report in (named, configured):
        del report["cpu_seconds"], report["wall_seconds"]
    assert named == configured


def test_features_can_be_chosen(folder: Path) -> None:
    command = ["replay", "plant.csv", "--config", "c.yaml", "--save", "s.slvq", "--quiet"]
    status, out, _ = run(*command, "--feature", "heat,noise", "--feature", "current", cwd=folder)
    assert (status, out) == (0, "")
    text = run("inspect", "s.slvq", cwd=folder)[1]
    assert "3 features" in text
    assert FEATURES[0] not in text


def test_limit_and_quiet(folder: Path) -> None:
    command = ["replay", "plant.csv", "--config", "c.yaml", "--limit", "1e2", "--quiet"]
    status, out, err = run(*command, "--json", "r.json", cwd=folder)
    said = [line for line in err.splitlines() if not line.startswith("compiling the kernels")]
    assert (status, out, said) == (0, "", [])
    assert Report.from_json((folder / "r.json").read_bytes()).readings == 100


@pytest.mark.parametrize("epochs", ["1", "3"])
def test_train_then_replay_from_there(folder: Path, epochs: str) -> None:
    status, out, err = run(
        "train", "plant.csv", "--config", "c.yaml", "-o", "first.slvq", "--epochs", epochs,
        "--node", "bench", cwd=folder,
    )  # fmt: skip
    assert status == 0, err
    assert re.search(r"^held out +\d+\.\d % of 60 labelled", out, re.MULTILINE)
    assert ("progressive" in out) == (epochs == "1")
    assert "features     4: pressure, current, noise, heat\n" in out
    assert Snapshot.load(folder / "first.slvq").node == "bench"
    text = run("inspect", "first.slvq", cwd=folder)[1]
    assert "GLVQ of node bench" in text
    assert ("300 labelled readings, learnt in " in text) == (epochs != "1")
    write_csv(folder / "new.csv", rows(90, seed=5))
    command = ["replay", "new.csv", "--config", "c.yaml", "--json", "-", "--no-learn"]
    report = json.loads(run(*command, "--snapshot", "first.slvq", cwd=folder)[1])
    assert report["accuracy"] > 0.8
    assert report["learnt"] == 0


def test_config_commands(folder: Path) -> None:
    assert run("config", "check", "c.yaml", cwd=folder) == (0, "c.yaml: all is well\n", "")
    (folder / "from.yaml").write_text("model: {start: first.slvq}\n")
    status, out, _ = run("config", "check", "from.yaml", cwd=folder)
    assert (status, "warning: model.start: there is no file " in out) == (0, True)
    (folder / "first.slvq").touch()
    assert run("config", "check", "from.yaml", cwd=folder)[1] == "from.yaml: all is well\n"
    shown = run("config", "show", "c.yaml", cwd=folder)[1]
    (folder / "shown.yaml").write_text(shown)
    assert run("config", "check", "shown.yaml", cwd=folder)[0] == 0
    assert run("config", "show", "shown.yaml", cwd=folder)[1] == shown
    (folder / "sample.yaml").write_text(run("config", "sample")[1])
    assert run("config", "check", "sample.yaml", cwd=folder)[0] == 0
    schema = json.loads(run("config", "schema")[1])
    assert "broker" in schema["properties"]


def test_run_with_a_bad_configuration(folder: Path) -> None:
    (folder / "bad.yaml").write_text("broker: {url: 7}\n")
    status, _, err = run("run", "bad.yaml", cwd=folder)
    assert status not in (0, None)
    assert "broker.url" in err
    assert "Traceback" not in err


# --- kinds of arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (arguments.count, "1e6", 1_000_000),
        (arguments.count, "10_000", 10_000),
        (arguments.seconds, "90", 90.0),
        (arguments.seconds, "2h", 7200.0),
        (arguments.seconds, "1.5m", 90.0),
        (arguments.speed, "10x", 10.0),
        (arguments.speed, "MAX", float("inf")),
        (arguments.share, "20%", 0.2),
        (arguments.share, "0", 0.0),
        (arguments.names, "a, b,c", ["a", "b", "c"]),
    ],
)
def test_kinds(kind: object, text: str, value: object) -> None:
    assert kind(text) == value  # type: ignore[operator]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (arguments.count, "1.5"),
        (arguments.count, "-1"),
        (arguments.count, "inf"),
        (arguments.count, "x"),
        (arguments.seconds, "0"),
        (arguments.seconds, "m"),
        (arguments.seconds, "nan"),
        (arguments.speed, "0x"),
        (arguments.speed, "inf"),
        (arguments.share, "1"),
        (arguments.share, "-0.1"),
        (arguments.names, " , "),
    ],
)
def test_kinds_say_what_they_expected(kind: object, text: str) -> None:
    with pytest.raises(Exception, match="expected") as error:
        kind(text)  # type: ignore[operator]
    assert repr(text) in str(error.value)


# --- warm ----------------------------------------------------------------------------------------


def test_warm_shows_how_far_it_is(tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    status, out, err = run("warm", cwd=tmp_path, **cache)
    *lines, last = out.splitlines()
    assert (status, err) == (0, "")
    assert len(lines) > 20
    assert lines[0] == f"  1 of {len(lines)}  relsim"
    assert any(line.endswith("  learn_pairs") for line in lines)
    assert last.startswith(f"{len(lines)} kernels in {tmp_path}")
    assert run("warm", "--quiet", cwd=tmp_path, **cache) == (0, "", "")


def test_warm_needs_a_folder_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, out, err = run("warm", cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert (status, out) == (2, "")
    assert err.startswith(
        "streamlvq: error: expected a folder that can be written (NUMBA_CACHE_DIR), got "
    )
