"""Status of a fleet seen from outside: its members, their age, and their sensor drift."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from streamlvq.config import Config, FleetSection, FleetTopics
from streamlvq.config.check_fleet import EVERYONE
from streamlvq.config.topics import own_name
from streamlvq.connect import Link, Message, Subscription, guest_session, link_for
from streamlvq.errors import StreamLVQError
from streamlvq.fleet.fusion_worker import MIN_NODES, describe_groups, fuse_group
from streamlvq.fleet.keys import PrivateKey, TrustedKeys
from streamlvq.fleet.metrics import PoolRecord, alike
from streamlvq.fleet.pools import is_candidate_name
from streamlvq.fleet.roster import MODEL_MAX_NUMBERS, POOL_MAX_NUMBERS, Member, Roster
from streamlvq.models.pool import LOCAL, MAX_WEIGHTS, UNSEEN
from streamlvq.snapshot.statement import PrivacyStatement
from streamlvq.topics import Template

QUIET_SECONDS = 1.0  # of silence after which all retained messages have arrived
STATUS_MAX_BYTES = 2**20
LOSS_NAMES = ("local", "pool", "all candidates")


class NoFleetError(StreamLVQError, ValueError):
    """Fleet that cannot be looked at."""


class NodeStatus(msgspec.Struct, kw_only=True):
    """One node, and the result of fusing its snapshot."""

    node: str
    age: float  # seconds since it was published
    bytes: int
    samples: int
    counts: dict[str, int]  # samples of each class
    features: int
    drift: float | None = None  # of its sensors, in standard deviations within the classes
    residual: float | None = None  # and after the correction
    shift: dict[str, float] = {}
    gained: tuple[str, ...] = ()  # classes that it has from others
    clipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what of `clipped` no warning says
    left_out: str | None = None
    model_age: float | None = None  # seconds since a hub published a model for it
    hub: str | None = None  # which one
    state: str | None = None  # online or offline, if it says so
    decides: str | None = None  # local, fused or pool, if it says so
    pool: PoolRecord | None = None  # how its pool is weighed and why, if it says so
    privacy: PrivacyStatement | None = None  # what it guarantees, if it is private
    published: dict[str, float] = {}  # weights that suit it, as it tells other nodes


class RefusedMessage(msgspec.Struct):
    """Message that was not accepted."""

    topic: str
    reason: str
    text: str


class FleetStatus(msgspec.Struct, kw_only=True):
    """Fleet as retained at the broker."""

    fleet: str
    min_samples: int = 1  # that a node must learn before it publishes
    nodes: list[NodeStatus] = []
    silent: list[str] = []  # online nodes without an accepted snapshot
    refused: list[RefusedMessage] = []
    drift: str | None = None  # the correction between sensors
    why: str | None = None
    warnings: list[str] = []
    alike: list[list[str]] = []  # clusters of nodes that mean the same; empty if all do
    note: str | None = None  # what only one node claims
    trouble: str | None = None  # why nothing could be fused


def fetch_status(config: Config, seconds: float = 10.0) -> FleetStatus:
    """Return what the broker retains of a fleet; raise `NoFleetError` if it does not answer.

    `config` is that of a node or hub of the fleet; `seconds` is the time to wait for the broker.
    """
    if config.fleet is None:
        raise NoFleetError("expected a configuration with a section 'fleet:', got one without")
    topics = FleetTopics(config.fleet)
    filters = (topics.snapshots, topics.models, status_filter(config))
    wanted = [Subscription(filter, 1) for filter in filters if filter is not None]
    limit = max(config.broker.max_payload_bytes, config.fleet.max_snapshot_bytes)
    broker = guest_session(config.broker, "look", max_payload_bytes=limit)
    link = link_for(broker.url)(broker, wanted)
    try:
        messages = _collect(link, seconds)
    finally:
        link.close()
    return evaluate(config, messages, time.time())


def _collect(link: Link, seconds: float) -> list[Message]:
    """Return all messages until no more arrive."""
    messages: list[Message] = []
    end, last = time.monotonic() + seconds, None
    while last is None or time.monotonic() - last < QUIET_SECONDS:
        if time.monotonic() > end and last is None:
            raise NoFleetError(f"expected an answer from the broker, got none: {link.error}")
        came = link.read(0.1)
        link.acknowledge(came)  # otherwise only one window of messages would arrive
        messages += came
        if came or (last is None and link.connected):
            last = time.monotonic()
    return messages


def evaluate(config: Config, messages: Iterable[Message], now: float) -> FleetStatus:
    """Verify messages and fuse the valid ones, as the nodes do."""
    section = config.fleet
    assert section is not None
    topics, trust = FleetTopics(section), _trust(config, section)
    snapshots, models = _roster(section, trust), _roster(section, trust, config)
    messages = list(messages)
    status = FleetStatus(fleet=section.name, min_samples=section.min_samples)
    for message in messages:
        place = topics.parse(message.topic)
        if place is None or not message.payload:
            continue
        roster = snapshots if place.kind == "snapshot" else models
        receipt = roster.accept(place.node, message.payload, now)
        if receipt.status == "refused":
            refused = RefusedMessage(message.topic, receipt.reason or "", receipt.text)
            status.refused.append(refused)
    members = snapshots.members(now)
    status.nodes = [_node(member, now) for member in members.values()]
    _fuse(section, members, status)
    made, said = models.members(now), parse_presence(config, messages)
    for node in status.nodes:
        if (model := made.get(node.node)) is not None:
            node.model_age, node.hub = now - model.header.created, model.header.author
            known = members[node.node].snapshot.labels
            node.gained = tuple(str(y) for y in model.snapshot.labels if y not in known)
        elif section.role != "peer":  # what it gained is what the hub gave it
            node.gained = ()
        if (presence := said.get(node.node)) is not None:
            node.state, node.decides = presence.state, presence.decides
            node.pool = presence.pool
    status.silent = sorted(
        node
        for node, presence in said.items()
        if presence.state == "online" and presence.role != "hub" and node not in members
    )
    return status


def _trust(config: Config, section: FleetSection) -> TrustedKeys | None:
    """Return the keys that a node trusts, including its own if it is available."""
    if section.trust == EVERYONE:
        return None
    trust = TrustedKeys.load(section.trust)
    own = own_name(config)
    if own not in trust and section.key_file is not None and Path(section.key_file).exists():
        trust.add(own, PrivateKey.load(section.key_file).public)
    return trust


def _roster(
    section: FleetSection, trust: TrustedKeys | None, config: Config | None = None
) -> Roster:
    """Return a roster for snapshots; with a configuration, for models of its hub."""
    hub = None
    if config is not None:
        hub = own_name(config) if section.role == "hub" else section.hub
    return Roster(
        section.name,
        trust,
        limit=section.max_snapshot_bytes,
        max_age_seconds=section.max_age_seconds,
        kind="snapshot" if config is None else "model",
        author=hub,
        max_numbers=MODEL_MAX_NUMBERS if config is None else POOL_MAX_NUMBERS,
    )


def _node(member: Member, now: float) -> NodeStatus:
    snapshot, header = member.snapshot, member.header
    weights = snapshot.pool_weights
    return NodeStatus(
        node=member.node,
        age=max(0.0, now - header.created),
        bytes=header.length,
        samples=snapshot.samples,
        counts={str(label): count for label, count in snapshot.counts.items()},
        features=len(snapshot.features),
        privacy=snapshot.privacy,
        published={} if weights is None else _known(weights.named()),
    )


def _known(weights: dict[str, float]) -> dict[str, float]:
    """Return the weights of candidates that there are: strangers choose their names."""
    wanted = {n: w for n, w in weights.items() if n in (LOCAL, UNSEEN) or is_candidate_name(n)}
    return dict(list(wanted.items())[:MAX_WEIGHTS])


def _fuse(section: FleetSection, members: dict[str, Member], status: FleetStatus) -> None:
    """Fuse the largest group of compatible models."""
    from streamlvq.fusion import FusionError  # noqa: PLC0415
    from streamlvq.fusion.node_models import group_compatible  # noqa: PLC0415
    from streamlvq.fusion.report import unprotected_note  # noqa: PLC0415

    groups = group_compatible(member.snapshot for member in members.values())
    status.warnings = describe_groups(groups)
    if not groups or len(groups[0]) < MIN_NODES:
        return
    try:
        report = fuse_group(section, groups[0]).report
    except FusionError as error:
        status.trouble = str(error)
        return
    status.drift, status.why = report.drift, report.why
    status.warnings = [*report.warnings, *status.warnings]
    status.alike, status.note = alike(report), unprotected_note(report) or None
    for node in status.nodes:
        if (told := report.nodes.get(node.node)) is not None:
            node.drift, node.residual, node.shift = told.drift, told.residual, dict(told.shift)
            node.gained, node.left_out = told.gained, told.left_out
            node.clipped = tuple(map(str, told.clipped))
            node.notes = tuple(str(each) for each in told.clipped if not each.excluded)


# --- what nodes say of themselves ----------------------------------------------------------------
# Status messages are not signed: they are for people to read, and nothing else depends on them.


class Presence(NamedTuple):
    """Status message of a node."""

    state: Literal["online", "offline"]
    decides: Literal["local", "fused", "pool"] | None = None  # None if not reported
    role: str = "peer"
    pool: PoolRecord | None = None


class _SaidFleet(msgspec.Struct):
    name: str
    node: str
    role: str = "peer"
    serving: Literal["local", "fused", "pool"] = "local"
    pool: PoolRecord | None = None


class _SaidStatus(msgspec.Struct):
    state: Literal["online", "offline"]
    fleet: _SaidFleet | None = None


def status_filter(config: Config) -> str | None:
    """Return the topic filter of the nodes' status messages; None if they publish none.

    Examples
    --------
    >>> status_filter(Config())
    'streamlvq/+/status'

    """
    return None if config.status.topic is None else Template(config.status.topic).filter


def parse_presence(config: Config, messages: Iterable[Message]) -> dict[str, Presence]:
    """Return the last status message of each node of the fleet, by name."""
    if config.status.topic is None or config.fleet is None:
        return {}
    template, found = Template(config.status.topic), dict[str, Presence]()
    for message in messages:
        if template.match(message.topic) is None or len(message.payload) > STATUS_MAX_BYTES:
            continue
        try:
            status = msgspec.json.decode(message.payload, type=_SaidStatus)
        except msgspec.DecodeError:
            continue  # a message in another format
        if (said := status.fleet) is None or said.name != config.fleet.name:
            continue
        decides = said.serving if status.state == "online" and said.role != "hub" else None
        pool = None if said.pool is None or decides != "pool" else _plausible(said.pool)
        found[said.node] = Presence(status.state, decides, said.role, pool)
    return found


def _plausible(pool: PoolRecord) -> PoolRecord:
    """Return what a status message says of a pool, as far as there are such candidates."""
    return msgspec.structs.replace(
        pool,
        weights=_known(pool.weights),
        losses={name: pool.losses[name] for name in LOSS_NAMES if name in pool.losses},
        dropped=[name for name in pool.dropped if is_candidate_name(name)][:MAX_WEIGHTS],
    )
