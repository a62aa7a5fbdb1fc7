"""What speaks against a configuration of a fleet that is good as far as one can read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamlvq.config import Config, FleetSection, ModelSection, ReadingsSection
from streamlvq.config.check_fleet import EVERYONE
from streamlvq.config.fleet_topics import own_name
from streamlvq.errors import MissingExtraError
from streamlvq.fleet.errors import KeyFileError
from streamlvq.fleet.keys import PrivateKey
from streamlvq.fleet.trusted import TrustedKeys


def doubts(config: Config) -> list[str]:
    """What to look at before a node or hub is started, for people: files, keys, sections.

    These are doubts and no errors: keys may be on another machine, or be trusted only there.

    Examples
    --------
    >>> from streamlvq.config import loads
    >>> for doubt in doubts(loads("fleet: {name: ovens, trust: nowhere.keys, key_file: a.key}")):
    ...     print(doubt)
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
    """Whether we and the hub are among those who are trusted."""
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


__all__ = ["doubts"]
