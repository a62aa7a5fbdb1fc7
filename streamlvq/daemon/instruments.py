"""What the daemon measures about itself."""

from __future__ import annotations

import functools
import os
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable

from streamlvq.connect import Link
from streamlvq.daemon.metrics import CountedElsewhere, Counter, Gauge, Histogram, Registry
from streamlvq.daemon.vitals import Vitals
from streamlvq.events import Decisions, Refused

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
OTHER = "other"  # the devices beyond the limit, all in one
LINK_COUNTERS = {
    "connects": "Connections that the broker accepted.",
    "connect_failures": "Attempts to connect that failed.",
    "received": "Messages that came from the broker.",
    "redelivered": "Messages that the broker delivered again.",
    "published": "Messages that were sent to the broker.",
    "dropped": "Messages that could not be sent.",
}


class Instruments:
    """The metrics of a daemon, by name.

    Parameters
    ----------
    vitals
        Where the loop leaves how it is.
    max_devices
        How many devices have counters of their own; the rest share one.
    """

    def __init__(self, vitals: Vitals, max_devices: int) -> None:
        self.registry = Registry()
        self.max_devices = max_devices
        self._devices: set[str] = set()
        self.readings = self._counter("readings_total", "Readings that were decided on.")
        self.decisions = self._counter(
            "decisions_total",
            "Decisions, by whether they were accepted and why not.",
            ["accepted", "reason"],
        )
        self.learnt = self._counter("learnt_total", "Labelled readings that were learnt.")
        self.duplicates = self._counter(
            "duplicates_total", "Readings and labels that came again, without effect."
        )
        self.refused = self._counter(
            "refused_total", "Messages that were refused, by reason.", ["reason"]
        )
        self.skipped = self._counter("skipped_total", "Readings that belong to other shards.")
        self.replayed = self._counter(
            "replayed_total", "Messages that were taken from the journal at the start."
        )
        self.replay_refused = self._counter(
            "replay_refused_total",
            "Messages of the journal that were refused at the start, by reason.",
            ["reason"],
        )
        self.by_device = self._counter(
            "device_readings_total", "Readings that were decided on, by device.", ["device"]
        )
        self.rejected = self._counter(
            "device_rejected_total", "Decisions that were not accepted, by device.", ["device"]
        )
        self.journal_failures = self._counter(
            "journal_failures_total", "Writes to the journal that failed."
        )
        self.snapshots = self._counter(
            "snapshots_total", "Snapshots of the state that were written."
        )
        self.snapshot_failures = self._counter(
            "snapshot_failures_total", "Snapshots of the state that could not be written."
        )
        self.file_failures = self._counter(
            "file_failures_total", "Decisions that could not be written to decisions.file."
        )
        self.publish_failures = self._counter(
            "publish_failures_total", "Batches whose output could not be made or sent, a defect."
        )
        self.reloads = self._counter(
            "reloads_total", "Times the configuration was read again, by outcome.", ["outcome"]
        )
        self.snapshot_seconds: float | None = None
        self.batch = self.registry.add(
            Histogram("streamlvq_batch_messages", "Messages that were taken at a time.", SIZES)
        )
        self.latency = self.registry.add(
            Histogram(
                "streamlvq_step_seconds",
                "Seconds from receiving a batch of messages to acknowledging it.",
                SECONDS,
            )
        )
        self._gauges(vitals)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return self.registry.add(Counter(f"streamlvq_{name}", text, list(labels)))

    def gauge(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Show a value of now."""
        self.registry.add(Gauge(f"streamlvq_{name}", text, read))

    def _gauges(self, vitals: Vitals) -> None:
        now = time.monotonic
        self.gauge(
            "snapshot_age_seconds",
            "Seconds since the state was last written to disk.",
            lambda: now() - vitals.saved,
        )
        self.gauge(
            "snapshot_seconds",
            "Seconds that writing the last snapshot took.",
            lambda: self.snapshot_seconds,
        )
        self.gauge(
            "unsaved",
            "Whether the state has changed since the last snapshot.",
            lambda: float(vitals.unsaved),
        )
        self.gauge(
            "connected",
            "Whether there is a connection to the broker.",
            lambda: float(vitals.connected),
        )
        self.gauge(
            "healthy",
            "Whether /healthz answers that all is well.",
            lambda: float(not vitals.complaints()),
        )
        self.gauge(
            "uptime_seconds", "Seconds since the daemon was ready.", lambda: now() - vitals.started
        )
        self.gauge(
            "devices",
            "Devices that have a window of readings.",
            lambda: float(vitals.devices),
        )
        self.gauge("models", "Models that are learning.", lambda: float(vitals.models))
        elsewhere = self.registry.add
        elsewhere(
            CountedElsewhere(
                "process_cpu_seconds_total",
                "Processor time that the process has used, in seconds.",
                time.process_time,
            )
        )
        elsewhere(
            Gauge(
                "process_resident_memory_bytes",
                "Memory that the process holds, in bytes.",
                resident_bytes,
            )
        )
        elsewhere(
            Gauge("process_open_fds", "Files and sockets that the process has open.", open_files)
        )

    def watch_link(self, counters: Callable[[], dict[str, int]]) -> None:
        """Show what the link counts; a link that is replaced starts again from nothing."""
        for name, text in LINK_COUNTERS.items():
            read = functools.partial(_count, counters, name)
            self.registry.add(CountedElsewhere(f"streamlvq_{name}_total", text, read))

    def count_decisions(self, decisions: Decisions) -> None:
        """Count a batch by outcome and by device."""
        self.readings.add(len(decisions))
        for reason, times in Tally(decisions.reasons).items():
            self.decisions.add(times, "false" if reason else "true", reason or "")
        self._count_devices(self.by_device, decisions.devices)
        if any(decisions.reasons):
            pairs = zip(decisions.devices, decisions.reasons, strict=True)
            self._count_devices(self.rejected, [device for device, reason in pairs if reason])

    def _count_devices(self, counter: Counter, devices: list[str]) -> None:
        for device, times in Tally(devices).items():
            if device not in self._devices and len(self._devices) < self.max_devices:
                self._devices.add(device)
            counter.add(times, device if device in self._devices else OTHER)

    def count_refused(self, refused: Iterable[Refused]) -> None:
        """Count refusals by reason."""
        for reason, times in Tally(each.reason for each in refused).items():
            self.refused.add(times, reason)


def _count(counters: Callable[[], dict[str, int]], name: str) -> float | None:
    return counters().get(name)


def link_totals(link: Link | None, before: dict[str, int]) -> dict[str, int]:
    """What this link and those before it have counted."""
    counters = {} if link is None else link.counters
    return {name: counters.get(name, 0) + before.get(name, 0) for name in LINK_COUNTERS}


def resident_bytes() -> float | None:
    """Memory that the process holds, None where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def open_files() -> float | None:
    """Files and sockets that the process has open, None where the system does not say."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


__all__ = ["Instruments", "link_totals"]
