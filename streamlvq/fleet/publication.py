"""Publications of a node or hub: numbered, signed, scheduled, and kept until delivered."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from pathlib import Path

from streamlvq.config import Config, FleetSection
from streamlvq.config.topics import own_name
from streamlvq.errors import StreamLVQError
from streamlvq.fleet.envelope import (
    NUMBER_MAX,
    Envelope,
    EnvelopeRefused,
    Header,
    parse_envelope,
    seal,
)
from streamlvq.fleet.keys import PrivateKey, TrustedKeys
from streamlvq.snapshot.files import FILE_MODE, UNFINISHED_SUFFIX, write_atomically

log = logging.getLogger(__name__)

FOLDER_MODE = 0o750
NUMBERS_FILE = "numbering"
RENEWALS_PER_MAX_AGE = 4  # publications within the time that others remember us, without news
_NUMBERS_MAX_BYTES = 100
_NUMBERS = re.compile(rb"([0-9]{1,19}) ([0-9]{1,19})\n")


class TooLargeError(StreamLVQError, ValueError):
    """Payload that is too large to publish: everybody would refuse it."""


# --- numbers -------------------------------------------------------------------------------------


class SequenceNumbers:
    """Numbers that always increase, also across restarts, and are never reused.

    A number is on disk before it is used. If the folder is lost, a new epoch begins, named after
    the time in microseconds, which is higher than the old one as long as the clock is right. One
    process at a time uses the folder.

    Examples
    --------

    >>> import tempfile
    >>> from streamlvq.fleet import SequenceNumbers

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = SequenceNumbers(folder).next(), SequenceNumbers(folder).next()
    >>> first[0] == second[0], first[1], second[1]
    (True, 1, 2)

    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / NUMBERS_FILE
        self._last = self._read()
        for litter in self.path.parent.glob(f".{NUMBERS_FILE}.*{UNFINISHED_SUFFIX}"):
            litter.unlink(missing_ok=True)

    @property
    def last(self) -> tuple[int, int] | None:
        """Number that was assigned last; None before the first."""
        return self._last

    def next(self) -> tuple[int, int]:
        """Return epoch and sequence, higher than all before.

        Raises `OSError`, and assigns nothing, if they cannot be written.
        """
        number = self._after(self._last)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, b"%d %d\n" % number, FILE_MODE)
        self._last = number
        return number

    @staticmethod
    def _after(last: tuple[int, int] | None) -> tuple[int, int]:
        if last is None:
            return time.time_ns() // 1000, 1
        epoch, sequence = last
        return (epoch, sequence + 1) if sequence < NUMBER_MAX else (epoch + 1, 1)

    def _read(self) -> tuple[int, int] | None:
        try:
            with self.path.open("rb") as file:
                data = file.read(_NUMBERS_MAX_BYTES)
        except FileNotFoundError:
            return None
        found = _NUMBERS.fullmatch(data)
        if found is None or max(int(found[1]), int(found[2])) > NUMBER_MAX:
            log.warning(
                "%s: expected two numbers, got %r; numbers go on with the time of day",
                self.path,
                data,
            )
            return None
        return int(found[1]), int(found[2])


# --- envelopes -----------------------------------------------------------------------------------


class EnvelopeWriter:
    """Writer of envelopes that keeps the newest one for each node on disk.

    From there they are published again if the broker has lost its memory or never received what was
    sent just before a crash.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        assert config.fleet is not None
        self.section: FleetSection = config.fleet
        self.name = own_name(config)
        self.folder = folder / "sent"
        self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        self.key = None if self.section.key_file is None else PrivateKey.load(self.section.key_file)
        self._numbers = SequenceNumbers(folder)
        self._kept: dict[str, bytes] = {}
        self._payloads: dict[str, bytes] = {}  # also of what had another key
        self._headers: dict[str, Header] = {}
        self._read()

    def write(self, node: str, payload: bytes, now: float) -> bytes:
        """Return a new envelope about a node, saved on disk; raise `TooLargeError` or OSError."""
        section = self.section
        epoch, sequence = self._numbers.next()
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
        self._headers[node] = parse_envelope(data, limit=len(data)).header
        self._payloads[node] = payload
        return data

    def forget(self, node: str) -> None:
        """Delete the envelope about a node."""
        if self._kept.pop(node, None) is not None:
            del self._headers[node]
            self._payloads.pop(node, None)
            self._path(node).unlink(missing_ok=True)

    def kept(self) -> dict[str, bytes]:
        """Return the newest envelope about each node."""
        return dict(self._kept)

    def last(self, node: str) -> Envelope | None:
        """Return the newest envelope about a node, parsed."""
        data = self._kept.get(node)
        return None if data is None else parse_envelope(data, limit=len(data))

    def last_header(self, node: str) -> Header | None:
        """Return the header of the newest envelope about a node."""
        return self._headers.get(node)

    def published(self, node: str) -> bytes | None:
        """Return what was published last about a node, whatever key it was signed with."""
        return self._payloads.get(node)

    def is_ours(self, data: bytes, trust: TrustedKeys | None) -> bool:
        """Return whether we sent this: now, earlier, or before our folder was lost."""
        if data in self._kept.values():
            return True
        try:
            envelope = parse_envelope(data, limit=self.section.max_snapshot_bytes)
            envelope.check(trust)
        except EnvelopeRefused:
            return False
        last, header = self._numbers.last, envelope.header
        return header.author == self.name and (last is None or header.number <= last)

    def is_ours_with_old_key(self, data: bytes) -> bool:
        """Return whether this may be ours although it is signed with another key."""
        try:
            header = parse_envelope(data, limit=self.section.max_snapshot_bytes).header
        except EnvelopeRefused:
            return False
        last = self._numbers.last
        return header.author == self.name and last is not None and header.number <= last

    def _read(self) -> None:
        for path in sorted(self.folder.glob("*.env")):
            data = path.read_bytes()
            try:
                envelope = parse_envelope(data, limit=len(data))
                header = envelope.header
            except EnvelopeRefused as error:
                log.warning("%s cannot be used: %s", path, error)
                continue
            if (header.fleet, header.author) == (self.section.name, self.name):
                self._payloads[header.node] = envelope.payload
            if not self._signed(envelope):
                log.info(
                    "what was published about %r had another key; it will be published again",
                    header.node,
                )
                continue
            if (header.fleet, header.author) == (self.section.name, self.name):
                self._kept[header.node], self._headers[header.node] = data, header

    def _signed(self, envelope: Envelope) -> bool:
        """Return whether this carries our current signature; nobody would accept it otherwise."""
        if self.key is None or envelope.header.author != self.name:
            return True
        try:
            envelope.check(TrustedKeys({self.name: self.key.public}))
        except EnvelopeRefused:
            return False
        return True

    def _path(self, node: str) -> Path:
        """Return the file for a node; names may contain what file names cannot."""
        return self.folder / f"{hashlib.sha256(node.encode()).hexdigest()[:32]}.env"


# --- times ---------------------------------------------------------------------------------------


class Schedule:
    """Schedule that decides when a node's model is published; by the monotonic clock.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone")
    >>> schedule = Schedule(section)
    >>> schedule.due(samples=19, now=0.0), schedule.due(samples=20, now=0.0)
    (False, True)
    >>> schedule.published(samples=20, now=0.0)

    A few more samples wait for the time to come, many do not; but a pause there must be.

    >>> schedule.due(samples=25, now=299.0), schedule.due(samples=25, now=300.0)
    (False, True)
    >>> schedule.due(samples=220, now=9.0), schedule.due(samples=220, now=10.0)
    (False, True)

    """

    def __init__(self, section: FleetSection) -> None:
        self.section = section
        self.renewal_seconds = max(
            section.max_age_seconds / RENEWALS_PER_MAX_AGE,
            section.publish_pause_seconds,
        )
        self._samples: int | None = None  # that others know of; None: nothing was published
        self._last = float("-inf")  # when it was tried

    def due(self, samples: int, now: float) -> bool:
        """Return whether to publish a model that has learnt so many samples."""
        wait = self.wait(samples, now)
        return wait is not None and wait <= 0.0

    def wait(self, samples: int, now: float) -> float | None:
        """Return the seconds until a publication is due; None if more samples are needed first."""
        section = self.section
        if samples < section.min_samples:
            return None
        pause = section.publish_pause_seconds
        if self._samples is not None and samples == self._samples:
            pause = self.renewal_seconds  # otherwise others would think that we left
        elif self.new(samples) < section.publish_after and self._samples is not None:
            pause = max(pause, section.publish_seconds)
        return max(0.0, pause - (now - self._last))

    def new(self, samples: int) -> int:
        """Return how many of these samples have not been published."""
        return abs(samples - (self._samples or 0))

    def published(self, samples: int, now: float) -> None:
        """Record that so many samples have been published."""
        self._samples, self._last = samples, now

    def republish(self) -> None:
        """Publish again after the pause: others may have lost our snapshot."""
        self._samples = None

    @property
    def is_known(self) -> bool:
        """Whether others are known to have what was published last."""
        return self._samples is not None

    def failed(self, now: float) -> None:
        """Record a failed publication; retry after the pause."""
        self._last = now

    def held_back(self, now: float) -> None:
        """Record that nothing could be published: what is new is too little; retry later."""
        self._last = now
