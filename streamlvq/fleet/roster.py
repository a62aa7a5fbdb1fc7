"""Roster: who is in the fleet, and the newest envelope of each, in memory and on disk."""

from __future__ import annotations

import hashlib
import logging
import re
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from streamlvq.fleet.envelope import (
    DIGEST_BYTES,
    ENVELOPE_HEADER_MAX_BYTES,
    Envelope,
    EnvelopeRefused,
    Header,
    Kind,
    check_name,
    digest_of,
    parse_envelope,
    shown,
)
from streamlvq.fleet.keys import TrustedKeys
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotSchemaError, StateLimits
from streamlvq.snapshot.files import UNFINISHED_SUFFIX, read, write_atomically

ENVELOPE_MAX_BYTES = 16 * 2**20
MODEL_MAX_NUMBERS = 2**24  # that a model may need memory for, whatever is said about it: 128 MiB
MAX_NODES = 10_000
CLOCK_AHEAD_SECONDS = 300.0  # that clocks may differ by
STORE_MAGIC = b"SLVQROS1"
STORE_SUFFIX = ".sealed"
FILE_MODE = 0o640  # of all files of a fleet but keys: what models say is not for everybody
_STORE_START = struct.Struct(f">8s{DIGEST_BYTES}sH")  # magic, SHA-256 and length of the header
_LOG = logging.getLogger("streamlvq")
ReceiptStatus = Literal["new", "same", "refused"]


class Receipt(NamedTuple):
    """What became of an envelope.

    Parameters
    ----------
    status
        "new": it is used from now on. "same": it is used already. "refused": nothing was changed.
    reason
        Why it was refused, one of `REASONS`; None otherwise.
    text
        The same in words.

    """

    status: ReceiptStatus
    reason: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """A node and the newest valid envelope about it.

    Parameters
    ----------
    node
        Its name.
    snapshot
        What was inside.
    header
        What was written on it.
    digest
        Stands for header and content: as long as it is the same, so are they.

    """

    node: str
    snapshot: Snapshot
    header: Header
    digest: str


# --- on disk -------------------------------------------------------------------------------------


class StoredEnvelope(NamedTuple):
    """The newest that is known of a node."""

    header: Header
    data: bytes | None  # the envelope; None: the node has left, or it cannot be read
    has_left: bool = False


class EnvelopeStore:
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
        return self.folder / f"{self.kind}-{readable}-{digest}{STORE_SUFFIX}"

    def write(self, record: StoredEnvelope) -> None:
        """Replace what was known; raises `OSError` if the disk does not let us."""
        header = record.header.to_bytes()
        start = _STORE_START.pack(STORE_MAGIC, hashlib.sha256(header).digest(), len(header))
        self.folder.mkdir(parents=True, exist_ok=True)
        data = b"" if record.data is None else record.data  # nothing says that the node has left
        write_atomically(self.path(record.header.node), b"".join((start, header, data)), FILE_MODE)

    def records(self) -> Iterator[StoredEnvelope]:
        """All of them, in the order of their nodes; a file that is of no use gets a warning."""
        self._remove_litter()
        found = [self._record(path) for path in self.folder.glob(f"{self.kind}-*{STORE_SUFFIX}")]
        mine = [each for each in found if each is not None and each.header.fleet == self.fleet]
        yield from sorted(mine, key=lambda record: record.header.node)

    def _record(self, path: Path) -> StoredEnvelope | None:
        try:
            return self._parse(path)
        except (EnvelopeRefused, SnapshotError, OSError) as error:
            _LOG.warning("%s is of no use, what came from that node is forgotten: %s", path, error)
            return None

    def _parse(self, path: Path) -> StoredEnvelope:
        with path.open("rb") as file:
            start = file.read(_STORE_START.size + ENVELOPE_HEADER_MAX_BYTES)
        if len(start) < _STORE_START.size:
            raise EnvelopeRefused(
                "truncated", f"expected {_STORE_START.size} bytes, got {len(start)}"
            )
        magic, digest, length = _STORE_START.unpack_from(start)
        end = _STORE_START.size + length
        header = start[_STORE_START.size : end]
        if magic != STORE_MAGIC or hashlib.sha256(header).digest() != digest:
            raise EnvelopeRefused("damaged", "expected a record of a fleet, got something else")
        try:
            data = read(path, end + self.limit)[end:]
        except SnapshotError as error:
            _LOG.warning("%s: %s; only its number is remembered", path, error)
            return StoredEnvelope(Header.from_bytes(header), None)
        return StoredEnvelope(Header.from_bytes(header), data or None, has_left=not data)

    def _remove_litter(self) -> None:
        """What was unfinished when this program was killed."""
        for path in self.folder.glob(f".{self.kind}-*{UNFINISHED_SUFFIX}"):
            path.unlink(missing_ok=True)


# --- in memory -----------------------------------------------------------------------------------


class _Known(NamedTuple):
    """The last number that was accepted of a node."""

    number: tuple[int, int]
    digest: str
    left: bool


class Roster:
    """Takes envelopes from anywhere, and keeps only what can be used.

    An envelope is looked at from the outside to the inside, and refused at the first thing that is
    wrong: its size, its header, whether it is for us, its signature, its number, its age, and only
    then its content. What is refused changes nothing.

    Parameters
    ----------
    fleet
        The name of the fleet.
    trust
        The keys of those who are trusted; None means everyone, signed or not.
    limit
        The most bytes of an envelope.
    max_age_seconds
        What was created longer ago is not used. Its number stays remembered.
    folder
        Where numbers and envelopes outlive a restart; None: nowhere. One process at a time.
    kind
        What is collected: snapshots of nodes, or models that a hub made for nodes.
    author
        Whose envelopes are accepted: of models the name of the hub. None: snapshots of the node
        itself, and models of anyone who is trusted.
    max_numbers
        The most numbers that a model may ask memory for. A small snapshot can describe a large one.
    max_nodes
        How many nodes there may be.
    ahead_seconds
        How far the clocks of others may be ahead of ours.

    Examples
    --------

    >>> from river import datasets
    >>> import streamlvq
    >>> from streamlvq.fleet import Header, PrivateKey, Roster, TrustedKeys, seal

    >>> model = streamlvq.GLVQ()
    >>> for x, y in datasets.ImageSegments().take(100):
    ...     model.learn_one(x, y)
    >>> payload = streamlvq.Snapshot.of(model, node="camera 1", readings=False).to_bytes()
    >>> key = PrivateKey.new()
    >>> header = Header("plant", "camera 1", "snapshot", epoch=7, sequence=1, created=1000.0)
    >>> data = seal(payload, header, key)

    >>> roster = Roster("plant", TrustedKeys({"camera 1": key.public}), max_age_seconds=3600)
    >>> roster.accept("camera 1", data, now=1001.0).status
    'new'
    >>> roster.accept("camera 1", data, now=1002.0).status
    'same'
    >>> roster.accept("camera 2", data, now=1003.0).reason
    'node'
    >>> roster.members(now=1004.0)["camera 1"].snapshot
    Snapshot(GLVQ of node 'camera 1': 100 samples, 18 features, 7 classes)
    >>> roster.members(now=5000.0)
    {}
    >>> dict(roster.counts)
    {'new': 1, 'same': 1, 'node': 1}

    """

    def __init__(
        self,
        fleet: str,
        trust: TrustedKeys | None,
        *,
        limit: int = ENVELOPE_MAX_BYTES,
        max_age_seconds: float = 86_400.0,
        folder: str | Path | None = None,
        kind: Kind = "snapshot",
        author: str | None = None,
        max_numbers: int = MODEL_MAX_NUMBERS,
        max_nodes: int = MAX_NODES,
        ahead_seconds: float = CLOCK_AHEAD_SECONDS,
    ) -> None:
        self.fleet = check_name("fleet", fleet)
        self.trust = trust
        self.limit, self.max_numbers, self.max_nodes = limit, max_numbers, max_nodes
        self.max_age_seconds, self.ahead_seconds = max_age_seconds, ahead_seconds
        self.kind: Kind = kind
        self.author = author
        self.counts: Counter[str] = Counter()  # by reason, and of those that were not refused
        self._known: dict[str, _Known] = {}
        self._members: dict[str, Member] = {}
        self._store = None if folder is None else EnvelopeStore(folder, fleet, kind, limit)
        self._restore()

    def accept(self, node_in_topic: str, data: bytes, now: float) -> Receipt:
        """Look at what came, and keep it if it is good.

        Parameters
        ----------
        node_in_topic
            The node that the topic names (as `streamlvq.topics.original` gives it).
        data
            What came.
        now
            The time, in seconds since 1970.

        """
        try:
            receipt = Receipt(self._accept(node_in_topic, data, now))
        except EnvelopeRefused as error:
            receipt = Receipt("refused", error.reason, str(error))
        self.counts[receipt.reason or receipt.status] += 1
        return receipt

    def members(self, now: float) -> dict[str, Member]:
        """Those with something that is not too old, in the order of their names.

        Parameters
        ----------
        now
            The time, in seconds since 1970.

        """
        oldest = now - self.max_age_seconds
        found = ((node, self._members[node]) for node in sorted(self._members))
        return {node: member for node, member in found if member.header.created >= oldest}

    def set_trusted_keys(self, trust: TrustedKeys | None) -> None:
        """Trust these from now on. What others wrote, or with another key, is not used any more.

        Parameters
        ----------
        trust
            The keys of those who are trusted; None means everyone.

        """
        before, self.trust = self.trust, trust
        if trust is None:
            return
        for node, member in list(self._members.items()):
            author = member.header.author
            if before is None or trust.get(author) != before.get(author):
                # Its number stays: only what is newer, or the same, gets in again.
                del self._members[node]

    def forget(self, node: str) -> bool:
        """A node has left; what it sent before will not bring it back, something newer will.

        Raises `OSError` if this cannot be written; then nothing has changed.

        Parameters
        ----------
        node
            Its name; those that are not known are welcome. Gives whether it was a member.

        """
        member = self._members.get(node)
        if member is None:
            return False
        if self._store is not None:
            self._store.write(StoredEnvelope(member.header, None, has_left=True))
        del self._members[node]
        self._known[node] = self._known[node]._replace(left=True)
        return True

    # --- from the outside to the inside -----------------------------------------------------------

    def _accept(self, node_in_topic: str, data: bytes, now: float) -> ReceiptStatus:
        envelope = parse_envelope(data, limit=self.limit)
        self._check_address(envelope.header)
        if envelope.header.node != node_in_topic:
            raise EnvelopeRefused(
                "node",
                f"expected something about {shown(node_in_topic)}, as its topic says, "
                f"got {shown(envelope.header.node)}",
            )
        envelope.check(self.trust)
        if self._is_known(envelope):
            return "same"
        self._check_age(envelope.header, now)
        snapshot = self._parse(envelope)
        self._keep(envelope, snapshot, data)
        return "new"

    def _check_address(self, header: Header) -> None:
        """Whether it is for us, and by somebody who may write such a thing."""
        if header.fleet != self.fleet:
            raise EnvelopeRefused(
                "fleet",
                f"expected something of fleet {self.fleet!r}, got one of {shown(header.fleet)}",
            )
        if header.kind != self.kind:
            raise EnvelopeRefused("kind", f"expected a {self.kind}, got a {header.kind}")
        author = header.node if self.kind == "snapshot" else self.author
        if author is not None and header.author != author:
            raise EnvelopeRefused(
                "author",
                f"expected a {self.kind} written by {shown(author)}, got one of "
                f"{shown(header.author)}",
            )

    def _is_known(self, envelope: Envelope) -> bool:
        """Whether this is in use already; raises if it is no newer than what is known."""
        node, number = envelope.header.node, envelope.header.number
        known = self._known.get(node)
        if known is None:
            if len(self._known) >= self.max_nodes:
                raise EnvelopeRefused(
                    "crowded", f"expected at most {self.max_nodes} nodes, got {shown(node)} too"
                )
            return False
        if number > known.number:
            return False
        if envelope.digest == known.digest and not known.left:
            return node in self._members  # if not, it was lost and is welcome again
        raise EnvelopeRefused("replayed", self._about(number, known))

    @staticmethod
    def _about(number: tuple[int, int], known: _Known) -> str:
        text = f"expected a number above {known.number}, got {number}"
        if number == known.number and not known.left:
            return f"{text} with another content: do two nodes have the same name and state?"
        return f"{text}; a node that lost its state needs a clock that is right"

    def _check_age(self, header: Header, now: float) -> None:
        age = now - header.created
        if age > self.max_age_seconds:
            raise EnvelopeRefused(
                "old", f"expected an age of at most {self.max_age_seconds:g} s, got {age:.0f} s"
            )
        if age < -self.ahead_seconds:
            raise EnvelopeRefused(
                "future",
                f"expected a time that has come, got one in {-age:.0f} s; look at the clock of "
                f"{shown(header.author)}, or at ours",
            )
        if header.epoch > 1e6 * (now + self.ahead_seconds):
            # Epochs are times in microseconds; one beyond all times would lock a name for ever.
            raise EnvelopeRefused("future", f"expected an epoch that has come, got {header.epoch}")

    def _parse(self, envelope: Envelope) -> Snapshot:
        try:
            limits = StateLimits(self.max_numbers)
            snapshot = Snapshot.from_bytes(envelope.payload, limit=self.limit, limits=limits)
        except SnapshotSchemaError as error:
            raise EnvelopeRefused("schema", str(error)) from error
        except SnapshotError as error:
            raise EnvelopeRefused("values", str(error)) from error
        if snapshot.node != envelope.header.node:
            raise EnvelopeRefused(
                "node",
                f"expected a snapshot of {shown(envelope.header.node)} inside, "
                f"got one of {shown(snapshot.node)}",
            )
        return snapshot

    def _keep(self, envelope: Envelope, snapshot: Snapshot, data: bytes) -> None:
        if self._store is not None:
            try:
                self._store.write(StoredEnvelope(envelope.header, data))
            except OSError as error:
                raise EnvelopeRefused("unsaved", str(error)) from error
        self._use(envelope, snapshot)

    def _use(self, envelope: Envelope, snapshot: Snapshot) -> None:
        header, digest = envelope.header, envelope.digest
        self._known[header.node] = _Known(header.number, digest, left=False)
        self._members[header.node] = Member(header.node, snapshot, header, digest)

    # --- after a restart --------------------------------------------------------------------------

    def _restore(self) -> None:
        """Know all numbers again, and use what would still be accepted."""
        for record in () if self._store is None else self._store.records():
            header = record.header
            self._known[header.node] = _Known(header.number, digest_of(header), record.has_left)
            if record.data is not None:
                self._restore_member(header, record.data)

    def _restore_member(self, header: Header, data: bytes) -> None:
        try:
            envelope = parse_envelope(data, limit=self.limit)
            if envelope.header != header:
                raise EnvelopeRefused("damaged", "expected the same header twice, got two")
            self._check_address(envelope.header)
            envelope.check(self.trust)
            self._use(envelope, self._parse(envelope))
        except EnvelopeRefused as error:
            _LOG.warning(
                "what %s sent before is not used any more (%s): %s",
                shown(header.node),
                error.reason,
                error,
            )
