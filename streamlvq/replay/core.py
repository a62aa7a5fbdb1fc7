"""Replay: the events of a log through a monitor, and what came of it."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import streamlvq
from streamlvq.config import Config
from streamlvq.errors import StreamLVQError
from streamlvq.events import Decisions, LateLabel, Readings
from streamlvq.monitor import Monitor
from streamlvq.payloads import encode_decisions
from streamlvq.replay.feed import Feed, Portion
from streamlvq.replay.report import Report, make_report
from streamlvq.replay.statistics import Statistics
from streamlvq.text import number, percent


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
    """Show a recorded log to a monitor, as if it happened now, and report how good it was.

    Decoder and monitor are those of the daemon: the same readings give the same decisions.

    Parameters
    ----------
    log
        The file.
    config
        As of the daemon; defaults if None.
    format
        Which kind of log it is; None to find out.
    limit
        Readings to stop after.
    learn
        Whether labels are learnt; if not, they are only compared with the decisions.
    monitor
        One that knows something already; it goes on from there and is changed.
    decisions
        A file to write every decision to, a line of JSON each, as the daemon publishes it.
    progress
        Whether to show a bar; None: if a person is looking.

    Examples
    --------

    >>> import pathlib, tempfile
    >>> from streamlvq.config import Config, ModelSection, ReadingsSection
    >>> from streamlvq.replay import replay

    >>> rows = [f"{t},{t % 7 + 20 * (t % 2)},{'hot' if t % 2 else 'cold'}" for t in range(200)]
    >>> log = pathlib.Path(tempfile.mkdtemp()) / "oven.csv"
    >>> size = log.write_text("\\n".join(["t,temperature,state", *rows]))
    >>> config = Config(readings=ReadingsSection(label="state", time="t"),
    ...                 model=ModelSection(type="GLVQ"))
    >>> report = replay(log, config)
    >>> report.readings, report.accuracy, report.confusion.labels
    (200, 0.99, ['cold', 'hot'])

    """
    settings = Config() if config is None else config
    feed = Feed(log, settings, format, limit)
    run = Replay(settings, monitor, learn)
    run.start()
    with calm_collector(), Bar(feed, progress) as bar, DecisionFile(decisions) as file:
        for portion in feed:
            for made in run.step(portion):
                file.write(made)
            bar.update(run.statistics)
    report = run.report(str(log), feed.log.format, feed.look.features, feed.notes)
    if file.error is not None:
        raise UnwrittenError(file.error, report) from file.error
    return report


class UnwrittenError(StreamLVQError):
    """Decisions could not be written, but the replay went on to its end: `report` has it all.

    Parameters
    ----------
    error
        Why.
    report
        What came of the replay.

    """

    def __init__(self, error: OSError, report: Report) -> None:
        super().__init__(error.strerror or str(error))
        self.report = report


class Replay:
    """A monitor whose decisions are counted.

    Parameters
    ----------
    config
        As of the daemon.
    monitor
        One that knows something already; a new one if None.
    learn
        Whether labels are learnt.

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
        """Compile, which may take a while the first time, and start the clock."""
        self.monitor.compile()
        self._start = time.perf_counter(), time.process_time()

    def step(self, portion: Portion) -> list[Decisions]:
        """Show events to the monitor; gives its decisions."""
        self.statistics.refuse(portion.refused)
        made = []
        for event in portion.events:
            if isinstance(event, LateLabel):
                self._late(event)
            else:
                made.append(self._decide(event))
        return made

    def _decide(self, readings: Readings) -> Decisions:
        truths = readings.labels
        if not self.learn:
            readings = replace(readings, labels=[None] * len(readings))
        outcome = self.monitor.step(readings)
        assert outcome.decisions is not None
        if not self.learn and outcome.refused:  # the others are still in order
            bad = {one.source for one in outcome.refused}
            pairs = zip(truths, readings.sources, strict=True)
            truths = [y for y, source in pairs if source not in bad]
        self._count(outcome)
        self.statistics.add(outcome.decisions, None if self.learn else truths)
        return outcome.decisions

    def _late(self, late: LateLabel) -> None:
        if self.learn:
            outcome = self.monitor.step(late)
            self._count(outcome)
            if outcome.refused or outcome.duplicates:
                return
        self.statistics.add_late(late)

    def _count(self, outcome: Any) -> None:
        self.statistics.refuse(outcome.refused)
        self.statistics.learnt += outcome.learnt
        self.statistics.duplicates += outcome.duplicates

    def report(
        self, log: str, format: str, features: Sequence[str] = (), notes: Sequence[str] = ()
    ) -> Report:
        """What came of it so far."""
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
    """The chain in one line: `LGMLVQ(rank=8), windows of 5, relsim rejector (target_rate=0.1)`."""
    given = ", ".join(f"{name}={value!r}" for name, value in config.model.parameters.items())
    parts = [f"{config.model.type}({given})"]
    if config.model.per != "all":
        parts[0] += f" per {config.model.per}"
    if config.integrator is not None:
        parts.append(f"windows of {config.integrator.window}")
    if config.rejector is not None:
        wanted = ("threshold", "target_rate", "target_accuracy", "reject_cost")
        aims = [f"{name}={v!r}" for name in wanted if (v := getattr(config.rejector, name))]
        parts.append(f"{config.rejector.type} rejector ({', '.join(aims) or 'default aim'})")
    return ", ".join(parts)


@contextmanager
def calm_collector() -> Iterator[None]:
    """Let Python look for cyclic garbage seldom while many short-lived objects come and go.

    They are no garbage of that kind, and looking at them again and again took a quarter of the
    time.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class DecisionFile:
    """Decisions as lines of JSON, as the daemon publishes them; nothing at all without a path.

    A disk that is full ends the writing, not the replay: `error` says so.
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

    def __enter__(self) -> DecisionFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as failure:  # what was not written yet still cannot be
                self.error = self.error or failure


class Bar:
    """A progress bar by bytes, with the rate in readings."""

    def __init__(self, feed: Feed, shown: bool | None, name: str = "replay") -> None:
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
        """How it goes."""
        if self._bar.disable:
            return
        said = {} if statistics.accuracy is None else {"accuracy": percent(statistics.accuracy)}
        self.move(statistics.readings, "readings", **said)

    def move(self, count: int, unit: str, **said: str) -> None:
        """So many so far; where in the file that is, the feed knows."""
        if self._bar.disable:
            return
        rate = round(count / max(time.perf_counter() - self._start, 1e-9))
        self._bar.set_postfix({f"{unit}/s": number(rate), **said}, refresh=False)
        self._bar.update(self._feed.progress[0] - self._bar.n)

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._bar.close()
