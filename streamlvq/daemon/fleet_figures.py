"""What is counted and shown about a fleet: for Prometheus, and on the status topic."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from streamlvq.daemon.metrics import Counter, Gauge, GaugeTable, Registry

if TYPE_CHECKING:
    from streamlvq.daemon.fleet_fusing import Fusion

log = logging.getLogger(__name__)

MOST_NODES = 1000  # with an age of their own


class FleetRecord(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How a fleet is, in the message on the status topic."""

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


class FleetFigures:
    """Numbers that the loop leaves behind; others read them without a lock.

    Parameters
    ----------
    registry
        Where the metrics of the daemon are.
    name, node, role
        What is said on the status topic about who we are.

    """

    def __init__(self, registry: Registry, name: str, node: str, role: str) -> None:
        self.name, self.node, self.role = name, node, role
        self.created: Mapping[str, float] = {}  # when what each member knows was written
        self.standing: Mapping[str, float] = {}
        self.serving = "local"
        self.fusion: Fusion | None = None  # the last one that worked
        self.fused_at: float | None = None  # by the monotonic clock
        self.unpublished = 0
        self.due_at: float | None = None  # the next publication, by the monotonic clock
        self.waiting: str | None = None
        self.changed = False  # whether to say now how we are, and not when it is time to
        self.trouble: dict[str, str] = {}  # by what is wrong; nothing: all is well
        self._counters(registry)
        self._gauges(registry)

    def _counters(self, registry: Registry) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return registry.add(Counter(f"streamlvq_fleet_{name}", text, labels))

        self.taken = counter(
            "messages_total", "Messages of the fleet, by what became of them.", ("status",)
        )
        self.refused = counter(
            "refused_total", "Messages of the fleet that were refused, by reason.", ("reason",)
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

    def _gauges(self, registry: Registry) -> None:
        add = registry.add
        add(
            Gauge(
                "streamlvq_fleet_members",
                "Nodes whose models are fresh enough to be fused.",
                lambda: float(len(self.created)),
            )
        )
        add(
            GaugeTable(
                "streamlvq_fleet_member_age_seconds",
                "Seconds since the model of each node was published.",
                ("node",),
                lambda: {(node,): age for node, age in self.ages().items()},
            )
        )
        add(
            Gauge(
                "streamlvq_fleet_fusion_age_seconds",
                "Seconds since the models of the fleet were last fused, or taken from the hub.",
                self.fusion_age,
            )
        )
        add(
            Gauge(
                "streamlvq_fleet_fusion_seconds",
                "Seconds that the last fusion took.",
                lambda: None if self.fusion is None else self.fusion.seconds,
            )
        )
        add(
            Gauge(
                "streamlvq_fleet_serving_fused",
                "1 while the model of the fleet decides, 0 while our own does.",
                lambda: float(self.serving == "fused"),
            )
        )
        add(
            GaugeTable(
                "streamlvq_fleet_recent_accuracy",
                "Recent accuracy on our labels, by model.",
                ("model",),
                lambda: {
                    (which,): self.standing[which]
                    for which in ("local", "fused")
                    if which in self.standing
                },
            )
        )

    def count(self, status: str, reason: str | None) -> None:
        """Count a message of the fleet."""
        self.taken.add(1, status)
        if reason is not None:
            self.refused.add(1, reason)

    def fused(self, fusion: Fusion) -> bool:
        """Take note of what came of fusing; whether it worked."""
        if fusion.trouble is not None:
            self.fusion_failures.add()
            self.trouble["fusion"] = f"the fleet cannot be fused: {fusion.trouble}"
            log.error("the fleet cannot be fused: %s", fusion.trouble)
            return False
        self.trouble.pop("fusion", None)
        self.fusion, self.fused_at = fusion, None
        if fusion.report is not None:  # otherwise there was nothing to fuse
            self.fusions.add()
            self.fused_at = time.monotonic()
            log.info("fused %d nodes in %.3f s", len(fusion.key), fusion.seconds)
            for warning in fusion.report.warnings:
                log.warning("fused the fleet: %s", warning, extra={"alike": warning[:40]})
        return True

    def wait_for(self, what: str | None) -> None:
        """Say once what there is to wait for; None: nothing."""
        if what == self.waiting:
            return
        if what is not None:
            log.info("waiting in the fleet for %s", what)
        self.waiting, self.changed = what, True

    def news(self) -> bool:
        """Whether something has changed since the last time that others should hear at once."""
        changed, self.changed = self.changed, False
        return changed

    def ages(self) -> dict[str, float]:
        """Seconds since each member was heard of, by its own clock."""
        now, created = time.time(), self.created
        return {node: max(0.0, now - created[node]) for node in sorted(created)[:MOST_NODES]}

    def fusion_age(self) -> float | None:
        """Seconds since the last fusion."""
        return None if self.fused_at is None else time.monotonic() - self.fused_at

    def complaint(self) -> str | None:
        """What is wrong, for people."""
        return "; ".join(self.trouble.values()) or None

    def record(self) -> FleetRecord:
        """How the fleet is now."""
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
            standing=dict(self.standing),
            refused={reason: int(n) for (reason,), n in sorted(self.refused.values.items())},
            unpublished=self.unpublished,
            next_publication=None if due is None else round(max(0.0, due - time.monotonic()), 1),
            waiting=self.waiting,
            trouble=self.complaint(),
        )


__all__ = ["FleetFigures", "FleetRecord"]
