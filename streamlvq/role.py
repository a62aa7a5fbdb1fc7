"""Role: the contract between a service and what it does (monitoring, hub).

A service owns the loop, the broker session, HTTP and reloads; a role owns the state and decides
what messages mean. Roles live beside what they do (the hub in `fleet/`) and do not import the
service.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from streamlvq.config import Config, HealthSection
from streamlvq.connect import Link, Message, Outgoing, Subscription
from streamlvq.errors import StreamLVQError
from streamlvq.kernels.progress import progress

STUCK_SECONDS = 30.0  # without a loop iteration before `/healthz` reports it


class ReloadError(StreamLVQError, ValueError):
    """Configuration that cannot replace the running one without a restart."""


@dataclass(slots=True)
class Health:
    """Health of a service, written by its loop and read by HTTP threads.

    The values are plain and each is replaced as a whole, so no lock is needed. Times are monotonic,
    because the wall clock may jump.
    """

    limits: HealthSection
    started: float = field(default_factory=time.monotonic)
    starting: bool = True
    phase: str = "the state is being restored"  # of starting
    stopping: bool = False
    connected: bool = False
    link_error: str | None = "not connected yet"
    journal: str | None = None  # why the journal cannot be written
    ledger: str | None = None  # why releases cannot be written down
    snapshot: str | None = None  # why the last snapshot failed
    file: str | None = None  # why decisions cannot be written to their file
    fleet: str | None = None  # what is wrong with our part of the fleet
    reading: float | None = None  # time of the last reading
    saved: float = field(default_factory=time.monotonic)  # when all state was last on disk
    unsaved: bool = False  # whether anything has changed since
    devices: int = 0  # devices with a window of readings
    models: int = 0  # models that are learning
    new_features: int = 0  # that came lately and are on probation
    new_classes: int = 0
    contradicted: int = 0  # models that recent labels contradict
    agreement: float = math.nan  # lowest accuracy of a model about its recent labels
    sensors: Mapping[str, int] = field(default_factory=dict)  # features to look at, by problem
    warnings: tuple[str, ...] = ()  # what somebody should look into
    beat: float = field(default_factory=time.monotonic)  # time of the last loop iteration

    def problems(self, now: float | None = None, *, about_readings: bool = True) -> list[str]:
        """Return why the service is unhealthy; empty if it is healthy.

        Without `about_readings`, leave out what is only known from readings.
        """
        now = time.monotonic() if now is None else now
        found = [f"journal: {self.journal}"] if self.journal else []
        found += [f"ledger: {self.ledger}"] if self.ledger else []
        found += [f"file: {self.file}"] if self.file else []
        found += [f"fleet: {self.fleet}"] if self.fleet else []
        found += self.warnings if self.limits.warnings_fail and about_readings else ()
        if self.starting:
            return [*found, f"starting: {self._start_phase()}"]
        if self.stopping:
            found.append("stopping")
        if not self.connected:
            found.append(f"not connected: {self.link_error or 'the broker has not answered yet'}")
        silence = self._silence(now) if about_readings else []
        return found + silence + self._snapshot(now) + self._stuck(now)

    def _start_phase(self) -> str:
        return self.phase if progress.kernel is None else str(progress)

    def _silence(self, now: float) -> list[str]:
        quiet = now - (self.started if self.reading is None else self.reading)
        if quiet <= self.limits.silence_seconds:
            return []
        return [f"silence: no reading for {quiet:.0f} s"]

    def _snapshot(self, now: float) -> list[str]:
        age = now - self.saved
        if self.snapshot is not None:
            return [f"snapshot: {self.snapshot}"]
        if self.unsaved and age > self.limits.snapshot_age_seconds:
            return [f"snapshot: the last one is {age:.0f} s old"]
        return []

    def _stuck(self, now: float) -> list[str]:
        idle = now - self.beat
        if idle <= STUCK_SECONDS:
            return []
        return [f"stuck: no loop iteration for {idle:.0f} s"]


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """Role's part of the status message of its service."""

    devices: int = 0
    models: int = 0
    fleet: msgspec.Struct | None = None  # a `FleetRecord`, of those in a fleet


@dataclass(frozen=True, slots=True)
class Reload:
    """Configuration change that has been checked and can be applied."""

    commit: Callable[[], None]  # must not fail
    cancel: Callable[[], None] = lambda: None  # undo what preparing has written
    reconnect: bool = False  # whether it needs another link to the broker
    notes: tuple[str, ...] = ()  # what changed besides the configuration, for the log


def changed_keys(old: Config, new: Config) -> list[str]:
    """Return the dotted keys whose values differ.

    Examples
    --------
    >>> from streamlvq.config import HealthSection, ModelSection
    >>> new = Config(model=ModelSection(type="GLVQ"), health=HealthSection(silence_seconds=9.0))
    >>> changed_keys(Config(), new)
    ['model.type', 'health.silence_seconds']

    """
    return list(_differences(msgspec.to_builtins(old), msgspec.to_builtins(new), ""))


def is_among(key: str, keys: Iterable[str]) -> bool:
    """Return whether a dotted key is one of these or below one of them."""
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            inner = f"{path}.{name}" if path else name
            yield from _differences(old.get(name), new.get(name), inner)
    elif old != new:
        yield path


class Session(Protocol):
    """The broker session of a service, as its role sees it."""

    @property
    def link(self) -> Link:
        """The link in use; a reload may replace it."""

    def publish_status_soon(self) -> None:
        """Publish the status at the next opportunity, because something has changed."""


class Role(Protocol):
    """What a service does.

    The constructor locks the state folder; `close` releases it.
    """

    def subscriptions(self, config: Config) -> Sequence[Subscription]:
        """Return what to subscribe to under a configuration."""

    def start(self, session: Session) -> None:
        """Restore the state and get ready; nothing has been read from the link yet."""

    def handle(self, messages: Sequence[Message]) -> None:
        """Make messages durable, apply them, publish, acknowledge; in this order."""

    def tend(self, now: float) -> None:
        """Do what is due at the monotonic time `now`; called many times a second."""

    def announcements(self, session_lost: bool) -> Iterable[Outgoing]:
        """Return what to publish after a connect.

        `session_lost` is True after the first connect, and whenever the broker did not keep our
        session and may have lost retained messages.
        """

    def status(self) -> RoleStatus:
        """Return the role's part of the status message."""

    def restart_keys(self, old: Config, new: Config) -> list[str]:
        """Return the changed keys that cannot change while running."""

    def prepare(self, new: Config) -> Reload:
        """Check a reload; raise if it must be refused, and then change nothing."""

    def stop(self) -> bool:
        """Save what must be kept; return False if something was lost."""

    def close(self) -> None:
        """Release files and locks; called once, also after a failed start."""
