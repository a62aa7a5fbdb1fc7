"""Logging for people or for machines; what repeats is said once and then counted."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, TextIO

import msgspec

from streamlvq.config import LoggingSection

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = msgspec.json.Encoder(enc_hook=repr).encode


def set_up(section: LoggingSection, stream: TextIO | None = None) -> logging.Handler:
    """Send what `streamlvq` and its connectors log to `stream` (the standard error output).

    May be called again, with other wishes.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if section.format == "json" else TextFormatter())
    handler.addFilter(Sparing())
    for name in ("streamlvq", "streamlvq_connectors"):
        logger = logging.getLogger(name)
        logger.setLevel(section.level.upper())
        logger.handlers[:] = [handler]
        logger.propagate = False
    return handler


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """A line for people: when, how serious, what, and the details."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        details = "".join(f" {name}={value}" for name, value in fields(record).items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{details}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """A JSON object on a line: time, level, logger, message, then the details.

    Examples
    --------
    >>> record = logging.makeLogRecord({
    ...     "created": 0.25, "levelname": "INFO", "name": "streamlvq.daemon",
    ...     "msg": "restored %s", "args": ("snapshot-7",), "position": 12,
    ... })
    >>> JsonFormatter().format(record)
    '{"time":"1970-01-01T00:00:00.250Z","level":"info",...,"message":"restored snapshot-7",...}'

    """

    def format(self, record: logging.LogRecord) -> str:
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{second}.{int(record.created * 1000) % 1000:03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return _encode(entry).decode()


class Sparing(logging.Filter):
    """Lets a message through `burst` times within `seconds`, then counts it until time is up.

    Messages are the same if they come from the same line, whatever they are filled in with: a
    thousand devices that send nonsense are one thing to know about.
    """

    def __init__(self, burst: int = 5, seconds: float = 60.0) -> None:
        super().__init__()
        self.burst = burst
        self.seconds = seconds
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # since when, how often

    def filter(self, record: logging.LogRecord) -> bool:
        key, now = (record.name, str(record.msg)), time.monotonic()
        since, times = self._seen.get(key, (now, 0))
        if now - since >= self.seconds:
            if times > self.burst:
                record.unsaid = times - self.burst  # how many of its like were left out
            since, times = now, 0
        self._seen[key] = since, times + 1
        return times < self.burst


__all__ = ["JsonFormatter", "Sparing", "TextFormatter", "set_up"]
