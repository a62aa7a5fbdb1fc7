"""Arguments that commands share: their types, checks of outputs, and settings of a log."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from streamlvq import config as configs
from streamlvq.config import Config
from streamlvq.errors import MissingExtraError, StreamLVQError

# --- types ---------------------------------------------------------------------------------------


def count(text: str) -> int:
    """Parse a whole number of at least 1, such as `10_000` or `1e6`."""
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        number = math.nan
    if not (1 <= number < math.inf and number.is_integer()):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(number)


def seconds(text: str) -> float:
    """Parse a time span in seconds: `90`, `90s`, `15m`, `2h`."""
    unit = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:].lower())
    try:
        number = float(text[:-1] if unit else text) * (unit or 1.0)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a time such as 90, 15m or 2h, got {text!r}")
    return number


def speed(text: str) -> float:
    """Parse a speed: `10x`, `0.5`, or `max` for as fast as possible."""
    if text.lower() == "max":
        return math.inf
    try:
        number = float(text.lower().removesuffix("x"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a speed such as 10x, 0.5x or max, got {text!r}")
    return number


def share(text: str) -> float:
    """Parse a share: `0.2` or `20%`."""
    try:
        number = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"expected a share such as 0.2 or 20%, got {text!r}")
    return number


def names(text: str) -> list[str]:
    """Parse names separated by commas."""
    given = [name.strip() for name in text.split(",") if name.strip()]
    if not given:
        raise argparse.ArgumentTypeError(f"expected names separated by commas, got {text!r}")
    return given


# --- outputs -------------------------------------------------------------------------------------

STANDARD_OUTPUT = "-"


def check_outputs(outputs: Mapping[str, str | None], log: str | Sequence[str]) -> None:
    """Raise if an output cannot be written, before the work rather than after it.

    `outputs` are paths by option, None if not requested; `log` is the input, one file or several,
    which must not be overwritten.
    """
    read, called = ([log], "LOG") if isinstance(log, str) else (log, "read")
    taken = {Path(path).resolve(): called for path in read}
    for option, path in outputs.items():
        if path is None or path == STANDARD_OUTPUT:
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


def write_all(writers: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """Call all writers, by option, even if some fail; return the errors, by option."""
    wrong = {}
    for option, write in writers.items():
        try:
            write()
        except (OSError, StreamLVQError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            wrong[option] = f"{option} could not be written: {reason or error}"
    return wrong


# --- log and columns -----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a log and its columns."""
    parser.add_argument("log", metavar="LOG", help="a file, which may be compressed (.gz)")
    add_log_settings(parser)


def add_log_settings(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say how to read a log."""
    parser.add_argument(
        "--config", metavar="C", help="a YAML file, as for `run` (default: all defaults)"
    )
    parser.add_argument(
        "--format", metavar="F", help="csv, jsonl, messages ... (default: recognised by content)"
    )
    parser.add_argument("--limit", type=count, metavar="N", help="stop after N readings")
    fields = parser.add_argument_group(
        "columns or fields, instead of the configured ones; '' for none"
    )
    fields.add_argument(
        "--feature",
        action="append",
        type=names,
        metavar="NAME",
        help="a feature; may be repeated, or separated by commas",
    )
    for name, help_text in (
        ("label", "the class of a reading"),
        ("device", "the device of a reading"),
        ("time", "the time of a reading"),
        ("time-unit", "unit of the time: s, ms, us, ns or iso"),
        ("sequence", "the sequence number of a reading"),
    ):
        fields.add_argument(f"--{name}", metavar="NAME", help=help_text)
    parser.add_argument(
        "--model", metavar="NAME", help="a model such as GLVQ, instead of the configured one"
    )


def settings(options: argparse.Namespace) -> Config:
    """Return the configuration with the arguments applied, checked."""
    config = configs.load(options.config) if options.config else configs.Config()
    readings = msgspec.structs.replace(config.readings, **_fields(options))
    model = config.model
    if options.model and options.model != model.type:
        # parameters of another model may not suit this one
        model = msgspec.structs.replace(model, type=options.model, parameters={})
    changed = msgspec.structs.replace(config, readings=readings, model=model)
    if changed != config:
        configs.check(changed)
    return changed


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the readings that the arguments set."""
    given: dict[str, Any] = {
        name: getattr(options, name) or None  # '' unsets what is configured
        for name in ("label", "device", "time", "sequence")
        if getattr(options, name) is not None
    }
    if options.time_unit is not None:
        given["time_unit"] = options.time_unit
    if options.feature:
        given["features"] = [name for names in options.feature for name in names]
    return given
