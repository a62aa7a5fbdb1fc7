"""The examples, run as a new user would run them, and judged by what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

EXAMPLES = ROOT / "examples"


def run(script: str, *arguments: str) -> str:
    """What a script prints; it fails the test if the script does."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(output: str, line_start: str) -> list[float]:
    """The numbers after `line_start` in the line that starts with it."""
    line = next(line for line in output.splitlines() if line.startswith(line_start))
    return [float(number) for number in re.findall(r"\d+\.?\d*", line[len(line_start) :])]


def test_quickstart() -> None:
    output = run("quickstart.py")
    assert numbers(output, "Share recognised before they were learnt:")[0] >= 0.93
    assert "rather than" in output
    shares = [float(share) for share in re.findall(r"(\d+\.\d)%", output)]
    assert len(shares) == 5
    assert shares == sorted(shares, reverse=True)
    assert 20 < sum(shares) < 100


def test_river_pipeline() -> None:
    output = run("river_pipeline.py")
    rival, rival_time = numbers(output, "StandardScaler | logistic regression")
    ours, _ = numbers(output, "LGMLVQ ")
    assert rival < 0.85
    assert ours >= 0.93
    assert 0.8 < numbers(output, "Select(colours) | LGMLVQ")[0] < ours
    fast, fast_time = numbers(output, "GLVQ(rehearsal=0)")
    assert fast > rival
    assert fast_time < rival_time


def test_explain(tmp_path: Path) -> None:
    output = run("explain.py", str(tmp_path / "pictures"))
    accuracy = float(re.findall(r"accuracy before learning each: (\d\.\d+)", output)[0])
    assert accuracy >= 0.91
    similarities = [float(found) for found in re.findall(r"RelSim (\d\.\d+)", output)]
    assert len(similarities) == 3
    assert "A patch of sky is called 'sky'" in output
    for name in ("projection", "relevances", "prototypes"):
        picture = tmp_path / "pictures" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert 10_000 < picture.stat().st_size < 300_000


def test_certainty(tmp_path: Path) -> None:
    output = run("certainty.py", str(tmp_path / "pictures"))
    relsim, probability = re.split(r"\nProbabilityRejector", output, maxsplit=1)
    assert re.search(r"clear +certainty 0.9\d: idle", relsim)
    assert re.search(r"between two states +certainty 0.\d\d: no answer, ambiguous", relsim)
    assert re.search(r"sensor come loose +certainty 0.\d\d: no answer, outlier", relsim)
    assert re.search(r"sensor come loose +certainty 0.9\d: running", probability)
    alone, causal, centred = (
        [float(number) for number in re.findall(r"\d\.\d{3}", line)]
        for line in re.findall(r"^  Each .*$", output, flags=re.MULTILINE)
    )
    assert centred[0] > causal[0] > alone[0] > 0.9  # accuracy
    assert causal[1] < 0.05 < alone[1]  # share rejected
    assert centred[2] > 0.98  # accuracy of the rest
    assert numbers(output, "  LGMLVQ ")[0] < numbers(output, "  PairwiseLVQ ")[0]
    for name in ("relsim", "probability", "time", "curves"):
        picture = tmp_path / "pictures" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert 10_000 < picture.stat().st_size < 150_000


def test_drifting_sensor() -> None:
    output = run("drifting_sensor.py", "--samples", "12000")
    never, forgets = (
        numbers(output, f"GLVQ({settings})")[-1] for settings in ("", "half_life=300")
    )
    assert forgets > never + 0.1
    assert forgets > 0.92


def test_drifting_sensor_without_drift() -> None:
    output = run("drifting_sensor.py", "--samples", "4000", "--swing", "0")
    for settings in ("", "half_life=1000", "half_life=300"):
        assert numbers(output, f"GLVQ({settings})")[-1] > 0.96


def test_monitor_in_python() -> None:
    output = run("monitor_in_python.py")
    decided, rejected, right, recognised = numbers(output, "on its own")
    assert decided == 1440
    assert rejected < 0.3
    assert right > 0.95
    assert recognised == 0
    assert numbers(output, "the fault is labelled")[-1] > 120


def test_fleet(tmp_path: Path) -> None:
    output = run("fleet.py", str(tmp_path / "pictures"))
    for node in ("north", "south", "west"):
        alone, raw, corrected, pooled = numbers(output, f"{node} ")
        assert min(corrected, pooled) > max(0.95, raw)
        assert min(corrected, pooled) > alone - 0.015
    assert alone < 0.8  # the last one has never seen a class
    assert "worn bearing" in output
    assert "correction: least_squares" in output
    assert numbers(output, "a new sensor, placed by 6 readings of 2 states:")[0] > 0.9
    picture = tmp_path / "pictures" / "fleet.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 10_000 < picture.stat().st_size < 150_000


def test_probes() -> None:
    output = run("probes.py")
    for node in ("north", "south", "west"):
        alone, taught, pooled = numbers(output, f"{node} ")
        assert alone < 0.8  # it has never seen one of four states
        assert taught > 0.95
        assert pooled > 0.9
    assert "worn bearing" in output


def test_simulated_log_can_be_replayed(tmp_path: Path) -> None:
    log = tmp_path / "plant.csv"
    assert "500 readings of 4 machines" in run("simulated_log.py", str(log), "--readings", "500")
    columns = ["--label", "state", "--device", "device", "--time", "t", "--sequence", "sequence"]
    decisions, picture = tmp_path / "decisions.jsonl", tmp_path / "replay.png"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "streamlvq", "replay", str(log), *columns),
            *("--decisions", str(decisions)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert numbers(done.stdout, "accuracy")[0] > 80.0
    output = run("read_decisions.py", str(decisions), str(log), "--picture", str(picture))
    assert "500 decisions" in output
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 10_000 < picture.stat().st_size < 150_000


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_is_tested_and_explains_itself(script: str) -> None:
    assert f'run("{script}"' in Path(__file__).read_text(encoding="utf-8")
    source = (EXAMPLES / script).read_text(encoding="utf-8")
    assert source.startswith('"""')
    assert 'if __name__ == "__main__":\n    main()\n' in source
