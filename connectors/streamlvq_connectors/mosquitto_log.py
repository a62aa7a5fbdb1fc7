"""Output of `mosquitto_sub`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

import msgspec

from streamlvq.connect import UNKNOWN_TIME, Message
from streamlvq_connectors.files import BOM, Blocks, MessageBlockLog, TopicCache, make_messages

_TIMED = re.compile(rb"\d+(?:\.\d+)? [^ ]+ ")
_VERBOSE = re.compile(rb"[^ ,={}\[\]\"]+/[^ ,={}\[\]\"]* (?:[{\[(]|-?\d)")
_ZULU = re.compile(r"Z(?=[+-]\d{4}$)")  # written before the offset, whatever that is


class _SubscriberLine(msgspec.Struct):
    """A line that `mosquitto_sub -F %j` prints."""

    tst: str
    topic: str
    payloadlen: int
    payload: msgspec.Raw


class MosquittoLog(MessageBlockLog):
    """A recording by `mosquitto_sub`, in one of three forms.

    - `mosquitto_sub -t 'plant/#' -F '%U %t %p' > log`: time, topic, payload. The best choice.
    - `mosquitto_sub -t 'plant/#' -F %j > log` (or `%J`): the same as JSON.
    - `mosquitto_sub -t 'plant/#' -v > log`: topic and payload, without the time, which is 0.0.

    The first line says which. With the first and the last form the topic ends at the first space:
    topics with spaces, and payloads with line ends, need `%j` or
    `streamlvq record`. The `key` of each message is the number of its line.

    Parameters
    ----------
    path
        The file; one that ends in `.gz` is compressed.
    fields
        Not used here: payloads are decoded like those of a broker.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log"
    >>> size = path.write_bytes(b'1700000000.250000000 plant/pump {"x": 1.5}\\n')
    >>> log = MosquittoLog(path)
    >>> log.open()
    >>> log.read()
    [Message(topic='plant/pump', payload=b'{"x": 1.5}', received=1700000000.25, ...)]
    >>> log.close()
    """

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """Return True if the first line has one of the three forms."""
        first = head.removeprefix(BOM).lstrip(b"\r\n").partition(b"\n")[0]
        if first.startswith(b'{"tst":') and b'"topic":' in first:
            return True
        return bool(_TIMED.match(first) or _VERBOSE.match(first))

    def begin(self, blocks: Blocks) -> None:
        """Start without a form; the first line decides."""
        self._parse: Callable[[bytes, int], Message] | None = None
        self._topics = TopicCache()

    def batch(self, block: bytes) -> list[Message]:
        """Return the messages in these lines."""
        lines = block.split(b"\n")
        if self._parse == self._timed:
            try:
                return self._all_timed(lines[:-1])
            except ValueError:  # not all lines have this form: parse one by one
                pass
        found: list[Message] = []
        for number, line in enumerate(lines, self.blocks.line):
            if not line or line == b"\r":
                continue
            if self._parse is None:
                self._parse = self._parser(line)
            try:
                found.append(self._parse(line, number))
            except ValueError as error:
                self.refuse(number, f"{error}, got {line[:80]!r}")
        return found

    def _all_timed(self, lines: list[bytes]) -> list[Message]:
        """Parse all lines as `_timed` does, by column; raise ValueError if one does not fit."""
        times, topics, payloads = zip(*[line.split(b" ", 2) for line in lines], strict=True)
        texts = [self._topics[topic] for topic in topics]
        return make_messages(texts, payloads, map(float, times), count(self.blocks.line))

    def _parser(self, first: bytes) -> Callable[[bytes, int], Message]:
        if first.startswith(b"{"):
            return _from_json
        return self._timed if _TIMED.match(first) else self._verbose

    def _timed(self, line: bytes, number: int) -> Message:
        parts = line.split(b" ", 2)
        if len(parts) != 3 or not parts[1]:
            raise ValueError("expected a time, a topic and a payload")
        try:
            received = float(parts[0])
        except ValueError:
            raise ValueError("expected the time in seconds first") from None
        return Message(self._topics[parts[1]], parts[2], received, False, number)

    def _verbose(self, line: bytes, number: int) -> Message:
        topic, space, payload = line.partition(b" ")
        if not space or not topic:
            raise ValueError("expected a topic, a space and a payload")
        if payload in (b"(null)", b"(null)\r"):  # how mosquitto_sub prints an empty payload
            payload = b""
        return Message(self._topics[topic], payload, UNKNOWN_TIME, False, number)


def _from_json(line: bytes, number: int) -> Message:
    try:
        found = msgspec.json.decode(line, type=_SubscriberLine)
        payload = _payload(bytes(found.payload), found.payloadlen)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _from_binary_json(line, number)
    return Message(found.topic, payload, _seconds(found.tst), False, number)


def _payload(raw: bytes, length: int) -> bytes:
    """Return the payload: `%j` writes it as a string, `%J` as JSON, which may be a string too."""
    if raw == b"null" and length == 0:
        return b""
    if raw.startswith(b'"'):
        text = msgspec.json.decode(raw, type=str).encode()
        return text if len(text) == length else raw
    return raw


def _from_binary_json(line: bytes, number: int) -> Message:
    """Parse a line with a binary payload, which mosquitto_sub writes as is: not valid JSON."""
    found = json.loads(line.decode(errors="surrogateescape"))
    if not isinstance(found, dict) or not isinstance(found.get("payload"), str):
        raise ValueError("expected an object with tst, topic and payload")
    try:
        payload = found["payload"].encode(errors="surrogateescape")
        return Message(str(found["topic"]), payload, _seconds(found["tst"]), False, number)
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected an object with tst, topic and payload ({error!r})") from error


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(_ZULU.sub("", text))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
