"""Decorators that compile kernels with explicit signatures and a cache that cannot go stale."""

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
    # Divisions that raise cannot be vectorised; kernels make sure that divisors are not zero.
    "error_model": "numpy",
}

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def cache_folder() -> Path:
    """Return the cache folder, named after a digest of all kernel sources.

    Numba notices an edit in the file of a cached function but not in the files of the functions it
    calls, so every version of the sources gets its own folder.
    """
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    root = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    try:
        base = Path(root) if root else Path.home() / ".cache"
    except RuntimeError:  # a service account without a home directory
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
    """Compile a function that only kernels call."""
    compiled: F = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)
    return compiled


def inner(function: F) -> F:
    """Compile a helper that runs for every prototype, inlined into its callers.

    Passing arrays costs more than a short loop. Elsewhere inlining would only slow down compiling.
    """
    compiled: F = numba.njit(
        forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS
    )(function)
    return compiled


def kernel(signature: str) -> Callable[[F], F]:
    """Compile a function that Python calls, when its module is imported.

    A cache that cannot be read or written (read-only file system, full disk, damaged file) costs
    compilation time but raises no error.
    """

    def decorate(function: F) -> F:
        compiled: F
        try:
            with _caching_in(cache_folder()):
                compiled = numba.njit(signature, cache=True, **OPTIONS)(function)
        except Exception:  # a damaged cache file can raise anything; compile without it
            compiled = numba.njit(signature, **OPTIONS)(function)
        return compiled

    return decorate
