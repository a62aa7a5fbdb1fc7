"""Probe (`run --test`): show what arrives and what would be decided, without changing anything."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from streamlvq.config import Config, ConfigError, load
from streamlvq.connect import Message, guest_session
from streamlvq.errors import StreamLVQError
from streamlvq.events import DecisionRecord, Event, LateLabel, Readings
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import load_start_model, restore_newest
from streamlvq.payloads import Decoder
from streamlvq.service.daemon import subscriptions
from streamlvq.service.logs import set_up
from streamlvq.service.service import EXIT_WRONG_CONFIG
from streamlvq.service.session import make_link
from streamlvq.service.systemd import Notifier, Signals, StartupGuard
from streamlvq.snapshot import SnapshotFiles

PROBE_FEATURES = 4


def probe(path: Path, seconds: float) -> int:
    """Show what arrives for so many seconds; return 0 if the broker could be reached."""
    try:
        config = load(path)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return EXIT_WRONG_CONFIG
    if config.fleet is not None and config.fleet.role == "hub":
        print(f"a hub has no readings; try `streamlvq fleet status {path}`", file=sys.stderr)
        return EXIT_WRONG_CONFIG
    set_up(config.logging)
    try:
        with Signals() as signals:
            return Probe(config).run(seconds, signals)
    except (StreamLVQError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


class Probe:
    """Guest beside the service: a short session of its own, no will, no acknowledgements."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.decoder = Decoder(config)
        self.monitor, self.origin = newest_monitor(config)
        guest = as_guest(config)
        self.link = make_link(guest, subscriptions(guest))
        self.counts = {"readings": 0, "labels": 0, "refused": 0, "skipped": 0}

    def run(self, seconds: float, signals: Signals) -> int:
        """Show what arrives for so many seconds."""
        with StartupGuard(signals, Notifier({})):
            self.monitor.compile()
        print(f"decisions by {self.origin}; nothing is published, nothing is learnt", flush=True)
        end = time.monotonic() + seconds
        try:
            while not signals.leave and (left := end - time.monotonic()) > 0:
                for line in self.lines(self.link.read(min(left, 0.2))):
                    print(line, flush=True)
            return self._end()
        finally:
            self.link.close()

    def lines(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield a line for each reading, label or refusal."""
        decoded = self.decoder.decode(messages)
        self.counts["skipped"] += decoded.skipped
        for event in decoded.events:
            yield from self._event(event)
        for refused in decoded.refused:
            self.counts["refused"] += 1
            topic = messages[refused.source].topic
            yield f"{topic}: refused ({refused.reason}): {refused.text}"

    def _event(self, event: Event) -> Iterator[str]:
        if isinstance(event, LateLabel):
            self.counts["labels"] += 1
            yield f"{event.device}: label {event.label!r} for {_mark(event.sequence, event.t)}"
            return
        self.counts["readings"] += len(event)
        # Without labels and keys windows move on, but nothing is learnt.
        bare = dataclasses.replace(event, labels=[None] * len(event), keys=[0] * len(event))
        outcome = self.monitor.step(bare)
        records = (
            {}
            if outcome.decisions is None
            else dict(zip(outcome.decisions.sources, outcome.decisions.records(), strict=True))
        )
        for k, source in enumerate(event.sources):
            yield _line(event.select(slice(k, k + 1)), records.get(source))
        for refused in outcome.refused:
            yield f"refused ({refused.reason}): {refused.text}"

    def _end(self) -> int:
        totals = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        print(totals)
        if self.link.counters["connects"] == 0:
            print(f"not connected: {self.link.error or 'no answer yet'}", file=sys.stderr)
            return 1
        if not self.counts["readings"]:
            filters = ", ".join(each.filter for each in self.link.subscriptions)
            print(f"no reading came; subscribed to {filters}", file=sys.stderr)
        return 0


def as_guest(config: Config) -> Config:
    """Return the configuration of a guest: QoS 0, and a session that the broker need not keep."""
    labels = config.labels
    return msgspec.structs.replace(
        config,
        broker=guest_session(config.broker, "test"),
        readings=msgspec.structs.replace(config.readings, qos=0),
        labels=None if labels is None else msgspec.structs.replace(labels, qos=0),
        fleet=None,  # its topics carry no readings
    )


def newest_monitor(config: Config) -> tuple[Monitor, str]:
    """Return a monitor restored from the newest snapshot, and a description of its source."""
    start = load_start_model(config)
    found = restore_newest(
        config, SnapshotFiles(config.state.folder, keep=config.state.keep), start
    )
    if found is None and start is not None:
        return Monitor(config, start), str(config.model.start)
    if found is None:
        return Monitor(config), "a model that has learnt nothing (there is no snapshot)"
    return found[0], str(found[2])


def _line(reading: Readings, decision: DecisionRecord | None) -> str:
    values = zip(reading.features, reading.rows[0].tolist(), strict=True)
    shown = [f"{name}={value:.6g}" for name, value in values if value == value]
    more = f" (+{len(shown) - PROBE_FEATURES})" if len(shown) > PROBE_FEATURES else ""
    label = "" if reading.labels[0] is None else f" label={reading.labels[0]!r}"
    mark = _mark(reading.sequences[0], reading.times[0])
    name = f"{reading.devices[0]} {mark}".rstrip()
    return f"{name}: {' '.join(shown[:PROBE_FEATURES])}{more}{label}{_said(decision)}"


def _said(decision: DecisionRecord | None) -> str:
    if decision is None:
        return ""
    if decision.label is None:
        return " -> nothing learnt yet"
    verdict = "accepted" if decision.accepted else f"rejected ({decision.reason})"
    return f" -> {decision.label!r} {decision.certainty:.3f} {verdict}"


def _mark(sequence: int | None, t: float | None) -> str:
    if sequence is not None:
        return f"#{sequence}"
    return "" if t is None else f"t={t}"
