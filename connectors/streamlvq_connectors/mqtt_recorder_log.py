"""What mqtt-recorder wrote: CSV with a message in each row."""

from __future__ import annotations

import binascii
import csv
import io
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from streamlvq.connect import Message
from streamlvq_connectors.block_log import MessageBlockLog, Topics, make_messages
from streamlvq_connectors.files import Blocks, LogError
from streamlvq_connectors.kinds import SKIP, TEXT
from streamlvq_connectors.scanner import Scan, Scanner

COLUMNS = ("topic", "payload", "qos", "retain", "epoch", "delta")
_WANTED = ("topic", "payload", "epoch")


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
        if set(_WANTED) <= set(first):
            return True
        return (
            len(first) == len(COLUMNS)
            and first[2] in ("0", "1", "2")
            and first[3].lower() in ("true", "false", "0", "1")
            and all(map(_is_number, first[4:]))
        )

    def begin(self, blocks: Blocks) -> None:
        """Look for names of columns; raises if they are others than expected."""
        self._base64: bool | None = None
        self._topics = Topics()
        block = blocks.next()
        names = self._names(block.partition(b"\n")[0])
        kinds = [TEXT if name in _WANTED else SKIP for name in names or COLUMNS]
        self._order = [n for n in names or COLUMNS if n in _WANTED]
        self._cells = list(names or COLUMNS)
        self._scanner = Scanner(kinds)
        blocks.give_back(block if names is None else block.partition(b"\n")[2])

    def _names(self, first: bytes) -> list[str] | None:
        """The names in the first line; None if it is a message already."""
        names = first.decode(errors="replace").strip().replace('"', "").split(",")
        if set(_WANTED) <= set(names):
            return names
        if "topic" in names and "payload" in names:
            raise LogError(f"{self.path}: expected the columns {list(COLUMNS)}, got {names}")
        return None

    def batch(self, block: bytes) -> list[Message]:
        """The messages of these lines, those that go on after them excepted."""
        found = self._scanner.scan_next(block, self.blocks)
        cells = self._texts(found, self._numbers(found))
        if not cells:
            return []
        if self._base64 is None:
            self._base64 = all(map(_may_be_base64, (payload for _, payload, _, _ in cells)))
        try:
            return self._all_messages(*zip(*cells, strict=True))
        except ValueError:  # some are otherwise
            return [m for cell in cells if (m := self._message(*cell)) is not None]

    def _all_messages(
        self,
        topics: Sequence[bytes],
        payloads: Sequence[bytes],
        epochs: Sequence[bytes],
        numbers: Sequence[int],
    ) -> list[Message]:
        """The same as `_message` for each, if all are as they should be."""
        texts = [self._topics[topic] for topic in topics]
        data = [b64decode(p, validate=True) for p in payloads] if self._base64 else payloads
        return make_messages(texts, data, map(float, epochs), numbers)

    def _numbers(self, found: Scan) -> list[int]:
        return list(found.line_numbers(self.blocks.line, range(len(found))).values())

    def _texts(self, found: Scan, lines: list[int]) -> list[tuple[bytes, bytes, bytes, int]]:
        """Topic, payload, time and number of each line that has them."""
        columns = [found.texts(self._order.index(name)) for name in _WANTED]
        bad = set()
        for row in found.odd:
            cells = _split(found.line(row), len(self._cells))
            if cells is None:
                bad.add(row)
                self.refuse(lines[row], f"expected {self._cells}, got {found.line(row)[:80]!r}")
                continue
            for column, name in zip(columns, _WANTED, strict=True):
                column[row] = cells[self._cells.index(name)]
        whole = zip(*columns, lines, strict=True)
        return [cells for row, cells in enumerate(whole) if row not in bad]

    def _message(self, topic: bytes, payload: bytes, epoch: bytes, number: int) -> Message | None:
        try:
            received = float(epoch)
            data = b64decode(payload, validate=True) if self._base64 else payload
            return Message(self._topics[topic], data, received, False, number)
        except ValueError as error:  # base64's and text's are such
            self.refuse(number, f"expected a message, got {payload[:80]!r} at {epoch!r} ({error})")
            return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _split(line: bytes, count: int) -> list[bytes] | None:
    """The cells of a line by the rules of the csv module, None if there are not so many."""
    text = line.decode(errors="surrogateescape")
    try:
        cells = next(csv.reader(io.StringIO(text, newline=""), strict=True), [])
    except csv.Error:
        return None
    return [c.encode(errors="surrogateescape") for c in cells] if len(cells) == count else None


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
