"""What a node or a hub still waits for before a fleet is of use to it."""

from __future__ import annotations

from collections.abc import Collection

from streamlvq.config import FleetSection
from streamlvq.daemon.fleet_fusing import FEWEST


def node_waits_for(
    section: FleetSection, node: str, samples: int, members: Collection[str], has_model: bool
) -> str | None:
    """What there is to wait for, for people; None: nothing.

    Parameters
    ----------
    section
        The fleet.
    node
        Who we are.
    samples
        What our own model has learnt so far.
    members
        Authors of what is at hand: nodes, or the hub.
    has_model
        Whether the fleet has a model for us.

    Examples
    --------
    >>> section = FleetSection(name="ovens", trust="everyone")
    >>> node_waits_for(section, "a", 3, [], has_model=False)
    'labelled readings: nothing is published before 20 are learnt (fleet.min_samples)'
    >>> node_waits_for(section, "a", 30, ["a"], has_model=False)
    'other nodes: none of them has published anything that we believe'
    >>> node_waits_for(section, "a", 30, ["a", "b"], has_model=True) is None
    True

    """
    if samples < section.min_samples:
        return (
            f"labelled readings: nothing is published before {section.min_samples} are learnt "
            "(fleet.min_samples)"
        )
    if has_model:
        return None
    if section.role == "member":
        return f"a model from the hub {section.hub!r}"
    if not set(members) - {node}:
        return "other nodes: none of them has published anything that we believe"
    return None  # it is being fused, or it is said why not


def hub_waits_for(members: Collection[str]) -> str | None:
    """The same for a hub.

    Examples
    --------
    >>> hub_waits_for(["a"])
    'nodes: 1 of at least 2 has published something that we believe'
    >>> hub_waits_for(["a", "b"]) is None
    True

    """
    if len(members) >= FEWEST:
        return None
    who = f"{len(members) or 'none'} of at least {FEWEST} has"
    return f"nodes: {who} published something that we believe"


__all__ = ["hub_waits_for", "node_waits_for"]
