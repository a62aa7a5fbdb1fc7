"""The simulated machines, as a process: `python -m streamlvq.demo.machines URL ...`."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Sequence
from types import FrameType
from typing import Any

import msgspec

from streamlvq.connect import Link, Outgoing
from streamlvq.demo.story import SPOT_CHECKS, Story
from streamlvq.demo.wire import (
    CHAPTER,
    Told,
    Truth,
    labels_topic,
    open_link,
    readings_topic,
    truth_topic,
)
from streamlvq.synth import FEATURES, Machine, Samples

TICK = 0.05  # seconds between two looks at what is due
SEED = 1
REMEMBERED = 2000  # readings that a technician can still label
OVERTAKING = 0.3  # seconds
TECHNICIAN = 60  # labels of the past that are given at once
encode = msgspec.json.encode


class Sender:
    """Turns the readings of one machine into messages.

    Parameters
    ----------
    machine
        Whose readings.
    story
        Which of them have a label.

    """

    def __init__(self, machine: Machine, story: Story) -> None:
        self.machine = machine
        self.story = story
        self._sent = 0
        self._chance = random.Random(machine.device)
        self._past: deque[tuple[int, float, str]] = deque(maxlen=REMEMBERED)  # not labelled yet

    def due(self, seconds: float, now: float) -> list[Outgoing]:
        """All that this machine has to say until `seconds` after the start."""
        count = int(seconds * self.story.rate) - self._sent
        if count <= 0:
            return []
        samples = self.machine.take(count)
        messages: list[Outgoing] = []
        for n in range(count):
            messages += self._reading(samples, n, now)
        return messages + self._confirmed(seconds)

    def _reading(self, samples: Samples, n: int, now: float) -> list[Outgoing]:
        """The truth for the view, then the reading for the daemon."""
        device, state = self.machine.device, samples.states[n]
        sequence, self._sent = self._sent, self._sent + 1
        seconds = sequence / self.story.rate
        truth = Truth(device, sequence, state, bool(samples.glitches[n]))
        reading: dict[str, Any] = {"time": round(now, 3), "sequence": sequence}
        if self._has_label(seconds, truth):
            reading["label"] = state
        else:
            self._past.append((sequence, seconds, state))
        values = zip(FEATURES, samples.rows[n].tolist(), strict=True)
        reading.update((name, round(value, 3)) for name, value in values)
        return [
            Outgoing(truth_topic(device), encode(truth)),
            Outgoing(readings_topic(device), encode(reading), qos=1),
        ]

    def _has_label(self, seconds: float, truth: Truth) -> bool:
        """Nobody labels nonsense, and nobody knows a new fault before the technician comes."""
        if truth.glitch or truth.state not in self.machine.visits:
            return False
        return self.story.labels_everything(seconds) or self._chance.random() < SPOT_CHECKS

    def _confirmed(self, seconds: float) -> list[Outgoing]:
        """What the technician, if there is one, labels now: readings of before, on a topic of
        their own."""
        since = self.story.visited(self.machine.device, seconds)
        if since is None:
            return []
        # Brokers keep the order within a topic only: a label shall not overtake its reading.
        old = [past for past in self._past if past[1] < seconds - OVERTAKING]
        for _ in old:
            self._past.popleft()
        seen = [past for past in old if past[1] >= since][-TECHNICIAN:]
        topic = labels_topic(self.machine.device)
        return [
            Outgoing(topic, encode({"sequence": sequence, "label": state}), qos=1)
            for sequence, _, state in seen
        ]


def live(link: Link, story: Story) -> None:
    """Publish what is due, for ever."""
    senders = [Sender(machine, story) for machine in story.machines(SEED)]
    chapters = deque(story.chapters)
    start = time.monotonic()
    while True:
        seconds = time.monotonic() - start
        messages: list[Outgoing] = []
        while chapters and chapters[0].start <= seconds:
            chapter = chapters.popleft()
            told = Told(chapter.start, chapter.kind, chapter.text, chapter.device)
            messages.append(Outgoing(CHAPTER, encode(told)))
        for sender in senders:
            messages += sender.due(seconds, time.time())
        link.publish(messages)
        link.read(TICK)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The machines of the demo.")
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--device", action="append", required=True)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, leave)
    link = open_link(given.url, "machines")
    while not link.connected:
        link.read(TICK)
    try:
        live(link, Story(given.device, given.rate, given.seconds))
    finally:
        link.close()


def leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
