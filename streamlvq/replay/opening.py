"""Finds out which kind of log a file is."""

from __future__ import annotations

import difflib
import zlib
from pathlib import Path

from streamlvq.config import Fields
from streamlvq.connect import Log, UnknownConnectorError, logs

HEAD = 65_536  # bytes to look at
# Those that are easily told first: our own recordings are also JSONL, mqtt-recorder's also CSV.
ORDER = ("messages", "parquet", "mqtt_recorder", "mosquitto_sub", "influx", "jsonl", "csv")


def open_log(path: Path, fields: Fields, format: str | None = None) -> tuple[str, Log]:
    """The name of the format and the log, ready to be read.

    Parameters
    ----------
    path
        The file.
    fields
        Which columns are what.
    format
        The name of the format; None to find out by the name of the file and how it begins.

    Examples
    --------

    >>> import pathlib, tempfile
    >>> from streamlvq.config import Fields
    >>> from streamlvq.replay.opening import open_log
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "oven.csv"
    >>> size = path.write_text("t,temperature\\n0,20.5\\n")
    >>> name, log = open_log(path, Fields(time="t"))
    >>> name, log.read().features
    ('csv', ('temperature',))
    >>> log.close()

    """
    known = logs()
    name = _recognised(path, known) if format is None else _called(format, known)
    log = known[name](path, fields)
    log.open()
    return name, log


def _called(name: str, known: dict[str, type[Log]]) -> str:
    if name in known:
        return name
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownConnectorError(
        f"format: expected one of {', '.join(sorted(known))}, got {name!r}{meant}"
    )


def _recognised(path: Path, known: dict[str, type[Log]]) -> str:
    head = _head(path)
    ordered = [name for name in ORDER if name in known]
    for name in [*ordered, *(name for name in known if name not in ORDER)]:
        if known[name].recognises(path.name, head):
            return name
    raise UnknownConnectorError(
        f"{path}: expected a log of {', '.join(sorted(known))}, got {head[:40]!r}; say --format"
    )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(HEAD)
    if path.suffix != ".gz":
        return data
    try:
        return zlib.decompressobj(31).decompress(data, HEAD)
    except zlib.error as error:
        raise UnknownConnectorError(f"{path}: expected gzip data, got {error}") from error
