"""What logs that are read in blocks of lines have in common."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.connect import Log, Message
from streamlvq.events import Readings
from streamlvq_connectors.files import Blocks, LogError, count_lines

if TYPE_CHECKING:
    from streamlvq.config import Fields

_MOST_TOPICS = 100_000  # remembered


class BlockLog(Log):
    """A log of lines; the next batch is what a block of them holds."""

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._blocks: Blocks | None = None
        self._refused: list[str] = []
        self._done = (0, 0)  # progress when it was closed

    def open(self) -> None:
        """Prepare to read from the start; raises if this is no such log."""
        self.close()
        self._refused, self.notes = [], []
        self._blocks = Blocks(self.path)
        try:
            self.begin(self._blocks)
        except BaseException:
            self.close()
            raise

    def begin(self, blocks: Blocks) -> None:
        """Look at the start of the file."""

    def read(self) -> Sequence[Message] | Readings | None:
        """The next batch, None at the end; an empty one if all rows of a block were refused."""
        self._refused = []
        blocks = self.blocks
        block = blocks.next()
        torn, blocks.file.torn = blocks.file.torn, None
        if not block and torn is None:
            return None
        batch = self.batch(block)
        if torn is not None:
            self.refuse(blocks.line + count_lines(block), torn)
        return batch

    @abc.abstractmethod
    def batch(self, block: bytes) -> Sequence[Message] | Readings:
        """What these lines hold; for those that make no sense, call `refuse`."""

    @property
    def blocks(self) -> Blocks:
        """The lines of the open file."""
        if self._blocks is None:
            raise LogError(f"{self.path}: expected an open log, got one that is not: call open()")
        return self._blocks

    def refuse(self, line: int, text: str) -> None:
        """Note what is wrong with a line."""
        self._refused.append(f"line {line}: {text}")

    @property
    def refused(self) -> list[str]:
        """What was wrong with lines of the last batch, with their numbers."""
        return self._refused

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes of the file (as stored) read so far, and in all."""
        if self._blocks is not None:
            self._done = (self._blocks.file.position, self._blocks.file.size)
        return self._done

    def close(self) -> None:
        """Close the file; nothing if it is not open."""
        if self._blocks is not None:
            self._done = self.progress
            self._blocks.close()
            self._blocks = None


class MessageBlockLog(BlockLog):
    """A log of lines that hold messages."""

    holds_messages = True

    @abc.abstractmethod
    def batch(self, block: bytes) -> list[Message]:
        """The messages in these lines."""


class Topics(dict[bytes, str]):
    """Topics as texts; most come again and again. Raises a ValueError for what is no text."""

    def __missing__(self, topic: bytes) -> str:
        if len(self) >= _MOST_TOPICS:
            self.clear()
        if not topic:
            raise ValueError("expected a topic")
        text = self[topic] = topic.decode()
        return text


def make_messages(
    topics: Iterable[str],
    payloads: Iterable[bytes],
    received: Iterable[float],
    numbers: Iterable[int],
) -> list[Message]:
    """Messages of columns; their keys are the numbers of their lines."""
    return list(map(Message, topics, payloads, received, repeat(False), numbers))
