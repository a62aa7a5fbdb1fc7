"""Fusing what the nodes of a fleet know, beside the loop, and only when something has changed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from streamlvq.config import FleetSection
from streamlvq.errors import StreamLVQError

if TYPE_CHECKING:
    from streamlvq.fleet import Member
    from streamlvq.fusion import Fused, FusionReport

log = logging.getLogger(__name__)

FEWEST = 2  # nodes that there is something to fuse of
Key = tuple[tuple[str, bytes], ...]  # each member, by name, and the digest of what it knows


class Fusion(NamedTuple):
    """What came of fusing the members of a fleet."""

    key: Key
    models: dict[str, bytes]  # a snapshot for each node that one is wanted for
    report: FusionReport | None = None  # None: there was nothing to fuse, or it failed
    trouble: str | None = None  # why it failed
    seconds: float = 0.0


class Fusing:
    """Watches the members of a fleet and fuses them, in a thread, when they have changed.

    The same members give the same models, bit for bit: who fuses them, when, and in which order
    they came does not matter.

    Parameters
    ----------
    section
        How to fuse, and how long to wait for more.
    wanted
        Which of the members need a model.

    """

    def __init__(self, section: FleetSection, wanted: Callable[[str], bool]) -> None:
        self.section, self.wanted = section, wanted
        self._tried: Key | None = None
        self._since: float | None = None  # when the members began to differ from those tried
        self._thread: threading.Thread | None = None
        self._done: Fusion | None = None

    def consider(self, members: Mapping[str, Member], now: float) -> None:
        """Begin to fuse if there is news, and time enough has passed to wait for more of it."""
        if key_of(members) == self._tried:
            self._since = None
            return
        if self._since is None:
            self._since = now
        if self._thread is None and now - self._since >= self.section.fuse_seconds:
            self._begin(dict(members))

    def poll(self) -> Fusion | None:
        """What came of it, once."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread.join()
        self._thread, done, self._done = None, self._done, None
        return done

    def _begin(self, members: dict[str, Member]) -> None:
        self._tried, self._since = key_of(members), None
        self._thread = threading.Thread(
            target=self._run, args=(members,), name="fusing", daemon=True
        )
        self._thread.start()

    def _run(self, members: dict[str, Member]) -> None:
        try:
            self._done = fuse_members(self.section, members, self.wanted)
        except BaseException as error:  # the loop is told; nothing may end here in silence
            if not isinstance(error, StreamLVQError):
                log.error("a defect kept the fleet from being fused", exc_info=error)
            trouble = str(error) or repr(error)
            self._done = Fusion(key_of(members), {}, trouble=trouble)


def fuse_members(
    section: FleetSection, members: Mapping[str, Member], wanted: Callable[[str], bool]
) -> Fusion:
    """A model for each wanted member, as the bytes of a snapshot; raises `FusionError`."""
    from streamlvq.fusion import fuse  # noqa: PLC0415

    key = key_of(members)
    if len(members) < FEWEST:
        return Fusion(key, {})
    begin = time.monotonic()
    fused = fuse(
        [member.snapshot for member in members.values()],
        weighting=section.weighting,
        drift=section.drift,
        rule=section.rule,
    )
    models = dict(_models(fused, wanted))
    return Fusion(key, models, fused.report, None, time.monotonic() - begin)


def _models(fused: Fused, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    for node in fused.nodes:
        if not wanted(node):
            continue
        try:
            yield node, fused.snapshot(node).to_bytes()
        except StreamLVQError as error:  # the others shall have theirs
            log.warning("the fleet has no model for %r: %s", node, error)


def key_of(members: Mapping[str, Member]) -> Key:
    """What tells one set of members from another; a new envelope around the same is no news."""
    return tuple((node, members[node].header.digest) for node in sorted(members))


__all__ = ["FEWEST", "Fusing", "Fusion", "Key", "fuse_members", "key_of"]
