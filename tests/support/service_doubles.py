"""Doubles around a service: a role that does nothing, and how metrics are read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from streamlvq.config import (
    Config,
    HealthSection,
)
from streamlvq.connect import Link, Message, Outgoing, Subscription
from streamlvq.events import Decisions
from streamlvq.role import Health, Reload, RoleStatus, Session
from streamlvq.service.daemon import subscriptions
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.publisher import (
    Publisher,
)


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


LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text, flags=re.DOTALL)


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)')


def parse(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read Prometheus' text format as its documentation describes it, not as we write it."""
    found = {}
    kinds: dict[str, str] = {}
    assert text == "" or text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, inside, value = match.groups()
            base = re.sub("_(bucket|sum|count)$", "", name)
            assert name in kinds or kinds[base] == "histogram"
            labels = tuple((n, _plain(v)) for n, v in LABEL.findall(inside or ""))
            assert (name, labels) not in found
            found[name, labels] = float(value)
    return found


def service_metrics(max_devices: int = 100) -> ServiceMetrics:
    return ServiceMetrics(Health(HealthSection()), max_devices)


def decisions(devices: list[str], reasons: list[str | None] | None = None) -> Decisions:
    n = len(devices)
    reasons = reasons or [None] * n
    return Decisions(
        classes=("ok", "hot"),
        devices=devices,
        groups=[""] * n,
        times=[float(i) for i in range(n)],
        sequences=list(range(n)),
        true_labels=[None] * n,
        codes=np.zeros(n, np.int64),
        certainties=np.full(n, 0.5),
        thresholds=np.full(n, 0.25),
        accepted=np.array([reason is None for reason in reasons]),
        reasons=reasons,
        novelties=np.full(n, np.nan),
        outliers_by=["novelty" if reason == "outlier" else None for reason in reasons],
        probabilities=np.full((n, 2), 0.5),
        models=["local"] * n,
        versions=np.arange(n),
        duplicates=[False] * n,
        sources=list(range(n)),
    )
