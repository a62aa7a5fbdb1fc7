"""Logging as text or JSON, with a rate limit: repeated messages are counted instead."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, NamedTuple, TextIO

import msgspec

from streamlvq.config import LoggingSection

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "alike"}
MESSAGE_BURST = 5  # messages that are alike and logged before the rest of them is counted

_encode = msgspec.json.Encoder(enc_hook=repr).encode


def set_up(section: LoggingSection, stream: TextIO | None = None) -> logging.Handler:
    """Send what `streamlvq` and its connectors log to `stream` (default: standard error).

    May be called again with another configuration.
    """
    settle()
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if section.format == "json" else TextFormatter())
    handler.addFilter(RateLimitFilter())
    for name in ("streamlvq", "streamlvq_connectors"):
        logger = logging.getLogger(name)
        logger.setLevel(section.level.upper())
        logger.handlers[:] = [handler]
        logger.propagate = False
    return handler


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the `extra` fields of a log record."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class TextFormatter(logging.Formatter):
    """Formatter for one line of text: time, level, message and details."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        details = "".join(f" {name}={value}" for name, value in fields(record).items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{details}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """Formatter for one JSON object per line: time, level, logger, message and details.

    Examples
    --------
    >>> record = logging.makeLogRecord({
    ...     "created": 0.25, "levelname": "INFO", "name": "streamlvq.service",
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


Kind = tuple[str, str, Any]  # logger, message template, `alike`


class Seen(NamedTuple):
    """Counts of a kind of message logged and suppressed in the current period."""

    since: float
    times: int
    unsaid: int = 0
    last: logging.LogRecord | None = None  # of those suppressed


class RateLimitFilter(logging.Filter):
    """Filter that passes a message `burst` times within `seconds`, then only counts it.

    Messages with the same template count as the same, whatever their arguments: a thousand devices
    that send garbage are one problem. A template that covers several problems distinguishes them
    with `extra={"alike": ...}`, at most `most` of them; the rest count as one. The number of
    suppressed messages is logged with the next one, or by `settle`.
    """

    def __init__(self, burst: int = MESSAGE_BURST, seconds: float = 60.0, most: int = 50) -> None:
        super().__init__()
        self.burst, self.seconds, self.most = burst, seconds, most
        self._seen: dict[Kind, Seen] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        kind = self._kind(record)
        seen = self._seen.get(kind)
        if seen is None or now - seen.since >= self.seconds:
            if seen is not None and seen.unsaid:
                record.unsaid = seen.unsaid  # how many of its like were left out
            self._seen[kind] = Seen(now, 1)
            return True
        if seen.times < self.burst:
            self._seen[kind] = seen._replace(times=seen.times + 1)
            return True
        self._seen[kind] = seen._replace(unsaid=seen.unsaid + 1, last=record)
        return False

    def settle(self, handler: logging.Handler, everything: bool) -> None:
        """Log how many messages were suppressed: of kinds whose period is over, or of all."""
        now = time.monotonic()
        for kind, seen in list(self._seen.items()):
            if everything or now - seen.since >= self.seconds:
                del self._seen[kind]
                if seen.last is not None:
                    _emit(handler, _count_of(seen.last, seen.unsaid))

    def _kind(self, record: logging.LogRecord) -> Kind:
        kind = (record.name, str(record.msg), getattr(record, "alike", None))
        if kind[2] is not None and kind not in self._seen and len(self._seen) >= self.most:
            return (record.name, str(record.msg), None)
        return kind


def _count_of(record: logging.LogRecord, times: int) -> logging.LogRecord:
    """Return a record about suppressed messages, with the last one as an example."""
    told = logging.makeLogRecord(vars(record))
    told.msg, told.args = "%d more like this were left out: %s", (times, record.getMessage())
    told.created, told.exc_info, told.exc_text = time.time(), None, None
    return told


def _emit(handler: logging.Handler, record: logging.LogRecord) -> None:
    """Write a record, bypassing the filters."""
    handler.acquire()
    try:
        handler.emit(record)
    finally:
        handler.release()


def settle(everything: bool = True) -> None:
    """Log how many messages were suppressed: of all kinds, or of those whose period is over."""
    for handler in logging.getLogger("streamlvq").handlers:
        for limiter in handler.filters:
            if isinstance(limiter, RateLimitFilter):
                limiter.settle(handler, everything)
