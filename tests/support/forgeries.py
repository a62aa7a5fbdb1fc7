"""Envelopes that nobody may accept, for tests and for `benchmarks/fleet_fuzz.py`.

Each forgery knows the reasons for which it may be refused. Some are lies told from the outside, by
somebody who has no key; others are told by a node itself, with a signature and a checksum that fit.
"""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import streamlvq
from streamlvq.fleet import Header, PrivateKey, Receipt, Roster, TrustedKeys, seal
from streamlvq.fleet.envelope import (
    CONTEXT,
    ENVELOPE_HEADER_MAX_BYTES,
    MAGIC,
    NUMBER_MAX,
    VERSION,
    parse_envelope,
)
from streamlvq.snapshot import Snapshot, container, decode, encode
from support.samples import blobs, taught

FLEET, NOW, MAX_AGE = "plant", 1_800_000_000.0, 3600.0
LIMIT = 200_000
SIZES = {"buffer_size": 30, "rehearsal": 3}
MODELS: dict[str, Callable[[], Any]] = {
    "camera 1": lambda: streamlvq.GLVQ(**SIZES),
    "camera 2": lambda: streamlvq.GMLVQ(**SIZES),
    "kiln/3": lambda: streamlvq.LGMLVQ(rank=2, **SIZES),
    "ofen ü": lambda: streamlvq.PairwiseLVQ(**SIZES),
    "press": lambda: streamlvq.RelSimRejector(
        streamlvq.TimeIntegrator(streamlvq.GRLVQ(**SIZES), window=3), target_rate=0.2, memory=20
    ),
}
WITH_GAPS = ("w", "buffer_x")  # NaN has a meaning there

Envelope = tuple[str, bytes]  # the node in the topic, and what came
Content = tuple[dict[str, Any], dict[str, Any]]  # arrays and metadata of a snapshot


@dataclass
class World:
    """A fleet with something genuine from each node, and a random generator to spoil it with."""

    random: random.Random
    keys: dict[str, PrivateKey] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)
    payloads: dict[str, bytes] = field(default_factory=dict)
    sequence: int = 10
    sent: list[Envelope] = field(default_factory=list)

    @classmethod
    def new(cls, seed: int) -> World:
        world = cls(random.Random(seed))
        X, y = blobs(60)
        for node, make in MODELS.items():
            snapshot = Snapshot.of(taught(make(), X, y.tolist()), node, readings=False)
            world.keys[node] = PrivateKey.new()
            world.payloads[node] = snapshot.to_bytes()
            world.contents[node] = decode(world.payloads[node])
        return world

    @property
    def trust(self) -> TrustedKeys:
        return TrustedKeys({node: key.public for node, key in self.keys.items()})

    def node(self) -> str:
        return self.random.choice(list(self.keys))

    def header(self, node: str, **other: Any) -> Header:
        """A good header, with a number that is higher than all before."""
        self.sequence += 1
        good = Header(FLEET, node, "snapshot", 5, self.sequence, NOW)
        return replace(good, **{"author": node} | other) if other else good

    def genuine(self, node: str) -> Envelope:
        """Something that must be accepted."""
        return node, seal(self.payloads[node], self.header(node), self.keys[node])

    def sealed(self, node: str, payload: bytes, **other: Any) -> Envelope:
        """Whatever it is, signed as it should be."""
        return node, seal(payload, self.header(node, **other), self.keys[node])

    def some(self, data: bytes) -> int:
        """A place in the data."""
        return self.random.randrange(len(data))

    def noise(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randrange(most))

    def flipped(self, data: bytes, begin: int = 0) -> bytes:
        """A few bits are not what they were."""
        spoilt = bytearray(data)
        for place in self.random.sample(range(begin, len(data)), self.random.randint(1, 8)):
            spoilt[place] ^= 1 << self.random.randrange(8)
        return bytes(spoilt)


# --- from the outside -----------------------------------------------------------------------------


def noise(world: World) -> Envelope:
    return world.node(), world.noise(300)


def noise_in_an_envelope(world: World) -> Envelope:
    start = struct.pack(
        ">7sBH", MAGIC, VERSION, world.random.randrange(ENVELOPE_HEADER_MAX_BYTES + 50)
    )
    return world.node(), start + world.noise(1500)


def flipped_bits(world: World) -> Envelope:
    """Anywhere, but more often before the payload, which is most of it."""
    node, data = world.genuine(world.node())
    head = len(data) - len(world.payloads[node]) if world.random.random() < 0.8 else len(data)
    return node, world.flipped(data[:head]) + data[head:]


def flipped_payload(world: World) -> Envelope:
    node, data = world.genuine(world.node())
    return node, world.flipped(data, begin=len(data) - len(world.payloads[node]))


def truncated(world: World) -> Envelope:
    node, data = world.genuine(world.node())
    return node, data[: world.some(data)]


def extended(world: World) -> Envelope:
    node, data = world.genuine(world.node())
    return node, data + world.noise(300) + b"."


def oversized(world: World) -> Envelope:
    node, data = world.genuine(world.node())
    return node, data + bytes(LIMIT - len(data) + world.random.randint(1, 1000))


def claims_to_be_oversized(world: World) -> Envelope:
    length = world.random.randint(LIMIT + 1, NUMBER_MAX)
    return raw(world, world.node(), {"length": length})


def another_version(world: World) -> Envelope:
    node, data = world.genuine(world.node())
    version = world.random.choice([0, *range(2, 256)])
    return node, data[: len(MAGIC)] + bytes([version]) + data[len(MAGIC) + 1 :]


def another_payload(world: World) -> Envelope:
    """The head of one envelope, the content of another one of the same length."""
    node, data = world.genuine(world.node())
    length = len(world.payloads[node])
    return node, data[:-length] + world.random.randbytes(length)


def another_signature(world: World) -> Envelope:
    """A signature that the node made, but under something else."""
    node = world.node()
    (_, first), (_, second) = world.genuine(node), world.genuine(node)
    signature = parse_envelope(first, limit=LIMIT).signature
    return node, second.replace(parse_envelope(second, limit=LIMIT).signature, signature)


def foreign_key(world: World) -> Envelope:
    node = world.node()
    return node, seal(world.payloads[node], world.header(node), PrivateKey.new())


def colleagues_key(world: World) -> Envelope:
    """One trusted node writes in the name of another."""
    node, other = world.random.sample(list(world.keys), 2)
    return node, seal(world.payloads[node], world.header(node), world.keys[other])


def unknown_node(world: World) -> Envelope:
    node = f"stranger {world.random.randrange(10**9)}"
    return node, seal(world.payloads["camera 1"], world.header(node), PrivateKey.new())


def unsigned(world: World) -> Envelope:
    node = world.node()
    return node, seal(world.payloads[node], world.header(node), None)


def replayed(world: World) -> Envelope:
    """What was sent before what is known now."""
    return world.random.choice([each for each in world.sent if each not in _latest(world)])


def _latest(world: World) -> list[Envelope]:
    return list({node: (node, data) for node, data in world.sent}.values())


def number_used_twice(world: World) -> Envelope:
    node, data = world.random.choice(_latest(world))
    header = replace(parse_envelope(data, limit=LIMIT).header, created=NOW - 1.0)
    return node, seal(world.payloads[node], header, world.keys[node])


def lower_number(world: World) -> Envelope:
    node = world.node()
    epoch = world.random.randrange(5)
    sequence = world.random.randrange(NUMBER_MAX)
    return world.sealed(node, world.payloads[node], epoch=epoch, sequence=sequence)


def from_the_past(world: World) -> Envelope:
    node = world.node()
    created = NOW - MAX_AGE - world.random.uniform(1.0, 1e9)
    return world.sealed(node, world.payloads[node], created=created)


def from_the_future(world: World) -> Envelope:
    node = world.node()
    return world.sealed(node, world.payloads[node], created=NOW + world.random.uniform(301, 1e9))


def another_fleet(world: World) -> Envelope:
    node = world.node()
    return world.sealed(node, world.payloads[node], fleet=world.random.choice(["Plant", "pl", "x"]))


def another_kind(world: World) -> Envelope:
    node = world.node()
    return world.sealed(node, world.payloads[node], kind="model")


def another_topic(world: World) -> Envelope:
    node, other = world.random.sample(list(world.keys), 2)
    return other, world.genuine(node)[1]


def another_author(world: World) -> Envelope:
    """A trusted node speaks, openly, about another one."""
    node, author = world.random.sample(list(world.keys), 2)
    header = world.header(node, author=author)
    return node, seal(world.payloads[node], header, world.keys[author])


# --- headers that are signed, but make no sense ---------------------------------------------------


def raw(world: World, node: str, values: dict[str, Any], names: list[bytes] | None = None) -> Any:
    """An envelope with a header that `Header` would refuse to write."""
    header = world.header(node)
    world.sequence += 1
    numbers: dict[str, Any] = {
        "kind": 1,
        "epoch": header.epoch,
        "sequence": header.sequence,
        "created": header.created,
        "length": 4,
        "digest": bytes(32),
    }
    written = struct.pack(">BQQdQ32s", *(numbers | values).values())
    for name in names or [FLEET.encode(), node.encode(), node.encode()]:
        written += struct.pack(">H", len(name)) + name
    signature = world.keys[node].sign(CONTEXT + written)
    start = struct.pack(">7sBH", MAGIC, VERSION, len(written))
    return node, start + written + bytes([64]) + signature + b"data"


def senseless_number(world: World) -> Envelope:
    lies = [
        {"kind": world.random.choice([0, *range(3, 256)])},
        {"epoch": world.random.randint(NUMBER_MAX + 1, 2**64 - 1)},
        {"sequence": world.random.randint(NUMBER_MAX + 1, 2**64 - 1)},
        {"created": world.random.choice([np.nan, np.inf, -np.inf, -1.0, 1e300, 253_402_300_800.0])},
    ]
    return raw(world, world.node(), world.random.choice(lies))


def senseless_name(world: World) -> Envelope:
    node = world.node()
    lies = [
        b"",
        b"\xff\xfe",
        b"line\nbreak",
        b"x" * 201,
        "ü".encode() * 128,
        b"\xed\xa0\x80",
        b"\0",
    ]
    names = [FLEET.encode(), node.encode(), node.encode()]
    names[world.random.randrange(3)] = world.random.choice(lies)
    if world.random.random() < 0.2:
        names.append(b"more")
    return raw(world, node, {}, names)


# --- from the inside: signed by the node itself ---------------------------------------------------


def told(world: World, lie: Callable[[World, Content], None]) -> Envelope:
    """Something that the node says of its own, with a checksum and a signature that fit."""
    node = world.node()
    arrays, metadata = world.contents[node]
    content = (
        {name: array.copy() for name, array in arrays.items()},
        json.loads(json.dumps(metadata)),
    )
    lie(world, content)
    return world.sealed(node, encode(*content))


def _model(metadata: dict[str, Any]) -> dict[str, Any]:
    """What is said about the model inside all wrappers."""
    meta: dict[str, Any] = metadata["classifier"]
    while "classifier" in meta:
        meta = meta["classifier"]
    return meta


def _floats(content: Content) -> list[str]:
    names = [name for name, array in content[0].items() if array.dtype == np.float64 and array.size]
    return [name for name in names if name.rpartition("/")[2] not in WITH_GAPS]


def nan_filled(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        array = content[0][world.random.choice(_floats(content))]
        if world.random.random() < 0.5:
            array[...] = np.nan
        else:
            array.reshape(-1)[world.random.randrange(array.size)] = np.nan

    return told(world, lie)


def infinite(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        array = content[0][world.random.choice(_floats(content))]
        value = world.random.choice([np.inf, -np.inf])
        array.reshape(-1)[world.random.randrange(array.size)] = value

    return told(world, lie)


def wrong_shape(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        arrays = content[0]
        name = world.random.choice(sorted(arrays))
        array = arrays[name]
        arrays[name] = world.random.choice(
            [
                array[..., None],
                np.concatenate([array, array]),
                array[:-1],
                array.reshape(-1)[: array.size - 1],
                np.zeros(array.size + 1),
            ]
        )

    return told(world, lie)


def wrong_type(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        arrays = content[0]
        name = world.random.choice(sorted(arrays))
        other = np.int64 if arrays[name].dtype == np.float64 else np.float64
        arrays[name] = np.ones_like(arrays[name], world.random.choice([other, np.uint8]))

    return told(world, lie)


def missing_array(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        del content[0][world.random.choice(sorted(content[0]))]

    return told(world, lie)


def unknown_array(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        content[0][f"more{world.random.randrange(100)}"] = np.zeros(3)

    return told(world, lie)


def lying_number(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        memory = _model(content[1])["memory"]
        name = world.random.choice(["slots", "prototypes", "classes"])
        memory[name] = world.random.choice(
            [-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, 1.5, "9", None]
        )

    return told(world, lie)


def lying_metadata(world: World) -> Envelope:
    def lie(world: World, content: Content) -> None:
        metadata, model = content[1], _model(content[1])
        world.random.choice(
            [
                lambda: model.update(type=world.random.choice(["SVM", "", 7, None, "os.system"])),
                lambda: model.update(more=1),
                lambda: model.update(labels=model["labels"][:-1]),
                lambda: model.update(labels=model["labels"][:1] * len(model["labels"])),
                lambda: model.update(features=[*model["features"], ["str", "f99"]]),
                lambda: model.update(features=[["list", []]] * len(model["features"])),
                lambda: model["parameters"].update(step_size=float("1e400")),
                lambda: model["parameters"].update(more=1),
                model["parameters"].clear,
                lambda: metadata.update(created=world.random.choice([1e300, "now", -1e300])),
                lambda: metadata.update(readings=7),
                lambda: metadata.update(more=None),
                lambda: metadata.pop("classifier"),
                lambda: metadata.update(classifier=_nested(world.random.randint(3, 200), model)),
            ]
        )()

    return told(world, lie)


def _nested(depth: int, model: dict[str, Any]) -> dict[str, Any]:
    for _ in range(depth):
        model = {"type": "TimeIntegrator", "parameters": {}, "classifier": model, "memory": None}
    return model


def asks_for_memory(world: World) -> Envelope:
    """A few bytes that describe gigabytes."""

    def lie(world: World, content: Content) -> None:
        model = _model(content[1])
        size = world.random.randint(30_000_000, 100_000_000)
        model["parameters"]["buffer_size"] = model["memory"]["buffer"] = size

    return told(world, lie)


def snapshot_of_another(world: World) -> Envelope:
    node, other = world.random.sample(list(world.keys), 2)
    return world.sealed(node, world.payloads[other])


def another_schema(world: World) -> Envelope:
    node = world.node()
    now = container.SCHEMA_VERSION
    schema = world.random.choice([0, now - 1, now + 1, -1, 10**9, str(now), None])
    with mock.patch.object(container, "SCHEMA_VERSION", json.dumps(schema)):
        return world.sealed(node, encode(*world.contents[node]))


def another_file(world: World) -> Envelope:
    """A file of ours, but of another kind."""
    node = world.node()
    return world.sealed(node, encode(*world.contents[node], kind="checkpoint"))


def spoilt_snapshot(world: World) -> Envelope:
    """Damaged before it was signed."""
    node = world.node()
    payload = world.payloads[node]
    spoilt = world.random.choice(
        [
            world.flipped(payload),
            payload[: world.some(payload)],
            payload + b".",
            world.noise(3000),
            b"",
            b"{" * 1000,
            struct.pack("<Q", 2**63) + payload[8:],
            struct.pack("<Q", 40_000) + b"[" * 40_000,
        ]
    )
    return world.sealed(node, spoilt)


OUTSIDE: dict[Callable[[World], Envelope], set[str]] = {
    noise: {"malformed", "truncated"},
    noise_in_an_envelope: {"malformed", "truncated", "oversized"},
    truncated: {"truncated"},
    extended: {"malformed"},
    oversized: {"oversized"},
    claims_to_be_oversized: {"oversized"},
    another_version: {"schema"},
    flipped_payload: {"damaged"},
    another_payload: {"damaged"},
    replayed: {"replayed"},
    number_used_twice: {"replayed"},
    lower_number: {"replayed"},
    from_the_past: {"old"},
    from_the_future: {"future"},
    another_fleet: {"fleet"},
    another_kind: {"kind"},
    another_topic: {"node"},
    another_author: {"author"},
    senseless_number: {"malformed"},
    senseless_name: {"malformed"},
}
KEYLESS: dict[Callable[[World], Envelope], set[str]] = {  # who trusts everyone cannot notice
    flipped_bits: {
        *("malformed", "truncated", "oversized", "schema", "fleet", "kind", "node", "author"),
        *("signature", "damaged"),
    },
    another_signature: {"signature"},
    foreign_key: {"signature"},
    colleagues_key: {"signature"},
    unknown_node: {"unknown_key"},
    unsigned: {"unsigned"},
}
INSIDE: dict[Callable[[World], Envelope], set[str]] = {
    nan_filled: {"values"},
    infinite: {"values"},
    wrong_shape: {"values"},
    wrong_type: {"values"},
    missing_array: {"values"},
    unknown_array: {"values"},
    lying_number: {"values"},
    lying_metadata: {"values"},
    asks_for_memory: {"values"},
    another_schema: {"schema"},
    another_file: {"values"},
    snapshot_of_another: {"node"},
    spoilt_snapshot: {"values", "schema"},
}
ALL = OUTSIDE | KEYLESS | INSIDE


# --- what must not change -------------------------------------------------------------------------


def state_of(roster: Roster) -> tuple[Any, ...]:
    """All that a roster knows; members by their identity, which is stricter than by their bits."""
    members = roster.members(NOW)
    return dict(roster._known), {node: (id(m.snapshot), m.digest) for node, m in members.items()}


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All that is on the disk, and when it was written."""
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in sorted(folder.iterdir())}


@contextmanager
def unchanged(roster: Roster, folder: Path) -> Iterator[None]:
    before = state_of(roster), files_of(folder)
    yield
    assert (state_of(roster), files_of(folder)) == before


def let_in(world: World, roster: Roster, rounds: int = 3) -> None:
    """Something genuine from everyone, several times."""
    for _ in range(rounds):
        for node in world.keys:
            world.sent.append(world.genuine(node))
            receipt = roster.accept(*world.sent[-1], NOW)
            assert receipt.status == "new", receipt


@dataclass
class Fuzz:
    """Forgeries one after the other against a roster."""

    world: World
    roster: Roster
    tally: dict[str, Counter[str]] = field(default_factory=dict)

    def attempt(self, forge: Callable[[World], Envelope]) -> Receipt:
        """One forgery, which must change nothing."""
        envelope = forge(self.world)
        before, counted = state_of(self.roster), self.roster.counts.copy()
        receipt = self.roster.accept(*envelope, NOW)
        about = f"{forge.__name__}: {receipt}"
        assert receipt.status == "refused" and receipt.reason in ALL[forge], about
        assert receipt.text and len(receipt.text) < 1000 and receipt.text.isprintable(), about
        assert self.roster.counts - counted == {receipt.reason: 1}, about
        assert state_of(self.roster) == before, about
        self.tally.setdefault(forge.__name__, Counter())[receipt.reason] += 1
        return receipt
