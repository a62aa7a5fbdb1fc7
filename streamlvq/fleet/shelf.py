"""Shelf: the newest envelope of each node, on the disk.

Each node has a file of its own, replaced as a whole, so that after a kill at any moment either the
old or the new state is there. It begins with the header once more, with a checksum: should the rest
of a file be lost, the number of what was accepted is not, and nothing older gets in.
"""

from __future__ import annotations

import hashlib
import logging
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streamlvq.fleet.errors import EnvelopeRefused
from streamlvq.fleet.header import DIGEST_BYTES, LARGEST_HEADER, Header, Kind
from streamlvq.snapshot import SnapshotError
from streamlvq.snapshot.files import UNFINISHED_SUFFIX, read, write_atomically

MAGIC = b"SLVQROS1"
SUFFIX = ".sealed"
MODE = 0o640
_START = struct.Struct(f">8s{DIGEST_BYTES}sH")  # magic, SHA-256 and length of the header
_LOG = logging.getLogger("streamlvq")


class Record(NamedTuple):
    """What is known of a node; nothing is in `data` if it has left."""

    header: Header
    data: bytes


class Shelf:
    """Keeps records of one fleet and one kind in a folder; several may share the folder.

    Parameters
    ----------
    folder
        Made when the first record is written. One process at a time writes to it.
    fleet, kind
        Whose records.
    limit
        The most bytes of an envelope; of larger ones only the header is read.

    """

    def __init__(self, folder: str | Path, fleet: str, kind: Kind, limit: int) -> None:
        self.folder = Path(folder)
        self.fleet, self.kind, self.limit = fleet, kind, limit

    def path(self, node: str) -> Path:
        """The file of a node: a name to recognise, and a digest, since names may hold anything."""
        digest = hashlib.sha256(f"{self.fleet}\n{node}".encode()).hexdigest()[:24]
        readable = re.sub(r"[^A-Za-z0-9_-]", "_", node)[:40]
        return self.folder / f"{self.kind}-{readable}-{digest}{SUFFIX}"

    def write(self, record: Record) -> None:
        """Replace what was known; raises `OSError` if the disk does not let us."""
        header = record.header.to_bytes()
        start = _START.pack(MAGIC, hashlib.sha256(header).digest(), len(header))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(
            self.path(record.header.node), b"".join((start, header, record.data)), MODE
        )

    def records(self) -> Iterator[Record]:
        """All of them, in the order of their nodes; a file that is of no use gets a warning."""
        self._remove_litter()
        found = [self._record(path) for path in self.folder.glob(f"{self.kind}-*{SUFFIX}")]
        mine = [each for each in found if each is not None and each.header.fleet == self.fleet]
        yield from sorted(mine, key=lambda record: record.header.node)

    def _record(self, path: Path) -> Record | None:
        try:
            return self._parse(path)
        except (EnvelopeRefused, SnapshotError, OSError) as error:
            _LOG.warning("%s is of no use, what came from that node is forgotten: %s", path, error)
            return None

    def _parse(self, path: Path) -> Record:
        with path.open("rb") as file:
            start = file.read(_START.size + LARGEST_HEADER)
        if len(start) < _START.size:
            raise EnvelopeRefused("truncated", f"expected {_START.size} bytes, got {len(start)}")
        magic, digest, length = _START.unpack_from(start)
        end = _START.size + length
        header = start[_START.size : end]
        if magic != MAGIC or hashlib.sha256(header).digest() != digest:
            raise EnvelopeRefused("damaged", "expected a record of a fleet, got something else")
        return Record(Header.from_bytes(header), self._rest(path, end))

    def _rest(self, path: Path, end: int) -> bytes:
        try:
            return read(path, end + self.limit)[end:]
        except SnapshotError as error:
            _LOG.warning("%s: %s; only its number is remembered", path, error)
            return b"?"  # not as if the node had left: no envelope, so it is not used

    def _remove_litter(self) -> None:
        """What was unfinished when this program was killed."""
        for path in self.folder.glob(f".{self.kind}-*{UNFINISHED_SUFFIX}"):
            path.unlink(missing_ok=True)
