"""What the journal holds has its effect again, each message as it was meant when it came."""

from __future__ import annotations

import logging
import time
from collections import Counter as Tally
from collections.abc import Callable

from streamlvq.config import Config
from streamlvq.daemon.decodings import Decodings
from streamlvq.daemon.intake import Intake
from streamlvq.daemon.journal import Journal
from streamlvq.monitor import Monitor, OtherModelError
from streamlvq.payloads import Decoder
from streamlvq.role import changed_keys
from streamlvq.snapshot import Snapshot, SnapshotError

log = logging.getLogger(__name__)

PROGRESS = 5.0  # seconds between two lines about a long journal


class Replay:
    """Takes a monitor through the journal, and counts.

    Parameters
    ----------
    journal, decodings
        The messages, and how they are to be understood.
    config
        What to go on with afterwards.
    still_alive
        Hears now and then how far it is.
    """

    def __init__(
        self,
        journal: Journal,
        decodings: Decodings,
        config: Config,
        still_alive: Callable[[str], None],
    ) -> None:
        self.journal, self.decodings, self.config = journal, decodings, config
        self.still_alive = still_alive
        self.count = 0
        self.seconds = 0.0
        self.refused: Tally[str] = Tally()
        self.others = False  # whether some were decoded with another configuration

    def run(self, intake: Intake, position: int) -> Intake:
        """Take all batches from `position` on; what goes on with the configuration of now."""
        begin = said = time.monotonic()
        end: int | None = position
        for at, messages in self.journal.replay(position):
            if end is not None and at >= end:
                intake = self._turn(intake, self.decodings.at(at, self.config))
                end = self.decodings.end(at)
                self._announce(intake.decoder.config)
            self.refused.update(each.reason for each in intake.take(messages).refused)
            self.count += len(messages)
            if time.monotonic() - said > PROGRESS:
                said = time.monotonic()
                self.still_alive(f"batch {at - position + 1} of {self.journal.next - position}")
        intake = self._turn(intake, self.config)
        self.seconds = time.monotonic() - begin
        return intake

    def _announce(self, then: Config) -> None:
        if names := changed_keys(then, self.config):
            self.others = True
            log.info(
                "the journal holds messages from before %s changed: they are decoded as then",
                ", ".join(names),
            )

    def _turn(self, intake: Intake, config: Config) -> Intake:
        """The same knowledge with another configuration."""
        if config == intake.decoder.config:
            return intake
        try:
            data = intake.monitor.checkpoint()
            monitor = Monitor.restore(config, data, beginning(config))
        except (SnapshotError, OtherModelError) as error:
            raise SnapshotError(
                "expected a configuration that can go on with what the journal holds, got one that "
                f"cannot: {error}. Go back to the former one, or give this one another state.folder"
            ) from error
        return Intake(Decoder(config), monitor, intake.acquaintance)


def beginning(config: Config) -> Snapshot | None:
    """What models begin with, if the configuration names something."""
    if config.model.start is None:
        return None
    try:
        return Snapshot.load(config.model.start)
    except FileNotFoundError as error:
        raise SnapshotError(
            f"model.start: expected a snapshot, got no such file: {config.model.start!r}"
        ) from error


__all__ = ["Replay", "beginning"]
