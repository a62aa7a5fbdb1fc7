"""What logs with a message on each line have in common."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.connect import Log, Message

from streamlvq_connectors.files import Blocks, LogError

if TYPE_CHECKING:
    from streamlvq.config import Fields


class LineLog(Log):
    """A log of messages, one or more of them in each block of lines."""

    holds_messages = True

    def __init__(self, path: Path, fields: Fields | None = None) -> None:
        super().__init__(path, fields)
        self._blocks: Blocks | None = None
        self._refused: list[str] = []
        self._done = (0, 0)  # progress when it was closed

    def open(self) -> None:
        """Prepare to read from the start."""
        self.close()
        self._refused = []
        self._blocks = Blocks(self.path)

    def read(self) -> Sequence[Message] | None:
        """The next messages, None at the end; may be empty if all lines of a block were refused."""
        self._refused = []
        blocks = self.blocks
        block = blocks.next()
        if not block:
            return self._end(blocks)
        return self.messages(block)

    def _end(self, blocks: Blocks) -> Sequence[Message] | None:
        """Say once, at the end, if the file was torn."""
        torn, blocks.file.torn = blocks.file.torn, None
        if torn is None:
            return None
        self.refuse(blocks.line, torn)
        return []

    @abc.abstractmethod
    def messages(self, block: bytes) -> list[Message]:
        """The messages in these lines; for those that make no sense, call `refuse`."""

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
