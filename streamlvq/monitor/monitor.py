"""Monitor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamlvq.config import Config
from streamlvq.events import Decisions, Event, Refused


@dataclass(slots=True)
class Outcome:
    """What came of an event."""

    decisions: Decisions | None = None  # None for late labels
    refused: list[Refused] = field(default_factory=list)
    learnt: int = 0  # labelled readings, now or late
    duplicates: int = 0


class Monitor:
    """A deterministic step from state and event to next state and outcome.

    It does no input or output and looks at no clock: the same events give the same decisions and
    the same state, bit for bit, however they are cut into batches.
    """

    def __init__(self, config: Config) -> None:
        self.config = config

    def step(self, event: Event) -> Outcome:
        """Decide on readings and learn those that have a label; or learn a late label."""
        raise NotImplementedError

    def compile(self) -> None:
        """Make the kernels ready, so that the first reading need not wait."""
        raise NotImplementedError

    @property
    def devices(self) -> int:
        """Devices that have a window."""
        raise NotImplementedError

    def models(self) -> dict[str, Any]:
        """The classifier (with its wrappers) of each group; "" is the one that all share."""
        raise NotImplementedError

    def checkpoint(self) -> bytes:
        """All that it knows, as a container of `streamlvq.snapshot.container`."""
        raise NotImplementedError

    @classmethod
    def restore(cls, config: Config, checkpoint: bytes) -> Monitor:
        """A monitor that goes on where `checkpoint` was taken; raises `SnapshotError`."""
        raise NotImplementedError
