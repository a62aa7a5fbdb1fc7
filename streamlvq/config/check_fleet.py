"""Checks of the fleet section: names, keys, times and topics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamlvq.config.build import build_model
from streamlvq.config.errors import ConfigError, Problem
from streamlvq.config.schema import PRIVATE_MODEL, Config
from streamlvq.config.topics import FleetTopics, own_name
from streamlvq.topics import Template, TemplateError

EVERYONE = "everyone"
NODE_MAX_CHARACTERS, NODE_MAX_BYTES = 200, 255  # of a node's name, as in snapshots and envelopes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def names(config: Config) -> Iterator[Problem]:
    """Check the names of the fleet, of this node and of the hub."""
    fleet = config.fleet
    if fleet is None:
        return
    if not _NAME.fullmatch(fleet.name):
        yield _wrong(
            "name",
            f"expected 1 to 64 letters, digits, dots, hyphens and underscores, "
            f"got {fleet.name[:80]!r}",
        )
    node = own_name(config)
    if not _is_name(node):
        origin = "" if fleet.node is not None else ", which is broker.client_id"
        yield _wrong("node", f"expected {_NODE}, got {node[:80]!r}{origin}")
    yield from _hub(config)


def _hub(config: Config) -> Iterator[Problem]:
    fleet = config.fleet
    assert fleet is not None
    if fleet.role != "member":
        if fleet.hub is not None:
            why = "fuses by itself" if fleet.role == "peer" else "is the hub, named by fleet.node"
            yield _wrong("hub", f"expected none with role: {fleet.role}, which {why}")
        return
    if fleet.hub is None:
        yield _wrong("hub", "missing; a member needs the name of the hub that it takes models from")
    elif not _is_name(fleet.hub):
        yield _wrong("hub", f"expected {_NODE}, got {fleet.hub[:80]!r}")
    elif fleet.hub == own_name(config):
        yield _wrong("hub", f"expected another name than this node's, got {fleet.hub!r}")


def trust(config: Config) -> Iterator[Problem]:
    """Check the settings of keys without reading the files."""
    fleet = config.fleet
    if fleet is None:
        return
    if not fleet.trust:
        yield _wrong("trust", "expected the file of trusted keys, or everyone, got ''")
    if fleet.key_file == "":
        yield _wrong("key_file", "expected the name of a file, got ''")
    if fleet.trust not in ("", EVERYONE) and fleet.key_file is None:
        yield _wrong(
            "key_file",
            "missing; a node that trusts only keys must also sign (`streamlvq keys new` makes a "
            "key), unless trust is everyone",
        )


def model(config: Config) -> Iterator[Problem]:
    """Check that a node has one model to share."""
    fleet = config.fleet
    if fleet is None or fleet.role == "hub":  # it has none
        return
    if not _is_shareable(config):
        yield Problem(
            ("model", "type"),
            f"expected a model that a fleet can share, got {config.model.type}, which is made of "
            "readings; as a member of an LVQCommittee beside others it stays on its node",
        )
    if config.model.per != "all":
        yield Problem(
            ("model", "per"),
            f"expected all: a node of a fleet shares one model, got {config.model.per!r}; run a "
            f"daemon for each model, or leave the section 'fleet:' out",
        )


def _is_shareable(config: Config) -> bool:
    if config.model.type == PRIVATE_MODEL:
        return True  # its releases are
    try:
        return bool(build_model(config.model).shareable)
    except ConfigError:  # another check says what is wrong with it
        return True


def times(config: Config) -> Iterator[Problem]:
    """Check that no node is left out between two publications."""
    fleet = config.fleet
    if fleet is None:
        return
    for key in ("publish_seconds", "publish_pause_seconds"):
        seconds = getattr(fleet, key)
        if 2 * seconds > fleet.max_age_seconds:
            yield _wrong(
                "max_age_seconds",
                f"expected at least twice {key} ({seconds:g}), got {fleet.max_age_seconds:g}: "
                f"nodes would be left out between two publications",
            )
    if fleet.publish_pause_seconds > fleet.publish_seconds:
        yield _wrong(
            "publish_pause_seconds",
            f"expected at most publish_seconds ({fleet.publish_seconds:g}), "
            f"got {fleet.publish_pause_seconds:g}",
        )


def topics(config: Config) -> Iterator[Problem]:
    """Check that the topics of the fleet are used for nothing else."""
    fleet = config.fleet
    if fleet is None:
        return
    try:
        prefix = Template(fleet.topic_prefix, publish=True)
    except TemplateError as error:
        yield _wrong("topic_prefix", str(error))
        return
    if prefix.placeholders:
        yield _wrong("topic_prefix", f"expected a plain topic, got {fleet.topic_prefix!r}")
        return
    if not _NAME.fullmatch(fleet.name):
        return  # reported elsewhere
    own = FleetTopics(fleet)
    for key, text in _others(config):
        for filter_ in (own.snapshots, own.models):
            yield from _check_apart(key, text, filter_)


def _others(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the other topics with their keys."""
    if config.fleet is not None and config.fleet.role != "hub":  # it has neither
        yield "readings.topic", config.readings.topic
        if config.labels is not None:
            yield "labels.topic", config.labels.topic
        if config.decisions.topic is not None:
            yield "decisions.topic", config.decisions.topic
    for key in ("topic", "dead_letters"):
        if (text := getattr(config.status, key)) is not None:
            yield f"status.{key}", text


def _check_apart(key: str, text: str, filter_: str) -> Iterator[Problem]:
    try:
        overlap = Template(text).overlaps(Template(filter_))
    except TemplateError:
        return  # reported elsewhere
    if overlap:
        yield Problem(
            tuple(key.split(".")),
            f"expected topics that are none of the fleet's ({filter_!r}), got {text!r}",
        )


_NODE = (
    f"a name of 1 to {NODE_MAX_CHARACTERS} printable characters and at most {NODE_MAX_BYTES} bytes"
)


def _is_name(node: str) -> bool:
    fits = 1 <= len(node) <= NODE_MAX_CHARACTERS and node.isprintable()
    return fits and len(node.encode()) <= NODE_MAX_BYTES


def _wrong(key: str, message: str) -> Problem:
    return Problem(("fleet", key), message)
