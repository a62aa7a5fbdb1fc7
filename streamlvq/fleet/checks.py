"""Checks of the keys and files that a fleet configuration names, before and at the start."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from streamlvq.config import Config, FleetSection, ModelSection, ReadingsSection
from streamlvq.config.check_fleet import EVERYONE
from streamlvq.config.topics import own_name
from streamlvq.errors import MissingExtraError, StreamLVQError
from streamlvq.fleet.keys import KeyFileError, PrivateKey, TrustedKeys

log = logging.getLogger(__name__)

MAX_NAMES_SHOWN = 10


class TrustError(StreamLVQError, ValueError):
    """Keys of a configuration that do not belong together."""


def config_warnings(config: Config) -> list[str]:
    """Return warnings to read before starting a node or hub: files, keys, sections.

    These are not errors: keys may be on another machine, or be trusted only there.

    Examples
    --------
    >>> from streamlvq.config import loads
    >>> config = loads("fleet: {name: ovens, trust: nowhere.keys, key_file: a.key}")
    >>> for text in config_warnings(config):
    ...     print(text)
    fleet.key_file: there is no file 'a.key' here; make it with `streamlvq keys new a.key`
    fleet.trust: there is no file 'nowhere.keys' here; make it with `streamlvq keys trust`

    """
    fleet = config.fleet
    if fleet is None:
        return []
    return [*_hub(config, fleet), *_keys(config, fleet)]


def _hub(config: Config, fleet: FleetSection) -> Iterator[str]:
    if fleet.role != "hub":
        return
    given = {
        "readings": config.readings != ReadingsSection(),
        "labels": config.labels is not None,
        "model": config.model != ModelSection(),
        "integrator": config.integrator is not None,
        "rejector": config.rejector is not None,
    }
    for name in (name for name, is_given in given.items() if is_given):
        yield f"{name}: a hub has no readings and no model of its own, so this changes nothing"


def _keys(config: Config, fleet: FleetSection) -> Iterator[str]:
    public = None
    if fleet.key_file is not None:
        if Path(fleet.key_file).exists():
            try:
                public = PrivateKey.load(fleet.key_file).public
            except (KeyFileError, MissingExtraError, OSError) as error:
                yield f"fleet.key_file: {error}"
        else:
            yield (
                f"fleet.key_file: there is no file {fleet.key_file!r} here; make it with "
                f"`streamlvq keys new {fleet.key_file}`"
            )
    if fleet.trust == EVERYONE:
        return
    if not Path(fleet.trust).exists():
        yield (
            f"fleet.trust: there is no file {fleet.trust!r} here; make it with "
            "`streamlvq keys trust`"
        )
        return
    try:
        trust = TrustedKeys.load(fleet.trust)
    except (KeyFileError, OSError) as error:
        yield f"fleet.trust: {error}"
        return
    yield from _names(config, fleet, trust, public)


def _names(
    config: Config, fleet: FleetSection, trust: TrustedKeys, public: str | None
) -> Iterator[str]:
    """Yield warnings if we or the hub are not among the trusted nodes."""
    own = own_name(config)
    add = f"`streamlvq keys trust {fleet.trust} {own} {public or 'KEY'}"
    if own not in trust:
        yield (
            f"fleet.trust: {fleet.trust} has no key of {own!r}, so nodes that have the same file "
            f"do not believe this one; add it with {add}`"
        )
    elif public is not None and trust[own] != public:
        yield (
            f"fleet.key_file: {fleet.trust} has another key for {own!r} ({trust[own]}) than "
            f"{fleet.key_file} ({public}), and this node will not start; if it has got a new one, "
            f"{add} --replace`"
        )
    if fleet.hub is not None and fleet.hub not in trust:
        yield (
            f"fleet.hub: {fleet.trust} has no key of the hub {fleet.hub!r}, and this node will not "
            "start; add it with `streamlvq keys trust`"
        )
    if not set(trust) - {own, fleet.hub} and fleet.role != "member":
        yield f"fleet.trust: {fleet.trust} has no key of any other node"


def load_trusted_keys(
    section: FleetSection, node: str, key: PrivateKey | None
) -> TrustedKeys | None:
    """Return the trusted keys including our own; None if everyone is trusted."""
    if section.trust == EVERYONE:
        return None
    trust = TrustedKeys.load(section.trust)
    assert key is not None  # the configuration was checked
    own = trust.get(node)
    if own is not None and own != key.public:
        raise TrustError(
            f"fleet.key_file: expected the key that {section.trust} has for {node!r} "
            f"({own}), got {key.public}; if this node has got a new key, write `streamlvq "
            f"keys trust {section.trust} {node} {key.public} --replace`, else give "
            "this node another name"
        )
    if own is None:
        log.warning(
            "%s has no key of %r: nodes that have the same file do not believe us; add ours with "
            "`streamlvq keys trust %s %s %s`",
            section.trust,
            node,
            section.trust,
            node,
            key.public,
        )
    trust.add(node, key.public)
    if section.hub is not None and section.hub not in trust:
        raise TrustError(
            f"fleet.hub: expected a node whose key is in {section.trust}, got {section.hub!r}; "
            "add it with `streamlvq keys trust`"
        )
    return trust


def introduction(section: FleetSection, node: str, trust: TrustedKeys | None) -> str:
    """Return one line for the log that says who we are in a fleet.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone", role="member", hub="site")
    >>> introduction(section, "oven-3", None)
    "fleet 'ovens': member 'oven-3' of the hub 'site', believes everyone"

    """
    hub = "" if section.hub is None else f" of the hub {section.hub!r}"
    if trust is None:
        believes = "everyone"
    else:
        believes = f"{len(trust)} trusted key{'s' * (len(trust) != 1)}, its own among them"
    return f"fleet {section.name!r}: {section.role} {node!r}{hub}, believes {believes}"


def key_changes(before: TrustedKeys | None, after: TrustedKeys | None) -> list[str]:
    """Return the differences between two sets of trusted keys, for the log.

    Examples
    --------
    >>> before, keys = TrustedKeys(), [PrivateKey.new().public for _ in range(2)]
    >>> before.add("camera-1", keys[0])
    >>> key_changes(before, TrustedKeys({"camera-1": keys[1], "camera-4": keys[0]}))
    ['1 new key: camera-4', '1 other key: camera-1']
    >>> key_changes(before, TrustedKeys())
    ['1 key taken away: camera-1']

    """
    old, new = dict(before or {}), dict(after or {})
    found = {
        "{} new key{}": [node for node in new if node not in old],
        "{} other key{}": [node for node in new if old.get(node, new[node]) != new[node]],
        "{} key{} taken away": [node for node in old if node not in new],
    }
    return [
        f"{text.format(len(nodes), 's' * (len(nodes) != 1))}: {_names_of(nodes)}"
        for text, nodes in found.items()
        if nodes
    ]


def _names_of(nodes: list[str]) -> str:
    more = len(nodes) - MAX_NAMES_SHOWN
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(sorted(nodes)[:MAX_NAMES_SHOWN]) + rest
