"""Ledger of noisy releases: append-only, hash-chained, on disk before any noise is drawn.

    21 bytes    marker, kind, number, length of the body, CRC-32 of these
    ...         the body
    32 bytes    SHA-256 of the digest before, the 21 bytes and the body
    1 byte      a line feed, so that no record ends in zeros

The first record says what was promised and where the chain goes on. Then come reservations, which
say what releases will spend and are written before their noise is drawn, and what each release
said, written before it is used. What was reserved is spent, whether a release followed or not. The
digest of the last record is the head: it stands for everything before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import secrets
import struct
import zlib
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import msgspec
import numpy as np

from streamlvq.arrays import Ints
from streamlvq.errors import LedgerError
from streamlvq.privacy.releases import LedgerExhaustedError, Spending

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("streamlvq")

LEDGER_FILE = "privacy.ledger"  # in a state folder
LEDGER_MODE, LEDGER_FOLDER_MODE = 0o640, 0o750
UNFINISHED_SUFFIX = ".unfinished"
KEPT_RELEASES = 1000  # whose vectors a ledger keeps unless told otherwise
RESERVED_AHEAD = 16  # releases in a reservation
COMPACTION_BYTES = 2**20  # of forgotten releases that are worth writing the file anew
DIGEST_BYTES = 32
NUMBER_BYTES = 8  # of each number of a vector

_MARKER = b"SLL1"
_HEAD = struct.Struct(">4sBQI")  # marker, kind, number, length of the body; a CRC-32 follows
_CHECKSUM = struct.Struct(">I")
_END = b"\n"
_HEAD_BYTES = _HEAD.size + _CHECKSUM.size
_TAIL_BYTES = DIGEST_BYTES + len(_END)
_BASE, _RESERVED, _RELEASED = 1, 2, 3  # kinds of records
_LIMITED: tuple[Literal["epsilon", "delta"], ...] = ("epsilon", "delta")
SUM_ROUNDING = 1e-9  # relative, of sums
_ADVICE = (
    "Put back the file as it was last; without it nobody knows what was released, so to begin "
    "afresh use another folder, and readings that were never learnt"
)


class _Base(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything before the records that are kept."""

    identity: str
    promise: dict[str, Any]
    head: str
    releases: int = 0
    reserved: int = 0
    series: list[Spending] = []


class _Reservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What releases before number `until` spend."""

    spending: Spending
    until: int


class _Entry(NamedTuple):
    """Record in the file."""

    kind: int
    number: int
    start: int
    end: int


class Account(NamedTuple):
    """What was reserved and released, added up over records."""

    releases: int = 0
    reserved: int = 0  # releases with lower numbers may be drawn
    series: tuple[Spending, ...] = ()  # what was reserved for; the last one goes on

    def after(self, kind: int, body: bytes) -> Account:
        """Return the account with one more record."""
        if kind == _RELEASED:
            return self._replace(releases=self.releases + 1)
        return self.with_reservation(msgspec.json.decode(body, type=_Reservation))

    def with_reservation(self, new: _Reservation) -> Account:
        """Return the account with one more reservation."""
        name = new.spending.series
        others = tuple(each for each in self.series if each.series != name)
        return self._replace(reserved=new.until, series=(*others, new.spending))

    def covers(self, number: int, spending: Spending) -> bool:
        """Return whether a release was reserved, for this spending."""
        return number < self.reserved and self.series[-1:] == (spending,)

    def total(self, name: Literal["epsilon", "delta"]) -> float:
        """Return what all series cost together; each costs what it costs once."""
        return math.fsum(getattr(each, name) for each in self.series)


class Content(NamedTuple):
    """Intact part of a ledger file."""

    base: _Base
    entries: list[_Entry]
    account: Account
    head: bytes
    length: int  # bytes; what follows was being written when the process ended


# --- one record ----------------------------------------------------------------------------------


def _packed(before: bytes, kind: int, number: int, body: bytes) -> bytes:
    head = _HEAD.pack(_MARKER, kind, number, len(body))
    head += _CHECKSUM.pack(zlib.crc32(head))
    return b"".join((head, body, hashlib.sha256(before + head + body).digest(), _END))


def _body(record: bytes) -> bytes:
    return record[_HEAD_BYTES:-_TAIL_BYTES]


def _digest(record: bytes) -> bytes:
    return record[-_TAIL_BYTES:-1]


# --- the file ------------------------------------------------------------------------------------


def read_ledger(path: str | Path) -> Content:
    """Read and verify a ledger without locking it; raise `LedgerError` if it is damaged.

    A last record that the end of the file cuts off was never acted on, and does not count.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be read: {error.strerror}") from error
    return _parsed(data, path)


def describe(path: str | Path) -> str:
    """Return what a ledger says, in words.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "privacy.ledger"
    >>> with Ledger(path, {"epsilon": 1.0, "delta": 1e-5}) as ledger:
    ...     for number in range(2):
    ...         ledger.reserve(number, Spending("ab", 1.0, 1e-5, "reading"))
    ...         ledger.record(number, np.array([3, 5]))
    >>> print(describe(path))
    ledger      ...
    promised    epsilon 1, delta 1e-05
    spent       epsilon 1, delta 1e-05 for each reading
    releases    2, of which the vectors from 0 on are kept; 16 reserved
    head        ...

    """
    content = read_ledger(path)
    base, account = content.base, content.account
    limits = {name: base.promise.get(name) for name in _LIMITED}
    promised = [f"{name} {limit:g}" for name, limit in limits.items() if limit is not None]
    spent = [f"{name} {account.total(name):g}" for name in _LIMITED]
    units = " and ".join(dict.fromkeys(each.unit for each in account.series))
    kept = f"of which the vectors from {base.releases} on are kept; {account.reserved} reserved"
    rows = {
        "ledger": f"{base.identity} in {path}",
        "promised": ", ".join(promised) or "no limit",
        "spent": f"{', '.join(spent)} for each {units}" if units else "nothing yet",
        "releases": f"{account.releases}, {kept}" if account.releases else "none yet",
        "head": content.head.hex(),
    }
    return "\n".join(f"{name:<12}{text}" for name, text in rows.items())


def _parsed(data: bytes, path: str | Path) -> Content:
    written = len(data.rstrip(b"\0"))
    first = _record(data, 0, written, b"", path)
    if first is None or first.kind != _BASE:
        raise _damaged(path, 0)
    try:
        base = msgspec.json.decode(_body(data[: first.end]), type=_Base)
        head = bytes.fromhex(base.head)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(path, 0) from error
    _check_limits(base, path)
    entries, place, account = list[_Entry](), first.end, _account(base)
    while (entry := _record(data, place, written, head, path)) is not None:
        if entry.number != account.releases or entry.kind not in (_RESERVED, _RELEASED):
            raise _damaged(path, place)
        if entry.kind == _RELEASED and entry.number >= account.reserved:
            raise _damaged(path, place)
        record = data[entry.start : entry.end]
        account = _after(account, entry, _body(record), path)
        entries.append(entry)
        head, place = _digest(record), entry.end
    return Content(base, entries, account, head, place)


def _after(account: Account, entry: _Entry, body: bytes, path: str | Path) -> Account:
    """Return the account with one more record; the chain has no key, so its body may be bad."""
    try:
        after = account.after(entry.kind, body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(path, entry.start) from error
    if entry.kind == _RELEASED and len(body) % NUMBER_BYTES:
        raise _damaged(path, entry.start)
    return after


def _check_limits(base: _Base, path: str | Path) -> None:
    """Raise unless what is promised can be compared with what was spent."""
    for name in _LIMITED:
        limit = base.promise.get(name)
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float)):
            raise LedgerError(
                f"expected a number as {name} in the ledger {path}, got {limit!r}. {_ADVICE}"
            )


def _account(base: _Base) -> Account:
    return Account(base.releases, base.reserved, tuple(base.series))


def _record(
    data: bytes, start: int, written: int, before: bytes, path: str | Path
) -> _Entry | None:
    """Return the record at a byte; None if the file ends there or within it.

    A write that was cut off leaves a beginning, with zeros behind it where nothing was written yet:
    what was written ends at byte `written`. Anything else is damage.
    """
    if len(data) - start < _HEAD_BYTES:
        return None
    marker, kind, number, length = _HEAD.unpack_from(data, start)
    (checksum,) = _CHECKSUM.unpack_from(data, start + _HEAD.size)
    if marker != _MARKER or checksum != zlib.crc32(data[start : start + _HEAD.size]):
        if written - start < _HEAD_BYTES:
            return None
        raise _damaged(path, start)
    end = start + _HEAD_BYTES + length + _TAIL_BYTES
    if written < end:
        return None
    record = data[start:end]
    if not record.endswith(_END) or (
        _digest(record) != hashlib.sha256(before + record[:-_TAIL_BYTES]).digest()
    ):
        raise _damaged(path, start)
    return _Entry(kind, number, start, end)


def _damaged(path: str | Path, place: int) -> LedgerError:
    return LedgerError(
        f"expected an intact record at byte {place} of the ledger {path}, got something damaged. "
        f"{_ADVICE}"
    )


class Ledger:
    """`ReleaseLedger` in a file, which numbers releases 0, 1, 2 ...

    One process at a time holds it. What it says is durable when a method returns. Vectors that
    nobody will replay are forgotten (`forget`), so that the file stays bounded; the chain goes on.

    Parameters
    ----------
    path
        The file; made if there is none.
    promise
        What is guaranteed, as JSON can say it. A ledger that holds another promise is refused.
    keep
        How many of the newest vectors are kept; None: all until `forget`.

    Examples
    --------
    >>> import tempfile

    >>> path = Path(tempfile.mkdtemp()) / "privacy.ledger"
    >>> ledger = Ledger(path, {"epsilon": 1.0})
    >>> ledger.reserve(0, Spending("a", 1.0, 1e-5, "reading"))
    >>> ledger.record(0, np.array([3, 5]))
    >>> ledger.close()

    >>> ledger = Ledger(path, {"epsilon": 1.0})
    >>> ledger.releases, ledger.recorded(0).tolist(), ledger.recorded(1)
    (1, [3, 5], None)

    """

    def __init__(
        self, path: str | Path, promise: Mapping[str, Any], *, keep: int | None = KEPT_RELEASES
    ) -> None:
        self.path, self.keep = Path(path), keep
        self._lock = _locked(self.path)
        self._file = -1
        self._is_renamed = False  # a new file whose name may not be durable yet
        try:
            self._open(dict(promise))
        except BaseException:
            self.close()
            raise

    def _open(self, promise: dict[str, Any]) -> None:
        self._remove_litter()
        if not self.path.exists():
            self._begin(promise)
        content = read_ledger(self.path)
        if content.base.promise != promise:
            raise _other_promise(self.path, content.base.promise, promise)
        self._base, self._account = content.base, content.account
        self.head, self._length = content.head, content.length
        self._entries = deque(content.entries)
        try:
            self._is_torn = self.path.stat().st_size > content.length
        except OSError as error:
            raise _unwritable(self.path, error) from error
        if self._is_torn:
            log.warning("%s: the last record was not complete, and is cut off", self.path)
        self._mend()

    def _remove_litter(self) -> None:
        """Remove files of a process that was killed."""
        for litter in self.path.parent.glob(f".{self.path.name}.*{UNFINISHED_SUFFIX}"):
            try:
                litter.unlink(missing_ok=True)
            except OSError as error:
                log.warning("%s is of no use but cannot be removed: %s", litter, error)

    def _begin(self, promise: dict[str, Any]) -> None:
        identity = secrets.token_hex(16)
        head = hashlib.sha256(msgspec.json.encode([identity, promise], order="sorted")).hexdigest()
        data = _packed(b"", _BASE, 0, msgspec.json.encode(_Base(identity, promise, head)))
        self._replace([data])

    # --- what it says ----------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """Random name of this ledger, which a new one does not share."""
        return self._base.identity

    @property
    def promise(self) -> dict[str, Any]:
        """What is guaranteed."""
        return self._base.promise

    @property
    def releases(self) -> int:
        """Number of releases so far, which is also the number of the next one."""
        return self._account.releases

    @property
    def account(self) -> Account:
        """What was reserved and released so far."""
        return self._account

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._length

    def head_at(self, releases: int) -> bytes | None:
        """Return the head when so many releases had been made; None if that is not known."""
        if releases == self._base.releases:
            return bytes.fromhex(self._base.head)
        entry = self._released(releases - 1)
        return None if entry is None else _digest(self._read(entry))

    def recorded(self, number: int) -> Ints | None:
        """Return what a release said; None if it was not made.

        Raises `LedgerError` for one that is forgotten.
        """
        entry = self._released(number)
        if entry is not None:
            return np.frombuffer(_body(self._read(entry)), "<i8").astype(np.int64)
        if number >= self.releases:
            return None
        raise LedgerError(
            f"expected release {self._base.releases} or a later one, got {number}: the ledger "
            f"{self.path} keeps no vector that old, so a state from before it cannot be continued"
        )

    def _released(self, number: int) -> _Entry | None:
        newest_first = reversed(self._entries)
        wanted = (each for each in newest_first if each.kind == _RELEASED)
        return next((each for each in wanted if each.number == number), None)

    # --- what is written -------------------------------------------------------------------------

    def reserve(self, number: int, spending: Spending) -> None:
        """Write what a release will spend; its noise may be drawn when this returns.

        The next few are reserved with it: a series costs what it costs once, and waiting for the
        disk is what a release costs most. Raises `LedgerExhaustedError` if that is more than was
        promised, `LedgerError` if it cannot be written; either way nothing has changed.
        """
        if number != self.releases:
            raise ValueError(f"expected release {self.releases} to come next, got {number}")
        if self._account.covers(number, spending):
            return
        reservation = _Reservation(spending, number + RESERVED_AHEAD)
        after = self._account.with_reservation(reservation)
        for name in _LIMITED:
            limit, total = self.promise.get(name), after.total(name)
            if limit is not None and total > limit * (1.0 + SUM_ROUNDING):
                raise LedgerExhaustedError(
                    f"expected a total of at most {name} {limit:g}, got {total:g}: everything that "
                    f"the ledger {self.path} allows was released"
                )
        self._append(_RESERVED, number, msgspec.json.encode(reservation))

    def record(self, number: int, released: Ints) -> None:
        """Write what a release says; it may be used when this returns."""
        if number != self.releases or number >= self._account.reserved:
            raise ValueError(f"expected a release that is reserved and comes next, got {number}")
        self._append(_RELEASED, number, released.astype("<i8").tobytes())
        if self.keep is not None:
            try:
                self.forget(self.releases - self.keep)
            except OSError as error:  # the release is written; the file is only longer
                log.warning("old releases cannot be forgotten: %s", error)

    def forget(self, before: int) -> None:
        """Give up the vectors of releases before a number; the file is shortened when it pays."""
        oldest = min(before, self.releases - 1)  # the newest stays
        count = sum(each.number < oldest for each in self._entries)
        if not count:
            return
        gone = self._entries[count - 1]
        first = self._entries[0].start
        if gone.end - first < max(COMPACTION_BYTES, self._length - gone.end):
            return
        self._compact(count)

    def _compact(self, count: int) -> None:
        """Write the file anew without its oldest records."""
        gone, account = self._entries[count - 1], _account(self._base)
        for each in list(self._entries)[:count]:
            account = account.after(each.kind, _body(self._read(each)))
        base = msgspec.structs.replace(
            self._base,
            head=_digest(self._read(gone)).hex(),
            releases=account.releases,
            reserved=account.reserved,
            series=list(account.series),
        )
        begin = _packed(b"", _BASE, account.releases, msgspec.json.encode(base))
        kept = os.pread(self._file, self._length - gone.end, gone.end)
        try:
            self._replace([begin, kept])
        except LedgerError:
            if not self._is_renamed:
                raise
        os.close(self._file)  # nothing may be written to the old one any more
        self._file = -1
        moved = len(begin) - gone.end
        rest = list(self._entries)[count:]
        self._entries = deque(
            each._replace(start=each.start + moved, end=each.end + moved) for each in rest
        )
        self._base, self._length = base, self._length + moved
        self._mend()

    def _append(self, kind: int, number: int, body: bytes) -> None:
        data = _packed(self.head, kind, number, body)
        self._mend()
        try:
            self._is_torn = True
            _write(self._file, data)
            os.fdatasync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # the next append mends before it writes
                self._mend()
            raise _unwritable(self.path, error) from error
        self._is_torn = False
        entry = _Entry(kind, number, self._length, self._length + len(data))
        self._entries.append(entry)
        self._account = self._account.after(kind, body)
        self.head, self._length = _digest(data), entry.end

    def _mend(self) -> None:
        """Finish what failed before: a new name, opening, or a record without its end."""
        try:
            if self._is_renamed:
                _sync_folder(self.path.parent)
                self._is_renamed = False
            if self._file < 0:
                self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            if self._is_torn:
                os.ftruncate(self._file, self._length)
                os.fsync(self._file)
                self._is_torn = False
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _read(self, entry: _Entry) -> bytes:
        return os.pread(self._file, entry.end - entry.start, entry.start)

    def _replace(self, parts: list[bytes]) -> None:
        """Write the file so that it is either the old one or the new one, whatever happens."""
        name = f".{self.path.name}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}"
        unfinished = self.path.with_name(name)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            file = os.open(unfinished, flags, LEDGER_MODE)
            try:
                for part in parts:
                    _write(file, part)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(unfinished, self.path)
            self._is_renamed = True
            _sync_folder(self.path.parent)
            self._is_renamed = False
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise _unwritable(self.path, error) from error

    def close(self) -> None:
        """Let other processes have it."""
        for file in (self._file, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --- files and locks -----------------------------------------------------------------------------


def _locked(path: Path) -> int:
    """Lock a ledger, whose folder is made if it is missing; return the file of the lock."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(LEDGER_FOLDER_MODE, parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, LEDGER_MODE)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise LedgerError(
            f"the ledger {path} is in use by another process; stop that one first"
        ) from error
    return file


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _unwritable(path: Path, error: OSError) -> LedgerError:
    return LedgerError(f"the ledger {path} cannot be written: {error.strerror or error}")


def _other_promise(path: Path, before: dict[str, Any], now: dict[str, Any]) -> LedgerError:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    changes = ", ".join(f"{name} {before.get(name)!r} became {now.get(name)!r}" for name in names)
    return LedgerError(
        f"expected the promise that the ledger {path} was made for, got another one ({changes}). "
        "Change it back, or begin afresh in another folder, with readings that were never learnt"
    )
