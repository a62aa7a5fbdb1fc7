"""From messages to events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlvq.config import Config
from streamlvq.connect import Message
from streamlvq.events import DedupWindow, Event, LateLabel, Readings, Refused
from streamlvq.payloads.assemble import Batch, finish
from streamlvq.payloads.identity import DEVICE, DeviceTopics
from streamlvq.payloads.keys import stable_hash
from streamlvq.payloads.labels import LabelReader
from streamlvq.payloads.order import in_order
from streamlvq.payloads.reader import Reader, Table
from streamlvq.payloads.routes import (
    FOREIGN,
    NAMELESS,
    READING,
    REMEMBERED,
    UNKNOWN,
    Route,
    Routes,
    Shard,
    group_of,
)
from streamlvq.payloads.values import LONGEST, RefusedError, shorten
from streamlvq.registry import FORMATS


@dataclass(slots=True)
class Decoded:
    """What came of a batch of messages.

    Parameters
    ----------
    events
        Readings and late labels, in the order of the messages.
    refused
        The messages that nothing can be learnt from, in their order.
    skipped
        How many belong to other shards.

    """

    events: list[Event] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    skipped: int = 0


class Decoder:
    """Turns messages into events.

    What comes of a message depends on that message alone, however messages are cut into batches,
    and a bad one does not affect the others. `decode` raises nothing.

    Parameters
    ----------
    config
        Topics, formats and fields; what the models are for; the shard.

    Examples
    --------
    >>> from streamlvq.config import Config
    >>> from streamlvq.connect import Message
    >>> from streamlvq.payloads import Decoder

    >>> decoder = Decoder(Config())
    >>> decoded = decoder.decode([
    ...     Message("sensors/pump7/readings", b'{"x": 1.5, "y": 2}', 1700000000.0),
    ...     Message("sensors/pump8/readings", b'{"x": 0.5, "y": null}', 1700000001.0),
    ...     Message("sensors/pump9/readings", b'{"x": "hot"}', 1700000002.0),
    ... ])
    >>> [(event.features, event.devices) for event in decoded.events]
    [(('x', 'y'), ['pump7']), (('x',), ['pump8'])]
    >>> decoded.refused[0].source, decoded.refused[0].reason
    (2, 'field')

    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._reader: Reader = FORMATS[config.readings.format](config.readings)
        self._reader.most_features = config.model.max_features
        self._topics = DeviceTopics(config)
        self._routes = Routes(config, self._topics)
        identity = self._identity = self._topics.identity
        self._labels = None if config.labels is None else LabelReader(config, identity)
        self._group_of = group_of(config)
        self._shard = Shard(config)
        self._largest = config.broker.max_payload_bytes
        self._hashes: dict[tuple[int, str], int] = {}
        self._identities: dict[tuple[int, str], str] = {}

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """What the messages say."""
        try:
            return self._decode(messages, 0)
        except Exception:  # a defect of ours: find the message that it is about
            return self._one_by_one(messages)

    def _one_by_one(self, messages: Sequence[Message]) -> Decoded:
        decoded = Decoded()
        for i, message in enumerate(messages):
            try:
                one = self._decode([message], i)
            except Exception as error:
                text = f"{type(error).__name__}: {shorten(str(error))}"
                one = Decoded(refused=[Refused(i, "failure", text, type(error).__name__)])
            decoded.events += one.events
            decoded.refused += one.refused
            decoded.skipped += one.skipped
        return decoded

    def _decode(self, messages: Sequence[Message], start: int) -> Decoded:
        decoded = Decoded()
        if not messages:
            return decoded
        topics, payloads, received, redelivered, _ = zip(*messages, strict=True)
        known = self._routes
        batch = Batch(
            range(start, start + len(messages)),
            [known[topic] for topic in topics],
            payloads,
            received,
            redelivered,
        )
        kinds = [route[0] for route in batch.routes]
        if kinds.count(READING) == len(kinds) and max(map(len, payloads)) <= self._largest:
            self._readings(batch, decoded)
        else:
            self._mixed(messages, kinds, batch, decoded)
        decoded.refused.sort()
        return decoded

    def _mixed(
        self, messages: Sequence[Message], kinds: list[int], batch: Batch, decoded: Decoded
    ) -> None:
        run: list[int] = []
        for i, kind in enumerate(kinds):
            if kind == FOREIGN:
                decoded.skipped += 1
            elif kind in (UNKNOWN, NAMELESS) or len(batch.payloads[i]) > self._largest:
                decoded.refused.append(self._refusal(messages[i], kind, batch.sources[i]))
            elif kind == READING:
                run.append(i)
            else:
                label = self._label(batch, i, decoded)
                if label is not None:
                    self._flush(run, batch, decoded)
                    decoded.events.append(label)
        self._flush(run, batch, decoded)

    def _refusal(self, message: Message, kind: int, source: int) -> Refused:
        if kind == UNKNOWN:
            expected = " or ".join(self._topics.templates)
            text = f"expected a topic like {expected}, got {shorten(message.topic)}"
            return Refused(source, "topic", text, "topic")
        if kind == NAMELESS:
            text = (
                f"expected a topic with a device's name, all names of at most {LONGEST} "
                f"characters, got {shorten(message.topic)}"
            )
            return Refused(source, "device", text, "topic")
        size = len(message.payload)
        if size == self._largest + 1:  # links cut after one byte too many: it may have been longer
            text = f"expected at most {self._largest} bytes, got more than {self._largest} bytes"
        else:
            text = f"expected at most {self._largest} bytes, got {size}"
        return Refused(source, "payload", text, "size")

    def _flush(self, run: list[int], batch: Batch, decoded: Decoded) -> None:
        if run:
            self._readings(batch.take(run), decoded)
            run.clear()

    def _label(self, batch: Batch, i: int, decoded: Decoded) -> LateLabel | None:
        assert self._labels is not None
        source = batch.sources[i]
        try:
            label = self._labels.read(batch.payloads[i], batch.routes[i], source)
            if batch.redelivered[i]:
                label = label._replace(dedup_window=DedupWindow.ALL)
        except RefusedError as error:
            decoded.refused.append(error.at(source))
            return None
        if label.device in self._shard:
            return label
        decoded.skipped += 1
        return None

    def _readings(self, batch: Batch, decoded: Decoded) -> None:
        read = self._reader.read(batch.payloads)
        for one in read.refused:
            decoded.refused.append(one._replace(source=batch.sources[one.source]))
        events: list[Readings] = []
        for table in read.tables:
            part = batch
            if len(table.rows) < len(batch.payloads):
                part = batch.take(table.sources)
            if table.devices is None:
                events.append(self._event(table, part))
            else:
                events += self._by_field(table, part, decoded)
        decoded.events += events if len(events) < 2 else in_order(events)

    def _event(self, table: Table, batch: Batch) -> Readings:
        routes = batch.routes
        devices = [route[1] for route in routes]
        groups = [route[2] for route in routes]
        return finish(table, batch, devices, groups, [route[3] for route in routes])

    def _by_field(self, table: Table, batch: Batch, decoded: Decoded) -> list[Readings]:
        """As `_event`, but the payloads say where they come from."""
        assert table.devices is not None
        named = zip(table.devices, batch.routes, strict=True)
        if self._identity.is_plain:
            devices = [name or route[1] for name, route in named]
        else:
            devices = [self._named(name, route) if name else route[1] for name, route in named]
        wanted = self._wanted(devices)
        if not all(wanted.values()):
            kept = self._chosen(devices, wanted, batch, decoded)
            if not kept:
                return []
            table, batch = table.take(kept), batch.take(kept)
            devices = [devices[i] for i in kept]
        routes = batch.routes
        group_of, origins = self._group_of, [route[3] for route in routes]
        placeholders = [route.placeholders for route in routes]
        groups = list(map(group_of, devices, placeholders))
        hashes = origins  # rows of files have no keys, and need none
        if any(origins):
            hashes = list(map(self._hash, devices, origins))
        return [finish(table, batch, devices, groups, hashes)]

    def _named(self, name: str, route: Route) -> str:
        """The identity of a device that the payload names."""
        if not route.placeholders:  # a row of a file
            return name
        key = (route.hash, name)
        found = self._identities.get(key)
        if found is None:
            if len(self._identities) >= REMEMBERED:
                self._identities.clear()
            found = self._identity.join({**route.placeholders, DEVICE: name})
            self._identities[key] = found
        return found

    def _wanted(self, devices: list[str]) -> dict[str, bool]:
        """Whether each of the names is one, and of our shard."""
        return {name: name != "" and name in self._shard for name in set(devices)}

    def _chosen(
        self, devices: list[str], wanted: dict[str, bool], batch: Batch, decoded: Decoded
    ) -> list[int]:
        """The positions of those that are wanted; what becomes of the others is written down."""
        for source, device in zip(batch.sources, devices, strict=True):
            if not device:
                text = f"{self.config.readings.device}: expected a device's name, got nothing"
                decoded.refused.append(Refused(source, "device", text, "field"))
            elif not wanted[device]:
                decoded.skipped += 1
        return [i for i, device in enumerate(devices) if wanted[device]]

    def _hash(self, device: str, origin: int) -> int:
        key = (origin, device)
        found = self._hashes.get(key)
        if found is None:
            if len(self._hashes) >= REMEMBERED:
                self._hashes.clear()
            found = self._hashes[key] = stable_hash(f"{origin} {device}")
        return found
