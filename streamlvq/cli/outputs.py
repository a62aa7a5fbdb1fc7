"""Output files of a command, checked before the work and written independently."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from streamlvq.errors import MissingExtraError, StreamLVQError

STANDARD = "-"  # output


def check_outputs(outputs: Mapping[str, str | None], log: str | Sequence[str]) -> None:
    """Raise if an output cannot be written, before the work rather than after it.

    `outputs` are paths by option, None if not requested; `log` is the input, one file or several,
    which must not be overwritten.
    """
    read, called = ([log], "LOG") if isinstance(log, str) else (log, "read")
    taken = {Path(path).resolve(): called for path in read}
    for option, path in outputs.items():
        if path is None or path == STANDARD:
            continue
        _check(option, Path(path))
        place = Path(path).resolve()
        if place.is_file() or not place.exists():  # /dev/null may serve several
            if place in taken:
                raise StreamLVQError(
                    f"{option}: expected a file of its own, got {path!r}, which is {taken[place]} "
                    "too: name another one"
                )
            taken[place] = option


def _check(option: str, path: Path) -> None:
    if path.is_dir():
        raise StreamLVQError(f"{option}: expected a file, got {str(path)!r}, which is a folder")
    if not path.parent.is_dir():
        raise StreamLVQError(
            f"{option}: expected a file in a folder that exists, got {str(path)!r}: make the "
            f"folder {str(path.parent)!r} first"
        )
    if path.exists() and not path.is_file():  # a device or a pipe: opening one may wait for ever
        return
    before = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise StreamLVQError(
            f"{option}: expected a file that can be written, got {str(path)!r}: {error.strerror}"
        ) from error
    if not before:
        path.unlink()


def check_plots() -> None:
    """Raise if plots cannot be drawn."""
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error


def write_all(writers: Mapping[str, Callable[[], object]]) -> list[str]:
    """Call all writers, by option, even if some fail; return the error messages."""
    wrong = []
    for option, write in writers.items():
        try:
            write()
        except (OSError, StreamLVQError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            wrong.append(f"{option} could not be written: {reason or error}")
    return wrong
