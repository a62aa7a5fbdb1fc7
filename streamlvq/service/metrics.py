"""Metrics of a service, on prometheus-client, in a registry of its own."""

from __future__ import annotations

import os
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamlvq.connect import Link
from streamlvq.events import Decisions, Refused
from streamlvq.role import Health

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
STEP_SECONDS = [1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
OTHER_DEVICES = "other"  # the label that devices beyond the limit share
LINK_COUNTERS = {
    "connects": "Connections that the broker accepted.",
    "connect_failures": "Attempts to connect that failed.",
    "received": "Messages that came from the broker.",
    "redelivered": "Messages that the broker delivered again.",
    "published": "Messages that were sent to the broker.",
    "dropped": "Messages that could not be sent.",
}


@dataclass(slots=True)
class _DeviceCounts:
    readings: int = 0
    rejected: int = 0


class ServiceMetrics(Collector):
    """Metrics of a service, by name.

    Counters that the loop uses for every batch are bound to their labels once. Current values, and
    counts that change with every reading, which are plain integers for speed, are read on request
    (`collect`). The first `max_devices` devices have counts of their own; the others share one.
    """

    def __init__(self, health: Health, max_devices: int) -> None:
        # Without a second series for each counter that says when it was made; all of them were made
        # at the start. The switch is one for the process, which is a service's own.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=True)
        self.health, self.max_devices = health, max_devices
        self.readings_count = 0  # decided on; also in the status message
        self.learnt_count = 0
        self.snapshot_seconds: float | None = None
        self._link_totals: Callable[[], dict[str, int]] | None = None
        self._by_device: dict[str, _DeviceCounts] = {}
        self._other_devices = _DeviceCounts()
        self.registry.register(self)
        self._add_counters()
        self._by_reason: dict[str | None, Counter] = {}
        self._by_refusal: dict[str, Counter] = {}
        self.batch = Histogram(
            "streamlvq_batch_messages",
            "Messages that were taken at a time.",
            buckets=BATCH_SIZES,
            registry=self.registry,
        )
        self.latency = Histogram(
            "streamlvq_step_seconds",
            "Seconds from receiving a batch of messages to acknowledging it.",
            buckets=STEP_SECONDS,
            registry=self.registry,
        )

    def _add_counters(self) -> None:
        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"streamlvq_{name}", text, labels, registry=self.registry)

        self.decisions = counter(
            "decisions_total",
            "Decisions, by whether they were accepted and why not.",
            ("accepted", "reason"),
        )
        self.outliers = counter(
            "outliers_total", "Decisions rejected as outliers, by what says so.", ("by",)
        )
        self.duplicates = counter(
            "duplicates_total", "Readings and labels that came again, without effect."
        )
        self.refused = counter(
            "refused_total", "Messages that were refused, by reason.", ("reason",)
        )
        self.dropped_fields = counter(
            "dropped_fields_total",
            "Fields of readings that were left out, by reason.",
            ("reason",),
        )
        self.held = counter(
            "held_total", "Labelled readings whose class has come too rarely to be learnt so far."
        )
        self.skipped = counter("skipped_total", "Readings that belong to other shards.")
        self.replayed = counter(
            "replayed_total", "Messages that were taken from the journal at the start."
        )
        self.replay_refused = counter(
            "replay_refused_total",
            "Messages of the journal that were refused at the start, by reason.",
            ("reason",),
        )
        self.journal_failures = counter(
            "journal_failures_total", "Writes to the journal that failed."
        )
        self.snapshots = counter("snapshots_total", "Snapshots of the state that were written.")
        self.snapshot_failures = counter(
            "snapshot_failures_total", "Snapshots of the state that could not be written."
        )
        self.file_failures = counter(
            "file_failures_total", "Decisions that could not be written to decisions.file."
        )
        self.publish_failures = counter(
            "publish_failures_total", "Batches whose output could not be made or sent, a defect."
        )
        self.reloads = counter(
            "reloads_total", "Times the configuration was read again, by outcome.", ("outcome",)
        )

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Expose a current value."""
        Gauge(f"streamlvq_{name}", text, registry=self.registry).set_function(read)

    def watch_link(self, totals: Callable[[], dict[str, int]]) -> None:
        """Expose the counts of the links, including replaced ones."""
        self._link_totals = totals

    # --- counting, for every batch ---------------------------------------------------------------

    def count_decisions(self, decisions: Decisions) -> None:
        """Count a batch by outcome and by device, without duplicates.

        A duplicate is judged by the window and the threshold of now, not by those of its time.
        """
        decisions = decisions.without_duplicates()
        self.readings_count += len(decisions)
        for reason, times in Tally(decisions.reasons).items():
            child = self._by_reason.get(reason)
            if child is None:
                accepted = "false" if reason else "true"
                child = self._by_reason[reason] = self.decisions.labels(accepted, reason or "")
            child.inc(times)
        for by, times in Tally(decisions.outliers_by).items():
            if by is not None:
                self.outliers.labels(by).inc(times)
        for device, reason in zip(decisions.devices, decisions.reasons, strict=True):
            counts = self._by_device.get(device) or self._counts_of(device)
            counts.readings += 1
            if reason:
                counts.rejected += 1

    def _counts_of(self, device: str) -> _DeviceCounts:
        """Return the counts of a device that is new or beyond the limit."""
        if len(self._by_device) >= self.max_devices:
            return self._other_devices
        counts = self._by_device[device] = _DeviceCounts()
        return counts

    def count_refused(self, refused: Iterable[Refused]) -> None:
        """Count refusals by reason."""
        for reason, times in Tally(each.reason for each in refused).items():
            child = self._by_refusal.get(reason)
            if child is None:
                child = self._by_refusal[reason] = self.refused.labels(reason)
            child.inc(times)

    # --- read when somebody asks -----------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """Yield counts kept elsewhere, and current values."""
        health, now = self.health, time.monotonic()
        counts = {
            "readings": (self.readings_count, "Readings that were decided on, each once."),
            "learnt": (self.learnt_count, "Labelled readings that were learnt."),
        }
        for name, (count, text) in counts.items():
            yield CounterMetricFamily(f"streamlvq_{name}", text, value=count)
        values: dict[str, tuple[float | None, str]] = {
            "snapshot_age_seconds": (
                now - health.saved,
                "Seconds since the state was last written to disk, or since the start.",
            ),
            "snapshot_seconds": (
                self.snapshot_seconds,
                "Seconds that writing the last snapshot took.",
            ),
            "unsaved": (health.unsaved, "Whether the state has changed since the last snapshot."),
            "connected": (health.connected, "Whether there is a connection to the broker."),
            "healthy": (not health.problems(), "Whether /healthz answers that all is well."),
            "uptime_seconds": (now - health.started, "Seconds since the daemon was ready."),
            "devices": (health.devices, "Devices that have a window of readings."),
            "models": (health.models, "Models that are learning."),
            "warnings": (len(health.warnings), "Warnings that /healthz answers with."),
            "contradicted_models": (
                health.contradicted,
                "Models that were right before and that recent labels contradict.",
            ),
            "label_agreement": (
                health.agreement,
                "Lowest share of the last 30 labels of a model that it decided alike.",
            ),
            "new_features": (
                health.new_features,
                "Features that came lately, but too rarely to be learnt so far.",
            ),
            "new_classes": (
                health.new_classes,
                "Classes that came lately, but too rarely to be learnt so far.",
            ),
        }
        for name, (value, text) in values.items():
            yield GaugeMetricFamily(f"streamlvq_{name}", text, value=value)
        yield from self._devices()
        sensors = GaugeMetricFamily(
            "streamlvq_sensor_problems",
            "Features of devices that stand still, are missing or left their range.",
            labels=["kind"],
        )
        for kind, count in health.sensors.items():
            sensors.add_metric([kind], count)
        yield sensors
        yield from self._process()
        if self._link_totals is not None:
            totals = self._link_totals()
            for name, text in LINK_COUNTERS.items():
                yield CounterMetricFamily(f"streamlvq_{name}", text, value=totals.get(name))

    def _devices(self) -> Iterator[Metric]:
        """Yield the counts by device."""
        readings = CounterMetricFamily(
            "streamlvq_device_readings",
            "Readings that were decided on, by device.",
            labels=["device"],
        )
        rejected = CounterMetricFamily(
            "streamlvq_device_rejected",
            "Decisions that were not accepted, by device.",
            labels=["device"],
        )
        devices = self._by_device.copy()  # the loop may add to it while another thread asks
        merged: dict[str, _DeviceCounts] = {}
        for device, counts in [*devices.items(), (OTHER_DEVICES, self._other_devices)]:
            # Half a character, which JSON can hold, must not take the metrics of all others away.
            total = merged.setdefault(device.encode(errors="replace").decode(), _DeviceCounts())
            total.readings += counts.readings
            total.rejected += counts.rejected
        for label, total in merged.items():
            if total.readings:
                readings.add_metric([label], total.readings)
                rejected.add_metric([label], total.rejected)
        yield readings
        yield rejected

    @staticmethod
    def _process() -> Iterator[Metric]:
        """Yield the metrics Prometheus expects of a process (three of its `ProcessCollector`)."""
        yield CounterMetricFamily(
            "process_cpu_seconds",
            "Processor time that the process has used, in seconds.",
            value=time.process_time(),
        )
        yield GaugeMetricFamily(
            "process_resident_memory_bytes",
            "Memory that the process holds, in bytes.",
            value=resident_bytes(),
        )
        yield GaugeMetricFamily(
            "process_open_fds", "Files and sockets that the process has open.", value=open_files()
        )


def link_totals(link: Link, before: dict[str, int]) -> dict[str, int]:
    """Return the counts of this link and those before it."""
    counters = link.counters
    return {name: counters.get(name, 0) + before.get(name, 0) for name in LINK_COUNTERS}


def resident_bytes() -> float | None:
    """Return the resident memory of the process; None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def open_files() -> float | None:
    """Return the number of open files and sockets; None where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
