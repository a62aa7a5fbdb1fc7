"""Publisher: decisions to topics and files, refusals to dead letters, devices to Home Assistant."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import msgspec

import streamlvq
from streamlvq.config import Config
from streamlvq.connect import Message, Outgoing
from streamlvq.events import DroppedFields, Refused
from streamlvq.payloads import Encoder, dead_letter
from streamlvq.payloads.routing import DeviceIdentity, DeviceTopics
from streamlvq.service.logs import MESSAGE_BURST
from streamlvq.service.metrics import ServiceMetrics
from streamlvq.service.processor import BatchResult
from streamlvq.service.session import own_topic
from streamlvq.snapshot.files import FILE_MODE
from streamlvq.topics import Template

log = logging.getLogger(__name__)

P = ParamSpec("P")

MAX_LABEL_WARNINGS = 3  # about labels that belong to no reading; later ones are debug messages
MAX_NAMED_FIELDS = 100  # in the log, of those left out
FILE_CHECK_SECONDS = 5.0  # between two checks whether the file was moved away
MAX_ANNOUNCED_DEVICES = 1000  # so that made-up names cannot fill the broker with retained messages
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")


class Publisher:
    """Publisher of batch results: messages, lines of the decision file, and counts."""

    def __init__(self, config: Config, metrics: ServiceMetrics) -> None:
        section = config.decisions
        self.metrics = metrics
        self.file = None if section.file is None else DecisionFile(Path(section.file))
        if self.file is not None:
            self.file.check()
        self.discovery = HomeAssistantDiscovery(config)
        self.dead_letters = own_topic(config.status.dead_letters, config)
        self._unmatched_labels = 0
        self._named_fields: set[str] = set()  # left out and logged
        self._field_lines = 0
        self._publishes = section.topic is not None
        self._encoder = Encoder(_with_topic(config) if section.file is not None else config)
        self._next_check = 0.0

    def messages(self, result: BatchResult, messages: Sequence[Message]) -> list[Outgoing]:
        """Return the messages about a batch, whose decisions are in the file by then.

        Never raises: an internal error costs only the output that it prevents, and is counted and
        logged.
        """
        self._count(result)
        outgoing: list[Outgoing] = []
        for decisions in result.decisions:
            outgoing += self._safely("decisions", self._encoder.encode, decisions)
        if self.file is not None:
            self._safely("lines of decisions.file", self._write, outgoing)
        if not self._publishes:
            outgoing = []
        if self.discovery.active:
            outgoing += self._safely("announcements", self._new_devices, result)
        if result.refused:
            outgoing += self._safely("dead letters", self._letters, result.refused, messages)
        return outgoing

    def _count(self, result: BatchResult) -> None:
        metrics = self.metrics
        for decisions in result.decisions:
            metrics.count_decisions(decisions)
        metrics.count_refused(result.refused)
        metrics.learnt_count += result.learnt
        if result.duplicates:  # seldom, and counting nothing costs as much as counting something
            metrics.duplicates.inc(result.duplicates)
        if result.skipped:
            metrics.skipped.inc(result.skipped)
        if result.held:
            metrics.held.inc(result.held)
        if result.dropped.counts:
            self._count_dropped(result.dropped)

    def _count_dropped(self, dropped: DroppedFields) -> None:
        """Count fields that were left out, and name each one once."""
        for reason, times in dropped.counts.items():
            self.metrics.dropped_fields.labels(reason).inc(times)
        room = MAX_NAMED_FIELDS - len(self._named_fields)
        fresh = [name for name in dropped.examples if name not in self._named_fields][:room]
        self._named_fields.update(fresh)
        for on_probation, why in (
            (False, "are not numbers"),
            (True, "have come too rarely so far"),
        ):
            some = [
                f"{name} ({value})"
                for name, (reason, value) in dropped.examples.items()
                if name in fresh and (reason == "probation") == on_probation
            ]
            if some:
                self._field_lines += 1
                more = "; further ones are only counted" if len(fresh) == room else ""
                log.warning(
                    "left out fields that %s (streamlvq_dropped_fields_total): %s%s",
                    why,
                    ", ".join(some),
                    more,
                    # Each line has other names: the limit on repeated messages must not hide them.
                    extra={"alike": ("dropped", self._field_lines // MESSAGE_BURST)},
                )

    def _safely(
        self, what: str, make: Callable[P, Iterable[Outgoing]], *args: P.args, **kwargs: P.kwargs
    ) -> list[Outgoing]:
        """Return what `make` returns, or nothing if it raises.

        The messages have taken effect already. If the service stopped here, the broker would
        deliver them again after the next start, and it would stop again, forever.
        """
        try:
            return list(make(*args, **kwargs))
        except Exception as error:
            self.metrics.publish_failures.inc()
            log.error(
                "internal error: the %s of a batch is lost, please report it", what, exc_info=error
            )
            return []

    def _write(self, outgoing: Sequence[Outgoing]) -> tuple[()]:
        assert self.file is not None
        if lost := self.file.write([each.payload for each in outgoing]):
            self.metrics.file_failures.inc(lost)
        return ()

    def announcements(self) -> Iterator[Outgoing]:
        """Return what to send after every connect; earlier messages may not have arrived."""
        self._encoder.forget()
        return iter(self._safely("announcements", self.discovery.all_devices))

    def tend(self, now: float) -> None:
        """Check from time to time whether the file was moved away."""
        if self.file is not None and now >= self._next_check:
            self._next_check = now + FILE_CHECK_SECONDS
            self.file.close_if_moved()

    @property
    def file_error(self) -> str | None:
        """Reason why decisions cannot be written to the file; None if they can."""
        return None if self.file is None else self.file.error

    def close(self) -> None:
        """Close the file."""
        if self.file is not None:
            self.file.close()

    def _new_devices(self, result: BatchResult) -> Iterator[Outgoing]:
        for decisions in result.decisions:
            yield from self.discovery.announce(decisions.devices)

    def _letters(self, refused: Sequence[Refused], messages: Sequence[Message]) -> list[Outgoing]:
        for each in refused:
            self._log(messages[each.source].topic, each)
        if self.dead_letters is None:
            return []
        return [
            Outgoing(self.dead_letters, dead_letter(messages[each.source], each))
            for each in refused
        ]

    def _log(self, topic: str, refused: Refused) -> None:
        log.log(
            self._level(refused),
            "refused a message on %s (%s): %s",
            topic,
            refused.reason,
            refused.text,
            # Rate-limited by what is wrong: an old problem must not hide a new one.
            extra={"alike": (refused.reason, refused.about)},
        )

    def _level(self, refused: Refused) -> int:
        """Return the log level: unmatched labels may come by the thousand, so few are warnings."""
        if refused.reason != "label":
            return logging.WARNING
        self._unmatched_labels += 1
        if self._unmatched_labels == MAX_LABEL_WARNINGS:
            log.warning(
                "labels that belong to no reading are from now on only counted (streamlvq_refused_"
                "total), dead-lettered, and logged with logging.level: debug"
            )
        warn = self._unmatched_labels <= MAX_LABEL_WARNINGS
        return logging.WARNING if warn else logging.DEBUG


def _with_topic(config: Config) -> Config:
    """Return a configuration that encodes decisions even if they only go to the file."""
    if config.decisions.topic is not None:
        return config
    section = msgspec.structs.replace(config.decisions, topic="decisions")
    return msgspec.structs.replace(config, decisions=section)


# --- decisions in a file --------------------------------------------------------------------------


class DecisionFile:
    r"""File of JSON lines, reopened when it has been moved away (logrotate).

    A file that cannot be written loses decisions, not readings: that is logged and counted, and the
    service continues.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "out" / "decisions.jsonl"
    >>> file = DecisionFile(path)
    >>> file.write([b'{"label":"ok"}', b'{"label":"hot"}'])
    0
    >>> path.read_text()
    '{"label":"ok"}\n{"label":"hot"}\n'

    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: str | None = None
        self._file: int | None = None
        self._torn = False  # part of a line may have been written

    def write(self, lines: list[bytes]) -> int:
        """Append the lines; return how many of them were lost."""
        if not lines:
            return 0
        try:
            file = self._open()
            data = (b"\n" if self._torn else b"") + b"\n".join(lines) + b"\n"
            self._torn = True
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
        except OSError as error:
            self.error = f"{self.path}: {error.strerror}"
            log.error("%d decisions could not be written to %s", len(lines), self.error)
            return len(lines)
        self._torn, self.error = False, None
        return 0

    def check(self) -> None:
        """Open the file before there is anything to write, to find a problem early."""
        try:
            self._open()
        except OSError as error:
            self.error = f"{self.path}: {error.strerror}"
            log.error("decisions cannot be written to %s (decisions.file)", self.error)
        else:
            self.error = None

    def close_if_moved(self) -> None:
        """Close the file if it was moved away or deleted; the next line starts a new one."""
        if self._file is None:
            return
        try:
            if os.path.samestat(os.stat(self.path), os.fstat(self._file)):
                return
        except FileNotFoundError:
            pass
        except OSError as error:
            log.warning("cannot check whether %s was moved away: %s", self.path, error)
            return
        self.close()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._torn = None, False

    def _open(self) -> int:
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self.path, flags, FILE_MODE)
            self._torn = not _ends_line(self._file)
        return self._file


def _ends_line(file: int) -> bool:
    """Return whether a file is empty or ends with a complete line; a crash may have cut it."""
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


# --- Home Assistant -------------------------------------------------------------------------------


class HomeAssistantDiscovery:
    """Home Assistant announcements: two sensors for each device, label and certainty.

    `status.home_assistant` is the topic prefix; without it nothing is announced.

    Examples
    --------
    >>> from streamlvq.config import StatusSection
    >>> config = Config(status=StatusSection(home_assistant="homeassistant"))
    >>> discovery = HomeAssistantDiscovery(config)
    >>> [message.topic for message in discovery.announce(["oven"])]
    ['homeassistant/sensor/streamlvq/oven_label/config',
     'homeassistant/sensor/streamlvq/oven_certainty/config']
    >>> list(discovery.announce(["oven"]))  # once is enough
    []

    """

    def __init__(self, config: Config) -> None:
        self.prefix = config.status.home_assistant
        self._node = safe_name(config.broker.client_id)
        self._availability = own_topic(config.status.topic, config)
        self._topics = DeviceTopics(config)
        self._decisions = _topic_per_device(config.decisions.topic, self._topics.identity)
        self._announced: dict[str, None] = {}

    @property
    def active(self) -> bool:
        """Whether devices are announced."""
        return self.prefix is not None and self._decisions is not None

    def announce(self, devices: Iterable[str]) -> Iterator[Outgoing]:
        """Yield messages about the devices that are new."""
        if not self.active:
            return
        for device in devices:
            if device not in self._announced and len(self._announced) < MAX_ANNOUNCED_DEVICES:
                messages = list(self._messages(device))
                self._announced[device] = None  # only now: one that fails would fail again
                yield from messages

    def all_devices(self) -> Iterator[Outgoing]:
        """Yield the messages about all devices again: the broker may have lost them."""
        for device in self._announced:
            yield from self._messages(device)

    def _messages(self, device: str) -> Iterator[Outgoing]:
        yield self._sensor(
            device,
            "label",
            {"value_template": "{{ value_json.label }}", "icon": "mdi:state-machine"},
        )
        yield self._sensor(
            device,
            "certainty",
            {
                "value_template": "{{ (value_json.certainty * 100) | round(1) }}",
                "unit_of_measurement": "%",
                "state_class": "measurement",
            },
        )

    def _sensor(self, device: str, what: str, more: dict[str, Any]) -> Outgoing:
        assert self._decisions is not None
        name, topic = safe_name(device), self._topics.fill(self._decisions, device)
        record = {
            "name": what,
            "unique_id": f"{self._node}_{name}_{what}",
            "state_topic": topic,
            "json_attributes_topic": topic,
            "device": {
                "identifiers": [f"{self._node}_{name}"],
                "name": device.encode(errors="replace").decode(),
                "manufacturer": "streamlvq",
                "sw_version": streamlvq.__version__,
            },
            **self._availability_fields(),
            **more,
        }
        place = f"{self.prefix}/sensor/{self._node}/{name}_{what}/config"
        return Outgoing(place, msgspec.json.encode(record), retain=True)

    def _availability_fields(self) -> dict[str, str]:
        if self._availability is None:
            return {}
        return {
            "availability_topic": self._availability,
            "availability_template": "{{ value_json.state }}",
            "payload_available": "online",
            "payload_not_available": "offline",
        }


def safe_name(name: str) -> str:
    """Return a name of letters, digits, _ and -; distinct names stay distinct.

    Examples
    --------
    >>> safe_name("oven-1"), safe_name("oven 1")
    ('oven-1', 'oven_1_b0433192')

    """
    plain = _UNSAFE.sub("_", name)[:64]
    if plain == name:
        return name
    whole = name.encode(errors="surrogatepass")  # lone surrogates are a difference, too
    return f"{plain}_{hashlib.blake2b(whole, digest_size=4).hexdigest()}"


def _topic_per_device(topic: str | None, identity: DeviceIdentity) -> Template | None:
    """Return the decisions' topic if it depends on nothing but a device's identity."""
    template = None if topic is None else Template(topic, publish=True)
    if template is None or not set(template.placeholders) <= set(identity.names):
        return None
    return template
