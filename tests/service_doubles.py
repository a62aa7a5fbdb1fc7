"""Doubles around a service: a role that does nothing, and how metrics are read back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, generate_latest

from streamlvq.config import Config
from streamlvq.connect import Link, Message, Outgoing, Subscription
from streamlvq.role import Reload, RoleStatus, Session
from streamlvq.service.daemon import subscriptions
from streamlvq.service.publisher import Publisher


def counted(registry: CollectorRegistry, name: str, **labels: str) -> float:
    """The value of a metric of ours, 0 if there is none with these labels."""
    return registry.get_sample_value(f"streamlvq_{name}", labels) or 0.0


def exposition(registry: CollectorRegistry) -> str:
    """What `/metrics` answers."""
    return generate_latest(registry).decode()


class Silent:
    """A role without any state; it may have something to announce."""

    def __init__(
        self, status: RoleStatus | None = None, publisher: Publisher | None = None
    ) -> None:
        self._status, self._publisher = status, publisher

    def subscriptions(self, config: Config) -> Sequence[Subscription]:
        return subscriptions(config)

    def start(self, session: Session) -> None: ...

    def handle(self, messages: Sequence[Message]) -> None: ...

    def tend(self, now: float) -> None: ...

    def announcements(self, session_lost: bool) -> Iterable[Outgoing]:
        return () if self._publisher is None else self._publisher.announcements()

    def status(self) -> RoleStatus:
        return self._status or RoleStatus()

    def restart_keys(self, old: Config, new: Config) -> list[str]:
        return []

    def prepare(self, new: Config) -> Reload:
        return Reload(lambda: None)

    def stop(self) -> bool:
        return True

    def close(self) -> None: ...


class OneLink:
    """A session whose link is never replaced."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def link(self) -> Link:
        return self._link

    def publish_status_soon(self) -> None: ...
