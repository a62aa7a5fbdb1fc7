"""JSON lines: one object per line."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

from streamlvq.connect import NO_TOPIC, UNKNOWN_TIME, Message
from streamlvq_connectors.files import BOM, MessageBlockLog, make_messages


class JsonlLog(MessageBlockLog):
    """A file in which each line is the JSON payload of a reading.

    A line is decoded like a payload that came from a broker, with `fields.device` saying where the
    name of the device is, because there is no topic. When a line was received is not known: it is
    0.0 for all, so that a replay gives the same result every time. The `key` of each message is the
    number of its line.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Not used here: payloads are decoded like those of a broker.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> size = path.write_bytes(b'{"device": "pump", "x": 1.5}\\n{"device": "fan", "x": 2}\\n')
    >>> log = JsonlLog(path)
    >>> log.open()
    >>> [message.payload for message in log.read()]
    [b'{"device": "pump", "x": 1.5}', b'{"device": "fan", "x": 2}']
    >>> log.progress, log.read()
    ((55, 55), None)
    >>> log.close()
    """

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if the name says so, or the file begins with an object or an array."""
        if name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            return True
        return head.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")

    def batch(self, block: bytes) -> list[Message]:
        """Return a message for each line that is not blank."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        lines = block.split(b"\n")
        numbers: Iterable[int] = range(self.blocks.line, self.blocks.line + len(lines))
        if not all(lines[:-1]):
            numbers = [number for number, line in zip(numbers, lines, strict=True) if line]
        payloads = list(filter(None, lines))
        return make_messages(repeat(NO_TOPIC), payloads, repeat(UNKNOWN_TIME), numbers)
