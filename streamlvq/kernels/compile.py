"""How a kernel is compiled: with an explicit signature, from a cache that cannot go stale."""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

# `reassoc` and `contract` let LLVM vectorise sums; the full `fastmath=True` would also delete the
# NaN checks on which missing features depend.
OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract"},
    # Divisions that raise cannot be vectorised; kernels divide by what they know is not zero.
    "error_model": "numpy",
}

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def cache_folder() -> Path:
    """Where compiled kernels are kept: one folder for each state of the kernel sources.

    Numba notices an edit in the file of a cached function but not in the files of the functions it
    calls. A folder named after a digest of all kernel sources makes that mistake impossible.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(root) if root else Path.home() / ".cache"
    except RuntimeError:  # a service account without a home
        base = Path(tempfile.gettempdir())
    return base / "streamlvq" / digest.hexdigest()[:16]


@contextmanager
def _caching_in(folder: Path) -> Iterator[None]:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def helper(function: F) -> F:
    """A function that only kernels call; it is compiled into them."""
    compiled: F = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)
    return compiled


def inner(function: F) -> F:
    """A helper that runs for every prototype: put in place, because handing over arrays costs more
    than a short loop. Everywhere else that would only make compiling slower.
    """
    compiled: F = numba.njit(
        forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS
    )(function)
    return compiled


def kernel(signature: str) -> Callable[[F], F]:
    """A function that Python calls; compiled when its module is imported.

    A cache that cannot be written or read (read-only file system, full disk, damaged file) costs
    compilation time, never the program.
    """

    def decorate(function: F) -> F:
        compiled: F
        try:
            with _caching_in(cache_folder()):
                compiled = numba.njit(signature, cache=True, **OPTIONS)(function)
        except Exception:  # anything a damaged cache file can raise; compiling anew is the cure
            compiled = numba.njit(signature, **OPTIONS)(function)
        return compiled

    return decorate
