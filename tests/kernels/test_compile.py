"""A cache that cannot be used costs time, never the program; importing costs little."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamlvq.kernels.compile import cache_folder
from support import ROOT

interpreted = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
compiled_only = pytest.mark.skipif(interpreted, reason="nothing is compiled with NUMBA_DISABLE_JIT")

KERNEL = """
from streamlvq.kernels.compile import compiled, helper, kernel

@helper
def twice(x):
    return 2.0 * x

@kernel("float64(float64)")
def fourfold(x):
    return twice(twice(x))

if __name__ == "__main__":
    print(compiled(fourfold)(10.5))
"""

LEARN = """
import streamlvq
model = streamlvq.LGMLVQ()
for k in range(40):
    model.learn_one({"a": float(k % 2), "b": k % 5}, k % 2)
print(model.predict_one({"a": 1.0, "b": 2.0}))
"""


def run(*arguments: str, **environment: str) -> str:
    """Standard output of a Python process; fails with the standard error."""
    root = ROOT
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("script") / "small_kernel.py"
    file.write_text(KERNEL)
    return str(file)


@pytest.fixture(scope="module")
def warm(script: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the small kernel."""
    cache = tmp_path_factory.mktemp("warm")
    assert run(script, NUMBA_CACHE_DIR=str(cache)) == "42.0"
    return cache


@compiled_only
def test_kernels_are_cached_in_the_folder_asked_for(warm: Path) -> None:
    assert list(warm.rglob("*.nbi"))
    assert [p.name for p in (warm / "streamlvq").iterdir()] == [cache_folder().name]


@compiled_only
def test_cache_under_a_file_cannot_be_made(script: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert run(script, NUMBA_CACHE_DIR=str(file / "cache")) == "42.0"
    assert file.read_text() == "not a folder"


@compiled_only
@pytest.mark.parametrize("garbage", [b"", b"garbage"], ids=["empty", "garbage"])
@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
def test_damaged_cache(
    script: str, warm: Path, tmp_path: Path, garbage: bytes, pattern: str
) -> None:
    cache = shutil.copytree(warm, tmp_path / "cache")
    files = list(cache.rglob(pattern))
    assert files
    for file in files:
        file.write_bytes(garbage)
    assert run(script, NUMBA_CACHE_DIR=str(cache)) == "42.0"


@compiled_only
def test_a_model_learns_without_a_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    out = run("-c", LEARN, NUMBA_CACHE_DIR=str(file / "cache"), NUMBA_OPT="0")
    assert out == "1"


def test_a_model_learns_without_a_compiler() -> None:
    assert run("-c", LEARN, NUMBA_DISABLE_JIT="1") == "1"


def test_importing_streamlvq_does_not_import_numba() -> None:
    code = "import streamlvq, sys; streamlvq.GLVQ(); print('numba' in sys.modules)"
    assert run("-c", code) == "False"


def test_importing_streamlvq_needs_no_pandas_and_no_progress_bar() -> None:
    code = "import sys; sys.modules['tqdm'] = None; import streamlvq; print('ok')"
    assert run("-c", code) == "ok"


def test_docstrings_may_be_stripped() -> None:
    assert run("-OO", "-c", "import streamlvq; print(streamlvq.GLVQ().step)") == "adagrad"


def test_cache_folder_follows_the_sources_and_the_environment(tmp_path: Path) -> None:
    code = "from streamlvq.kernels.compile import cache_folder; print(cache_folder())"
    folder = Path(run("-c", code, NUMBA_CACHE_DIR=str(tmp_path)))
    assert folder.parent == tmp_path / "streamlvq"
    assert folder.name == cache_folder().name
    other = Path(run("-c", code, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "xdg")))
    assert other == tmp_path / "xdg" / "streamlvq" / folder.name
