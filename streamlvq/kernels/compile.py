"""Decorators that compile kernels when they are first used, with a cache that cannot go stale."""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

from streamlvq.kernels.internals import HELPER_OPTIONS, address_of, caching_in, noticing
from streamlvq.kernels.progress import progress

# `reassoc` and `contract` let LLVM vectorise sums; the full `fastmath=True` would also delete the
# NaN checks on which missing features depend.
OPTIONS: dict[str, Any] = {
    "fastmath": {"reassoc", "contract"},
    # Divisions that raise cannot be vectorised; kernels make sure that divisors are not zero.
    "error_model": "numpy",
}

F = TypeVar("F", bound=Callable[..., Any])

# --- the cache -----------------------------------------------------------------------------------


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


def cache_error() -> str | None:
    """Return why compiled kernels cannot be kept; None if they can."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder}: {error.strerror or error}"


@contextmanager
def _without_collector() -> Iterator[None]:
    """Switch the garbage collector off: compiling creates many objects that stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# --- decorators ----------------------------------------------------------------------------------


def helper(function: F) -> F:
    """Compile a function that only kernels call."""
    return _as_helper(function)


def inner(function: F) -> F:
    """Compile a helper that runs for every prototype, inlined into its callers.

    Passing arrays costs more than a short loop. Elsewhere inlining would only slow down compiling.
    """
    return _as_helper(function, forceinline=True)


def _as_helper(function: F, **options: Any) -> F:
    if function.__closure__ is not None:
        # Cached kernels carry the helpers they call, and of two with the same name one would be
        # used for both.
        inside = [_name_of(cell.cell_contents) for cell in function.__closure__]
        function.__qualname__ += f"[{','.join(inside)}]"
    compiled: F = numba.njit(**options, **HELPER_OPTIONS, **OPTIONS)(function)
    return compiled


def _name_of(value: Any) -> str:
    function = getattr(value, "py_func", value)
    return getattr(function, "__qualname__", repr(value))


_signatures: dict[Any, tuple[Callable[..., Any], str]] = {}


def kernel(signature: str) -> Callable[[F], F]:
    """Make a helper that Python can call as well, see `kernels` and `compiled`."""

    def decorate(function: F) -> F:
        inside = helper(function)
        _signatures[inside] = function, signature
        return inside

    return decorate


# --- kernels for Python --------------------------------------------------------------------------


_lock = threading.RLock()


@functools.cache
def compiled(function: Callable[..., Any]) -> Any:
    """Return a kernel as a function for Python, compiled now or loaded from the cache.

    A cache that cannot be read or written (read-only file system, full disk, damaged file) costs
    compilation time but raises no error.
    """
    plain, signature = _signatures[function]
    if numba.config.DISABLE_JIT:
        return plain
    with _lock, _without_collector(), caching_in(cache_folder()):
        try:
            kernel = _compile(plain, signature, cache=True)
        except Exception:  # a damaged cache file can raise anything; compile without it
            kernel = _compile(plain, signature, cache=False)
    kernel.disable_compile()
    return kernel


def _compile(function: Callable[..., Any], signature: str, cache: bool) -> Any:
    kernel = numba.njit(cache=cache, **OPTIONS)(function)
    with noticing(kernel, lambda: progress.begin(function.__name__, cache_error)):
        try:
            kernel.compile(signature)
        except OSError:
            if not kernel.overloads:
                raise  # before it was compiled; otherwise it could only not be saved
        finally:
            progress.end()
    return kernel


@functools.cache
def address(function: Callable[..., Any]) -> Any:
    """Return the address of a kernel, with which other kernels call it instead of containing it."""
    kernel = compiled(function)
    if numba.config.DISABLE_JIT:
        return kernel
    found = address_of(kernel)
    if found is None:
        plain, signature = _signatures[function]
        found = numba.cfunc(signature, **OPTIONS)(plain).address
    return found


class KernelModule:
    """Constants and kernels of a module; a kernel is compiled when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(f"streamlvq.kernels.{name}")

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.module, name)
        if value.__hash__ is not None and value in _signatures:
            value = compiled(value)
        setattr(self, name, value)
        return value

    def address(self, name: str) -> Any:
        """Return the address of a kernel."""
        return address(getattr(self.module, name))

    def load(self, *names: str) -> None:
        """Compile or load these kernels before they are needed."""
        for name in names:
            getattr(self, name)

    def names(self) -> list[str]:
        """Return the names of the kernels that the module defines."""
        return [
            name
            for name, value in vars(self.module).items()
            if value.__hash__ is not None
            and value in _signatures
            and _signatures[value][0].__module__ == self.module.__name__
        ]


# --- all of them ---------------------------------------------------------------------------------

MODULES = (
    "distance",
    "pipeline",
    "filtering",
    "novelty",
    "pool",
    "candidates",
    "coupling",
    "prototypes",
    "forest",
    "bins",
    "private",
    "clipped",
)


def compile_all() -> Iterator[tuple[str, int, int]]:
    """Compile or load every kernel; yield its name, its number and how many there are."""
    found = [
        getattr(module.module, name)
        for module in map(KernelModule, MODULES)
        for name in module.names()
    ]
    for number, function in enumerate(found, start=1):
        yield _signatures[function][0].__name__, number, len(found)
        compiled(function)
