"""What mqtt-recorder wrote: CSV with a message in each row."""

from __future__ import annotations

import binascii
import csv
import io
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from streamlvq.connect import Message
from streamlvq_connectors.csv_log import read_next_records
from streamlvq_connectors.files import Blocks, LogError, MessageBlockLog, TopicCache, make_messages

RECORDER_COLUMNS = ("topic", "payload", "qos", "retain", "epoch", "delta")
REQUIRED_COLUMNS = ("topic", "payload", "epoch")


class MqttRecorderLog(MessageBlockLog):
    """A recording by mqtt-recorder: rows of topic, payload, qos, retain, epoch and delta.

    Payloads may hold commas, quotes and ends of lines. The recorder can write them in base64 but
    does not say so in the file: they are taken for base64 if all of the first ones (about a
    megabyte) could be and none of them is JSON as it stands. The `key` of each message is the
    number of its first line.

    Parameters
    ----------
    path
        The file, with or without a row of names; one that ends in `.gz` is compressed.
    fields
        Not looked at here: the payloads are decoded like those of a broker.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> row = b'plant/pump,"{""x"": 1.5, ""y"": 2}",0,False,1700000000.25,0.01\\r\\n'
    >>> size = path.write_bytes(row)
    >>> log = MqttRecorderLog(path)
    >>> log.open()
    >>> log.read()
    [Message(topic='plant/pump', payload=b'{"x": 1.5, "y": 2}', received=1700000000.25, ...)]
    >>> log.close()
    """

    @classmethod
    def recognises(cls, name: str, head: bytes) -> bool:
        """By its names, or because the first row has six cells of the right kinds."""
        try:
            first = next(csv.reader(io.StringIO(head.decode("utf-8-sig", "replace"))), [])
        except csv.Error:
            return False
        if set(REQUIRED_COLUMNS) <= set(first):
            return True
        return (
            len(first) == len(RECORDER_COLUMNS)
            and first[2] in ("0", "1", "2")
            and first[3].lower() in ("true", "false", "0", "1")
            and all(map(_is_number, first[4:]))
        )

    def begin(self, blocks: Blocks) -> None:
        """Look for column names; raise if they are not those of a recorder."""
        self._base64: bool | None = None
        self._topics = TopicCache()
        block = blocks.next()
        names = self._names(block.partition(b"\n")[0])
        self._cells = list(names or RECORDER_COLUMNS)
        self._order = [self._cells.index(name) for name in REQUIRED_COLUMNS]
        blocks.give_back(block if names is None else block.partition(b"\n")[2])

    def _names(self, first: bytes) -> list[str] | None:
        """Return the names in the first line; None if it is a message already."""
        names = first.decode(errors="replace").strip().replace('"', "").split(",")
        if set(REQUIRED_COLUMNS) <= set(names):
            return names
        if "topic" in names and "payload" in names:
            raise LogError(
                f"{self.path}: expected the columns {list(RECORDER_COLUMNS)}, got {names}"
            )
        return None

    def batch(self, block: bytes) -> list[Message]:
        """Return the messages of these lines, except one that continues after them."""
        cells = self._required_cells(block)
        if not cells:
            return []
        if self._base64 is None:
            self._base64 = all(map(_may_be_base64, (payload for _, payload, _, _ in cells)))
        try:
            return self._all_messages(*zip(*cells, strict=True))
        except ValueError:  # not all of them are valid: look at each
            return [m for cell in cells if (m := self._message(*cell)) is not None]

    def _required_cells(self, block: bytes) -> list[tuple[bytes, bytes, str, int]]:
        """Return topic, payload, time and line number of each record that has them."""
        first = self.blocks.line
        found = read_next_records(block, self.blocks, ",")
        topic, payload, epoch = self._order
        cells: list[tuple[bytes, bytes, str, int]] = []
        for i, (row, start) in enumerate(zip(found.rows, found.starts, strict=True)):
            if len(row) == len(self._cells):
                cells.append(
                    (_encode(row[topic]), _encode(row[payload]), row[epoch], first + start)
                )
            else:
                self.refuse(first + start, f"expected {self._cells}, got {found.line(i)[:80]!r}")
        return cells

    def _all_messages(
        self,
        topics: Sequence[bytes],
        payloads: Sequence[bytes],
        epochs: Sequence[str],
        numbers: Sequence[int],
    ) -> list[Message]:
        """Do the same as `_message` for each; raise a ValueError if any is invalid."""
        texts = [self._topics[topic] for topic in topics]
        data = [b64decode(p, validate=True) for p in payloads] if self._base64 else payloads
        return make_messages(texts, data, map(float, epochs), numbers)

    def _message(self, topic: bytes, payload: bytes, epoch: str, number: int) -> Message | None:
        try:
            received = float(epoch)
            data = b64decode(payload, validate=True) if self._base64 else payload
            return Message(self._topics[topic], data, received, False, number)
        except ValueError as error:  # also raised for base64 and UTF-8
            self.refuse(number, f"expected a message, got {payload[:80]!r} at {epoch!r} ({error})")
            return None


def _encode(cell: str) -> bytes:
    return cell.encode(errors="surrogateescape")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _may_be_base64(payload: bytes) -> bool:
    try:
        b64decode(payload, validate=True)
    except binascii.Error:
        return False
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return payload == b""
