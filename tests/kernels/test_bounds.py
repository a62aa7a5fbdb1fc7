"""No kernel reads or writes outside of its arrays, as far as the tests below see it.

Compiled code does not check indices: a wrong one reads or spoils memory of others. With
`NUMBA_BOUNDSCHECK=1` it raises, but only in kernels that are compiled then: the cache does not know
the flag, so the check has a cache of its own, kept for the next time. An error in a kernel that
another one calls by address is not raised but handed to `sys.unraisablehook`, and the caller goes
on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamlvq.kernels.compile import cache_folder
from support import ROOT

interpreted = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
checked = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")
pytestmark = pytest.mark.skipif(
    interpreted or checked, reason="interpreted code checks its indices; a check checks no check"
)

# Tests that come into every kernel, most of them with few readings: compiling takes the time.
CHECKED = [
    "tests/kernels/test_certainty_kernels.py",
    "tests/kernels/test_kernels.py",
    "tests/kernels/test_pairwise_kernels.py",
    "tests/monitor",
    "tests/models/test_absent.py",
    "tests/models/test_committee.py",
    "tests/models/test_entrances.py",
    "tests/models/test_ranges.py",
    "tests/wrappers",
    "-k",
    "not threads_take_turns and not river_check",  # nothing else, for long
]

# Each test is a kernel that writes behind its array.
BROKEN = """
import numpy as np
import pytest
from streamlvq.kernels.compile import address, compiled, helper, kernel
from streamlvq.kernels.internals import call_integer

@helper
def write(x, k):
    x[k] = 1.0
    return 3

@kernel("int64(float64[::1], int64)")
def broken(x, k):
    return write(x, k)

@kernel("int64(float64[::1], int64, int64)")
def caller(x, k, other):
    return call_integer(other, (x, k))

def by_name(k):
    compiled(broken)(np.zeros(3), k)

def by_address(k):
    compiled(caller)(np.zeros(3), k, address(broken))

@pytest.mark.parametrize("call", [by_name, by_address])
@pytest.mark.parametrize("k", [2, 3])
def test_write(call, k):
    call(k)
"""


def run_checked(cache: Path, *tests: str) -> tuple[int, str]:
    """Return exit code and output of tests that run with bounds checks."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "connectors"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "-rfE"),
            *("-W", "error::pytest.PytestUnraisableExceptionWarning", *tests),
        ],
        env={
            **os.environ,
            "PYTHONPATH": path,
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_CACHE_DIR": str(cache),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_an_access_out_of_bounds_is_found(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text(BROKEN)
    code, output = run_checked(tmp_path / "cache", str(file))
    failed = {line.split("::")[1].split()[0] for line in output.splitlines() if "FAILED" in line}
    assert code == 1, output
    assert failed == {"test_write[3-by_name]", "test_write[3-by_address]"}
    assert "index is out of bounds" in output


def test_kernels_stay_within_their_arrays() -> None:
    code, output = run_checked(cache_folder() / "checked", *CHECKED)
    assert code == 0, output[-20_000:]
    assert "out of bounds" not in output, output[-20_000:]
