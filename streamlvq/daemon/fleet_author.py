"""What a node or a hub writes to its fleet: numbered, signed, and kept until it has arrived."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from streamlvq.config import Config, FleetSection
from streamlvq.config.fleet_topics import own_name
from streamlvq.daemon.lock import FILE_MODE, FOLDER_MODE
from streamlvq.errors import StreamLVQError
from streamlvq.fleet import Header, Numbering, PrivateKey, Sealed, TrustedKeys, seal, unseal
from streamlvq.fleet.errors import EnvelopeRefused
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

    def _read(self) -> None:
        for path in sorted(self.folder.glob("*.env")):
            data = path.read_bytes()
            try:
                header = unseal(data, limit=len(data)).header
            except EnvelopeRefused as error:
                log.warning("%s is of no use: %s", path, error)
                continue
            if (header.fleet, header.author) == (self.section.name, self.name):
                self._kept[header.node], self._headers[header.node] = data, header

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
            f"({own}), got {author.key.public}; write it there with `streamlvq keys trust`, or "
            "give this node another name"
        )
    trust.add(author.name, author.key.public)
    if section.hub is not None and section.hub not in trust:
        raise TrustError(
            f"fleet.hub: expected a node whose key is in {section.trust}, got {section.hub!r}; "
            "add it with `streamlvq keys trust`"
        )
    return trust


__all__ = ["EVERYONE", "FOLDER", "Author", "TooLargeError", "TrustError", "trusted"]
