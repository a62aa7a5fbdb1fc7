"""`Decoder`: from messages to readings, late labels and refusals, in the order of the messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamlvq.config import Config, Fields
from streamlvq.connect import Message
from streamlvq.events import NO_KEY, DedupWindow, DroppedFields, Event, LateLabel, Readings, Refused
from streamlvq.paths import ABSENT, pick
from streamlvq.payloads.reader import Reader, Table
from streamlvq.payloads.routing import (
    DEVICE,
    INVALID_DEVICE,
    NO_ORIGIN,
    OTHER_SHARD,
    READING,
    TOPIC_CACHE_SIZE,
    UNKNOWN,
    DeviceIdentity,
    DeviceTopics,
    Route,
    Routes,
    Shard,
    group_of,
    message_keys,
    stable_hash,
)
from streamlvq.payloads.values import (
    MAX_NAME_CHARACTERS,
    RefusedError,
    shorten,
    to_device,
    to_label,
    to_sequence,
    wrong,
)
from streamlvq.registry import FORMATS

# --- order of messages ---------------------------------------------------------------------------


def merge_by_source(events: list[Readings]) -> list[Readings]:
    """Return readings in the order of their sources, split where others come in between.

    The events differ in their features; each is in the order of its own sources.
    """
    sources = np.concatenate([event.sources for event in events])
    owners = np.repeat(np.arange(len(events)), [len(event) for event in events])
    owners = owners[np.argsort(sources)]
    ends = [*(np.flatnonzero(np.diff(owners)) + 1).tolist(), len(owners)]
    done = [0] * len(events)
    runs: list[Readings] = []
    start = 0
    for end in ends:
        owner = int(owners[start])
        first = done[owner]
        last = done[owner] = first + end - start
        runs.append(_cut(events[owner], first, last))
        start = end
    return runs


def _cut(event: Readings, first: int, last: int) -> Readings:
    """Return a slice; several times faster than `Readings.select` for a few readings."""
    if last - first == len(event):
        return event
    return Readings(
        event.features,
        event.rows[first:last],
        event.devices[first:last],
        event.groups[first:last],
        event.labels[first:last],
        event.times[first:last],
        event.sequences[first:last],
        event.keys[first:last],
        event.dedup_windows[first:last],
        event.sources[first:last],
    )


# --- messages with labels ------------------------------------------------------------------------


class LabelReader:
    """Reader of messages on the label topic.

    `identity` is the one of the readings' topic, because labels are about those devices.
    """

    def __init__(self, config: Config, identity: DeviceIdentity) -> None:
        section = config.labels
        assert section is not None
        fields = Fields(
            format=section.format,
            label=section.label,
            time=section.time,
            time_unit=section.time_unit,
            sequence=section.sequence,
            device=section.device,
        )
        self._reader: Reader = FORMATS[section.format](fields)
        self._identity = identity
        self._group_of = group_of(config)

    def read(self, payload: bytes, route: Route, source: int) -> LateLabel:
        """Return the label in a payload; raise `RefusedError` if there is none."""
        value = self._reader.parse(payload)
        layout = self._reader.layout
        assert layout.label is not None
        found = pick(value, layout.label.path)
        label = to_label(layout.label.name, found)
        if label is None:
            raise wrong(layout.label.name, "a label", found)
        t = sequence = None
        if layout.sequence is not None:
            sequence = to_sequence(layout.sequence.name, pick(value, layout.sequence.path))
        if layout.time is not None:
            t = self._reader.seconds(layout.time.name, pick(value, layout.time.path))
        if sequence is None and t is None:
            names = [f.name for f in (layout.sequence, layout.time) if f is not None]
            text = f"expected {' or '.join(names) or 'a sequence number or a time'} to say which "
            text += f"reading the label is for, got {shorten(value)}"
            raise RefusedError("field", text, "which reading")
        device = self._device(value, route)
        return LateLabel(
            device,
            self._group_of(device, route.placeholders),
            label,
            t,
            sequence,
            source,
            message_keys([stable_hash(f"{route.hash} {device}")], [payload], [sequence], [t])[0],
            DedupWindow.RECENT,  # as it says which reading it is for
        )

    def _device(self, value: object, route: Route) -> str:
        field = self._reader.layout.device
        found = ABSENT if field is None else pick(value, field.path)
        if field is not None and found is not None and found is not ABSENT:
            return self._identity.join({**route.placeholders, DEVICE: to_device(field.name, found)})
        if not route.device:
            name = "the topic" if field is None else field.name
            text = f"{name}: expected a device name, got nothing"
            raise RefusedError("device", text, "label")
        return route.device


# --- columns to readings -------------------------------------------------------------------------


class DecodedBatch(NamedTuple):
    """Columns of consecutive messages."""

    sources: Sequence[int]
    routes: Sequence[Route]
    payloads: Sequence[bytes]
    received: Sequence[float]
    redelivered: Sequence[bool]

    def take(self, positions: Sequence[int]) -> DecodedBatch:
        """Return the messages at these positions."""
        columns: list[Any] = [[column[i] for i in positions] for column in self]
        return DecodedBatch(*columns)


def build_readings(
    table: Table, batch: DecodedBatch, devices: list[str], groups: list[str], hashes: list[int]
) -> Readings:
    """Return the readings in a table that has one row for each message of the batch.

    `hashes` are those of the topic or device of each message; its key is derived from them.
    """
    count = len(devices)
    return Readings(
        table.features,
        table.rows,
        devices,
        groups,
        [None] * count if table.labels is None else list(table.labels),
        _times(table, batch),
        [None] * count if table.sequences is None else list(table.sequences),
        *_keys(table, batch, hashes),
        list(batch.sources),
    )


def _times(table: Table, batch: DecodedBatch) -> list[float | None]:
    """Return the payloads' times, or the time of receipt; a row of a file may have neither."""
    if table.times is not None and None not in table.times:
        return list(table.times)
    received = [moment or None for moment in batch.received]
    if table.times is None:
        return received
    return [r if t is None else t for t, r in zip(table.times, received, strict=True)]


def _keys(table: Table, batch: DecodedBatch, hashes: list[int]) -> tuple[list[int], list[int]]:
    """Return the deduplication keys of readings and their windows."""
    origins = [route[3] for route in batch.routes]
    if not any(origins):  # rows of files cannot be delivered twice
        return [NO_KEY] * len(origins), [DedupWindow.NONE] * len(origins)
    keys = message_keys(hashes, batch.payloads, table.sequences, table.times)
    windows = _dedup_windows(table, batch)
    if NO_ORIGIN in origins:
        for i, origin in enumerate(origins):
            if origin == NO_ORIGIN:
                keys[i], windows[i] = NO_KEY, DedupWindow.NONE
    return keys, windows


def _dedup_windows(table: Table, batch: DecodedBatch) -> list[int]:
    windows = _windows_by_content(table, len(batch.redelivered))
    if any(batch.redelivered):
        pairs = zip(batch.redelivered, windows, strict=True)
        windows = [DedupWindow.ALL if redelivered else window for redelivered, window in pairs]
    return windows


def _windows_by_content(table: Table, count: int) -> list[int]:
    """Return for each message how many recent readings an equal key is compared with.

    A publisher that sends again does so at once; later its counter or clock may have been reset,
    but hardly both. Payloads with both are therefore compared with all remembered readings, which
    also recognises old messages from a broker that was restored from a backup.
    """
    columns = [column for column in (table.sequences, table.times) if column is not None]
    if not columns:
        return [DedupWindow.NONE] * count
    if all(None not in column for column in columns):
        return [(DedupWindow.RECENT, DedupWindow.ALL)[len(columns) - 1]] * count
    choices = (DedupWindow.NONE, DedupWindow.RECENT, DedupWindow.ALL)
    rows = zip(*columns, strict=True)
    return [choices[sum(value is not None for value in row)] for row in rows]


# --- the decoder ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Decoded:
    """Result of decoding a batch: events in message order, refused messages and skipped ones.

    `skipped` counts the messages that belong to other shards, `dropped` the fields that were left
    out of the others.
    """

    events: list[Event] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    skipped: int = 0
    dropped: DroppedFields = field(default_factory=DroppedFields)


class Decoder:
    """Decoder of messages into readings and late labels.

    The result for a message depends on that message alone, however messages are split into batches,
    and a bad message does not affect the others. `decode` never raises.

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
        self._max_bytes = config.broker.max_payload_bytes
        self._hashes: dict[tuple[int, str], int] = {}
        self._identities: dict[tuple[int, str], str] = {}

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Decode messages into events and refusals."""
        try:
            return self._decode(messages, 0)
        except Exception:  # an internal error: find the message that causes it
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
            decoded.dropped.update(one.dropped)
        return decoded

    def _decode(self, messages: Sequence[Message], start: int) -> Decoded:
        decoded = Decoded()
        if not messages:
            return decoded
        topics, payloads, received, redelivered, _ = zip(*messages, strict=True)
        known = self._routes
        batch = DecodedBatch(
            range(start, start + len(messages)),
            [known[topic] for topic in topics],
            payloads,
            received,
            redelivered,
        )
        kinds = [route[0] for route in batch.routes]
        if kinds.count(READING) == len(kinds) and max(map(len, payloads)) <= self._max_bytes:
            self._readings(batch, decoded)
        else:
            self._mixed(messages, kinds, batch, decoded)
        decoded.refused.sort()
        return decoded

    def _mixed(
        self, messages: Sequence[Message], kinds: list[int], batch: DecodedBatch, decoded: Decoded
    ) -> None:
        run: list[int] = []
        for i, kind in enumerate(kinds):
            if kind == OTHER_SHARD:
                decoded.skipped += 1
            elif kind in (UNKNOWN, INVALID_DEVICE) or len(batch.payloads[i]) > self._max_bytes:
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
        if kind == INVALID_DEVICE:
            text = (
                "expected a topic with a device name, and names of at most "
                f"{MAX_NAME_CHARACTERS} "
                f"characters, got {shorten(message.topic)}"
            )
            return Refused(source, "device", text, "topic")
        size = len(message.payload)
        if size == self._max_bytes + 1:  # links truncate there: it may have been longer
            text = (
                f"expected at most {self._max_bytes} bytes, got more than {self._max_bytes} bytes"
            )
        else:
            text = f"expected at most {self._max_bytes} bytes, got {size}"
        return Refused(source, "payload", text, "size")

    def _flush(self, run: list[int], batch: DecodedBatch, decoded: Decoded) -> None:
        if run:
            self._readings(batch.take(run), decoded)
            run.clear()

    def _label(self, batch: DecodedBatch, i: int, decoded: Decoded) -> LateLabel | None:
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

    def _readings(self, batch: DecodedBatch, decoded: Decoded) -> None:
        read = self._reader.read(batch.payloads)
        if read.dropped.counts:
            decoded.dropped.update(read.dropped)
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
                events += self._event_by_field(table, part, decoded)
        decoded.events += events if len(events) < 2 else merge_by_source(events)

    def _event(self, table: Table, batch: DecodedBatch) -> Readings:
        routes = batch.routes
        devices = [route[1] for route in routes]
        groups = [route[2] for route in routes]
        return build_readings(table, batch, devices, groups, [route[3] for route in routes])

    def _event_by_field(
        self, table: Table, batch: DecodedBatch, decoded: Decoded
    ) -> list[Readings]:
        """Return readings whose device is named in the payload; otherwise like `_event`."""
        assert table.devices is not None
        named = zip(table.devices, batch.routes, strict=True)
        if self._identity.is_plain:
            devices = [name or route[1] for name, route in named]
        else:
            devices = [
                self._identity_of(name, route) if name else route[1] for name, route in named
            ]
        wanted = self._in_shard(devices)
        if not all(wanted.values()):
            kept = self._select_wanted(devices, wanted, batch, decoded)
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
        return [build_readings(table, batch, devices, groups, hashes)]

    def _identity_of(self, name: str, route: Route) -> str:
        """Return the identity of a device that the payload names."""
        if not route.placeholders:  # a row of a file
            return name
        key = (route.hash, name)
        found = self._identities.get(key)
        if found is None:
            if len(self._identities) >= TOPIC_CACHE_SIZE:
                self._identities.clear()
            found = self._identity.join({**route.placeholders, DEVICE: name})
            self._identities[key] = found
        return found

    def _in_shard(self, devices: list[str]) -> dict[str, bool]:
        """Return for each device whether it has a name and belongs to this shard."""
        return {name: name != "" and name in self._shard for name in set(devices)}

    def _select_wanted(
        self, devices: list[str], wanted: dict[str, bool], batch: DecodedBatch, decoded: Decoded
    ) -> list[int]:
        """Return the positions of the wanted readings; record the others as refused or skipped."""
        for source, device in zip(batch.sources, devices, strict=True):
            if not device:
                text = f"{self.config.readings.device}: expected a device name, got nothing"
                decoded.refused.append(Refused(source, "device", text, "field"))
            elif not wanted[device]:
                decoded.skipped += 1
        return [i for i, device in enumerate(devices) if wanted[device]]

    def _hash(self, device: str, origin: int) -> int:
        key = (origin, device)
        found = self._hashes.get(key)
        if found is None:
            if len(self._hashes) >= TOPIC_CACHE_SIZE:
                self._hashes.clear()
            found = self._hashes[key] = stable_hash(f"{origin} {device}")
        return found
