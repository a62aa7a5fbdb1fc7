"""Metrics of a fleet, and its part of the status message."""

from __future__ import annotations

import logging
import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from streamlvq.fleet.fusion_worker import FusionResult


log = logging.getLogger(__name__)

MAX_NODES_SHOWN = 1000  # with an age of their own


class FleetRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of a fleet in the status message."""

    name: str
    node: str
    role: str
    members: dict[str, float] = {}  # age of what each of them knows, in seconds
    serving: str = "local"  # who decides now: our own model (local) or the fleet's (fused)
    fused: list[str] = []  # whose knowledge is in it
    fusion_age: float | None = None  # seconds
    drift: str | None = None  # the correction that was chosen
    standing: dict[str, float] = {}
    refused: dict[str, int] = {}  # by reason
    unpublished: int = 0  # samples that were learnt since the last publication
    next_publication: float | None = None  # seconds until it is due if nothing more is learnt
    waiting: str | None = None  # what for, if the fleet is of no use yet
    trouble: str | None = None


class FleetMetrics(Collector):
    """Fleet values written by the loop and read by others without a lock."""

    def __init__(self, registry: CollectorRegistry, name: str, node: str, role: str) -> None:
        self.name, self.node, self.role = name, node, role
        self.created: Mapping[str, float] = {}  # when what each member knows was written
        self.serving_score: Mapping[str, float] = {}
        self.serving = "local"
        self.fusion: FusionResult | None = None  # the last one that worked
        self.fused_at: float | None = None  # by the monotonic clock
        self.unpublished = 0
        self.due_at: float | None = None  # the next publication, by the monotonic clock
        self.waiting: str | None = None
        self.has_news = False  # whether to publish the status now, and not when it is time to
        self.problems: dict[str, str] = {}  # by what is wrong; empty: nothing is
        self.refused: Tally[str] = Tally()  # messages, by reason
        self._add_counters(registry)
        registry.register(self)

    def _add_counters(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"streamlvq_fleet_{name}", text, labels, registry=registry)

        self.messages = counter(
            "messages_total", "Messages of the fleet, by what became of them.", ("status",)
        )
        self.published = counter("published_total", "Models that were published to the fleet.")
        self.publish_failures = counter(
            "publish_failures_total", "Models that could not be published to the fleet."
        )
        self.fusions = counter("fusions_total", "Times the models of the fleet were fused.")
        self.fusion_failures = counter(
            "fusion_failures_total", "Times the models of the fleet could not be fused."
        )
        self.installed = counter(
            "installed_total", "Times another model of the fleet began to decide."
        )

    def collect(self) -> Iterator[Metric]:
        """Yield counters and current values."""
        refused = CounterMetricFamily(
            "streamlvq_fleet_refused",
            "Messages of the fleet that were refused, by reason.",
            labels=("reason",),
        )
        for reason, times in sorted(self.refused.copy().items()):
            refused.add_metric((reason,), times)
        yield refused
        ages = GaugeMetricFamily(
            "streamlvq_fleet_member_age_seconds",
            "Seconds since the model of each node was published.",
            labels=("node",),
        )
        for node, age in self.ages().items():
            ages.add_metric((node,), age)
        yield ages
        accuracy = GaugeMetricFamily(
            "streamlvq_fleet_recent_accuracy",
            "Recent accuracy on our labels, by model.",
            labels=("model",),
        )
        scores = self.serving_score
        for which in ("fused", "local"):
            if which in scores:
                accuracy.add_metric((which,), scores[which])
        yield accuracy
        fusion = self.fusion
        values: dict[str, tuple[float | None, str]] = {
            "members": (len(self.created), "Nodes whose models are fresh enough to be fused."),
            "fusion_age_seconds": (
                self.fusion_age(),
                "Seconds since the models of the fleet were last fused, or taken from the hub.",
            ),
            "fusion_seconds": (
                None if fusion is None else fusion.seconds,
                "Seconds that the last fusion took.",
            ),
            "serving_fused": (
                self.serving == "fused",
                "1 while the model of the fleet decides, 0 while our own does.",
            ),
        }
        for name, (value, text) in values.items():
            yield GaugeMetricFamily(f"streamlvq_fleet_{name}", text, value=value)

    def count(self, status: str, reason: str | None) -> None:
        """Count a fleet message."""
        self.messages.labels(status).inc()
        if reason is not None:
            self.refused[reason] += 1

    def note_fusion(self, fusion: FusionResult) -> bool:
        """Record the outcome of a fusion; return True if it succeeded."""
        if fusion.error is not None:
            self.fusion_failures.inc()
            self.problems["fusion"] = f"the fleet cannot be fused: {fusion.error}"
            log.error("the fleet cannot be fused: %s", fusion.error)
            return False
        self.problems.pop("fusion", None)
        self.fusion, self.fused_at = fusion, None
        if fusion.report is not None:  # otherwise there was nothing to fuse
            self.fusions.inc()
            self.fused_at = time.monotonic()
            log.info("fused %d nodes in %.3f s", len(fusion.key), fusion.seconds)
            for warning in fusion.report.warnings:
                log.warning("fused the fleet: %s", warning, extra={"alike": warning[:40]})
        return True

    def set_waiting(self, what: str | None) -> None:
        """Log once what we are waiting for; None if nothing."""
        if what == self.waiting:
            return
        if what is not None:
            log.info("waiting in the fleet for %s", what)
        self.waiting, self.has_news = what, True

    def take_news(self) -> bool:
        """Return whether there is news since the last call that others should hear at once."""
        news, self.has_news = self.has_news, False
        return news

    def ages(self) -> dict[str, float]:
        """Return the seconds since each member's snapshot was created, by its own clock."""
        now, created = time.time(), self.created
        return {node: max(0.0, now - created[node]) for node in sorted(created)[:MAX_NODES_SHOWN]}

    def fusion_age(self) -> float | None:
        """Return the seconds since the last fusion."""
        return None if self.fused_at is None else time.monotonic() - self.fused_at

    def problem(self) -> str | None:
        """Return what is wrong, as text; None if nothing is."""
        return "; ".join(self.problems.values()) or None

    def record(self) -> FleetRecord:
        """Return the current state of the fleet."""
        age, fusion, due = self.fusion_age(), self.fusion, self.due_at
        report = None if fusion is None else fusion.report
        return FleetRecord(
            name=self.name,
            node=self.node,
            role=self.role,
            members={node: round(age, 1) for node, age in self.ages().items()},
            serving=self.serving,
            fused=[] if fusion is None else [node for node, _ in fusion.key],
            fusion_age=None if age is None else round(age, 1),
            drift=None if report is None else report.drift,
            standing=dict(self.serving_score),
            refused=dict(sorted(self.refused.items())),
            unpublished=self.unpublished,
            next_publication=None if due is None else round(max(0.0, due - time.monotonic()), 1),
            waiting=self.waiting,
            trouble=self.problem(),
        )
