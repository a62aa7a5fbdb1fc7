"""`train`: a first snapshot from a labelled log."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.config import Config, build_classifier
from streamlvq.config.build import build_transform
from streamlvq.errors import StreamLVQError
from streamlvq.events import ALL_DEVICES, Event, LateLabel, Readings, Refused
from streamlvq.monitor import Monitor
from streamlvq.monitor.late_labels import LabelMatcher
from streamlvq.monitor.private import public_snapshot
from streamlvq.replay.report import Report, explain_empty, feature_lines, note_lines, refused_lines
from streamlvq.replay.run import Bar, LogBatch, LogReader, ReplayRun
from streamlvq.replay.statistics import Statistics
from streamlvq.snapshot import Snapshot
from streamlvq.text import number, percent
from streamlvq.wrappers import FeatureTransform
from streamlvq.wrappers.base import unwrap


@dataclass(frozen=True)
class Trained:
    """Result of training: a monitor that has learnt a log, and how good it was.

    Parameters
    ----------
    monitor
        The monitor.
    learnt
        The readings before those held out, each decided before its label was learnt; None after
        several epochs, when all of them have been seen before.
    held_out
        The readings at the end, decided before any of them was learnt; None if there are none.
    epochs
        Passes over the log.
    features
        Features in the log.
    notes
        Likely mistakes and surprises.
    refused, examples
        Number of rows that could not be read, by reason, and the first problems.

    """

    monitor: Monitor
    learnt: Report | None
    held_out: Report | None
    epochs: int
    features: Sequence[str] = ()
    notes: Sequence[str] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    examples: Sequence[str] = ()

    def snapshot(self, node: str = "train") -> Snapshot:
        """Return a snapshot of the model, to start any number of monitors from.

        Of a private model it holds what was released.
        """
        return public_snapshot(self.monitor.models()[""], node)

    def summary(self) -> str:
        """Return the result as text."""
        lines = feature_lines(self.features)
        for report, name, what in (
            (self.learnt, "progressive", "each decided before its label was learnt"),
            (self.held_out, "held out", "the last ones, decided before any of them was learnt"),
        ):
            if report is not None:
                of = f"of {number(report.labelled)} labelled readings: {what}"
                lines.append(f"{name:<12} {percent(report.accuracy)} {of}")
                if report.reasons:
                    rest = f"{percent(report.accuracy_of_accepted)} without the"
                    lines.append(f"{'':<12} {rest} {percent(report.reject_rate)} rejected")
        lines.append(f"{'epochs':<12} {self.epochs}")
        lines += [*refused_lines(self.refused, self.examples), *note_lines(self.notes)]
        return "\n".join(lines)


def train(
    log: str | Path,
    config: Config,
    *,
    format: str | None = None,
    limit: int | None = None,
    epochs: int = 1,
    hold_out: float = 0.2,
    seed: int = 0,
    progress: bool | None = None,
) -> Trained:
    """Train a monitor on a labelled log, which is held in memory.

    Parameters
    ----------
    log
        File to read.
    config
        Configuration of the monitor. One model learns from all devices, whatever `model.per` says.
    format
        Kind of log; None to detect it.
    limit
        Number of readings to stop after; None for all.
    epochs
        Passes over the log. One pass does what a live monitor would have done; with more, the
        model is trained repeatedly on all readings in shuffled order.
    hold_out
        Share of readings at the end that are decided before any of them is learnt.
    seed
        Seed of the shuffling.
    progress
        Whether to show progress bars; None to show them in a terminal only.

    """
    if config.privacy is not None and epochs > 1:
        raise StreamLVQError(
            f"expected 1 epoch with privacy, got {epochs}: each reading may be released once"
        )
    shared = msgspec.structs.replace(config.model, per="all")
    config = msgspec.structs.replace(config, model=shared)
    feed, refused = LogReader(log, config, format, limit), Statistics()
    events = _read(feed, refused, progress)
    total = sum(len(event) for event in events if isinstance(event, Readings))
    if not total:
        why = explain_empty(refused.refused, refused.examples, feed.notes, refused.hints)
        raise StreamLVQError(f"{log}: expected readings, got none: {why}")
    head, tail = _split(events, total - int(hold_out * total))
    about = {"log": str(log), "format": format or ""}
    monitor, learnt = Monitor(config), None
    if epochs == 1:
        learnt = _shown(head, ReplayRun(config, monitor)).report(**about)
    else:
        _train_model(monitor, head, epochs, seed, progress, refused)
    held_out = None
    if tail:
        judge = ReplayRun(config, copy.deepcopy(monitor), learn=False)
        held_out = _shown(tail, judge).report(**about)
        _shown(tail, ReplayRun(config, monitor))
    if not any(getattr(_model(each), "classes", ()) for each in monitor.models().values()):
        raise StreamLVQError(
            f"{log}: expected readings with a label, got none of {number(total)}; name its column "
            "with --label, or `readings.label` in the configuration"
        )
    return Trained(
        monitor,
        learnt,
        held_out,
        epochs,
        features=feed.inspector.features,
        notes=feed.notes,
        refused=dict(refused.refused.most_common()),
        examples=refused.examples,
    )


def _read(feed: LogReader, refused: Statistics, progress: bool | None) -> list[Event]:
    """Return the events of a log; count refusals in `refused`."""
    events: list[Event] = []
    count = 0
    with Bar(feed, progress, "read") as bar:
        for portion in feed:
            events += portion.events
            refused.add_refused(portion.refused)
            count += sum(len(event) for event in portion.events if isinstance(event, Readings))
            bar.move(count, "readings")
    return events


def _split(events: Sequence[Event], count: int) -> tuple[list[Event], list[Event]]:
    """Return the events up to so many readings, and the rest."""
    head: list[Event] = []
    for k, event in enumerate(events):
        if isinstance(event, Readings):
            if len(event) > count:
                cut = [event.select(slice(0, count))] if count else []
                return [*head, *cut], [event.select(slice(count, None)), *events[k + 1 :]]
            count -= len(event)
        head.append(event)
    return head, []


def _shown(events: Iterable[Event], replay: ReplayRun) -> ReplayRun:
    for event in events:
        replay.step(LogBatch([event], []))
    return replay


# --- several epochs ------------------------------------------------------------------------------


def _train_model(
    monitor: Monitor,
    events: Sequence[Event],
    epochs: int,
    seed: int,
    progress: bool | None,
    refused: Statistics,
) -> None:
    """Train the model on all labelled readings; count unusable ones in `refused`."""
    readings = [_labelled(one) for one in with_late_labels(events, monitor.config)]
    features = list(dict.fromkeys(name for one in readings for name in one.features))
    labels = [label for one in readings for label in one.labels]
    if labels:
        rows = np.concatenate([_arranged(one, features) for one in readings])
        classifier = build_transform(monitor.config.model, build_classifier(monitor.config))
        if isinstance(classifier, FeatureTransform):
            rows, labels = _transformed(classifier, rows, labels, features, refused)
        _model(classifier).train(
            rows, labels, epochs=epochs, seed=seed, features=features, progress=progress
        )
        monitor.set_classifier(ALL_DEVICES, classifier)


def _transformed(
    transform: FeatureTransform,
    rows: Rows,
    labels: list[Label],
    features: Sequence[str],
    refused: Statistics,
) -> tuple[Rows, list[Label]]:
    """Return the rows as the model sees them; a monitor would have refused the others."""
    bad = transform.refusals(rows, features)
    refused.add_refused([Refused(row, "value", text) for row, text in bad.items()])
    if len(bad) == len(rows):
        raise StreamLVQError(f"expected readings that model.transform takes, got none: {bad[0]}")
    keep = [row for row in range(len(rows)) if row not in bad]
    return transform.transform_rows(rows[keep], features), [labels[row] for row in keep]


def _model(classifier: Any) -> Any:
    return list(unwrap(classifier))[-1]


def with_late_labels(events: Sequence[Event], config: Config) -> list[Readings]:
    """Return the readings with the labels that came later."""
    by_sequence = config.labels is not None and config.labels.sequence is not None
    # Here the labels wait for their readings: a log may have them in any order.
    matcher: LabelMatcher[None] = LabelMatcher(0, by_sequence)
    late = {matcher.key_of(event): event.label for event in events if isinstance(event, LateLabel)}
    late.pop(None, None)
    found = []
    for event in events:
        if isinstance(event, Readings):
            pairs = zip(event.labels, matcher.keys(event), strict=True)
            labels = [late.get(key) if y is None else y for y, key in pairs]
            found.append(replace(event, labels=labels) if late else event)
    return found


def _labelled(readings: Readings) -> Readings:
    """Return the labelled readings."""
    return readings.select([k for k, label in enumerate(readings.labels) if label is not None])


def _arranged(readings: Readings, features: Sequence[str]) -> Any:
    """Return rows with a column for each of these features; NaN where a reading has none."""
    place = {name: k for k, name in enumerate(features)}
    rows = np.full((len(readings.rows), len(features)), np.nan)
    rows[:, [place[name] for name in readings.features]] = readings.rows
    return rows
