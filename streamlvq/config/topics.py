"""Topics of a configuration: those of a fleet, and checks of all of them together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from streamlvq.config.errors import Problem
from streamlvq.config.schema import Config, FleetSection
from streamlvq.text import suggestion
from streamlvq.topics import Template, TemplateError, clean, original

Kind = Literal["snapshot", "model"]
_LEVELS: dict[str, Kind] = {"nodes": "snapshot", "models": "model"}


class FleetTopic(NamedTuple):
    """What a topic of the fleet carries, and the node that it is about."""

    kind: Kind
    node: str


class FleetTopics:
    """The topics of one fleet.

    Examples
    --------

    >>> from streamlvq.config import FleetSection, FleetTopics

    >>> topics = FleetTopics(FleetSection(name="ovens", trust="everyone"))
    >>> topics.snapshot("oven 3"), topics.model("oven 3")
    ('streamlvq/fleet/ovens/nodes/oven%203', 'streamlvq/fleet/ovens/models/oven%203')
    >>> topics.snapshots
    'streamlvq/fleet/ovens/nodes/+'
    >>> topics.parse("streamlvq/fleet/ovens/nodes/oven%203")
    FleetTopic(kind='snapshot', node='oven 3')
    >>> topics.parse("streamlvq/fleet/kilns/nodes/oven%203") is None
    True

    """

    def __init__(self, section: FleetSection) -> None:
        self.root = f"{section.topic_prefix}/fleet/{section.name}"

    @property
    def snapshots(self) -> str:
        """Filter of the topics that nodes publish to."""
        return f"{self.root}/nodes/+"

    @property
    def models(self) -> str:
        """Filter of the topics that the hub publishes to."""
        return f"{self.root}/models/+"

    def snapshot(self, node: str) -> str:
        """Return the topic of a node's own model."""
        return f"{self.root}/nodes/{clean(node)}"

    def model(self, node: str) -> str:
        """Return the topic of the model that the hub made for a node."""
        return f"{self.root}/models/{clean(node)}"

    def parse(self, topic: str) -> FleetTopic | None:
        """Parse a topic; None if it does not belong to the fleet."""
        head, _, node = topic.rpartition("/")
        root, _, level = head.rpartition("/")
        if root != self.root or level not in _LEVELS:
            return None
        return FleetTopic(_LEVELS[level], original(node))


def own_name(config: Config) -> str:
    """Return the name of this node in its fleet."""
    assert config.fleet is not None
    return config.broker.client_id if config.fleet.node is None else config.fleet.node


class _Topic(NamedTuple):
    """A topic of the configuration with the key that names it."""

    key: str
    template: Template

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))


def check_topics(config: Config) -> Iterator[Problem]:
    """Check the topics to subscribe to, those to publish to, and both together."""
    subscribed: list[_Topic] = []
    published: list[_Topic] = []
    yield from _subscribed(config, subscribed)
    readings = [topic.template for topic in subscribed if topic.key == "readings.topic"]
    known = dict.fromkeys((*(readings[0].placeholders if readings else ()), "device"))
    yield from _published(config, list(known), published)
    yield from _shared(subscribed)
    yield from _check_echoes(subscribed, published)


def _subscribed(config: Config, into: list[_Topic]) -> Iterator[Problem]:
    yield from _readings(config, into)
    if config.labels is None:
        return
    label = _parse("labels.topic", config.labels.topic)
    if isinstance(label, Problem):
        yield label
        return
    yield from _check_device(label, config.labels.device)
    known = {"device", *(into[0].template.placeholders if into else label[1].placeholders)}
    yield from _unknown(label, known, "a placeholder of readings.topic")
    yield from _check_same_devices(label, into)
    into.append(label)


def _check_same_devices(label: _Topic, readings: list[_Topic]) -> Iterator[Problem]:
    """Check that labels name every level that identifies a device in readings.topic."""
    for topic in readings:
        given = (*label.template.placeholders, "device")  # which a field may name
        missing = [name for name in topic.template.placeholders if name not in given]
        if missing:
            yield Problem(
                label.path,
                f"expected also {_braces(missing)}, as in readings.topic "
                f"({topic.template.text!r}), to know whose readings labels are for, "
                f"got {label.template.text!r}",
            )


def _readings(config: Config, into: list[_Topic]) -> Iterator[Problem]:
    topic = _parse("readings.topic", config.readings.topic)
    if isinstance(topic, Problem):
        yield topic
        return
    yield from _check_device(topic, config.readings.device)
    if topic.template.levels[0] == "$share":
        yield Problem(
            topic.path,
            "expected no shared subscription: it would deal the readings of one device to "
            "several daemons; use the section 'shard:'",
        )
    into.append(topic)


def _published(config: Config, known: list[str], into: list[_Topic]) -> Iterator[Problem]:
    status, prefix = config.status, config.status.home_assistant
    for key, text, names, which in (
        ("decisions.topic", config.decisions.topic, known, "a placeholder of readings.topic"),
        ("status.topic", status.topic, {"client_id"}, "{client_id}"),
        ("status.dead_letters", status.dead_letters, {"client_id"}, "{client_id}"),
        ("status.home_assistant", prefix, (), "a plain topic, such as homeassistant"),
    ):
        if text is None:
            continue
        topic = _parse(key, text, publish=True)
        if isinstance(topic, Problem):
            yield topic
            continue
        yield from _unknown(topic, names, which)
        into.append(topic)
    yield from _check_devices_apart(config, known)


def _check_devices_apart(config: Config, known: list[str]) -> Iterator[Problem]:
    topic = config.decisions.topic
    missing = [name for name in known if f"{{{name}}}" not in (topic or "")]
    if config.status.home_assistant is not None and missing:
        yield Problem(
            ("status", "home_assistant"),
            f"expected a decisions.topic that holds {_braces(known)}, for Home Assistant to "
            f"listen to, got {topic!r}",
        )
    if config.decisions.retain and topic is not None and missing:
        yield Problem(
            ("decisions", "retain"),
            f"expected {_braces(missing)} in decisions.topic: a broker keeps one message for each "
            f"topic",
        )


def _braces(names: Collection[str]) -> str:
    return " and ".join(f"{{{name}}}" for name in names)


def _parse(key: str, text: str, publish: bool = False) -> _Topic | Problem:
    try:
        return _Topic(key, Template(text, publish))
    except TemplateError as error:
        return Problem(tuple(key.split(".")), str(error))


def _check_device(topic: _Topic, field: str | None) -> Iterator[Problem]:
    section = topic.path[0]
    if "device" not in topic.template.placeholders and field is None:
        yield Problem(
            topic.path,
            f"expected {{device}} as one of the levels, or {section}.device to say which field "
            f"names the device, got {topic.template.text!r}",
        )


def _unknown(topic: _Topic, known: Collection[str], which: str) -> Iterator[Problem]:
    for name in topic.template.placeholders:
        if name not in known:
            near = suggestion(name, sorted(known))
            yield Problem(topic.path, f"expected {which}, got {{{name}}}{near}")


def _shared(subscribed: list[_Topic]) -> Iterator[Problem]:
    if len(subscribed) == 2 and subscribed[0].template.overlaps(subscribed[1].template):
        yield Problem(
            subscribed[1].path,
            f"expected topics that are none of readings.topic ({subscribed[0].template.text!r}), "
            f"got {subscribed[1].template.text!r}",
        )


def _check_echoes(subscribed: list[_Topic], published: list[_Topic]) -> Iterator[Problem]:
    """Check that what the daemon publishes does not come back to it as a reading."""
    for said in published:
        filter_ = said.template
        if said.key == "status.home_assistant":
            filter_ = Template(f"{said.template.text}/#")
        for topic in subscribed:
            if filter_.overlaps(topic.template):
                yield Problem(
                    said.path,
                    f"expected a topic that {topic.key} ({topic.template.text!r}) does not match, "
                    f"got {said.template.text!r}: the daemon would listen to itself",
                )
