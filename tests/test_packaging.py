"""What is installed, and the tools that keep the code in order.

The tools run here so that one `pytest` checks everything.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import streamlvq
from support import ROOT

SCRIPTS = Path(sys.executable).parent


def run(*command: str, **environment: str) -> str:
    """What a command prints; it fails the test if the command does."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("check", "."), ("format", "--check", ".")], ids=" ".join)
def test_ruff(arguments: tuple[str, ...]) -> None:
    run(sys.executable, "-m", "ruff", *arguments)


def test_mypy() -> None:
    assert "no issues found" in run(sys.executable, "-m", "mypy")


def test_layers() -> None:
    assert "0 broken" in run(str(SCRIPTS / "lint-imports"))


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="already without compilation")
def test_kernels_without_compilation() -> None:
    """The same arithmetic in plain Python, where every index is checked."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    files = (
        "tests/kernels/test_kernels.py",
        "tests/kernels/test_pairwise_kernels.py",
        "tests/kernels/test_certainty_kernels.py",
        "tests/monitor/test_pipeline.py",
        "tests/test_coupling.py",
    )
    assert " passed" in run(*command, *files, NUMBA_DISABLE_JIT="1")


# --- distributions -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and a source distribution; needs no network."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    return folder


def test_wheel_holds_both_packages(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        "streamlvq/plot/maps.py",
        "streamlvq/models/glvq.py",
        "streamlvq/kernels/prototypes.py",
    }
    for package in ("streamlvq", "streamlvq_connectors"):
        wanted |= {f"{package}/__init__.py", f"{package}/py.typed"}
    assert wanted <= names
    tops = {name.split("/")[0] for name in names}
    dist_info = f"streamlvq-{streamlvq.__version__}.dist-info"
    assert tops == {"streamlvq", "streamlvq_connectors", dist_info}
    assert f"{dist_info}/licenses/LICENSE" in names


def test_every_module_is_in_the_wheel(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "streamlvq").rglob("*.py")}
    assert sources <= names


def test_source_distribution_is_complete_and_clean(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "tests/test_packaging.py"} <= names
    assert {"connectors/streamlvq_connectors/__init__.py", "examples/quickstart.py"} <= names
    assert {"docs/certainty.md", "docs/relsim.png", "examples/certainty.py"} <= names
    assert {
        "mkdocs.yml",
        "docs/_hooks/pages.py",
        "docs/start/daemon.md",
        "CONTRIBUTING.md",
    } <= names
    assert not [name for name in names if "__pycache__" in name or "/out/" in name]


# --- names and papers ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", streamlvq.__all__)
def test_public_names_are_importable(name: str) -> None:
    assert getattr(streamlvq, name).__name__ == name


def test_plot_offers_what_it_says() -> None:
    plot = importlib.import_module("streamlvq.plot")
    assert all(callable(getattr(plot, name)) for name in plot.__all__)


def test_import_is_light() -> None:
    """Compilers and pictures are loaded when they are needed."""
    heavy = "{'numba', 'matplotlib', 'tqdm'} & set(sys.modules)"
    code = f"import sys, streamlvq; print(sorted({heavy}))"
    assert run(sys.executable, "-c", code).strip() == "[]"


def test_changelog_and_citation_know_the_version() -> None:
    assert f"\n## {streamlvq.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {streamlvq.__version__}\n" in citation


def test_ci_runs_the_second_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\n(.*?)\n```", readme, flags=re.DOTALL)
    assert commands[0] == 'pip install ".[demo]" && streamlvq demo'
    script = ROOT / ".ci" / "run"
    assert f"\n{commands[1]}\n" in script.read_text(encoding="utf-8")
    assert os.access(script, os.X_OK)


def test_extras_are_those_the_errors_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert {"demo", "docs", "pandas", "parquet", "plot", "test"} <= extras.keys()
    assert "docs" in extras["test"][0]  # CI builds the site
    assert not [need for need in project["dependencies"] if "mkdocs" in need]
