"""Inbox: messages on the topics of a fleet, on disk before they are acknowledged."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from streamlvq.config import Config, FleetTopics
from streamlvq.config.topics import own_name
from streamlvq.connect import Link, Message, Subscription
from streamlvq.fleet.metrics import FleetMetrics
from streamlvq.fleet.roster import Receipt, Roster
from streamlvq.snapshot import SnapshotFileError

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0  # between two attempts to write to disk
UNSAVED = "unsaved"  # refusal reason of messages that are retried


class Inbox:
    """Inbox that passes the fleet's messages to the roster, or to the owner of the topic.

    A message that cannot be written to disk is retried and acknowledged only afterwards; readings
    continue meanwhile. `check_own_topic` judges messages on topics that only we may write to, and
    returns None for other topics.
    """

    def __init__(
        self,
        topics: FleetTopics,
        roster: Roster,
        check_own_topic: Callable[[str, str, bytes], Receipt | None],
        metrics: FleetMetrics,
    ) -> None:
        self.topics, self.roster, self.metrics = topics, roster, metrics
        self.check_own_topic = check_own_topic
        self._waiting: list[Message] = []
        self._next: float | None = None  # when to retry waiting messages

    def sort(self, messages: Sequence[Message]) -> tuple[Sequence[Message], list[Message]]:
        """Return the messages of others, and those of the fleet."""
        root = f"{self.topics.root}/"
        own = [message for message in messages if message.topic.startswith(root)]
        if not own:
            return messages, own
        return [message for message in messages if not message.topic.startswith(root)], own

    def handle(self, messages: Sequence[Message], link: Link) -> None:
        """Apply messages, and acknowledge those that took effect."""
        receipts = [(message, self._accept_safely(message)) for message in messages]
        for message, receipt in receipts:
            self._report(message, receipt)
        self._settle(receipts, link)

    def _settle(self, receipts: Sequence[tuple[Message, Receipt]], link: Link) -> None:
        waiting = [message for message, receipt in receipts if receipt.reason == UNSAVED]
        self._waiting += waiting
        if waiting:
            self.metrics.problems[UNSAVED] = "the disk does not take what the fleet says"
        elif not self._waiting:
            self.metrics.problems.pop(UNSAVED, None)
        link.acknowledge([message for message, receipt in receipts if receipt.reason != UNSAVED])

    def tend(self, now: float, link: Link) -> None:
        """Retry messages that could not be written."""
        if not self._waiting:
            self._next = None
        elif self._next is None:
            self._next = now + RETRY_SECONDS
        elif now >= self._next:
            self._next = now + RETRY_SECONDS
            waiting, self._waiting = self._waiting, []
            receipts = [(message, self._accept_safely(message)) for message in waiting]
            for message, receipt in receipts:
                if receipt.reason != UNSAVED:  # that was logged before
                    self._report(message, receipt)
            self._settle(receipts, link)

    def drop(self) -> None:
        """Forget waiting messages: the link was replaced, and they will be delivered again."""
        self._waiting.clear()

    def _accept_safely(self, message: Message) -> Receipt:
        """Accept a message; one that triggers an internal error must not come back forever."""
        try:
            return self._accept(message)
        except Exception as error:
            log.error("internal error while processing a fleet message", exc_info=error)
            return Receipt("refused", "failure", f"{type(error).__name__}: {error}")

    def _accept(self, message: Message) -> Receipt:
        place = self.topics.parse(message.topic)
        if place is None:
            return Receipt("refused", "malformed", "expected a topic of a node, got another one")
        receipt = self.check_own_topic(place.kind, place.node, message.payload)
        if receipt is not None:
            return receipt
        if message.payload:
            return self.roster.accept(place.node, message.payload, time.time())
        try:
            left = self.roster.forget(place.node)
        except (SnapshotFileError, OSError) as error:
            return Receipt("refused", UNSAVED, str(error))
        if left:
            log.info("%r left the fleet", place.node)
        return Receipt("new" if left else "same")

    def _report(self, message: Message, receipt: Receipt) -> None:
        self.metrics.count(receipt.status, receipt.reason)
        if receipt.status == "refused":
            log.warning(
                "refused a message of the fleet on %s (%s): %s",
                message.topic,
                receipt.reason,
                receipt.text,
                extra={"alike": receipt.reason},
            )


def fleet_subscriptions(config: Config) -> list[Subscription]:
    """Return the fleet subscriptions of a node or hub; nothing without a fleet.

    A peer needs the snapshots of all nodes. A member needs the model that the hub makes for it, and
    watches its own topic; a hub needs all snapshots, and watches the models it writes.
    """
    if config.fleet is None:
        return []
    topics, name = FleetTopics(config.fleet), own_name(config)
    filters = {
        "peer": [topics.snapshots],
        "hub": [topics.snapshots, topics.models],
        "member": [topics.model(name), topics.snapshot(name)],
    }
    return [Subscription(filter, 1, always_retained=True) for filter in filters[config.fleet.role]]
