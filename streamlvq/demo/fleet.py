"""Act 2, a fleet of three halls with a press each: its script, its story and its presses.

`python -m streamlvq.demo.fleet URL ...` runs the presses.

The sensors of the halls disagree. How much the pools gain depends on the seed. Over 40 seeds
that had no part in choosing the numbers below (rounds of 200 readings), the mean accuracy went from
.92 to .95 in the north, from .93 to .96 in the south and from .71 to .95 in the west. In three
seeds the north lost .005 by it, in five the south, at most .015; the west never did.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.json import decode

from streamlvq.connect import Link, Outgoing
from streamlvq.demo.act import Script
from streamlvq.demo.messages import (
    FLEET_DEVICE,
    FLEET_STORY_TOPIC,
    ChapterMessage,
    DecisionMessage,
    TruthMessage,
    encode_json,
    fleet_topic,
    reading_messages,
    snapshot_topic,
    source_of,
    status_topic,
)
from streamlvq.demo.processes import (
    DECISIONS_FILE,
    FLEET_FOLDER,
    STATE_FOLDER,
    TICK_SECONDS,
    DemoProcesses,
    fill_template,
    simulator_link,
    simulator_parser,
)
from streamlvq.demo.summary import fleet_summary
from streamlvq.demo.tracker import FleetTracker
from streamlvq.demo.views import draw_fleet, fleet_line
from streamlvq.synth import BEARING_FAULT, ORDINARY, STATES, Machine

if TYPE_CHECKING:
    from streamlvq.fleet import TrustedKeys


FLEET_STORY_SECONDS = 32.0  # of the story at its own pace
LEARNING_SECONDS, JOINING_SECONDS = 7.0, 5.0  # at most; the rest is for the two rounds
LABELS_TO_JOIN = 60  # readings of each node that somebody labels
MIN_ROUND_READINGS = 150  # however short a round is
STAY_READINGS = 8.0  # until a press usually changes its state
TOUR_READINGS = 4.0  # of each state to begin with
FLEET_SEED = 1
PHASE_SEEDS = {"learning": 0, "alone": 1, "joining": 2, "together": 1}  # both rounds are the same
FLEET_STATES = (*ORDINARY, BEARING_FAULT)
HALLS: dict[str, dict[str, float]] = {  # what the sensors of each hall add to the truth
    "north": {},
    "south": {
        "temperature": 9.0,
        "bearing_temperature": 6.0,
        "current": -3.0,
        "pressure": 1.0,
        "sound": 5.0,
    },
    "west": {
        "temperature": -7.0,
        "oil_temperature": 5.0,
        "vibration_x": 0.8,
        "vibration_y": 0.6,
        "current": 4.0,
        "speed": 40.0,
        "sound": -4.0,
    },
}
RARE_STATES: Mapping[str, str] = {"north": "heavy load", "south": "imbalance"}  # only in the tour
UNSEEN_STATES: Mapping[str, str] = {"west": BEARING_FAULT}  # that nobody has ever labelled there

SETTLED_SECONDS = 1.5  # without a new model on any node: all have fused what there is
JOINING_MAX_EXTRA_SECONDS = 30.0  # that the second round waits for the fleet
LAST_DECISIONS_SECONDS = 0.7  # for the last decisions to come
KEY_FILE, TRUST_FILE = "node.key", "trusted-keys"


# --- script ---------------------------------------------------------------------------------------


class FleetScript(Script[FleetTracker]):
    """Presses whose sensors disagree, and nodes that learn from each other nevertheless."""

    def __init__(self) -> None:
        filters = (
            *(fleet_topic("+", kind) for kind in ("decision", "truth")),
            FLEET_STORY_TOPIC,
            snapshot_topic("+"),
            *(status_topic(node) for node in HALLS),
        )
        tracker = FleetTracker(HALLS, UNSEEN_STATES)
        super().__init__(tracker, filters, fleet_line, draw_fleet)

    def title(self, broker: str) -> str:
        return f"streamlvq demo, the fleet: {len(HALLS)} nodes, {broker}"

    def missing(self) -> str:
        names = self.tracker.offline
        return f"the daemon{'s' if len(names) > 1 else ''} of {', '.join(names)}"

    def start_daemons(self, processes: DemoProcesses) -> None:
        keys = create_keys(processes.folder)
        for node in HALLS:
            config = node_config(processes.url, processes.folder, node)
            folder = processes.folder / FLEET_FOLDER / node
            processes.start_daemon(f"the daemon ({node})", config, folder)
        self.tracker.insight.trust(keys)

    def start_simulator(self, processes: DemoProcesses, rate: float, seconds: float | None) -> None:
        processes.start_simulator("the presses", "streamlvq.demo.fleet", rate, seconds)

    def finished(self, seconds: float | None) -> bool:
        """Return whether the story has ended: it may take longer than it should."""
        end = self.tracker.finished
        return end is not None and self.tracker.seconds >= end + LAST_DECISIONS_SECONDS

    def picture_due(self) -> bool:
        return self.finished(None)

    def summary(self) -> str:
        return fleet_summary(self.tracker)


def can_sign() -> bool:
    """Return whether the library that signatures need is installed."""
    return importlib.util.find_spec("cryptography") is not None


def create_keys(folder: Path) -> TrustedKeys:
    """Make a folder with a private key for each node; return the public keys of all."""
    from streamlvq.fleet import PrivateKey, TrustedKeys  # noqa: PLC0415  (needs cryptography)

    trust = TrustedKeys(path=folder / FLEET_FOLDER / TRUST_FILE)
    for node in HALLS:
        own = folder / FLEET_FOLDER / node
        own.mkdir(parents=True)
        key = PrivateKey.new()
        key.save(own / KEY_FILE)
        trust.add(node, key.public)
    trust.save()
    return trust


def node_config(url: str, folder: Path, node: str) -> str:
    """Return the configuration of a node's daemon."""
    own = folder / FLEET_FOLDER / node
    return fill_template(
        "fleet.yaml",
        url=url,
        node=node,
        key=own / KEY_FILE,
        trust=folder / FLEET_FOLDER / TRUST_FILE,
        decisions=own / DECISIONS_FILE,
        state=own / STATE_FOLDER,
        labels=LABELS_TO_JOIN,
    )


# --- story ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FleetPhase:
    """A part of the story, in which every node sends so many readings."""

    name: str
    text: str
    seconds: float
    readings: int

    @property
    def rate(self) -> float:
        """Readings of a node per second."""
        return self.readings / self.seconds

    @property
    def open_end(self) -> bool:
        """Whether it lasts until something has happened; readings go on meanwhile."""
        return self.name == "joining"


def fleet_phases(rate: float, seconds: float | None = None) -> list[FleetPhase]:
    """Return the story, told in about so many seconds.

    Parameters
    ----------
    rate
        Readings of each node per second in the rounds; short rounds have more.
    seconds
        How long it may take; None for its own pace.

    Examples
    --------
    >>> from streamlvq.demo.fleet import fleet_phases

    >>> [(phase.name, phase.seconds, phase.readings) for phase in fleet_phases(20)]
    [('learning', 7.0, 59), ('alone', 10.0, 200), ('joining', 5.0, 100), ('together', 10.0, 200)]

    """
    whole = FLEET_STORY_SECONDS if seconds is None else seconds
    learning = min(LEARNING_SECONDS, whole * LEARNING_SECONDS / FLEET_STORY_SECONDS)
    joining = min(JOINING_SECONDS, whole * JOINING_SECONDS / FLEET_STORY_SECONDS)
    part = (whole - learning - joining) / 2
    round_ = max(MIN_ROUND_READINGS, int(rate * part))
    return [
        # One label less than a node needs to join: the story chooses the moment.
        FleetPhase("learning", _LEARNING_TEXT, learning, LABELS_TO_JOIN - 1),
        FleetPhase("alone", _ALONE_TEXT, part, round_),
        FleetPhase("joining", _JOINING_TEXT, joining, max(3, int(joining * round_ / part))),
        FleetPhase("together", _TOGETHER_TEXT, part, round_),
    ]


_UNSEEN_TEXT = ", ".join(
    f"{node} has never seen a {state}" for node, state in UNSEEN_STATES.items()
)
_LEARNING_TEXT = (
    f"each node learns from {LABELS_TO_JOIN} labelled readings of its own; {_UNSEEN_TEXT}"
)
_ALONE_TEXT = "no labels any more: each node decides alone, with what it has learnt itself"
_JOINING_TEXT = "the nodes share what they have learnt, but none of their readings"
_TOGETHER_TEXT = "the same readings once more: now each node decides with what all of them know"


def make_press(node: str, phase: str, seed: int = FLEET_SEED) -> Machine:
    """Return the press of a node in a phase; the same arguments give the same readings.

    Parameters
    ----------
    node
        One of `HALLS`.
    phase
        While nodes learn, some states are rare, and a press does not get into one that nobody can
        label there. Afterwards all of them are equally likely.
    seed
        Seed of all random numbers.

    """
    learning = phase == "learning"
    rare = RARE_STATES.get(node) if learning else None
    unseen = UNSEEN_STATES.get(node) if learning else None
    states = {
        name: replace(state, seconds=STAY_READINGS, weight=0.0 if name == rare else 1.0)
        for name, state in STATES.items()
    }
    return Machine(
        node,
        seed + PHASE_SEEDS[phase],
        visits=[state for state in FLEET_STATES if state != unseen],
        states=states,
        tour=TOUR_READINGS if learning else STAY_READINGS,
        spread=0.0,
        offset=HALLS[node],
    )


def join_times(phase: FleetPhase) -> Iterator[tuple[float, str]]:
    """Yield when each node gets the label that it needs to join, in seconds of the phase."""
    for n, node in enumerate(HALLS):
        yield n * phase.seconds / (len(HALLS) + 1), node


# --- simulator ------------------------------------------------------------------------------------


class PressSimulator:
    """Turns the readings of one node's press into messages.

    Parameters
    ----------
    node
        One of `HALLS`.

    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._topic = functools.partial(fleet_topic, node)
        self._sequence = 0
        self._phase = ""
        self._sent = 0  # in this phase
        self._machine: Machine | None = None

    def due(self, phase: FleetPhase, seconds: float) -> list[Outgoing]:
        """Return all messages that are due until so many seconds after the phase began."""
        machine = self._begin(phase)
        due = int(seconds * phase.rate)
        count = (due if phase.open_end else min(due, phase.readings)) - self._sent
        self._sent += max(0, count)
        return self._take(machine, count, phase.name == "learning")

    def last_label(self, phase: FleetPhase) -> list[Outgoing]:
        """Return the reading with the last label that the node needs to join."""
        self._begin(phase)
        machine = make_press(self.node, "learning")
        machine.take(LABELS_TO_JOIN - 1)
        return self._take(machine, 1, labelled=True)

    def _begin(self, phase: FleetPhase) -> Machine:
        if self._machine is None or phase.name != self._phase:
            self._phase, self._sent = phase.name, 0
            self._machine = make_press(self.node, phase.name)
        return self._machine

    def _take(self, machine: Machine, count: int, labelled: bool) -> list[Outgoing]:
        if count <= 0:
            return []
        samples = machine.take(count)
        messages: list[Outgoing] = []
        for row, state in zip(samples.rows.tolist(), samples.states, strict=True):
            truth = TruthMessage(FLEET_DEVICE, self._sequence, state, phase=self._phase)
            self._sequence += 1
            messages += reading_messages(self._topic, truth, row, time.time(), labelled)
        return messages


class SettlingCheck:
    """Tells when models of the fleet decide on all nodes and have stopped changing."""

    def __init__(self) -> None:
        self._versions: dict[str, int | None] = dict.fromkeys(HALLS)  # None: its own model
        self._changed = time.monotonic()

    def take(self, node: str, decision: DecisionMessage) -> None:
        """Take a decision of a node into account."""
        version = decision.version if decision.fused else None
        if version != self._versions[node]:
            self._versions[node], self._changed = version, time.monotonic()

    def settled(self) -> bool:
        """Return whether no node is about to get other models."""
        still = time.monotonic() - self._changed
        return still > SETTLED_SECONDS and None not in self._versions.values()


class FleetSimulator:
    """Publishes the story and the readings of all presses."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._presses = {node: PressSimulator(node) for node in HALLS}
        self._models = SettlingCheck()
        self._start = time.monotonic()

    def run(self, phases: Sequence[FleetPhase]) -> None:
        """Play the story from the first phase to the last."""
        for phase in phases:
            self._tell(phase.name, phase.text)
            self._play(phase)
        self._tell("over", "that was the story")

    def _play(self, phase: FleetPhase) -> None:
        waiting = list(join_times(phase)) if phase.open_end else []
        start = time.monotonic()
        seconds = 0.0
        while seconds < phase.seconds or not self._may_end(phase, seconds):
            seconds = time.monotonic() - start
            while waiting and waiting[0][0] <= seconds:
                self._join(phase, waiting.pop(0)[1])
            self._exchange(phase, seconds)

    def _may_end(self, phase: FleetPhase, seconds: float) -> bool:
        late = seconds > phase.seconds + JOINING_MAX_EXTRA_SECONDS
        return not phase.open_end or self._models.settled() or late

    def _exchange(self, phase: FleetPhase, seconds: float) -> None:
        """Publish what is due, and read decisions."""
        presses = self._presses.values()
        self._link.publish(message for press in presses for message in press.due(phase, seconds))
        for message in self._link.read(TICK_SECONDS):
            decision = decode(message.payload, type=DecisionMessage)
            self._models.take(source_of(message.topic), decision)

    def _join(self, phase: FleetPhase, node: str) -> None:
        self._tell("label", f"one more label on {node}: {LABELS_TO_JOIN} are enough to share", node)
        self._link.publish(self._presses[node].last_label(phase))

    def _tell(self, kind: str, text: str, node: str = "") -> None:
        chapter = ChapterMessage(time.monotonic() - self._start, kind, text, node)
        self._link.publish([Outgoing(FLEET_STORY_TOPIC, encode_json(chapter), qos=1)])


def main() -> None:
    options = simulator_parser("The presses of the demo's fleet.").parse_args()
    with simulator_link(options.url, "presses", [fleet_topic("+", "decision")]) as link:
        FleetSimulator(link).run(fleet_phases(options.rate, options.seconds))
        while True:  # until it is stopped: a process that ends by itself counts as failed
            link.read(1.0)


if __name__ == "__main__":
    main()
