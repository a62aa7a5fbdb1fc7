"""Encoders of decisions, of reports about refused messages, and of readings."""

from __future__ import annotations

import base64
import math
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.config import Config, Fields
from streamlvq.connect import Message, Outgoing
from streamlvq.errors import StreamLVQError
from streamlvq.events import Decisions, Readings, Refused, label_text
from streamlvq.paths import parse_path
from streamlvq.payloads.routing import TOPIC_CACHE_SIZE, DeviceTopics
from streamlvq.payloads.values import UNITS_PER_SECOND
from streamlvq.topics import Template, TemplateError

DIGITS = 6  # of probabilities and certainties; more is only longer
MAX_PAYLOAD_BYTES = 16_384  # bytes of a refused payload that are passed on


class Encoder:
    """Encoder of decisions into messages.

    Probabilities, certainties and novelties are rounded to six decimal places. A threshold that is
    not finite (nothing is certain enough, or there is none) becomes null. Classes that the model
    did not know yet are left out of the probabilities.

    With `when: change`, only decisions are sent whose label, acceptance or reason differs from the
    previous decision for that device. The previous decisions are kept in this object only: after a
    restart each device gets one extra message.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Config
    >>> from streamlvq.events import Decisions
    >>> from streamlvq.payloads import Encoder

    >>> decisions = Decisions(
    ...     classes=("ok", "worn"), devices=["pump7"], groups=[""], times=[1700000000.0],
    ...     sequences=[41], true_labels=[None], codes=np.array([1]), certainties=np.array([0.75]),
    ...     thresholds=np.array([0.5]), accepted=np.array([True]), reasons=[None],
    ...     novelties=np.array([0.25]), outliers_by=[None],
    ...     probabilities=np.array([[0.125, 0.875]]), models=["local"], versions=np.array([3]),
    ...     duplicates=[False], sources=[0],
    ... )
    >>> message = Encoder(Config()).encode(decisions)[0]
    >>> message.topic
    'sensors/pump7/decision'
    >>> print(message.payload.decode())
    {"device":"pump7","label":"worn","accepted":true,"reason":null,"outlier_by":null,...}

    """

    def __init__(self, config: Config) -> None:
        section = config.decisions
        self.when = section.when
        self._qos, self._retain = section.qos, section.retain
        self._template = None if section.topic is None else Template(section.topic, publish=True)
        self._device_topics = DeviceTopics(config)
        self._client = config.broker.client_id
        self._check(set(self._template.placeholders if self._template else ()))
        self._topics: dict[str, str] = {}
        self._last_sent: dict[str, tuple[Any, bool, str | None]] = {}

    def _check(self, needed: set[str]) -> None:
        known = {"client_id", *self._device_topics.identity.names}
        if needed - known:
            raise TemplateError(
                f"expected placeholders of readings.topic ({', '.join(sorted(known))}), got "
                f"{', '.join(sorted(needed - known))} in the topic of decisions"
            )

    def encode(self, decisions: Decisions) -> list[Outgoing]:
        """Return a message for each decision that is to be published."""
        if self._template is None or not len(decisions):
            return []
        chosen = self._select(decisions)
        payloads = encode_decisions(decisions, chosen)
        topics = self._topics_of(decisions.devices, chosen)
        qos, retain = self._qos, self._retain
        return [Outgoing(t, p, qos, retain) for t, p in zip(topics, payloads, strict=True)]

    def _select(self, decisions: Decisions) -> Sequence[int]:
        if self.when == "always":
            return range(len(decisions))
        if self.when == "rejection":
            refused: list[int] = np.flatnonzero(~decisions.accepted).tolist()
            return refused
        states = zip(
            decisions.labels(), decisions.accepted.tolist(), decisions.reasons, strict=True
        )
        pairs = enumerate(zip(decisions.devices, states, decisions.duplicates, strict=True))
        # Repeat decisions on duplicates: the first copy may not have reached anybody.
        return [i for i, (device, state, dup) in pairs if self._is_new(device, state) or dup]

    def forget(self) -> None:
        """Publish the state of every device once more, as messages may have been lost."""
        self._last_sent.clear()

    def _is_new(self, device: str, state: tuple[Any, bool, str | None]) -> bool:
        if self._last_sent.get(device) == state:
            return False
        if device not in self._last_sent and len(self._last_sent) >= TOPIC_CACHE_SIZE:
            del self._last_sent[next(iter(self._last_sent))]
        self._last_sent[device] = state
        return True

    def _topics_of(self, devices: list[str], chosen: Sequence[int]) -> list[str]:
        """Return the topic of each chosen decision, filled in from the device identity."""
        wanted = devices if len(chosen) == len(devices) else [devices[i] for i in chosen]
        known = self._topics
        return [known.get(device) or self._fill(device) for device in wanted]

    def _fill(self, device: str) -> str:
        assert self._template is not None
        if len(self._topics) >= TOPIC_CACHE_SIZE:
            self._topics.clear()
        topic = self._device_topics.fill(self._template, device, client_id=self._client)
        self._topics[device] = topic
        return topic


_encode = msgspec.json.Encoder(enc_hook=str).encode


def encode_decisions(decisions: Decisions, chosen: Sequence[int] | None = None) -> list[bytes]:
    """Encode decisions as JSON objects, as published and as written to files.

    `chosen` are the positions to encode; None for all.
    """
    records = _records(decisions)
    if chosen is not None and len(chosen) < len(records):
        records = [records[i] for i in chosen]
    try:
        return list(map(_encode, records))
    except UnicodeEncodeError:
        return list(map(_encode_readable, records))


def _encode_readable(record: _Record) -> bytes:
    try:
        return _encode(record)
    except UnicodeEncodeError:  # a name from a file that was not UTF-8
        return _encode(_readable(msgspec.structs.asdict(record)))


class _Record(msgspec.Struct, gc=False):
    """Positional twin of `DecisionRecord` that takes any mapping, which is much faster."""

    device: str
    label: Any
    accepted: bool
    reason: str | None
    outlier_by: str | None
    certainty: float
    threshold: float | None
    novelty: float | None
    probabilities: Any
    t: float | None
    sequence: int | None
    model: str
    version: int
    duplicate: bool


def _records(decisions: Decisions) -> list[_Record]:
    columns = zip(
        decisions.devices,
        decisions.labels(),
        decisions.accepted.tolist(),
        decisions.reasons,
        decisions.outliers_by,
        np.round(np.nan_to_num(decisions.certainties), DIGITS).tolist(),
        _rounded(decisions.thresholds),
        _rounded(decisions.novelties),
        _probabilities(decisions.classes, decisions.probabilities),
        decisions.times,
        decisions.sequences,
        decisions.models,
        decisions.versions.tolist(),
        decisions.duplicates,
        strict=True,
    )
    return [_Record(*values) for values in columns]


def _rounded(numbers: Rows) -> list[float | None]:
    """Return numbers as they are written, None for those that are not finite."""
    rounded = np.round(numbers, DIGITS)
    values: list[float | None] = rounded.tolist()
    for i in np.flatnonzero(~np.isfinite(rounded)).tolist():
        values[i] = None
    return values


def _probabilities(classes: tuple[Label, ...], probabilities: Rows) -> list[Any]:
    """Return a mapping for each row, without the classes that were unknown at the time."""
    rows = np.round(probabilities, DIGITS).tolist()
    names = tuple([label_text(label) for label in classes])
    kind = _mapping(names)
    if kind is not None and not np.isnan(probabilities).any():
        return [kind(*row) for row in rows]
    return [{n: p for n, p in zip(names, row, strict=True) if p == p} for row in rows]


@lru_cache(maxsize=64)
def _mapping(names: tuple[str, ...]) -> Any:
    """Return a type that encodes like a dict with these keys, but is built and encoded faster."""
    if not names or len(set(names)) < len(names):
        return None  # 1 and "1" may both be classes
    fields = [(f"f{i}", float) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    try:
        return msgspec.defstruct("Probabilities", fields, rename=rename, gc=False)
    except (ValueError, UnicodeError):  # a name that cannot be a key
        return None


def _readable(value: Any) -> Any:
    """Return the text with question marks for what UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(inner) for key, inner in value.items()}
    if isinstance(value, msgspec.Struct):
        return _readable(msgspec.to_builtins(value))
    return value


def dead_letter(message: Message, refused: Refused) -> bytes:
    """Return a JSON report about a refused message.

    The payload is included as text if it is valid UTF-8, otherwise as base64 (`encoding` says
    which). Only the first 16 KiB are kept; `size` is the full length.

    Examples
    --------
    >>> from streamlvq.connect import Message
    >>> from streamlvq.events import Refused
    >>> from streamlvq.payloads import dead_letter
    >>> message = Message("sensors/pump7/readings", b"oops", 1700000000.0)
    >>> print(dead_letter(message, Refused(0, "payload", "expected a JSON object")).decode())
    {"reason":"payload","text":"expected a JSON object",...,"encoding":"utf-8","payload":"oops"}

    """
    kept = bytes(message.payload[:MAX_PAYLOAD_BYTES])
    whole = len(kept) == len(message.payload)  # otherwise the last character may be cut
    try:
        encoding, text = "utf-8", getincrementaldecoder("utf-8")().decode(kept, whole)
    except UnicodeDecodeError:
        encoding, text = "base64", base64.b64encode(kept).decode()
    letter = {
        "reason": refused.reason,
        "text": refused.text,
        "topic": message.topic,
        "received": message.received,
        "redelivered": message.redelivered,
        "size": len(message.payload),
        "encoding": encoding,
        "payload": text,
    }
    return msgspec.json.encode(_readable(letter))


class ReadingEncoder:
    """Encoder of rows into payloads that decode to the same readings.

    Examples
    --------

    >>> from streamlvq.config import Fields
    >>> from streamlvq.events import Readings
    >>> from streamlvq.payloads.encoder import ReadingEncoder
    >>> readings = Readings.of(["motor.rpm", "t"], [[900.0, 21.5]], labels=["ok"], times=[12.5])
    >>> ReadingEncoder(Fields(label="state", time="at", time_unit="ms")).encode(readings)
    [b'{"motor":{"rpm":900.0},"t":21.5,"state":"ok","at":12500}']

    """

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        if fields.format in ("json_array", "float32") and not fields.columns:
            raise StreamLVQError(f"readings.columns: {fields.format} needs them, got none")
        writers: dict[str, Callable[[dict[str, Any]], bytes]] = {
            "json": lambda values: msgspec.json.encode(_nested(values)),
            "msgpack": lambda values: msgspec.msgpack.encode(_nested(values)),
            "json_array": lambda values: msgspec.json.encode(self._in_columns(values)),
            "float32": self._packed,
        }
        if fields.format not in writers:
            raise StreamLVQError(
                f"readings.format: expected {', '.join(writers)} to publish rows, "
                f"got {fields.format!r}, which can only be read"
            )
        self._finish = writers[fields.format]

    def encode(self, readings: Readings) -> list[bytes]:
        """Return a payload for each row."""
        return [self._finish(self._values(readings, k)) for k in range(len(readings))]

    def _values(self, readings: Readings, k: int) -> dict[str, Any]:
        values: dict[str, Any] = {
            name: value
            for name, value in zip(readings.features, readings.rows[k].tolist(), strict=True)
            if not math.isnan(value)  # missing is said by saying nothing
        }
        fields = self.fields
        for name, value in (
            (fields.label, readings.labels[k]),
            (fields.time, self._time(readings.times[k])),
            (fields.sequence, readings.sequences[k]),
            (fields.device, readings.devices[k]),
        ):
            if name is not None and value is not None:
                values[name] = value
        return values

    def _time(self, t: float | None) -> Any:
        if t is None:
            return None
        if self.fields.time_unit == "iso":
            return datetime.fromtimestamp(t, UTC).isoformat()
        if self.fields.time_unit == "s":
            return t
        return round(
            Fraction(t) * UNITS_PER_SECOND[self.fields.time_unit]
        )  # floats would round twice

    def _in_columns(self, values: dict[str, Any]) -> list[Any]:
        return [values.get(name) for name in self.fields.columns or ()]

    def _packed(self, values: dict[str, Any]) -> bytes:
        numbers = [values.get(name, math.nan) for name in self.fields.columns or ()]
        try:
            return np.array(numbers, dtype="<f4").tobytes()
        except (TypeError, ValueError) as error:
            raise StreamLVQError(f"float32: expected numbers only, got {numbers!r}") from error


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    """Return names such as `motor.rpm` as nested objects."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *way, last = parse_path(name)
        place = out
        for step in way:
            place = place.setdefault(step, {})
        place[last] = value
    return out
