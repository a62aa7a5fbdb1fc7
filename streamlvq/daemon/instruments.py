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
    "published": "Messages sent to the broker.",
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
        self.readings = self._counter("readings_total", "Readings decided on.")
        self.decisions = self._counter(
            "decisions_total", "Decisions, by whether and why not.", ["accepted", "reason"]
        )
        self.learnt = self._counter("learnt_total", "Labelled readings learnt.")
        self.duplicates = self._counter("duplicates_total", "Readings that came again.")
        self.refused = self._counter("refused_total", "Messages refused, by reason.", ["reason"])
        self.skipped = self._counter("skipped_total", "Readings that belong to other shards.")
        self.replayed = self._counter("replayed_total", "Messages taken from the journal at start.")
        self.by_device = self._counter("device_readings_total", "Readings.", ["device"])
        self.rejected = self._counter("device_rejected_total", "Decisions rejected.", ["device"])
        self.journal_failures = self._counter("journal_failures_total", "Failed writes to it.")
        self.snapshots = self._counter("snapshots_total", "Snapshots written.")
        self.snapshot_failures = self._counter("snapshot_failures_total", "Snapshots that failed.")
        self.file_failures = self._counter("file_failures_total", "Decisions not put in the file.")
        self.reloads = self._counter("reloads_total", "Reloads, by outcome.", ["outcome"])
        self.snapshot_seconds: float | None = None
        self.batch = self.registry.add(
            Histogram("streamlvq_batch_messages", "Messages in a batch.", SIZES)
        )
        self.latency = self.registry.add(
            Histogram("streamlvq_step_seconds", "From a batch to its acknowledgement.", SECONDS)
        )
        self._gauges(vitals)

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return self.registry.add(Counter(f"streamlvq_{name}", text, list(labels)))

    def gauge(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """Show a value of now."""
        self.registry.add(Gauge(f"streamlvq_{name}", text, read))

    def _gauges(self, vitals: Vitals) -> None:
        now = time.monotonic
        self.gauge("snapshot_age_seconds", "Since all was on disk.", lambda: now() - vitals.saved)
        self.gauge("snapshot_seconds", "How long the last took.", lambda: self.snapshot_seconds)
        self.gauge("unsaved", "Whether something changed since.", lambda: float(vitals.unsaved))
        self.gauge("connected", "Whether the broker answers.", lambda: float(vitals.connected))
        self.gauge("healthy", "As /healthz says.", lambda: float(not vitals.complaints()))
        self.gauge("uptime_seconds", "Since the start.", lambda: now() - vitals.started)
        elsewhere = self.registry.add
        elsewhere(
            CountedElsewhere("process_cpu_seconds_total", "CPU time used.", time.process_time)
        )
        elsewhere(Gauge("process_resident_memory_bytes", "Memory held.", resident_bytes))
        elsewhere(Gauge("process_open_fds", "Open files.", open_files))

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
