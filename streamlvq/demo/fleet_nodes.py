"""The presses of three halls, as a process: `python -m streamlvq.demo.fleet_nodes URL ...`."""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Iterable, Sequence

import msgspec

from streamlvq.connect import Link, Outgoing
from streamlvq.demo.fleet_story import HALLS, LABELS, Phase, joins, phases, press
from streamlvq.demo.fleet_wire import CHAPTER, DECISIONS, DEVICE, node_of, topic
from streamlvq.demo.machines import TICK, leave
from streamlvq.demo.wire import Said, Told, Truth, open_link
from streamlvq.synth import FEATURES, Machine

SETTLED = 1.5  # seconds in which no node has changed its model: all have fused what there is
PATIENCE = 30.0  # seconds that the second round waits for the fleet
encode, decode = msgspec.json.encode, msgspec.json.decode


class Press:
    """Turns the readings of one node into messages.

    Parameters
    ----------
    node
        The hall it is in.

    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._sequence = 0
        self._phase = ""
        self._sent = 0  # in this phase
        self._machine: Machine | None = None

    def due(self, phase: Phase, seconds: float) -> list[Outgoing]:
        """All that is to be said until so many seconds after the phase began."""
        machine = self._begin(phase)
        due = int(seconds * phase.rate)
        count = (due if phase.open_end else min(due, phase.readings)) - self._sent
        self._sent += max(0, count)
        return self._take(machine, count, phase.name == "learning")

    def last_label(self, phase: Phase) -> list[Outgoing]:
        """The reading whose label makes the node one that has learnt enough to join."""
        self._begin(phase)
        machine = press(self.node, "learning")
        machine.take(LABELS - 1)
        return self._take(machine, 1, labelled=True)

    def _begin(self, phase: Phase) -> Machine:
        if self._machine is None or phase.name != self._phase:
            self._phase, self._sent = phase.name, 0
            self._machine = press(self.node, phase.name)
        return self._machine

    def _take(self, machine: Machine, count: int, labelled: bool) -> list[Outgoing]:
        if count <= 0:
            return []
        samples = machine.take(count)
        messages: list[Outgoing] = []
        for row, state in zip(samples.rows.tolist(), samples.states, strict=True):
            messages += self._reading(row, state, labelled)
        return messages

    def _reading(self, row: Sequence[float], state: str, labelled: bool) -> Iterable[Outgoing]:
        sequence, self._sequence = self._sequence, self._sequence + 1
        truth = Truth(DEVICE, sequence, state, phase=self._phase)
        yield Outgoing(topic(self.node, "truth"), encode(truth))
        reading = {"time": round(time.time(), 3), "sequence": sequence}
        reading.update((name, round(value, 3)) for name, value in zip(FEATURES, row, strict=True))
        label = {"label": state} if labelled else {}
        yield Outgoing(topic(self.node, "readings"), encode({**reading, **label}), qos=1)


class Models:
    """Which model decides on each node, as its decisions tell."""

    def __init__(self) -> None:
        self.versions: dict[str, int | None] = dict.fromkeys(HALLS)  # None: its own
        self._changed = time.monotonic()

    def hear(self, node: str, said: Said) -> None:
        # What a node learns by itself is no news of the fleet.
        version = said.version if said.model == "fused" else None
        if version != self.versions[node]:
            self.versions[node], self._changed = version, time.monotonic()

    def settled(self) -> bool:
        """Whether the fleet decides everywhere, and none of its models is about to change."""
        still = time.monotonic() - self._changed
        return still > SETTLED and None not in self.versions.values()


class Halls:
    """Lives through the story."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.presses = [Press(node) for node in HALLS]
        self.models = Models()
        self._start = time.monotonic()

    def live(self, story: Sequence[Phase]) -> None:
        """From the first phase to the last."""
        for phase in story:
            self._tell(phase.name, phase.text)
            self._through(phase)
        self._tell("over", "that was the story")

    def _through(self, phase: Phase) -> None:
        waiting = list(joins(phase)) if phase.open_end else []
        start = time.monotonic()
        seconds = 0.0
        while seconds < phase.seconds or not self._may_end(phase, seconds):
            seconds = time.monotonic() - start
            while waiting and waiting[0][0] <= seconds:
                self._join(phase, waiting.pop(0)[1])
            self._send(phase, seconds)

    def _may_end(self, phase: Phase, seconds: float) -> bool:
        late = seconds > phase.seconds + PATIENCE
        return not phase.open_end or self.models.settled() or late

    def _send(self, phase: Phase, seconds: float) -> None:
        self.link.publish(message for one in self.presses for message in one.due(phase, seconds))
        for message in self.link.read(TICK):
            self.models.hear(node_of(message.topic), decode(message.payload, type=Said))

    def _join(self, phase: Phase, node: str) -> None:
        text = f"one more label on {node}: {LABELS} are enough to share"
        self._tell("label", text, node)
        for one in self.presses:
            if one.node == node:
                self.link.publish(one.last_label(phase))

    def _tell(self, kind: str, text: str, node: str = "") -> None:
        told = Told(time.monotonic() - self._start, kind, text, node)
        self.link.publish([Outgoing(CHAPTER, encode(told), qos=1)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The presses of the demo's fleet.")
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, leave)
    link = open_link(given.url, "presses", [DECISIONS])
    while not link.connected:
        link.read(TICK)
    try:
        Halls(link).live(phases(given.rate, given.seconds))
        while True:  # until it is ended: who ends by itself is believed to have failed
            link.read(1.0)
    finally:
        link.close()


if __name__ == "__main__":
    main()
