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
    from streamlvq.fusion import FusionReport
    from streamlvq.models.pool import PoolClassifier, PoolReport


log = logging.getLogger(__name__)

MAX_NODES_SHOWN = 1000  # with an age of their own
MAX_VETTED_SHOWN = 20  # sentences about what was vetted, in a status message
LOSSES = ("local", "pool")  # that a metric shows


class PoolRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How the models of a node's pool are weighed, and why."""

    weights: dict[str, float] = {}  # of each candidate, of the local model and of unseen classes
    losses: dict[str, float] = {}  # log loss per reading: local model alone, pool, all candidates
    records: int = 0  # readings of the node that the weights were judged by
    dropped: list[str] = []  # candidates that would have added too little


class FleetRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """State of a fleet in the status message."""

    name: str
    node: str
    role: str
    members: dict[str, float] = {}  # age of what each of them knows, in seconds
    serving: str = "local"  # who decides: our own model, the fleet's (fused), or both (pool)
    pool: PoolRecord | None = None  # None: no pool decides
    private: bool = False  # whether it learns under differential privacy
    left_out: dict[str, str] = {}  # nodes that decide by themselves, and why
    alike: list[list[str]] = []  # clusters of nodes that mean the same; empty if all do
    vetted: list[str] = []  # what did not count or needs a look, in sentences
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
        self.pool: PoolClassifier | None = None  # the one that decides
        self.pool_report: PoolReport | None = None  # how it was weighed; None before a fusion
        self.fusion: FusionResult | None = None  # the last one that worked
        self.fused_at: float | None = None  # by the monotonic clock
        self.unpublished = 0
        self.due_at: float | None = None  # the next publication, by the monotonic clock
        self.waiting: str | None = None
        self.is_private = False  # then nothing leaves that was measured on our readings
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
        yield from self._collect_pool()
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
                self.serving != "local",
                "1 while models of the fleet decide, alone or in a pool with our own, 0 while our "
                "own decides alone.",
            ),
            "pool_records": (
                None if (record := self.pool_record()) is None else record.records,
                "Labelled readings by which the weights of the pool were judged.",
            ),
        }
        for name, (value, text) in values.items():
            yield GaugeMetricFamily(f"streamlvq_fleet_{name}", text, value=value)

    def _collect_pool(self) -> Iterator[Metric]:
        """Yield weights and losses; candidates are few, and named by kind and correction."""
        weights = GaugeMetricFamily(
            "streamlvq_fleet_pool_weight",
            "Weight of each candidate in the pool, of the local model and of unseen classes.",
            labels=("candidate",),
        )
        losses = GaugeMetricFamily(
            "streamlvq_fleet_pool_loss",
            "Log loss per reading before it was learnt, of the local model alone and of the pool.",
            labels=("model",),
        )
        record = self.pool_record()
        if record is not None:
            for candidate, weight in record.weights.items():
                weights.add_metric((candidate,), weight)
            for which in LOSSES:
                if which in record.losses:
                    losses.add_metric((which,), record.losses[which])
        yield weights
        yield losses

    def pool_record(self) -> PoolRecord | None:
        """Return how the pool that decides is weighed; None without one."""
        pool, report = self.pool, self.pool_report
        if pool is None or self.serving != "pool":
            return None
        weights = {name: round(value, 4) for name, value in pool.weights.named().items()}
        if report is None or report.left_out:
            return PoolRecord(weights=weights)
        losses = {name: round(value, 4) for name, value in report.losses.items()}
        dropped = [*report.dropped]
        return PoolRecord(weights=weights, losses=losses, records=report.records, dropped=dropped)

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

    def note_pool(self, pool: PoolReport | None) -> None:
        """Record how our pool was weighed, and log it."""
        self.pool_report = pool
        if pool is not None:
            for line in str(pool).splitlines():
                log.info("pool: %s", " ".join(line.split()))

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
            pool=None if self.is_private else self.pool_record(),
            private=self.is_private,
            left_out=left_out(report),
            alike=alike(report),
            vetted=vetted(report)[:MAX_VETTED_SHOWN],
            fused=[] if fusion is None else [node for node, _ in fusion.key],
            fusion_age=None if age is None else round(age, 1),
            drift=None if report is None else report.drift,
            standing={} if self.is_private else dict(self.serving_score),
            refused=dict(sorted(self.refused.items())),
            unpublished=self.unpublished,
            next_publication=None if due is None else round(max(0.0, due - time.monotonic()), 1),
            waiting=self.waiting,
            trouble=self.problem(),
        )


# --- what a fusion found, for people -------------------------------------------------------------


def left_out(report: FusionReport | None) -> dict[str, str]:
    """Return the nodes that decide by themselves, and why."""
    nodes = [] if report is None else report.nodes.values()
    return {each.node: each.left_out for each in nodes if each.left_out is not None}


def alike(report: FusionReport | None) -> list[list[str]]:
    """Return the clusters of nodes that mean the same by their classes; empty if all do."""
    clusters = () if report is None else report.clusters
    return [[*each.nodes] for each in clusters] if len(clusters) > 1 else []


def vetted(report: FusionReport | None) -> list[str]:
    """Return what did not count or needs a look, in sentences."""
    from streamlvq.fusion.report import unprotected_note  # noqa: PLC0415 - slow to import

    if report is None:
        return []
    alone = unprotected_note(report)
    return [*report.warnings, *([alone] if alone else [])]
