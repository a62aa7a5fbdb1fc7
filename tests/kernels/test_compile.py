"""A cache that cannot be used costs time, never the program; importing costs little."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from streamlvq.kernels import internals, kernels
from streamlvq.kernels.compile import cache_folder
from streamlvq.kernels.progress import CompileProgress
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


# Two kernels whose helpers come from one factory.
FAMILIES = """
import sys
from streamlvq.kernels.compile import compiled, helper, kernel

def repeated(step):
    @helper
    def repeat(x):
        for _ in range(3):
            x = step(x)
        return x
    return repeat

@helper
def twice(x):
    return 2.0 * x

@helper
def half(x):
    return 0.5 * x

up, down = repeated(twice), repeated(half)

@kernel("float64(float64)")
def grow(x):
    return up(x)

@kernel("float64(float64)")
def shrink(x):
    return down(x)

print(*(compiled(globals()[name])(8.0) for name in sys.argv[1:]))
"""


def run(*arguments: str, **environment: str) -> str:
    """Standard output of a Python process; fails with the standard error."""
    return run_both(*arguments, **environment)[0]


def run_both(*arguments: str, **environment: str) -> tuple[str, str]:
    """Standard output and standard error of a Python process."""
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
    return done.stdout.strip(), done.stderr.strip()


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


# --- one helper for many kernels -----------------------------------------------------------------


@compiled_only
def test_helpers_of_one_factory_are_kept_apart_in_the_cache(tmp_path: Path) -> None:
    """Compiled by different processes, they would otherwise have the same name."""
    script = tmp_path / "families.py"
    script.write_text(FAMILIES)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"}  # no inlining
    assert run(str(script), "grow", **environment) == "64.0"
    assert run(str(script), "shrink", **environment) == "1.0"
    assert run(str(script), "grow", "shrink", **environment) == "64.0 1.0"
    assert run(str(script), "shrink", "grow", **environment) == "1.0 64.0"


@compiled_only
def test_numba_is_as_expected() -> None:
    """Otherwise compiling takes several times as long; everything works nevertheless."""
    assert internals.HELPER_COMPILER is not None
    kernel = kernels("pool").pool
    assert internals.address_of(kernel) == kernels("pool").address("pool")


@compiled_only
@pytest.mark.parametrize(
    "change",
    [
        "import numba.core.codegen as c; del c.JITCodeLibrary",
        "import numba.core.compiler as c; c.Compiler = type('Compiler', (), {})",
        "import numba.core.caching as c\n"
        "for n in [n for n in vars(c) if n.endswith('UserProvidedCacheLocator')]: delattr(c, n)",
    ],
)
def test_other_internals_of_numba_cost_time_only(change: str, script: str, tmp_path: Path) -> None:
    code = f"import runpy, numba\n{change}\nrunpy.run_path({script!r}, run_name='__main__')"
    assert run("-c", code, NUMBA_CACHE_DIR=str(tmp_path)) == "42.0"


ADDRESS = """
import streamlvq.kernels.compile as compiling
from streamlvq.kernels import kernels
compiling.address_of = lambda kernel: None
import numpy as np
from streamlvq.kernels.internals import call_float
memory = np.array([[0.1, 0.2], [1.0, 1.0], [0.1, 0.2], [1.0, 1.0]])
adapt = kernels("pipeline").address("rate_threshold")
import numba
print(numba.njit(lambda f, m: call_float(f, (m, 2, 0.5)))(adapt, memory))
"""


@compiled_only
def test_addresses_that_are_not_found_are_those_of_callbacks(tmp_path: Path) -> None:
    assert run("-c", ADDRESS, NUMBA_CACHE_DIR=str(tmp_path)) == "0.2"


@compiled_only
def test_views_of_borrowed_arrays_count_no_references() -> None:
    @numba.njit  # type: ignore[untyped-decorator]
    def first_half(array: Any) -> Any:
        whole = internals.borrowed(array)
        return whole[: whole.shape[0] // 2]

    array = np.arange(6.0)
    before = sys.getrefcount(array)
    half = first_half(array)
    assert half.tolist() == [0.0, 1.0, 2.0]
    assert half.base is None  # nobody owns it: a counted view would keep the array alive
    assert sys.getrefcount(array) == before


# --- what is said ---------------------------------------------------------------------------------


@compiled_only
def test_compiling_is_announced_and_loading_is_not(script: str, tmp_path: Path) -> None:
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    once = (
        "compiling kernels that this installation has not used yet, fourfold first; "
        "`streamlvq warm` compiles all"
    )
    assert run_both(script, **cache) == ("42.0", once)
    assert run_both(script, **cache) == ("42.0", "")


@compiled_only
def test_a_cache_that_cannot_be_written_is_announced_once(tmp_path: Path) -> None:
    families = tmp_path / "families.py"
    families.write_text(FAMILIES)
    (tmp_path / "file").write_text("")
    out, err = run_both(
        str(families), "grow", "shrink", NUMBA_CACHE_DIR=str(tmp_path / "file" / "cache")
    )
    assert out == "64.0 1.0"
    assert len(err.splitlines()) == 1
    assert err.startswith("compiling the kernels, as at every start: they cannot be kept in ")
    assert err.endswith("; set NUMBA_CACHE_DIR to a folder that can be written")


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="folders are not made read-only this way")
def test_a_cache_may_be_read_only(script: str, warm: Path, tmp_path: Path) -> None:
    """As in an image: nothing is compiled, and nothing is said."""
    cache = shutil.copytree(warm, tmp_path / "cache")
    # Root may write anywhere, so writing is made to fail.
    code = (
        "import runpy, tempfile\n"
        "def refuse(*a, **k): raise PermissionError(13, 'read-only')\n"
        "tempfile.TemporaryFile = refuse\n"
        f"runpy.run_path({script!r}, run_name='__main__')"
    )
    assert run_both("-c", code, NUMBA_CACHE_DIR=str(cache)) == ("42.0", "")


def test_progress_says_what_and_how_far(caplog: pytest.LogCaptureFixture) -> None:
    clock = iter([0.0, 0.5, 2.5, 2.5])
    progress = CompileProgress(clock=lambda: next(clock))
    with caplog.at_level("INFO", "streamlvq"):
        for kernel in ("learn", "predict", "step"):
            progress.begin(kernel, lambda: None)
            progress.end()
        progress.end()  # loaded from the cache
    assert [record.getMessage() for record in caplog.records] == [
        "compiling kernels that this installation has not used yet, learn first; "
        "`streamlvq warm` compiles all",
        "compiling step, 2 done in 2 s",
    ]
    assert (progress.done, progress.kernel) == (3, None)
