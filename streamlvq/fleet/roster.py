"""Roster: the members of a fleet and the newest envelope of each, in memory and on disk."""

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
from streamlvq.fleet.pools import check_hub_state, check_no_secrets, check_node_state
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotSchemaError, StateLimits
from streamlvq.snapshot.files import FILE_MODE, UNFINISHED_SUFFIX, read, write_atomically
from streamlvq.snapshot.statement import SuccessionError

ENVELOPE_MAX_BYTES = 16 * 2**20
MODEL_MAX_NUMBERS = 2**24  # that a model may need memory for, whatever is said about it: 128 MiB
POOL_MAX_NUMBERS = 2**26  # that all models of a pool may need memory for: 512 MiB
MAX_NODES = 10_000
CLOCK_AHEAD_SECONDS = 300.0  # tolerated difference between clocks
STORE_MAGIC = b"SLVQROS1"
STORE_SUFFIX = ".sealed"
_STORE_START = struct.Struct(f">8s{DIGEST_BYTES}sH")  # magic, SHA-256 and length of the header
_LOG = logging.getLogger("streamlvq")
ReceiptStatus = Literal["new", "same", "refused"]


class Receipt(NamedTuple):
    """Result of handing an envelope to the roster.

    `status` is "new" (in use from now on), "same" (in use already) or "refused" (nothing changed);
    `reason` is one of `REASONS` if refused, and `text` explains it.
    """

    status: ReceiptStatus
    reason: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Member:
    """Node with the newest valid envelope about it.

    `digest` identifies header and content.
    """

    node: str
    snapshot: Snapshot
    header: Header
    digest: str


# --- on disk -------------------------------------------------------------------------------------


class StoredEnvelope(NamedTuple):
    """Newest envelope stored for a node."""

    header: Header
    data: bytes | None  # the envelope; None: the node has left, or it cannot be read
    has_left: bool = False


class EnvelopeStore:
    """Store for the envelopes of one fleet and one kind in a folder, which stores may share.

    One process at a time writes to the folder. Of envelopes larger than `limit` bytes only the
    header is read.
    """

    def __init__(self, folder: str | Path, fleet: str, kind: Kind, limit: int) -> None:
        self.folder = Path(folder)
        self.fleet, self.kind, self.limit = fleet, kind, limit

    def path(self, node: str) -> Path:
        """Return the file for a node: a readable name and a digest, as names may hold anything."""
        digest = hashlib.sha256(f"{self.fleet}\n{node}".encode()).hexdigest()[:24]
        readable = re.sub(r"[^A-Za-z0-9_-]", "_", node)[:40]
        return self.folder / f"{self.kind}-{readable}-{digest}{STORE_SUFFIX}"

    def write(self, record: StoredEnvelope) -> None:
        """Replace the stored envelope of a node; raise `OSError` if that fails."""
        header = record.header.to_bytes()
        start = _STORE_START.pack(STORE_MAGIC, hashlib.sha256(header).digest(), len(header))
        self.folder.mkdir(parents=True, exist_ok=True)
        data = b"" if record.data is None else record.data  # nothing says that the node has left
        write_atomically(self.path(record.header.node), b"".join((start, header, data)), FILE_MODE)

    def records(self) -> Iterator[StoredEnvelope]:
        """Yield all records, sorted by node; warn about files that cannot be used."""
        self._remove_litter()
        found = [self._record(path) for path in self.folder.glob(f"{self.kind}-*{STORE_SUFFIX}")]
        mine = [each for each in found if each is not None and each.header.fleet == self.fleet]
        yield from sorted(mine, key=lambda record: record.header.node)

    def _record(self, path: Path) -> StoredEnvelope | None:
        try:
            return self._parse(path)
        except (EnvelopeRefused, SnapshotError, OSError) as error:
            _LOG.warning("%s cannot be used, the envelope of that node is dropped: %s", path, error)
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
        """Remove temporary files of a process that was killed."""
        for path in self.folder.glob(f".{self.kind}-*{UNFINISHED_SUFFIX}"):
            path.unlink(missing_ok=True)


# --- in memory -----------------------------------------------------------------------------------


class _Known(NamedTuple):
    """Last number accepted from a node."""

    number: tuple[int, int]
    digest: str
    left: bool


class Roster:
    """Members of a fleet: accepts envelopes from anywhere and keeps only valid ones.

    An envelope is checked from the outside in, and refused at the first problem: size, header,
    address, signature, number, age, and only then content. A refused envelope changes nothing.

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
        """Check an envelope, and keep it if it is valid.

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
        """Return the members whose envelopes are not too old, sorted by name.

        Parameters
        ----------
        now
            The time, in seconds since 1970.

        """
        oldest = now - self.max_age_seconds
        found = ((node, self._members[node]) for node in sorted(self._members))
        return {node: member for node, member in found if member.header.created >= oldest}

    def set_trusted_keys(self, trust: TrustedKeys | None) -> None:
        """Trust these keys from now on, and drop what was signed with any other.

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
        """Remove a node until it sends something newer; return whether it was a member.

        Raises `OSError`, and changes nothing, if this cannot be written.
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
                f"expected an envelope about {shown(node_in_topic)}, as in its topic, "
                f"got {shown(envelope.header.node)}",
            )
        envelope.check(self.trust)
        if self._is_known(envelope):
            return "same"
        self._check_age(envelope.header, now)
        snapshot = self._parse(envelope)
        self._check_ledger(snapshot, now)
        self._keep(envelope, snapshot, data)
        return "new"

    def _check_address(self, header: Header) -> None:
        """Raise unless an envelope is for us and its author may write such a thing."""
        if header.fleet != self.fleet:
            raise EnvelopeRefused(
                "fleet",
                f"expected an envelope of fleet {self.fleet!r}, got one of {shown(header.fleet)}",
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
        """Return whether this envelope is in use already; raise if it is not newer."""
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
            return node in self._members  # if not, it was lost and is accepted again
        raise EnvelopeRefused("replayed", self._about(number, known))

    @staticmethod
    def _about(number: tuple[int, int], known: _Known) -> str:
        text = f"expected a number above {known.number}, got {number}"
        if number == known.number and not known.left:
            return f"{text} with another content: do two nodes have the same name and state?"
        return f"{text}; a node that lost its state needs a correct clock"

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
            # Epochs are times in microseconds; one in the far future would block a name forever.
            raise EnvelopeRefused("future", f"expected an epoch that has come, got {header.epoch}")

    def _parse(self, envelope: Envelope) -> Snapshot:
        try:
            limits = StateLimits(self.max_numbers)
            snapshot = Snapshot.from_bytes(
                envelope.payload, limit=self.limit, limits=limits, before_build=check_no_secrets
            )
            check_state = check_node_state if self.kind == "snapshot" else check_hub_state
            check_state(snapshot.estimator_state())
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

    def _check_ledger(self, snapshot: Snapshot, now: float) -> None:
        """Raise if a private node's ledger does not go on; what is too old is forgotten."""
        member = self._members.get(snapshot.node)
        if member is None or now - member.header.created > self.max_age_seconds:
            return
        before, after = member.snapshot.privacy, snapshot.privacy
        if before is None:
            return
        if after is None:
            raise EnvelopeRefused(
                "ledger",
                "expected a statement of privacy, as in the publication before, got none; a node "
                "that learns without privacy from now on needs another name, or "
                f"{self.max_age_seconds:g} s of silence",
            )
        try:
            after.check_follows(before)
        except SuccessionError as error:
            raise EnvelopeRefused("ledger", str(error)) from error

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
        """Restore all numbers, and the envelopes that would still be accepted."""
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
