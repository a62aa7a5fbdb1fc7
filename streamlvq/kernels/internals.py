"""What depends on numba's internals: helpers, calls by address, arrays without owner, the cache.

If the internals are not as expected, helpers are compiled as numba does it and addresses are those
of C callbacks: the same results, but compiling takes several times as long. A cache folder must be
writable then even to be read, and nobody is told what is being compiled.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# --- helpers -------------------------------------------------------------------------------------


def _helper_compiler() -> type | None:
    """Return a compiler for functions that are only linked into others; None if it cannot be made.

    Numba optimises a function together with everything it calls and generates machine code for it,
    then does so again for each caller, up to the kernel. Once, in the kernel, is enough.
    """
    try:
        from numba.core.codegen import JITCodeLibrary  # noqa: PLC0415
        from numba.core.compiler import Compiler  # noqa: PLC0415
    except ImportError:
        return None
    expected = ["_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals"]
    arguments = list(inspect.signature(Compiler).parameters)[:3]
    if not all(hasattr(JITCodeLibrary, name) for name in expected):
        return None
    if arguments != ["typingctx", "targetctx", "library"]:
        return None

    class HelperLibrary(JITCodeLibrary):  # type: ignore[misc]
        """Code of a helper, neither optimised as a whole nor made into machine code."""

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        @property
        def codegen(self) -> Any:
            return self

        def set_env(self, name: str, environment: object) -> None:
            """Do nothing: no machine code looks for the environment."""

    class HelperCompiler(Compiler):  # type: ignore[misc]
        """Numba's compiler with another library."""

        def __init__(self, typing: Any, target: Any, library: Any, *more: Any) -> None:
            super().__init__(typing, target, library, *more)
            self.state.library = library or HelperLibrary(self.state.targetctx.codegen(), "helper")

    return HelperCompiler


HELPER_COMPILER = _helper_compiler()
HELPER_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if HELPER_COMPILER is not None:
    HELPER_OPTIONS["pipeline_class"] = HELPER_COMPILER


# --- calls by address ----------------------------------------------------------------------------


def address_of(compiled: Any) -> int | None:
    """Return the address of a compiled kernel as a C function; None if it cannot be found."""
    try:
        (overload,) = compiled.overloads.values()
        name = overload.fndesc.llvm_cfunc_wrapper_name
        address: int = overload.library.get_pointer_to_function(name)
    except (AttributeError, ValueError):
        return None
    return address or None


def caller(result: Any) -> Callable[..., Any]:
    """Return a function `call(address, arguments)` for kernels with this type of result."""

    @intrinsic
    def call(typing, address, arguments):
        def generate(context, builder, signature, values):
            kinds = [context.get_value_type(kind) for kind in arguments]
            function = ir.FunctionType(context.get_value_type(result), kinds).as_pointer()
            given = cgutils.unpack_tuple(builder, values[1])
            return builder.call(builder.inttoptr(values[0], function), given)

        return result(types.int64, arguments), generate

    def call_python(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return function(*arguments)

    chosen: Callable[..., Any] = call_python if numba.config.DISABLE_JIT else call
    return chosen


call_integer = caller(types.int64)
call_float = caller(types.float64)


# --- arrays without owner ------------------------------------------------------------------------


@intrinsic
def _without_owner(typing, array):
    def generate(context, builder, signature, values):
        model = context.data_model_manager[array]
        owner = model.get_field_position("meminfo")
        nobody = cgutils.get_null_value(context.get_value_type(model.get_type("meminfo")))
        return builder.insert_value(values[0], nobody, owner)

    return array(array), generate


def _as_it_is(array: Any) -> Any:
    return array


# Returns an array whose references are not counted; the caller of the kernel keeps it alive. Each
# view of an array counts a reference, atomically, which took 40 % of the time of learning.
borrowed: Callable[[Any], Any] = _as_it_is if numba.config.DISABLE_JIT else _without_owner


# --- the cache -----------------------------------------------------------------------------------

LOCATORS = "_locator_classes"  # attribute of numba's cache: where it looks for a folder


@contextlib.contextmanager
def caching_in(folder: Path) -> Iterator[None]:
    """Cache functions that are decorated meanwhile in this folder and nowhere else.

    The folder need not be writable: an image may bring compiled kernels along.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        with _only_locator(_folder_locator()):
            yield
    finally:
        numba.config.CACHE_DIR = before


def _folder_locator() -> type | None:
    """Return numba's locator for `CACHE_DIR` without its test for writing; None if not found."""
    from numba.core import caching  # noqa: PLC0415

    for name in ("UserProvidedCacheLocator", "_UserProvidedCacheLocator"):
        if hasattr(caching, name):
            members = {"ensure_cache_path": lambda locator: _make_folder(locator.get_cache_path())}
            return type("FolderLocator", (getattr(caching, name),), members)
    return None


def _make_folder(path: str) -> None:
    with contextlib.suppress(OSError):  # saving raises it again, after loading was tried
        Path(path).mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _only_locator(locator: type | None) -> Iterator[None]:
    from numba.core import caching  # noqa: PLC0415

    cache = getattr(caching, "CacheImpl", None)
    before = getattr(cache, LOCATORS, None)
    if cache is None or before is None or locator is None:
        yield
        return
    setattr(cache, LOCATORS, [locator])
    try:
        yield
    finally:
        setattr(cache, LOCATORS, before)


@contextlib.contextmanager
def noticing(dispatcher: Any, notice: Callable[[], None]) -> Iterator[None]:
    """Call `notice` when this function is about to be compiled, not loaded from the cache."""
    try:
        from numba.core.event import Listener, install_listener  # noqa: PLC0415
    except ImportError:
        yield
        return

    class Notice(Listener):  # type: ignore[misc]
        """Listener to the beginning of a compilation."""

        def on_start(self, event: Any) -> None:
            if event.data["dispatcher"] is dispatcher:
                notice()

        def on_end(self, event: Any) -> None:
            pass

    with install_listener("numba:compile", Notice()):
        yield
