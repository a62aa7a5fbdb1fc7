"""Journal: a durable log of everything that changes the state since the oldest snapshot.

The log is a sequence of typed records. A record is on disk before its messages are acknowledged, so
that a crash costs nothing: the next process restores a snapshot and reads the log from there on.
`DecodingHistory` is the small file beside it that says how the messages were decoded at the time.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from streamlvq.config import Config, LabelsSection, ReadingsSection, ShardSection
from streamlvq.connect import Message
from streamlvq.errors import StreamLVQError
from streamlvq.snapshot import write_atomically
from streamlvq.snapshot.files import FILE_MODE

log = logging.getLogger(__name__)

T = TypeVar("T")

END_FILE = "journal.json"
DECODING_FILE = "decoding.json"
SEGMENT_MAGIC = b"SLVQJRN2"  # begins every file
RECORD_MAGIC = b"SLJ2"  # begins every record, so that one can be found again after a damaged one
OLD_MAGIC = b"SLJ1"  # began the files of version 0.1.0

_SEGMENT_NAME = re.compile(r"journal-([0-9]{16,})\.log")
_SEGMENT_HEAD = struct.Struct("<8sQ")  # magic, first position; a checksum follows
_RECORD_HEAD = struct.Struct("<4sBQQ")  # magic, kind, bytes of the body, position; likewise
_CHECKSUM = struct.Struct("<I")
_SEGMENT_START = _SEGMENT_HEAD.size + _CHECKSUM.size  # where the first record begins
_RECEIVED, _SERVE = 1, 2  # kinds of records

_OLD_VERSION = (
    "was written by streamlvq 0.1.0, which this version cannot continue. Start and stop version "
    "0.1.0 once more, so that it saves a snapshot, then delete journal-*.log and decoding.json; or "
    "set state.folder to another folder to start from scratch"
)
_WITHOUT = (
    f"to continue from the newest snapshot without these readings, delete {END_FILE} and all "
    "journal-*.log files"
)


class JournalError(StreamLVQError, OSError):
    """Journal that cannot be written, or whose files are damaged or missing."""


# --- records --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Received:
    """Messages in the order in which they were read."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class Serve:
    """Decide with this snapshot from here on; None for the local model."""

    group: str
    snapshot: bytes | None


Record = Received | Serve


class RecordLog(Protocol):
    """Ordered, durable log of records, each at a position: 0, 1, 2 ..."""

    @property
    def next(self) -> int:
        """Position of the next record."""
        ...

    def append(self, record: Record) -> int:
        """Write a record and return its position once it is durable."""
        ...

    def read(self, start: int) -> Iterator[tuple[int, Record]]:
        """Yield the records from position `start` on, with their positions."""
        ...

    def trim(self, before: int) -> None:
        """Delete records before a position, as far as that is convenient."""
        ...


Data = bytes | mmap.mmap
_encode = msgspec.msgpack.Encoder().encode
_decode_received = msgspec.msgpack.Decoder(list[tuple[str, bytes, float, bool]]).decode
_decode_serve = msgspec.msgpack.Decoder(tuple[str, bytes | None]).decode


class Entry(NamedTuple):
    """Record in a file: its position in the log, and the byte where the next one begins."""

    position: int
    record: Record
    end: int


def pack(position: int, record: Record) -> bytes:
    """Return the bytes of a record: header, checksum and body.

    Examples
    --------
    >>> data = pack(7, Received([Message("a/b", b"1", 0.5, True, key=object())]))
    >>> position, record, end = unpack(data, 0)
    >>> position, end == len(data), record.messages
    (7, True, [Message(topic='a/b', payload=b'1', received=0.5, redelivered=True, key=None)])
    >>> unpack(data[:-1], 0)
    >>> unpack(pack(8, Serve("", None)), 0).record
    Serve(group='', snapshot=None)

    """
    if isinstance(record, Serve):
        kind, body = _SERVE, _encode((record.group, record.snapshot))
    else:  # without the link's key, which means nothing to another process
        kind, body = _RECEIVED, _encode([message[:4] for message in record.messages])
    head = _RECORD_HEAD.pack(RECORD_MAGIC, kind, len(body), position)
    return head + _checksum(head, body) + body


def unpack(data: Data, start: int) -> Entry | None:
    """Return the record that begins at byte `start`; None if there is no intact one."""
    body_start = start + _RECORD_HEAD.size + _CHECKSUM.size
    if body_start > len(data):
        return None
    magic, kind, length, position = _RECORD_HEAD.unpack_from(data, start)
    end = body_start + length
    if magic != RECORD_MAGIC or end > len(data):
        return None
    head_end = start + _RECORD_HEAD.size
    body = data[body_start:end]
    if _checksum(data[start:head_end], body) != data[head_end:body_start]:
        return None
    return Entry(position, _record(kind, body), end)


def _record(kind: int, body: bytes) -> Record:
    if kind == _RECEIVED:
        return Received([Message(*fields) for fields in _decode_received(body)])
    if kind == _SERVE:
        return Serve(*_decode_serve(body))
    raise JournalError(
        f"expected journal records of kind {_RECEIVED} or {_SERVE}, got an intact one of kind "
        f"{kind}: it was written by a newer streamlvq; start that version"
    )


def find(data: Data, start: int) -> Entry | None:
    """Return the first intact record that begins at byte `start` or later."""
    while (start := data.find(RECORD_MAGIC, start)) >= 0:
        if entry := unpack(data, start):
            return entry
        start += 1
    return None


def _checksum(head: bytes, body: bytes = b"") -> bytes:
    return _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(head)))


# --- the log in files -----------------------------------------------------------------------------


class _End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Minimum content of the newest file, so that a lost file is noticed."""

    segment: int | None  # first position of the newest file; None: all files were trimmed
    next: int  # the position after its last record


class Journal:
    """`RecordLog` in the files `journal-<first position>.log` of a folder.

    A crash may tear the last record, which was never acknowledged then: it is cut off. Damage
    anywhere else is an error, because continuing would silently lose readings. `journal.json` names
    the newest file, so that its loss is noticed, too.

    The folder must exist. With `sync`, `append` waits for the disk; without it, a crash of the
    process loses nothing, but a crash of the machine may.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> journal = Journal(folder)
    >>> journal.append(Received([Message("oven/1", b"20.5", 1.0), Message("oven/2", b"21", 1.5)]))
    0
    >>> journal.append(Serve("", None))
    1
    >>> journal.close()
    >>> [(position, type(record).__name__) for position, record in Journal(folder).read(0)]
    [(0, 'Received'), (1, 'Serve')]

    """

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        self.folder = folder
        self.sync = sync
        self._file: int | None = None  # the segment that is written to
        self._first = 0  # its first position
        self._length = 0  # its intact and durable bytes
        self._sizes: dict[int, int] = {}  # bytes of the other segments, by their first position
        self._dirty = False  # a failed append may have left something behind `_length`
        self._end: _End | None = None  # as in the file
        self._last: _End | None = None  # the segment that was closed last, if it is the newest
        self._next = self._recover()

    @property
    def next(self) -> int:
        """Position of the next record."""
        return self._next

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(tuple(self._sizes.values())) + self._length

    def segments(self) -> list[tuple[int, Path]]:
        """Return the first position and the path of each segment, oldest first."""
        found = []
        for path in self.folder.glob("journal-*.log"):
            if match := _SEGMENT_NAME.fullmatch(path.name):
                if not path.is_file():
                    raise JournalError(
                        f"expected {path} to be a journal file, got something else, such as a "
                        f"folder; move it away and put the file back, or, {_WITHOUT}"
                    )
                found.append((int(match[1]), path))
        return sorted(found)

    def append(self, record: Record) -> int:
        """Write a record and return its position; if that fails, the files stay as they were."""
        data = pack(self._next, record)
        try:
            file = self._segment()
            self._mend(file)
            self._dirty = True
            _write(file, data)
            if self.sync:
                os.fdatasync(file)
        except OSError as error:
            self._undo()
            raise JournalError(
                error.errno,
                f"the journal in {self.folder} cannot be written: {error.strerror or error}",
            ) from error
        self._dirty = False
        self._length += len(data)
        self._next += 1
        return self._next - 1

    def read(self, start: int) -> Iterator[tuple[int, Record]]:
        """Yield the records from position `start` on, with their positions."""
        segments = self.segments()
        if start >= self._next:
            return
        if not segments or segments[0][0] > start:
            first = segments[0][0] if segments else self._next
            raise JournalError(
                f"the journal in {self.folder} begins at position {first}, but the newest valid "
                f"snapshot needs it from {start} on; put back an earlier snapshot or "
                f"{_segment_name(start)}, or set state.folder to another folder to start from "
                "scratch"
            )
        ends = [first for first, _ in segments[1:]] + [self._next]
        for (first, path), end in zip(segments, ends, strict=True):
            if end > start:
                for entry in _entries(path, first, end):
                    if entry.position >= start:
                        yield entry.position, entry.record

    def skip_to(self, position: int) -> None:
        """Continue at a later position: a snapshot already covers what comes before it."""
        if position > self._next:
            self.rotate()
            self._next = position

    def rotate(self) -> None:
        """Let the next record begin a new segment."""
        if self._file is not None and self._length > _SEGMENT_START:
            self._close_segment()

    def trim(self, before: int) -> None:
        """Delete segments that only hold records before a position."""
        segments = self.segments()
        for (first, path), (following, _) in itertools.pairwise(segments):
            if following <= before:
                path.unlink()
                self._sizes.pop(first, None)
        if segments and self._file is None and self._next <= before:
            first, path = segments[-1]
            self._write_end(_End(None, self._next))  # first, or the file would be missed
            self._last = None
            path.unlink()
            self._sizes.pop(first, None)

    def close(self) -> None:
        """Close the file, and record its end so that a later loss is noticed."""
        if self._file is not None:
            self._close_segment()
        if self._last is None:
            return
        try:
            self._write_end(self._last)
        except OSError as error:
            log.warning("%s cannot be written: %s", self.folder / END_FILE, error)

    def _close_segment(self) -> None:
        assert self._file is not None
        self._undo()
        try:
            os.fsync(self._file)  # before `journal.json` relies on it
            self._last = _End(self._first, self._next)
        except OSError as error:
            log.warning("%s cannot be flushed: %s", _segment_name(self._first), error)
        os.close(self._file)
        self._sizes[self._first] = self._length
        self._file, self._length, self._dirty = None, 0, False

    def _segment(self) -> int:
        """Return the file to write to; start a new one if there is none.

        A file is created together with its header, so an empty one is known to be damaged.
        """
        if self._file is None:
            path = self.folder / _segment_name(self._next)
            write_atomically(path, _segment_head(self._next), FILE_MODE)
            self._write_end(_End(self._next, self._next))
            self._last = None
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
            self._sizes.pop(self._next, None)  # one of that name held no intact record
            self._first, self._length = self._next, _SEGMENT_START
        return self._file

    def _mend(self, file: int) -> None:
        if self._dirty:
            os.ftruncate(file, self._length)
            self._dirty = False

    def _undo(self) -> None:
        if self._file is not None:
            try:
                self._mend(self._file)
            except OSError as error:  # the next append tries again before it writes
                log.warning("cannot remove a failed write from the journal yet: %s", error)

    # --- what a former process left ---------------------------------------------------------------

    def _recover(self) -> int:
        """Cut off a torn record, notice lost files, and return the next position."""
        segments = self.segments()
        known = {path.name for _, path in segments}
        for path in sorted(self.folder.glob("journal-*")):
            if path.name not in known:
                log.warning("ignoring %s: expected a name like %s", path, _segment_name(0))
        self._end = self._read_end()
        following = 0
        if segments:
            following = self._recover_newest(*segments[-1])
        if self._end is not None:
            self._check_end(self._end, segments, following)
            following = max(following, self._end.next)
        elif segments:
            log.warning(
                "%s is missing: if the newest journal file was lost, nobody can tell",
                self.folder / END_FILE,
            )
        self._sizes = {first: path.stat().st_size for first, path in segments}
        return following

    def _recover_newest(self, first: int, path: Path) -> int:
        intact, following = _intact(path, first)
        if torn := path.stat().st_size - intact:
            if self._end is not None and following < self._end.next:
                raise _cut_short(path, following, self._end.next)
            log.warning("cut a torn record of %d bytes off the end of %s", torn, path)
            _truncate(path, intact)
        return following

    def _check_end(self, end: _End, segments: list[tuple[int, Path]], following: int) -> None:
        if end.segment is None:
            return
        if end.segment not in {first for first, _ in segments}:
            raise JournalError(
                f"expected {self.folder / _segment_name(end.segment)}, the newest file of the "
                f"journal, got none; put it back, or, {_WITHOUT}"
            )
        if following < end.next:
            raise _cut_short(segments[-1][1], following, end.next)

    def _read_end(self) -> _End | None:
        path = self.folder / END_FILE
        try:
            return _read_checked(path, _End)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise JournalError(
                f"expected {path} to name the newest file of the journal, got: {error}; put back "
                "a copy, or delete it if no journal file was lost"
            ) from error

    def _write_end(self, end: _End) -> None:
        if end != self._end:
            _write_checked(self.folder / END_FILE, end)
            self._end = end


def _segment_name(first: int) -> str:
    return f"journal-{first:016d}.log"


def _segment_head(first: int) -> bytes:
    head = _SEGMENT_HEAD.pack(SEGMENT_MAGIC, first)
    return head + _checksum(head)


def _intact(path: Path, first: int) -> tuple[int, int]:
    """Return how many bytes of the newest segment are intact, and the position that follows."""
    data, end, expected = _content(path, first), _SEGMENT_START, first
    while (entry := unpack(data, end)) and entry.position == expected:
        end, expected = entry.end, expected + 1
    if end < len(data) and find(data, end):
        raise _damaged(path, end, expected)
    return end, expected


def _entries(path: Path, first: int, end: int) -> Iterator[Entry]:
    """Yield the records of a segment that must be complete up to position `end`."""
    data, place = _content(path, first), _SEGMENT_START
    for position in range(first, end):
        entry = unpack(data, place)
        if place == len(data):
            raise _cut_short(path, position, end)
        if entry is None or entry.position != position:
            raise _damaged(path, place, position)
        yield entry
        place = entry.end


def _content(path: Path, first: int) -> Data:
    """Return the bytes of a segment as a memory map, since it may be large."""
    try:
        with path.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            data = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise JournalError(
            error.errno, f"the journal file {path} cannot be read: {error.strerror}"
        ) from error
    if data[: len(OLD_MAGIC)] == OLD_MAGIC:
        raise JournalError(f"{path} {_OLD_VERSION}")
    if data[:_SEGMENT_START] != _segment_head(first):
        got = f"{len(data)} bytes with something else" if data else "an empty file"
        raise JournalError(
            f"expected {path} to begin like a journal file with position {first}, got {got}; put "
            f"back a copy, or, {_WITHOUT}"
        )
    return data


def _damaged(path: Path, place: int, position: int) -> JournalError:
    return JournalError(
        f"expected record {position} at byte {place} of {path}, got something damaged; what comes "
        f"after it cannot be trusted. Put back a copy of the file, or, {_WITHOUT}"
    )


def _cut_short(path: Path, following: int, end: int) -> JournalError:
    return JournalError(
        f"expected records up to {end - 1} in {path}, got none from record {following} on: the "
        f"file was cut short, or one after it is missing. Put back a copy, or, {_WITHOUT}"
    )


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _truncate(path: Path, length: int) -> None:
    with path.open("r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


# --- how to decode it -----------------------------------------------------------------------------


class DecodingConfig(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Part of a configuration that determines how messages are decoded, from a position on."""

    since: int
    readings: ReadingsSection
    labels: LabelsSection | None
    shard: ShardSection
    per: str
    max_features: int
    max_payload_bytes: int

    @classmethod
    def of(cls, config: Config, since: int) -> DecodingConfig:
        return cls(
            since=since,
            readings=config.readings,
            labels=config.labels,
            shard=config.shard,
            per=config.model.per,
            max_features=config.model.max_features,
            max_payload_bytes=config.broker.max_payload_bytes,
        )

    def applied_to(self, config: Config) -> Config:
        """Return a copy of `config` that decodes messages in this way."""
        if self == DecodingConfig.of(config, self.since):
            return config
        replace = msgspec.structs.replace
        return replace(
            config,
            readings=self.readings,
            labels=self.labels,
            shard=self.shard,
            model=replace(config.model, per=self.per, max_features=self.max_features),
            broker=replace(config.broker, max_payload_bytes=self.max_payload_bytes),
        )


class DecodingHistory:
    """History of decoding configurations by journal position; kept in `decoding.json`.

    The configuration may change between two starts while acknowledged messages wait in the journal;
    with the new one they might be refused, and lost.

    Examples
    --------
    >>> import tempfile
    >>> history = DecodingHistory(Path(tempfile.mkdtemp()))
    >>> old, new = (Config(readings=ReadingsSection(topic=t)) for t in ("a/{device}", "b/{device}"))
    >>> history.record(old, 0)
    >>> history.record(new, 100)
    >>> [history.config_at(at, new).readings.topic for at in (0, 99, 100)]
    ['a/{device}', 'a/{device}', 'b/{device}']

    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / DECODING_FILE
        self._entries = self._read()

    def __len__(self) -> int:
        return len(self._entries)

    def config_at(self, position: int, config: Config) -> Config:
        """Return the configuration to decode a record with; `config` if nothing is known."""
        known = [each for each in self._entries if each.since <= position] or self._entries[:1]
        return known[-1].applied_to(config) if known else config

    def next_change(self, position: int) -> int | None:
        """Return the first position after this one with another configuration, if any."""
        return next((each.since for each in self._entries if each.since > position), None)

    def record(self, config: Config, position: int, oldest: int = 0) -> None:
        """Remember how records from `position` on are decoded; forget those before `oldest`."""
        new = DecodingConfig.of(config, position)
        kept = [each for each in self._entries if each.since < position]
        if not kept or kept[-1] != msgspec.structs.replace(new, since=kept[-1].since):
            kept.append(new)
        while len(kept) > 1 and kept[1].since <= oldest:
            del kept[0]
        if kept != self._entries:
            _write_checked(self.path, kept)
            self._entries = kept

    def _read(self) -> list[DecodingConfig]:
        try:
            return _read_checked(self.path, list[DecodingConfig])
        except FileNotFoundError:
            return []
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise JournalError(
                f"expected {self.path} to say how the journal is to be decoded, got: {error}; put "
                "back a copy, or delete it if the configuration has not changed since"
            ) from error


# --- small files with a checksum ------------------------------------------------------------------


def _framed(content: bytes) -> bytes:
    checksum = hashlib.sha256(content).hexdigest().encode()
    return b'{"sha256":"' + checksum + b'","content":' + content + b"}\n"


_BEFORE, _AFTER = (len(part) for part in _framed(b"0").rsplit(b"0", 1))


def _write_checked(path: Path, content: Any) -> None:
    write_atomically(path, _framed(msgspec.json.encode(content)), FILE_MODE)


def _read_checked(path: Path, kind: type[T]) -> T:
    """Read what `_write_checked` wrote; raise `ValueError` if a single bit has changed."""
    data = path.read_bytes()
    content = data[_BEFORE:-_AFTER]
    if data != _framed(content):
        if data.startswith(b"[{") and data.endswith(b"}]"):
            raise ValueError(f"a file that {_OLD_VERSION}")
        raise ValueError("a damaged file: its checksum is wrong")
    return msgspec.json.decode(content, type=kind)
