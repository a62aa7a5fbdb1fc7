"""What a node or a hub writes to its fleet: numbered, signed, and kept until it has arrived."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from streamlvq.config import Config, FleetSection
from streamlvq.config.fleet_topics import own_name
from streamlvq.errors import StreamLVQError
from streamlvq.fleet import Header, Numbering, PrivateKey, Sealed, TrustedKeys, seal, unseal
from streamlvq.fleet.errors import EnvelopeRefused
from streamlvq.monitor.files import FILE_MODE, FOLDER_MODE
from streamlvq.snapshot import write_atomically

log = logging.getLogger(__name__)

FOLDER = "fleet"  # in the state folder
EVERYONE = "everyone"


class TooLargeError(StreamLVQError, ValueError):
    """Something that may not be sent, because nobody would look at it."""


class TrustError(StreamLVQError, ValueError):
    """The keys of a configuration do not belong together."""


class Author:
    """Puts payloads into envelopes, and keeps the newest one for each node on disk.

    A broker that has lost its memory, or never heard what was sent in the moment of a crash, is
    told again from there.

    Parameters
    ----------
    config
        Whose name and key to write with, and how much.
    folder
        Where to keep them.

    """

    def __init__(self, config: Config, folder: Path) -> None:
        assert config.fleet is not None
        self.section: FleetSection = config.fleet
        self.name = own_name(config)
        self.folder = folder / "sent"
        self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        self.key = None if self.section.key_file is None else PrivateKey.load(self.section.key_file)
        self._numbering = Numbering(folder)
        self._kept: dict[str, bytes] = {}
        self._headers: dict[str, Header] = {}
        self._read()

    def write(self, node: str, payload: bytes, now: float) -> bytes:
        """An envelope about a node that is on disk; raises `TooLargeError` or OSError."""
        section = self.section
        epoch, sequence = self._numbering.next()
        header = Header(
            fleet=section.name,
            node=node,
            kind="model" if section.role == "hub" else "snapshot",
            epoch=epoch,
            sequence=sequence,
            created=now,
            author=self.name,
        )
        data = seal(payload, header, self.key)
        if len(data) > section.max_snapshot_bytes:
            raise TooLargeError(
                f"expected at most fleet.max_snapshot_bytes ({section.max_snapshot_bytes}) to "
                f"publish, got {len(data)}: allow more on all nodes, or learn fewer features, "
                "classes or prototypes"
            )
        write_atomically(self._path(node), data, FILE_MODE)
        self._kept[node] = data
        self._headers[node] = unseal(data, limit=len(data)).header
        return data

    def forget(self, node: str) -> None:
        """There is nothing to say about a node any more."""
        if self._kept.pop(node, None) is not None:
            del self._headers[node]
            self._path(node).unlink(missing_ok=True)

    def kept(self) -> dict[str, bytes]:
        """The newest envelope about each node."""
        return dict(self._kept)

    def last(self, node: str) -> Sealed | None:
        """The newest one about a node, opened."""
        data = self._kept.get(node)
        return None if data is None else unseal(data, limit=len(data))

    def last_header(self, node: str) -> Header | None:
        """What is written on the newest one about a node."""
        return self._headers.get(node)

    def wrote(self, data: bytes, trust: TrustedKeys | None) -> bool:
        """Whether we can have sent this, now, earlier, or before our folder was lost."""
        if data in self._kept.values():
            return True
        try:
            sealed = unseal(data, limit=self.section.max_snapshot_bytes)
            sealed.check(trust)
        except EnvelopeRefused:
            return False
        last, header = self._numbering.last, sealed.header
        return header.author == self.name and (last is None or header.number <= last)

    def resembles(self, data: bytes) -> bool:
        """Whether it may be ours of before, though not signed as we sign now."""
        try:
            header = unseal(data, limit=self.section.max_snapshot_bytes).header
        except EnvelopeRefused:
            return False
        last = self._numbering.last
        return header.author == self.name and last is not None and header.number <= last

    def _read(self) -> None:
        for path in sorted(self.folder.glob("*.env")):
            data = path.read_bytes()
            try:
                sealed = unseal(data, limit=len(data))
                header = sealed.header
            except EnvelopeRefused as error:
                log.warning("%s is of no use: %s", path, error)
                continue
            if not self._signed(sealed):
                log.info(
                    "what was published about %r had another key; it will be anew", header.node
                )
                continue
            if (header.fleet, header.author) == (self.section.name, self.name):
                self._kept[header.node], self._headers[header.node] = data, header

    def _signed(self, sealed: Sealed) -> bool:
        """Whether it is signed as we sign now; nobody would believe it otherwise."""
        if self.key is None or sealed.header.author != self.name:
            return True
        try:
            sealed.check(TrustedKeys({self.name: self.key.public}))
        except EnvelopeRefused:
            return False
        return True

    def _path(self, node: str) -> Path:
        """Names may hold what file names cannot."""
        return self.folder / f"{hashlib.sha256(node.encode()).hexdigest()[:32]}.env"


def trusted(config: Config, author: Author) -> TrustedKeys | None:
    """The keys to believe, our own among them; None: everyone is believed."""
    section = author.section
    if section.trust == EVERYONE:
        return None
    trust = TrustedKeys.load(section.trust)
    assert author.key is not None  # the configuration was checked
    own = trust.get(author.name)
    if own is not None and own != author.key.public:
        raise TrustError(
            f"fleet.key_file: expected the key that {section.trust} has for {author.name!r} "
            f"({own}), got {author.key.public}; if this node has got a new key, write `streamlvq "
            f"keys trust {section.trust} {author.name} {author.key.public} --replace`, else give "
            "this node another name"
        )
    if own is None:
        log.warning(
            "%s has no key of %r: nodes that have the same file do not believe us; add ours with "
            "`streamlvq keys trust %s %s %s`",
            section.trust,
            author.name,
            section.trust,
            author.name,
            author.key.public,
        )
    trust.add(author.name, author.key.public)
    if section.hub is not None and section.hub not in trust:
        raise TrustError(
            f"fleet.hub: expected a node whose key is in {section.trust}, got {section.hub!r}; "
            "add it with `streamlvq keys trust`"
        )
    return trust


def introduction(section: FleetSection, node: str, trust: TrustedKeys | None) -> str:
    """Who we are in a fleet, in one line.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone", role="member", hub="site")
    >>> introduction(section, "oven-3", None)
    "fleet 'ovens': member 'oven-3' of the hub 'site', believes everyone"

    """
    hub = "" if section.hub is None else f" of the hub {section.hub!r}"
    if trust is None:
        believes = "everyone"
    else:
        believes = f"{len(trust)} trusted key{'s' * (len(trust) != 1)}, its own among them"
    return f"fleet {section.name!r}: {section.role} {node!r}{hub}, believes {believes}"


def key_changes(before: TrustedKeys | None, after: TrustedKeys | None) -> list[str]:
    """What has changed between two files of trusted keys, for people.

    Examples
    --------
    >>> before, keys = TrustedKeys(), [PrivateKey.new().public for _ in range(2)]
    >>> before.add("camera-1", keys[0])
    >>> key_changes(before, TrustedKeys({"camera-1": keys[1], "camera-4": keys[0]}))
    ['1 new key: camera-4', '1 other key: camera-1']
    >>> key_changes(before, TrustedKeys())
    ['1 key taken away: camera-1']

    """
    old, new = dict(before or {}), dict(after or {})
    found = {
        "{} new key{}": [node for node in new if node not in old],
        "{} other key{}": [node for node in new if old.get(node, new[node]) != new[node]],
        "{} key{} taken away": [node for node in old if node not in new],
    }
    return [
        f"{text.format(len(nodes), 's' * (len(nodes) != 1))}: {_named(nodes)}"
        for text, nodes in found.items()
        if nodes
    ]


def _named(nodes: list[str], most: int = 10) -> str:
    rest = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return ", ".join(sorted(nodes)[:most]) + rest


__all__ = [
    "EVERYONE",
    "FOLDER",
    "Author",
    "TooLargeError",
    "TrustError",
    "introduction",
    "key_changes",
    "trusted",
]
