"""`replay`: a recorded log through decoder and monitor, with notes on likely mistakes."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

import streamlvq
from streamlvq.arrays import Rows
from streamlvq.config import Config, Fields
from streamlvq.connect import Message, open_log
from streamlvq.errors import StreamLVQError
from streamlvq.events import Decisions, DedupWindow, Event, LateLabel, Readings, Refused
from streamlvq.monitor import Monitor
from streamlvq.payloads import Decoder, encode_decisions, group_of
from streamlvq.replay.report import Report, make_report
from streamlvq.replay.statistics import Statistics
from streamlvq.text import number, percent, suggestion

# --- from a log to events ------------------------------------------------------------------------

NOTED_FIELDS = 8  # names in a note
MAX_LEFT_OUT = 1000  # fields that are remembered for it


class LogBatch(NamedTuple):
    """Events and refusals of one batch of a log."""

    events: list[Event]
    refused: list[Refused]


class LogReader:
    """Reader of the events of a log, decoded as the service decodes them.

    `config` says where the fields are in rows or payloads; `format` None detects the kind of log;
    `limit` is the number of readings to stop after, None for all.
    """

    def __init__(
        self, path: str | Path, config: Config, format: str | None = None, limit: int | None = None
    ) -> None:
        self.path, self.limit = Path(path), limit
        self.log = open_log(self.path, config.readings, format)
        self._decoder = Decoder(config) if self.log.holds_messages else None
        # JSONL has no topics: nobody received it
        received = self.log.holds_messages and self.log.format != "jsonl"
        self.inspector = LogInspector(config.readings, received)
        self._group_of = None if config.model.per == "all" else group_of(config)
        self._left_out: dict[str, None] = {}  # fields of messages that are not numbers

    @property
    def progress(self) -> tuple[int, int]:
        """Bytes read so far, and in total."""
        return self.log.progress

    @property
    def left_out(self) -> list[str]:
        """Columns and fields that are not numbers."""
        return [*self.log.unused, *self._left_out]

    @property
    def notes(self) -> list[str]:
        """Notes for the user on how the log was read."""
        found: list[str] = list(self.log.notes)
        if self.path.is_file() and not self.path.stat().st_size:
            found.append("the file is empty")
        if self._left_out:
            some = list(self._left_out)
            more = f" and {len(some) - NOTED_FIELDS} more" if len(some) > NOTED_FIELDS else ""
            names = ", ".join(some[:NOTED_FIELDS])
            found.append(f"left out, because they are not numbers: {names}{more}")
        return [*found, *self.inspector.notes()]

    def batches(self) -> Iterator[Sequence[Message] | Readings]:
        """Yield the log's batches, not decoded; close the log at the end."""
        try:
            while (batch := self.log.read()) is not None:
                yield batch
        finally:
            self.log.close()

    def __iter__(self) -> Iterator[LogBatch]:
        left = self.limit
        for batch in self.batches():
            portion = self._portion(batch)
            if left is not None:
                portion = LogBatch(_first(portion.events, left), portion.refused)
                left -= sum(len(e) for e in portion.events if isinstance(e, Readings))
            for event in portion.events:
                if isinstance(event, Readings):
                    self.inspector.see(event)
            yield portion
            if left is not None and left <= 0:
                return

    def _portion(self, batch: Sequence[Message] | Readings) -> LogBatch:
        refused = [Refused(0, "row", text) for text in self.log.refused]
        if isinstance(batch, Readings):
            if self._group_of is not None:  # rows have no topic that could say more
                batch.groups = [self._group_of(device, {}) for device in batch.devices]
            return LogBatch([batch], refused)
        assert self._decoder is not None
        decoded = self._decoder.decode(batch)
        if len(self._left_out) < MAX_LEFT_OUT:
            self._left_out.update(dict.fromkeys(decoded.dropped.examples))
        return LogBatch(decoded.events, [*refused, *_with_lines(decoded.refused, batch)])


def _with_lines(refused: list[Refused], batch: Sequence[Message]) -> list[Refused]:
    """Return messages with line numbers, which serve as keys of messages in files."""
    return [
        one._replace(text=f"line {key}: {one.text}")
        if isinstance(key := batch[one.source].key, int)
        else one
        for one in refused
    ]


def _first(events: list[Event], count: int) -> list[Event]:
    """Return the events up to so many readings."""
    kept: list[Event] = []
    for event in events:
        if count <= 0:
            break
        if isinstance(event, Readings):
            event = event if len(event) <= count else head(event, count)
            count -= len(event)
        kept.append(event)
    return kept


def head(readings: Readings, count: int) -> Readings:
    """Return the first readings."""
    return readings.select(slice(0, count))


# --- what a log looks like -----------------------------------------------------------------------

INSPECTED_READINGS = 1000  # readings that are looked at closely
MIN_RISES = 10  # that make a clock or a counter of what never falls
ROLES = ("label", "time", "sequence")  # a reading without its device is refused


class LogInspector:
    """Inspector that collects features and likely mistakes from passing readings.

    `received` says that the time of receipt stands in for a missing time.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.config import Fields
    >>> from streamlvq.events import Readings
    >>> from streamlvq.replay.run import LogInspector
    >>> rows = np.array([[k, k % 3] for k in range(20)], float)
    >>> inspector = LogInspector(Fields(label="state"))
    >>> inspector.see(Readings.of(["t", "x"], rows))
    >>> inspector.features
    ['t', 'x']
    >>> for note in inspector.notes():
    ...     print(note)
    no reading had 'state': is --label right?
    't' was learnt, but only ever rises: is 't' the time? name it with --time

    """

    def __init__(self, fields: Fields, received: bool = False) -> None:
        self.fields, self.received = fields, received
        self._features: dict[str, None] = {}
        self._absent = [role for role in ROLES if getattr(fields, role) is not None]
        self._first: dict[tuple[str, ...], list[tuple[Rows, list[str]]]] = {}
        self._seen = 0

    @property
    def features(self) -> list[str]:
        """Features that some reading had."""
        return list(self._features)

    def see(self, readings: Readings) -> None:
        """Inspect more readings."""
        if not len(readings):
            return
        self._features.update(dict.fromkeys(readings.features))
        if self._absent:
            self._absent = [role for role in self._absent if not self._has(readings, role)]
        if self._seen < INSPECTED_READINGS:
            left = INSPECTED_READINGS - self._seen
            part = readings.rows[:left], readings.devices[:left]
            self._first.setdefault(readings.features, []).append(part)
            self._seen += len(readings)

    def _has(self, readings: Readings, role: str) -> bool:
        if role == "time" and self.received:
            # Such times say nothing, but whoever has a time or a number can come twice.
            return self.fields.sequence is not None or DedupWindow.RECENT in readings.dedup_windows
        column: Sequence[object] = getattr(readings, f"{role}s")
        return any(value is not None for value in column)

    def notes(self) -> list[str]:
        """Return notes about likely mistakes."""
        if not self._seen:
            return []
        rising = self.rising()[:3]
        if len(rising) > 1 and None in (self.fields.time, self.fields.sequence):
            return [*map(self._note_absent, self._absent), self._note_several(rising)]
        return [*map(self._note_absent, self._absent), *map(self._note_rising, rising)]

    def _note_absent(self, role: str) -> str:
        name = getattr(self.fields, role)
        hint = suggestion(name, self._features) or f": is --{role} right?"
        return f"no reading had {name!r}{hint}"

    def _note_several(self, names: list[str]) -> str:
        """Ask which is which: each of them could be the time or a counter."""
        missing = {"time": "the time", "sequence": "a counter"}
        ask = " and ".join(
            f"{what} with --{role}"
            for role, what in missing.items()
            if getattr(self.fields, role) is None
        )
        listed = " and ".join(map(repr, names))
        return (
            f"{listed} were learnt, but only ever rise: which is which? name {ask}, "
            "and leave out what is neither by naming the others with --feature"
        )

    def _note_rising(self, name: str) -> str:
        if self.fields.time is None:
            ask = f"is {name!r} the time? name it with --time"
        elif self.fields.sequence is None:
            ask = f"is {name!r} a counter? name it with --sequence"
        else:
            ask = "if it is a clock or a counter, leave it out by naming the others with --feature"
        return f"{name!r} was learnt, but only ever rises: {ask}"

    def rising(self) -> list[str]:
        """Return features that never fall but often rise in the first readings of each device.

        They are probably counters or times. Features that the configuration names are meant.
        """
        if self.fields.features is not None:
            return []
        found: dict[str, None] = {}
        for features, parts in self._first.items():
            rows = np.concatenate([part[0] for part in parts])
            devices = np.array([device for part in parts for device in part[1]])
            found.update(dict.fromkeys(np.array(features)[_rising(rows, devices)].tolist()))
        return list(found)


def _rising(rows: Rows, devices: npt.NDArray[np.str_]) -> npt.NDArray[np.bool_]:
    """Return for each column whether it never falls but often rises."""
    order = np.argsort(devices, kind="stable")
    same = devices[order][1:] == devices[order][:-1]
    steps = np.diff(rows[order], axis=0)[same]
    rises = (steps > 0).sum(axis=0)
    rising: npt.NDArray[np.bool_] = ~(steps < 0).any(axis=0) & (
        rises >= max(MIN_RISES, len(steps) / 10)
    )
    return rising


# --- the replay ----------------------------------------------------------------------------------


def replay(
    log: str | Path,
    config: Config | None = None,
    *,
    format: str | None = None,
    limit: int | None = None,
    learn: bool = True,
    monitor: Monitor | None = None,
    decisions: str | Path | None = None,
    progress: bool | None = None,
) -> Report:
    r"""Replay a recorded log through a monitor and report how good it was.

    Decoder and monitor are those of the service: the same readings give the same decisions.

    Parameters
    ----------
    log
        File to read.
    config
        Configuration of the service; None for the defaults.
    format
        Kind of log; None to detect it.
    limit
        Number of readings to stop after; None for all.
    learn
        Whether to learn labels; if not, they are only compared with the decisions.
    monitor
        Monitor to continue with, which is changed; None for a new one.
    decisions
        File for all decisions, as JSON lines like the ones the service publishes; None for none.
    progress
        Whether to show a progress bar; None to show it in a terminal only.

    Examples
    --------

    >>> import pathlib, tempfile
    >>> from streamlvq.config import Config, ModelSection, ReadingsSection
    >>> from streamlvq.replay import replay

    >>> rows = [f"{t},{t % 7 + 20 * (t % 2)},{'hot' if t % 2 else 'cold'}" for t in range(200)]
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "oven.csv"
    >>> size = log.write_text("\n".join(["t,temperature,state", *rows]))
    >>> config = Config(readings=ReadingsSection(label="state", time="t"),
    ...                 model=ModelSection(type="GLVQ"))
    >>> report = replay(log, config)
    >>> report.readings, report.accuracy, report.confusion.labels
    (200, 0.99, ['cold', 'hot'])

    """
    settings = Config() if config is None else config
    feed = LogReader(log, settings, format, limit)
    run = ReplayRun(settings, monitor, learn)
    run.start()
    with calm_collector(), Bar(feed, progress) as bar, DecisionWriter(decisions) as file:
        for portion in feed:
            for made in run.step(portion):
                file.write(made)
            bar.update(run.statistics)
    report = run.report(str(log), feed.log.format, feed.inspector.features, feed.notes)
    if file.error is not None:
        raise UnwrittenError(file.error, report) from file.error
    return report


class UnwrittenError(StreamLVQError):
    """Decisions that could not be written; the replay itself finished, see `report`."""

    def __init__(self, error: OSError, report: Report) -> None:
        super().__init__(error.strerror or str(error))
        self.report = report


class ReplayRun:
    """Run of a monitor whose decisions are counted.

    A new monitor is made if none is given; without `learn`, labels are only compared with
    decisions.
    """

    def __init__(self, config: Config, monitor: Monitor | None = None, learn: bool = True) -> None:
        self.config, self.learn = config, learn
        self.monitor = Monitor(config) if monitor is None else monitor
        labels = config.labels
        self.statistics = Statistics(
            wait=0 if labels is None else labels.wait,
            by_sequence=labels is not None and labels.sequence is not None,
        )
        self._start = time.perf_counter(), time.process_time()

    def start(self) -> None:
        """Compile the kernels, which may take a while the first time, and start the clock."""
        self.monitor.compile()
        self._start = time.perf_counter(), time.process_time()

    def step(self, portion: LogBatch) -> list[Decisions]:
        """Pass events to the monitor; yield its decisions."""
        self.statistics.add_refused(portion.refused)
        made = []
        for event in portion.events:
            if isinstance(event, LateLabel):
                self._late(event)
            else:
                made.append(self._decide(event))
        return made

    def _decide(self, readings: Readings) -> Decisions:
        true_labels = readings.labels
        if not self.learn:
            readings = replace(readings, labels=[None] * len(readings))
        outcome = self.monitor.step(readings)
        assert outcome.decisions is not None
        if not self.learn and outcome.refused:  # the others are still in order
            bad = {one.source for one in outcome.refused}
            pairs = zip(true_labels, readings.sources, strict=True)
            true_labels = [y for y, source in pairs if source not in bad]
        self._count(outcome)
        self.statistics.add(outcome.decisions, None if self.learn else true_labels)
        return outcome.decisions

    def _late(self, late: LateLabel) -> None:
        if self.learn:
            outcome = self.monitor.step(late)
            self._count(outcome)
            if outcome.refused or outcome.duplicates:
                return
        self.statistics.add_late(late)

    def _count(self, outcome: Any) -> None:
        self.statistics.add_refused(outcome.refused)
        self.statistics.learnt += outcome.learnt
        self.statistics.duplicates += outcome.duplicates

    def report(
        self, log: str, format: str, features: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> Report:
        """Return the report so far."""
        wall, cpu = self._start
        return make_report(
            self.statistics,
            streamlvq=streamlvq.__version__,
            log=log,
            format=format,
            model=describe(self.config),
            features=list(features),
            notes=list(notes),
            learning=self.learn,
            cpu_seconds=time.process_time() - cpu,
            wall_seconds=time.perf_counter() - wall,
        )


def describe(config: Config) -> str:
    """Return the chain in one line.

    For example `LGMLVQ(rank=8), windows of 5, relsim rejector (target_rate=0.1)`.
    """
    given = ", ".join(f"{name}={value!r}" for name, value in config.model.parameters.items())
    parts = [f"{config.model.type}({given})"]
    if config.model.per != "all":
        parts[0] += f" per {config.model.per}"
    if config.integrator is not None:
        window = config.integrator.window
        parts.append("adaptive window" if window == "adaptive" else f"windows of {window}")
    if config.rejector is not None:
        wanted = ("threshold", "target_rate", "target_accuracy", "reject_cost")
        aims = [f"{name}={v!r}" for name in wanted if (v := getattr(config.rejector, name))]
        parts.append(f"{config.rejector.type} rejector ({', '.join(aims) or 'default aim'})")
    return ", ".join(parts)


@contextmanager
def calm_collector() -> Iterator[None]:
    """Make Python's cyclic garbage collection rare while many short-lived objects are made.

    They form no cycles, and scanning them again and again took a quarter of the time.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class DecisionWriter:
    """Writer of decisions as JSON lines, as the service publishes them; no-op without a path.

    A full disk ends the writing, not the replay; `error` says so.
    """

    def __init__(self, path: str | Path | None) -> None:
        self.error: OSError | None = None
        self._file: BinaryIO | None = None
        if path is not None:
            self._file = Path(path).open("wb")  # noqa: SIM115

    def write(self, decisions: Decisions) -> None:
        if self._file is not None and self.error is None:
            try:
                self._file.writelines(line + b"\n" for line in encode_decisions(decisions))
            except OSError as error:
                self.error = error

    def __enter__(self) -> DecisionWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as failure:  # what was not written yet still cannot be
                self.error = self.error or failure


class Bar:
    """Progress bar by bytes, with the rate in readings."""

    def __init__(self, feed: LogReader, shown: bool | None, name: str = "replay") -> None:
        from tqdm import tqdm  # noqa: PLC0415

        self._feed, self._start = feed, time.perf_counter()
        self._bar = tqdm(
            total=feed.progress[1],
            desc=name,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=not (sys.stderr.isatty() if shown is None else shown),
        )

    def update(self, statistics: Statistics) -> None:
        """Show progress in bytes and readings."""
        if self._bar.disable:
            return
        said = {} if statistics.accuracy is None else {"accuracy": percent(statistics.accuracy)}
        self.move(statistics.readings, "readings", **said)

    def move(self, count: int, unit: str, **said: str) -> None:
        """Show so many readings; the reader knows the position in the file."""
        if self._bar.disable:
            return
        rate = round(count / max(time.perf_counter() - self._start, 1e-9))
        self._bar.set_postfix({f"{unit}/s": number(rate), **said}, refresh=False)
        self._bar.update(self._feed.progress[0] - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()
