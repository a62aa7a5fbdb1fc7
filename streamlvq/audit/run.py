"""`audit_snapshots`, `audit_log` and `audit_files`: run all attacks on what is published."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamlvq.audit.attack import Attack, Case
from streamlvq.audit.findings import AuditError, AuditReport
from streamlvq.audit.mechanism import made_up_readings
from streamlvq.audit.membership import progress_bar
from streamlvq.audit.publications import Step, Truth, published_models
from streamlvq.config import Config, FleetSection
from streamlvq.config.build import build_model, build_privacy, build_transform
from streamlvq.errors import NotLearntYetError
from streamlvq.estimator import EstimatorState, estimator_class
from streamlvq.events import Readings
from streamlvq.fleet.held_back import next_publication
from streamlvq.fleet.participant import FLEET_FOLDER
from streamlvq.fleet.publication import Schedule
from streamlvq.models import LVQCommittee
from streamlvq.models.base import LVQClassifier
from streamlvq.monitor import Monitor
from streamlvq.monitor.files import load_config, load_snapshots
from streamlvq.monitor.private import public_snapshot
from streamlvq.privacy import Privacy, PrivateLVQ
from streamlvq.registry import ATTACKS
from streamlvq.replay.run import LogReader
from streamlvq.replay.training import with_late_labels
from streamlvq.snapshot import Snapshot, SnapshotFiles, capture
from streamlvq.synth import FEATURES, Machine
from streamlvq.text import plural
from streamlvq.wrappers.base import innermost_model

MAX_AUDITED_READINGS = 20_000  # of a log that is audited, unless told otherwise
MAX_PUBLICATIONS = 1_000
SIMULATED_READINGS = 2_000
PRIVATE_BATCHES = 12
STORED_LABELS = ("buffer_y", "window_y")  # the same, one number each
LOG_NODE = "log"
DEFAULT_FLEET = FleetSection(name="audit", trust="everyone")


# --- snapshots ------------------------------------------------------------------------------------


def audit_snapshots(
    snapshots: Iterable[Snapshot],
    truth: Truth | None = None,
    *,
    private: Callable[[], PrivateLVQ] | None = None,
    attacks: Collection[str] | None = None,
    seed: int = 0,
    progress: bool | None = False,
) -> AuditReport:
    """Attack snapshots as an outsider would who has all of them.

    Parameters
    ----------
    snapshots
        Snapshots as they were published: one, or several of a node. Those of a node are taken in
        the order of their times if all have one, else in the order of what they have learnt.
    truth
        The readings that were learnt, to measure success; None if they are not at hand.
    private
        Builds the private model whose releases the snapshots are, untrained; None if there is none.
    attacks
        Names of attacks to run; None for all.
    seed
        Seed of what attacks draw.
    progress
        Whether to show progress bars; None to show them in a terminal only.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq.audit import audit_snapshots
    >>> from streamlvq.snapshot import Snapshot

    >>> model = streamlvq.GLVQ()
    >>> published = []
    >>> for k in range(60):
    ...     heat = 20.0 + 40 * (k % 2) + k % 7
    ...     model.learn_one({"heat": heat, "rms": 0.1 * k, "load": k % 5}, "hot" if k % 2 else "ok")
    ...     published.append(Snapshot.of(model, readings=True))
    >>> report = audit_snapshots(published[-2:], attacks=["counts-and-means"])
    >>> report["counts-and-means"].verdict.value
    'exact'
    >>> found = report["counts-and-means"].shown[0].values  # the 60th reading
    >>> round(found["heat"], 9), round(found["rms"], 9), round(found["load"], 9)
    (63.0, 5.9, 4.0)

    """
    given = list(snapshots)
    if not given:
        raise AuditError("expected at least one snapshot, got none")
    stored = sum(stored_readings(each.estimator_state()) for each in given)
    make = None if truth is None else _maker(given[0])
    case = Case(truth, make, stored=stored, private=private, seed=seed, progress=progress)
    chosen = _new_attacks(case, attacks)
    for step in _steps(_in_order(given)):
        for attack in chosen.values():
            attack.see(step)
    nodes = {each.node for each in given}
    subject = f"{plural(len(given), 'snapshot')} of {plural(len(nodes), 'node')}"
    return replace(_report(subject, chosen), logged=truth is not None)


def stored_readings(state: EstimatorState) -> int:
    """Return how many readings a state holds as they are."""
    own = sum(len(state.arrays[name]) for name in STORED_LABELS if name in state.arrays)
    return own + sum(map(stored_readings, state.parts.values()))


def _in_order(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    timed = all(each.created_seconds is not None for each in snapshots)
    if timed:
        return sorted(snapshots, key=lambda each: each.created_seconds or 0.0)
    return sorted(snapshots, key=lambda each: each.samples)


def _steps(snapshots: Iterable[Snapshot]) -> Iterator[Step]:
    stepper = _Stepper()
    for snapshot in snapshots:
        yield from stepper.steps(snapshot, {})


class _Stepper:
    """Pairs each publication of a node with the one before it."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Any] = {}
        self._count: dict[str, int] = {}

    def steps(self, snapshot: Snapshot, births: Mapping[str, Sequence[int]]) -> Iterator[Step]:
        count = self._count[snapshot.node] = self._count.get(snapshot.node, 0) + 1
        for member, model in published_models(snapshot).items():
            key = (snapshot.node, member)
            node = f"{snapshot.node}/{member}" if member else snapshot.node
            last = self._last.get(key)
            if last is not None and (last.type, last.state.parameters) != (
                model.type,
                model.state.parameters,
            ):
                last = None  # another model: nothing can be said about the difference
            yield Step(node, count, last, model, snapshot.in_sensor_units, births.get(member))
            self._last[key] = model


def _maker(snapshot: Snapshot) -> Callable[[], Any] | None:
    """Return how to build the first model in a snapshot, untrained; None with a transform."""
    if snapshot.transform is not None:
        return None
    state = next(iter(snapshot.node_models().values()))
    cls = estimator_class(state.kind)
    blank = replace(state, arrays={}, parts={})
    return lambda: cls.from_blank(blank)


# --- logs and configurations ----------------------------------------------------------------------


def audit_log(
    log: str | Path,
    config: Config | None = None,
    *,
    format: str | None = None,
    every: int | None = None,
    limit: int = MAX_AUDITED_READINGS,
    attacks: Collection[str] | None = None,
    seed: int = 0,
    progress: bool | None = False,
) -> AuditReport:
    """Learn a log as the daemon would, and attack what it would publish to its fleet.

    Parameters
    ----------
    log
        File to read.
    config
        Configuration of the daemon; None for the defaults.
    format
        Kind of log; None to detect it.
    every
        Labelled readings between two publications; None for the times that `fleet` asks for, or
        for `fleet.publish_after` readings if the log has no times.
    limit
        Number of readings to stop after.
    attacks, seed, progress
        As in `audit_snapshots`.

    """
    settings = Config() if config is None else config
    feed = LogReader(log, settings, format, limit)
    events = [event for portion in feed for event in portion.events]
    readings = with_late_labels(events, settings)
    notes = [f"only the first {plural(limit, 'reading')} were audited"] * (
        sum(map(len, readings)) >= limit
    )
    if not sum(map(len, readings)):
        raise AuditError(f"{log}: expected readings, got none")
    if not any(label is not None for one in readings for label in one.labels):
        raise AuditError(
            f"{log}: expected readings with a label, got none; name its column with --label, or "
            "`readings.label` in the configuration"
        )
    report = audit_readings(
        readings,
        settings,
        every=every,
        attacks=attacks,
        seed=seed,
        progress=progress,
        subject=f"what a node would publish while it learns {Path(log).name}",
        notes=notes,
    )
    return replace(report, logged=True)


def audit_config(
    config: Config,
    *,
    every: int | None = None,
    attacks: Collection[str] | None = None,
    seed: int = 0,
    progress: bool | None = False,
) -> AuditReport:
    """Attack what a configuration would publish of a simulated machine's readings.

    With a section `privacy` they are made up within its bounds, and the mechanism is audited too.
    """
    if config.privacy is not None:
        return audit_readings(
            _readings_within(build_privacy(config.privacy), seed),
            config,
            every=every,
            attacks=attacks,
            seed=seed,
            progress=progress,
            subject="what a private node of this configuration would publish",
            notes=["no log was given: the readings are made up, within the public bounds"],
        )
    samples = Machine(seed=seed).take(SIMULATED_READINGS)
    readings = [
        Readings.of(
            FEATURES, samples.rows, labels=list(samples.states), times=samples.times.tolist()
        )
    ]
    return audit_readings(
        readings,
        config,
        every=every,
        attacks=attacks,
        seed=seed,
        progress=progress,
        subject="what a node of this configuration would publish",
        notes=["no log was given: the readings are those of a simulated machine"],
    )


def audit_readings(
    readings: Sequence[Readings],
    config: Config,
    *,
    every: int | None = None,
    attacks: Collection[str] | None = None,
    seed: int = 0,
    progress: bool | None = False,
    subject: str = "what a node would publish",
    notes: Sequence[str] = (),
) -> AuditReport:
    """Learn readings as the daemon would, and attack what it would publish; see `audit_log`."""
    config = _shared_by_all(config)
    features = tuple(dict.fromkeys(name for one in readings for name in one.features))
    truth = Truth(features)
    make = _config_maker(config)
    private = None if config.privacy is None else make
    case = Case(truth, make, private=private, seed=seed, progress=progress)
    chosen = _new_attacks(case, attacks)
    node = _Publisher(config, every, _have_times(readings))
    count = 0
    total = sum(map(len, readings))
    for snapshot, births in node.publications(readings, truth, progress, total):
        count += 1
        for step in node.stepper.steps(snapshot, births):
            for attack in chosen.values():
                attack.see(step)
        if count == MAX_PUBLICATIONS:
            notes = [*notes, f"only the first {plural(count, 'publication')} were audited"]
            break
    told = f"{plural(count, 'publication')}, {node.schedule_text}"
    return _report(subject, chosen, [*notes, told])


def _readings_within(privacy: Privacy, seed: int) -> list[Readings]:
    """Return as many made-up readings as a few publications need."""
    random = np.random.default_rng(seed)
    count = privacy.scale_batch + privacy.warmup + PRIVATE_BATCHES * privacy.batch
    codes = random.integers(0, len(privacy.classes), min(count, MAX_AUDITED_READINGS))
    rows = made_up_readings(privacy, codes, random)
    labels = [privacy.classes[c] for c in codes]
    return [Readings.of([str(name) for name in privacy.features], rows, labels=labels)]


def _shared_by_all(config: Config) -> Config:
    """Return the configuration with one model for all devices: fleets publish no others."""
    return msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, per="all"))


def _have_times(readings: Sequence[Readings]) -> bool:
    return all(time is not None for one in readings for time in one.times)


def _config_maker(config: Config) -> Callable[[], Any]:
    section, privacy = config.model, config.privacy
    return lambda: build_transform(section, build_model(section, privacy=privacy))


class _Publisher:
    """A node that learns readings one by one and publishes as a daemon does."""

    def __init__(self, config: Config, every: int | None, timed: bool) -> None:
        section = config.fleet or DEFAULT_FLEET
        self.every = every if every is not None or timed else section.publish_after
        self.monitor = Monitor(config)
        self.schedule = Schedule(section)
        self.stepper = _Stepper()
        self._k = section.min_new_per_class
        self._published: EstimatorState | None = None
        self._data = b""
        self._born: dict[tuple[str, bytes], int] = {}
        self.schedule_text = (
            f"one after every {plural(self.every, 'labelled reading')}"
            if self.every is not None
            else "at the times that `fleet` asks for"
        )

    def _next(self, classifier: Any) -> Snapshot | None:
        """Return what is published now; None if no class has readings enough, or nothing is new."""
        model = innermost_model(classifier)
        if isinstance(model, PrivateLVQ):
            return self._new(public_snapshot(classifier, LOG_NODE)) if model.classes else None
        state = capture(classifier, readings=False)
        self._remember_births(classifier)
        if self._k > 1:
            found = next_publication(self._published, state, self._k)
            if found is None:
                return None
            state = found.state
        self._published = state
        return self._new(Snapshot(state, LOG_NODE, readings=False))

    def _new(self, snapshot: Snapshot) -> Snapshot | None:
        """Return a snapshot unless it is the one that was published last."""
        data = snapshot.to_bytes()
        if data == self._data:
            return None
        self._data = data
        return snapshot

    def _remember_births(self, classifier: Any) -> None:
        """Note on which labelled reading the prototype at each place was born."""
        model = innermost_model(classifier)
        members = model.parts if isinstance(model, LVQCommittee) else {"": model}
        for name, one in members.items():
            if isinstance(one, LVQClassifier) and one.engine is not None:
                for w, born in zip(one.engine.state["w"], one.engine.state["born"], strict=True):
                    self._born[name, w.tobytes()] = round(float(born))

    def _births(self, snapshot: Snapshot) -> dict[str, list[int]]:
        """Return on which labelled reading each published prototype was born; -1 if unknown."""
        kept: dict[tuple[str, bytes], int] = {}
        found: dict[str, list[int]] = {}
        for name, model in published_models(snapshot).items():
            keys = [(name, w.tobytes()) for w in model.arrays["w"][: model.prototypes]]
            found[name] = [self._born.get(key, -1) for key in keys]
            kept |= {key: self._born[key] for key in keys if key in self._born}
        self._born = kept
        return found

    def publications(
        self, readings: Sequence[Readings], truth: Truth, progress: bool | None, total: int
    ) -> Iterator[tuple[Snapshot, Mapping[str, Sequence[int]]]]:
        """Yield what is published, and on which labelled reading each prototype was born."""
        place = {name: k for k, name in enumerate(truth.features)}
        published = 0
        for one in progress_bar(_singly(readings), "audit", progress):
            outcome = self.monitor.step(one)
            label = one.labels[0]
            if label is None or outcome.learnt + outcome.held == 0:
                continue
            row = np.full(len(truth.features), np.nan)
            row[[place[name] for name in one.features]] = one.rows[0]
            truth.add(row, label)
            if not self._is_due(len(truth.labels), published, one.times[0]):
                continue
            published = len(truth.labels)
            for classifier in self.monitor.models().values():
                snapshot = self._next(classifier)
                if snapshot is not None:
                    yield snapshot, self._births(snapshot)

    def _is_due(self, labelled: int, published: int, time: float | None) -> bool:
        if self.every is not None:
            return labelled - published >= self.every
        assert time is not None
        if not self.schedule.due(labelled, time):
            return False
        self.schedule.published(labelled, time)
        return True


def _singly(readings: Sequence[Readings]) -> Iterator[Readings]:
    for one in readings:
        for k in range(len(one)):
            yield one.select([k])


# --- private models ---------------------------------------------------------------------------


def audit_private(
    make: Callable[[], PrivateLVQ],
    *,
    attacks: Collection[str] | None = None,
    seed: int = 0,
    progress: bool | None = False,
) -> AuditReport:
    """Run a private mechanism, canaries included, and test whether it keeps its promise.

    Nothing of the model's own readings is used: it learns made-up ones within its bounds.

    Parameters
    ----------
    make
        Builds the model, untrained.
    attacks, seed, progress
        As in `audit_snapshots`.

    Examples
    --------

    >>> from streamlvq.audit import audit_private
    >>> from streamlvq.privacy import Privacy, PrivateLVQ

    >>> promise = Privacy(4.0, bounds={"rms": (0, 2), "heat": (0, 120)}, classes=["ok", "worn"])
    >>> report = audit_private(lambda: PrivateLVQ(promise), attacks=["noise-scale"])
    >>> report["noise-scale"].verdict.value
    'nothing'

    """
    chosen = _new_attacks(Case(private=make, seed=seed, progress=progress), attacks)
    return _report("the mechanism of a private model", chosen)


# --- files ----------------------------------------------------------------------------------------


def load_publications(
    path: str | Path, min_new_per_class: int = DEFAULT_FLEET.min_new_per_class
) -> tuple[list[Snapshot], list[str]]:
    """Return the snapshots in a file, or what the daemon of a state folder would publish.

    The second are notes for the report. `min_new_per_class` is that of its fleet; releases of a
    private model are published as they are, and snapshots of one before its first are left out.
    """
    path = Path(path)
    if not path.is_dir():
        try:
            return load_snapshots(path), []
        except NotLearntYetError as error:
            raise _no_release(path) from error
    node = path.resolve().name
    files = SnapshotFiles(path).paths()
    if not files:
        raise AuditError(f"{path}: expected the state folder of a daemon, got no snapshot in it")
    found: list[Snapshot] = []
    if (config := load_config(path)) is not None and config.privacy is not None:
        min_new_per_class = 1
    published: dict[str, EstimatorState] = {}
    young = 0  # snapshots of a private model before its first release
    for file in reversed(files):
        try:
            snapshots = load_snapshots(file, node)
        except NotLearntYetError:
            young += 1
            continue
        for snapshot in snapshots:
            state: EstimatorState | None = capture(snapshot.classifier(), readings=False)
            if min_new_per_class > 1 and state is not None:
                former = published.get(snapshot.node)
                later = next_publication(former, state, min_new_per_class)
                state = None if later is None else later.state
            if state is not None:
                published[snapshot.node] = state
                found.append(Snapshot(state, snapshot.node, readings=False))
    notes = [f"{path}: audited as published, without stored readings; keep the folder to yourself"]
    if young:
        notes.append(f"{path}: left out {plural(young, 'snapshot')} without a release")
    if not found and young:
        raise _no_release(path)
    if not found:
        raise AuditError(
            f"{path}: expected a class with {min_new_per_class} readings "
            "(fleet.min_new_per_class), got none: nothing would be published"
        )
    if not (path / FLEET_FOLDER).is_dir():
        notes.append(f"{path}: this daemon is in no fleet and publishes nothing so far")
    return found, notes


def _no_release(path: Path) -> AuditError:
    return AuditError(
        f"{path}: expected a release of its private model, got none so far: it has published "
        "nothing. `streamlvq audit CONFIG` audits the mechanism alone"
    )


def private_mechanism(path: str | Path) -> Callable[[], PrivateLVQ] | None:
    """Return how to build the private model of a state folder, untrained; None if it has none."""
    config = load_config(path)
    return None if config is None or config.privacy is None else _config_maker(config)


def truth_of_log(
    log: str | Path, config: Config, format: str | None = None, limit: int | None = None
) -> Truth:
    """Return the labelled readings of a log, to measure how well attacks on snapshots did."""
    feed = LogReader(log, config, format, limit)
    readings = with_late_labels([e for portion in feed for e in portion.events], config)
    features = tuple(dict.fromkeys(name for one in readings for name in one.features))
    truth = Truth(features)
    place = {name: k for k, name in enumerate(features)}
    for one in readings:
        columns = [place[name] for name in one.features]
        for values, label in zip(one.rows, one.labels, strict=True):
            if label is not None:
                row = np.full(len(features), np.nan)
                row[columns] = values
                truth.add(row, label)
    if not truth.labels:
        raise AuditError(f"{log}: expected readings with a label, got none; name it with --label")
    return truth


# --- attacks --------------------------------------------------------------------------------------


def _new_attacks(case: Case, names: Collection[str] | None) -> dict[str, Attack]:
    """Return new attacks, in the order of the registry."""
    for name in names or ():
        ATTACKS.check(name)
    return {name: ATTACKS[name](case) for name in ATTACKS if names is None or name in names}


def _report(subject: str, attacks: Mapping[str, Attack], notes: Sequence[str] = ()) -> AuditReport:
    findings = [
        replace(attack.finding(), attack=name, summary=ATTACKS.summary(name))
        for name, attack in attacks.items()
    ]
    return AuditReport(subject, findings, notes)
