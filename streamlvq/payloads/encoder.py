"""From decisions to messages, and messages that were refused to a report about them."""

from __future__ import annotations

import base64
from codecs import getincrementaldecoder
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from streamlvq.arrays import Label, Rows
from streamlvq.config import Config
from streamlvq.connect import Message, Outgoing
from streamlvq.events import Decisions, Refused, label_text
from streamlvq.payloads.routing import TOPIC_CACHE_SIZE, DeviceTopics
from streamlvq.topics import Template, TemplateError

DIGITS = 6  # of probabilities and certainties; more is only longer
MAX_PAYLOAD_BYTES = 16_384  # bytes of a refused payload that are passed on


class Encoder:
    """Turns decisions into messages.

    Probabilities and certainties are rounded to six digits after the point. A threshold that is not
    finite (nothing is certain enough, or nobody says) is null. Classes that the model did not know
    are not among the probabilities.

    With `when: change` only decisions are sent that differ from the last one about that device in
    label, acceptance or reason. What was said last is known to this object alone: after a restart
    one more message is sent for each device.

    Parameters
    ----------
    config
        The section `decisions`, and what the models are for.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.config import Config
    >>> from streamlvq.events import Decisions
    >>> from streamlvq.payloads import Encoder

    >>> decisions = Decisions(
    ...     classes=("ok", "worn"), devices=["pump7"], groups=[""], times=[1700000000.0],
    ...     sequences=[41], truths=[None], codes=np.array([1]), certainties=np.array([0.75]),
    ...     thresholds=np.array([0.5]), accepted=np.array([True]), reasons=[None],
    ...     probabilities=np.array([[0.125, 0.875]]), models=["local"], versions=np.array([3]),
    ...     duplicates=[False], sources=[0],
    ... )
    >>> message = Encoder(Config()).encode(decisions)[0]
    >>> message.topic
    'sensors/pump7/decision'
    >>> print(message.payload.decode())
    {"device":"pump7","label":"worn","accepted":true,"reason":null,"certainty":0.75,...}

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
        self._said: dict[str, tuple[Any, bool, str | None]] = {}

    def _check(self, needed: set[str]) -> None:
        known = {"client_id", *self._device_topics.identity.names}
        if needed - known:
            raise TemplateError(
                f"expected placeholders that readings have ({', '.join(sorted(known))}), got "
                f"{', '.join(sorted(needed - known))} in the topic of decisions"
            )

    def encode(self, decisions: Decisions) -> list[Outgoing]:
        """A message for each decision that is to be said."""
        if self._template is None or not len(decisions):
            return []
        chosen = self._chosen(decisions)
        payloads = encode_decisions(decisions, chosen)
        topics = self._filled(decisions.devices, chosen)
        qos, retain = self._qos, self._retain
        return [Outgoing(t, p, qos, retain) for t, p in zip(topics, payloads, strict=True)]

    def _chosen(self, decisions: Decisions) -> Sequence[int]:
        if self.when == "always":
            return range(len(decisions))
        if self.when == "rejection":
            refused: list[int] = np.flatnonzero(~decisions.accepted).tolist()
            return refused
        states = zip(
            decisions.labels(), decisions.accepted.tolist(), decisions.reasons, strict=True
        )
        pairs = enumerate(zip(decisions.devices, states, decisions.duplicates, strict=True))
        # What comes again is said again: the first time may not have reached anybody.
        return [i for i, (device, state, again) in pairs if self._is_new(device, state) or again]

    def forget(self) -> None:
        """Say the state of every device once more; for when something may have been lost."""
        self._said.clear()

    def _is_new(self, device: str, state: tuple[Any, bool, str | None]) -> bool:
        if self._said.get(device) == state:
            return False
        if device not in self._said and len(self._said) >= TOPIC_CACHE_SIZE:
            del self._said[next(iter(self._said))]
        self._said[device] = state
        return True

    def _filled(self, devices: list[str], chosen: Sequence[int]) -> list[str]:
        """The topic of each chosen decision; the identity of a device says all that is in it."""
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
    """Encode decisions as JSON objects: what is published and what is written to files.

    Parameters
    ----------
    decisions
        The decisions.
    chosen
        Positions of the ones to encode; None for all.

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
    """As `DecisionRecord`; made by position and with any mapping, which is far faster."""

    device: str
    label: Any
    accepted: bool
    reason: str | None
    certainty: float
    threshold: float | None
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
        np.round(np.nan_to_num(decisions.certainties), DIGITS).tolist(),
        _thresholds(decisions.thresholds),
        _probabilities(decisions.classes, decisions.probabilities),
        decisions.times,
        decisions.sequences,
        decisions.models,
        decisions.versions.tolist(),
        decisions.duplicates,
        strict=True,
    )
    return [_Record(*values) for values in columns]


def _thresholds(thresholds: Rows) -> list[float | None]:
    rounded = np.round(thresholds, DIGITS)
    values: list[float | None] = rounded.tolist()
    for i in np.flatnonzero(~np.isfinite(rounded)).tolist():
        values[i] = None
    return values


def _probabilities(classes: tuple[Label, ...], probabilities: Rows) -> list[Any]:
    """A mapping for each row, without classes that were unknown then."""
    rows = np.round(probabilities, DIGITS).tolist()
    names = tuple([label_text(label) for label in classes])
    kind = _mapping(names)
    if kind is not None and not np.isnan(probabilities).any():
        return [kind(*row) for row in rows]
    return [{n: p for n, p in zip(names, row, strict=True) if p == p} for row in rows]


@lru_cache(maxsize=64)
def _mapping(names: tuple[str, ...]) -> Any:
    """A type that is encoded like a dictionary with these keys, but made and encoded faster."""
    if not names or len(set(names)) < len(names):
        return None  # 1 and "1" may both be classes
    fields = [(f"f{i}", float) for i in range(len(names))]
    rename = {f"f{i}": name for i, name in enumerate(names)}
    try:
        return msgspec.defstruct("Probabilities", fields, rename=rename, gc=False)
    except (ValueError, UnicodeError):  # a name that is no key
        return None


def _readable(value: Any) -> Any:
    """The value with question marks for what UTF-8 cannot say."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_readable(key): _readable(inner) for key, inner in value.items()}
    if isinstance(value, msgspec.Struct):
        return _readable(msgspec.to_builtins(value))
    return value


def dead_letter(message: Message, refused: Refused) -> bytes:
    """A report about a message that was refused, as JSON.

    The payload is text if it is UTF-8, otherwise base64 (`encoding` says which); of a long one the
    first 16 KiB are kept, and `size` says how long it was.

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
