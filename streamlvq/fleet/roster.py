"""Roster: who is in the fleet, and the newest that is known of each."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from streamlvq.fleet.envelope import Sealed, digest_of, unseal
from streamlvq.fleet.errors import EnvelopeRefused, shown
from streamlvq.fleet.header import Header, Kind, check_name
from streamlvq.fleet.members import Member, Status, Taken
from streamlvq.fleet.shelf import Record, Shelf
from streamlvq.fleet.trusted import TrustedKeys
from streamlvq.snapshot import Snapshot, SnapshotError, SnapshotSchemaError, StateLimits

LIMIT = 16 * 2**20  # bytes of an envelope
ROOM = 2**24  # numbers that a model may ask memory for, whatever is said about it: 128 MiB
MOST_NODES = 10_000
AHEAD_SECONDS = 300.0  # what clocks may differ by
_LOG = logging.getLogger("streamlvq")


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
        Whose envelopes are taken: of models the name of the hub. None: snapshots of the node
        itself, and models of anyone who is trusted.
    room
        The most numbers that a model may ask memory for. A small snapshot can describe a large one.
    most_nodes
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
    >>> roster.take("camera 1", data, now=1001.0).status
    'new'
    >>> roster.take("camera 1", data, now=1002.0).status
    'same'
    >>> roster.take("camera 2", data, now=1003.0).reason
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
        limit: int = LIMIT,
        max_age_seconds: float = 86_400.0,
        folder: str | Path | None = None,
        kind: Kind = "snapshot",
        author: str | None = None,
        room: int = ROOM,
        most_nodes: int = MOST_NODES,
        ahead_seconds: float = AHEAD_SECONDS,
    ) -> None:
        self.fleet = check_name("fleet", fleet)
        self.trust = trust
        self.limit, self.room, self.most_nodes = limit, room, most_nodes
        self.max_age_seconds, self.ahead_seconds = max_age_seconds, ahead_seconds
        self.kind: Kind = kind
        self.author = author
        self.counts: Counter[str] = Counter()  # by reason, and of those that were not refused
        self._known: dict[str, _Known] = {}
        self._members: dict[str, Member] = {}
        self._shelf = None if folder is None else Shelf(folder, fleet, kind, limit)
        self._restore()

    def take(self, node_in_topic: str, data: bytes, now: float) -> Taken:
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
            taken = Taken(self._take(node_in_topic, data, now))
        except EnvelopeRefused as error:
            taken = Taken("refused", error.reason, str(error))
        self.counts[taken.reason or taken.status] += 1
        return taken

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

    def believe(self, trust: TrustedKeys | None) -> None:
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
        if self._shelf is not None:
            self._shelf.write(Record(member.header, b""))
        del self._members[node]
        self._known[node] = self._known[node]._replace(left=True)
        return True

    # --- from the outside to the inside -----------------------------------------------------------

    def _take(self, node_in_topic: str, data: bytes, now: float) -> Status:
        sealed = unseal(data, limit=self.limit)
        self._check_address(sealed.header)
        if sealed.header.node != node_in_topic:
            raise EnvelopeRefused(
                "node",
                f"expected something about {shown(node_in_topic)}, as its topic says, "
                f"got {shown(sealed.header.node)}",
            )
        sealed.check(self.trust)
        if self._is_known(sealed):
            return "same"
        self._check_age(sealed.header, now)
        snapshot = self._parse(sealed)
        self._keep(sealed, snapshot, data)
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

    def _is_known(self, sealed: Sealed) -> bool:
        """Whether this is in use already; raises if it is no newer than what is known."""
        node, number = sealed.header.node, sealed.header.number
        known = self._known.get(node)
        if known is None:
            if len(self._known) >= self.most_nodes:
                raise EnvelopeRefused(
                    "crowded", f"expected at most {self.most_nodes} nodes, got {shown(node)} too"
                )
            return False
        if number > known.number:
            return False
        if sealed.digest == known.digest and not known.left:
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

    def _parse(self, sealed: Sealed) -> Snapshot:
        try:
            limits = StateLimits(self.room)
            snapshot = Snapshot.from_bytes(sealed.payload, limit=self.limit, limits=limits)
        except SnapshotSchemaError as error:
            raise EnvelopeRefused("schema", str(error)) from error
        except SnapshotError as error:
            raise EnvelopeRefused("values", str(error)) from error
        if snapshot.node != sealed.header.node:
            raise EnvelopeRefused(
                "node",
                f"expected a snapshot of {shown(sealed.header.node)} inside, "
                f"got one of {shown(snapshot.node)}",
            )
        return snapshot

    def _keep(self, sealed: Sealed, snapshot: Snapshot, data: bytes) -> None:
        if self._shelf is not None:
            try:
                self._shelf.write(Record(sealed.header, data))
            except OSError as error:
                raise EnvelopeRefused("unsaved", str(error)) from error
        self._use(sealed, snapshot)

    def _use(self, sealed: Sealed, snapshot: Snapshot) -> None:
        header, digest = sealed.header, sealed.digest
        self._known[header.node] = _Known(header.number, digest, left=False)
        self._members[header.node] = Member(header.node, snapshot, header, digest)

    # --- after a restart --------------------------------------------------------------------------

    def _restore(self) -> None:
        """Know all numbers again, and use what would still be accepted."""
        for record in () if self._shelf is None else self._shelf.records():
            header = record.header
            left = not record.data
            self._known[header.node] = _Known(header.number, digest_of(header), left)
            if not left:
                self._restore_member(record)

    def _restore_member(self, record: Record) -> None:
        try:
            sealed = unseal(record.data, limit=self.limit)
            if sealed.header != record.header:
                raise EnvelopeRefused("damaged", "expected the same header twice, got two")
            self._check_address(sealed.header)
            sealed.check(self.trust)
            self._use(sealed, self._parse(sealed))
        except EnvelopeRefused as error:
            _LOG.warning(
                "what %s sent before is not used any more (%s): %s",
                shown(record.header.node),
                error.reason,
                error,
            )
