"""What waits to be sent: messages of QoS 1 in a window, and acknowledgements behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from streamlvq.connect import Outgoing
from streamlvq_connectors.mqtt.stock import StockClient

WINDOW = 100  # messages of QoS 1 on their way; the broker may want fewer


class Outbox:
    """One queue for both, because an acknowledgement must not overtake what was published before.

    Parameters
    ----------
    client
        What sends.
    limit
        Messages kept at most, and messages of QoS 0 that may wait for a slow network.
    """

    def __init__(self, client: StockClient, limit: int) -> None:
        self.client = client
        self.limit = limit
        self.window = WINDOW
        self.published = 0
        self.dropped = 0
        self._queue: deque[Outgoing | list[int]] = deque()
        self._waiting = 0  # messages in the queue

    def __len__(self) -> int:
        """Messages of QoS 1 that the broker has not confirmed yet."""
        return self._waiting + len(self.client.in_flight)

    def send(self, messages: Sequence[Outgoing], connected: bool) -> None:
        """Send at QoS 0 what the network can be expected to take, and drop the rest."""
        room = max(0, self.limit - self.client.unwritten()) if connected else 0
        taken = messages if len(messages) <= room else messages[:room]
        if taken:
            self.client.send(taken)
        self.published += len(taken)
        self.dropped += len(messages) - len(taken)

    def keep(self, message: Outgoing) -> None:
        """Send at QoS 1 when there is room in the window; drop it if too many wait already."""
        if len(self) >= self.limit:
            self.dropped += 1
        else:
            self._queue.append(message)
            self._waiting += 1

    def acknowledge(self, keys: Iterable[int]) -> None:
        """Acknowledge behind everything that waits."""
        if self._queue:
            self._queue.append(list(keys))
        else:
            self.client.confirm(keys)

    def drain(self) -> None:
        """Send what the window has room for; call it only when connected."""
        while self._queue:
            first = self._queue[0]
            if isinstance(first, list):
                self.client.confirm(first)
            elif len(self.client.in_flight) >= self.window or not self.client.send_surely(first):
                return
            else:
                self._waiting -= 1
                self.published += 1
            self._queue.popleft()

    def lose(self, unwritten: int) -> None:
        """The connection is gone: acknowledgements mean nothing now, QoS 0 is lost."""
        self.published -= unwritten
        self.dropped += unwritten
        self._queue = deque(item for item in self._queue if not isinstance(item, list))

    def close(self) -> None:
        """What is still here will not be sent."""
        self.dropped += self._waiting
        self._queue.clear()
        self._waiting = 0
