"""CPU cost of decoding and encoding, and fuzzing of both.

    python benchmarks/payloads.py
    python benchmarks/payloads.py --fuzz 1000000

The first prints CPU microseconds per message for each format, next to what msgspec (or numpy) alone
needs to parse it. The second throws random and damaged payloads at every format and checks that
each message is accounted for: a reading, a late label, or a refusal with a reason.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from streamlvq.config import Config, DecisionsSection, LabelsSection, ReadingsSection
from streamlvq.connect import Message
from streamlvq.events import REFUSAL_REASONS, Decisions, LateLabel, Readings
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.payloads import Decoder, Encoder, dead_letter

BATCH = 256
NAMES = [f"sensor_{i:02d}" for i in range(18)]
CLASSES = tuple(f"state_{i}" for i in range(7))
TRIALS = 7


def cpu(work: Callable[[], Any], count: int, repeat: int = 40) -> float:
    """Return the lowest CPU microseconds per item over some trials."""
    warm = time.process_time() + 0.2
    while time.process_time() < warm:
        work()
    best = math.inf
    for _ in range(TRIALS):
        start = time.process_time()
        for _ in range(repeat):
            work()
        best = min(best, time.process_time() - start)
    return best / repeat / count * 1e6


def values(rng: random.Random) -> dict[str, float]:
    return {name: round(rng.gauss(0.0, 30.0), 4) for name in NAMES}


def objects(rng: random.Random) -> list[dict[str, Any]]:
    return [values(rng) | {"t": 1.7e9 + i / 10, "n": i} for i in range(BATCH)]


def sections() -> dict[str, tuple[ReadingsSection, Callable[[dict[str, Any]], bytes], Any]]:
    """Return, for each case, the section, an encoder of payloads, and a bare parser."""
    tail: dict[str, Any] = {"time": "t", "sequence": "n"}
    columns = [*NAMES, "t", "n"]
    flat = msgspec.defstruct("Flat", [(name, float) for name in columns], gc=False)
    array = msgspec.defstruct("Row", [(n, float) for n in columns], gc=False, array_like=True)
    json, pack = msgspec.json, msgspec.msgpack
    nested = [f"motor.{name}" for name in NAMES]

    def nest(item: dict[str, Any]) -> bytes:
        inner = {name: item[name] for name in NAMES}
        return json.encode({"motor": inner, "t": item["t"], "n": item["n"]})

    def raw(item: dict[str, Any]) -> bytes:
        return np.array([item[name] for name in NAMES], dtype="<f4").tobytes()

    def row(item: dict[str, Any]) -> list[Any]:
        return [item[name] for name in columns]

    return {
        "json, features named": (
            ReadingsSection(features=NAMES, **tail),
            json.encode,
            json.Decoder(flat).decode,
        ),
        "json, features and nothing else": (
            ReadingsSection(features=NAMES),
            lambda item: json.encode({name: item[name] for name in NAMES}),
            json.Decoder(dict[str, float]).decode,
        ),
        "json, features found out": (
            ReadingsSection(**tail),
            json.encode,
            json.Decoder(flat).decode,
        ),
        "json, nested": (
            ReadingsSection(features=nested, **tail),
            nest,
            json.Decoder().decode,
        ),
        "json_array": (
            ReadingsSection(format="json_array", columns=columns, **tail),
            lambda item: json.encode(row(item)),
            json.Decoder(array).decode,
        ),
        "msgpack, map": (
            ReadingsSection(format="msgpack", features=NAMES, **tail),
            pack.encode,
            pack.Decoder(flat).decode,
        ),
        "msgpack, array": (
            ReadingsSection(format="msgpack", columns=columns, **tail),
            lambda item: pack.encode(row(item)),
            pack.Decoder(array).decode,
        ),
        "float32": (
            ReadingsSection(format="float32", columns=NAMES),
            raw,
            lambda payload: np.frombuffer(payload, "<f4"),
        ),
    }


def decoding(devices: int) -> None:
    print(f"\ndecoding, 18 features, batches of {BATCH}, {devices} devices; CPU us per message\n")
    print(f"{'':34}{'bytes':>7}{'parse':>8}{'decode':>8}{'beyond':>8}{'1 bad':>8}")
    for name, (section, make, parse) in sections().items():
        items = objects(random.Random(1))
        payloads = [make(item) for item in items]
        messages = [
            Message(f"sensors/d{i % devices}/readings", payload, 1.7e9)
            for i, payload in enumerate(payloads)
        ]
        decoder = Decoder(Config(readings=section))
        assert not decoder.decode(messages).refused
        bare = cpu(lambda: [parse(payload) for payload in payloads], BATCH)  # noqa: B023
        whole = cpu(lambda: decoder.decode(messages), BATCH)  # noqa: B023
        damaged = list(messages)
        damaged[BATCH // 3] = messages[0]._replace(payload=b"oops")
        assert len(decoder.decode(damaged).refused) == 1
        spoilt = cpu(lambda: decoder.decode(damaged), BATCH)  # noqa: B023
        size = len(payloads[0])
        print(f"{name:34}{size:7}{bare:8.2f}{whole:8.2f}{whole - bare:8.2f}{spoilt:8.2f}")


def shapes() -> None:
    print(f"\njson, features found out, shapes mixed in batches of {BATCH}; CPU us per message\n")
    rng = random.Random(2)
    orders: dict[str, list[int]] = {
        "one shape": [0] * BATCH,
        "two that take turns": [i % 2 for i in range(BATCH)],
        "two at random": [rng.randrange(2) for _ in range(BATCH)],
        "sixteen at random": [rng.randrange(16) for _ in range(BATCH)],
        "a hundred in turn": [i % 100 for i in range(BATCH)],
    }
    for name, order in orders.items():
        messages = [
            Message(f"sensors/d{i % 64}/readings", _shaped(item, shape), 1.7e9)
            for i, (item, shape) in enumerate(zip(objects(rng), order, strict=True))
        ]
        decoder = Decoder(Config(readings=ReadingsSection(time="t", sequence="n")))
        print(f"{name:34}{cpu(lambda: decoder.decode(messages), BATCH, 5):8.2f}")  # noqa: B023


def _shaped(item: dict[str, Any], shape: int) -> bytes:
    renamed = {f"{name}_{shape}": item[name] for name in NAMES}
    return msgspec.json.encode(renamed | {"t": item["t"], "n": item["n"]})


def some_decisions(rng: np.random.Generator) -> Decisions:
    probabilities = rng.dirichlet(np.ones(len(CLASSES)), BATCH)
    return Decisions(
        classes=CLASSES,
        devices=[f"d{i % 64}" for i in range(BATCH)],
        groups=[""] * BATCH,
        times=[1.7e9 + i / 10 for i in range(BATCH)],
        sequences=list(range(BATCH)),
        truths=[None] * BATCH,
        codes=probabilities.argmax(axis=1),
        certainties=rng.random(BATCH),
        thresholds=np.full(BATCH, 0.3),
        accepted=rng.random(BATCH) < 0.9,
        reasons=[None] * BATCH,
        probabilities=probabilities,
        models=["local"] * BATCH,
        versions=np.arange(BATCH),
        duplicates=[False] * BATCH,
        sources=list(range(BATCH)),
    )


def encoding() -> None:
    decisions = some_decisions(np.random.default_rng(1))
    print(
        f"\nencoding decisions, {len(CLASSES)} classes, batches of {BATCH}; CPU us per decision\n"
    )
    for when in ("always", "change", "rejection"):
        encoder = Encoder(Config(decisions=DecisionsSection(when=when)))
        sent = encoder.encode(decisions)
        cost = cpu(lambda: encoder.encode(decisions), BATCH)  # noqa: B023
        print(f"{when:34}{len(sent[0].payload):7} bytes{cost:8.2f}")


# --- fuzz -------------------------------------------------------------------------------------

ODDITIES: list[Any] = [
    None, True, False, "", "hot", "1.5", "NaN", 0, -1, 3.0, 2**53 + 1, 2**63, 2**64, 10**400, 1e60,
    1.1e60, 1e308, -1e308, [], {}, [1, 2], {"a": 1}, [[[]]], "x" * 300, "\x00", "\u2028", 1e-320,
]  # fmt: skip
PIECES = [b"NaN", b"Infinity", b"1e999", b"null", b"{", b"}", b"[", b"]", b",", b'"', b"\\ud800",
          b"\xff", b"\x00", b":", b"-", b"0" * 400, b"[" * 2000, b'{"a":' * 1500]  # fmt: skip


def odd_object(rng: random.Random) -> Any:
    item: Any = values(rng) | {"t": 1.7e9, "n": rng.randrange(10**6), "label": "ok", "d": "pump"}
    for _ in range(rng.randrange(4)):
        item[rng.choice([*NAMES, "t", "n", "label", "d", "new", ""])] = rng.choice(ODDITIES)
    if rng.random() < 0.1:
        item = rng.choice(ODDITIES)
    return item


def damage(payload: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(6)
    at = rng.randrange(len(payload) + 1)
    if kind == 0:
        return payload[:at]
    if kind == 1:
        return payload[:at] + rng.choice(PIECES) + payload[at:]
    if kind == 2:
        return rng.randbytes(rng.randrange(100))
    if kind == 3 and payload:
        flipped = bytearray(payload)
        flipped[at % len(payload)] ^= 1 << rng.randrange(8)
        return bytes(flipped)
    return payload


def make_payload(form: str, rng: random.Random) -> bytes:
    if form == "float32":
        numbers = [rng.choice([0.0, 1.5, math.nan, math.inf, 3e38, 1.7e9]) for _ in range(22)]
        return np.array(numbers, dtype="<f4").tobytes()
    item = odd_object(rng)
    if form == "json_array" or (form == "msgpack" and rng.random() < 0.3):
        item = list(item.values()) if isinstance(item, dict) else item
    if form == "msgpack":
        if isinstance(item, dict) and rng.random() < 0.2:
            item[rng.choice(NAMES)] = rng.choice([math.nan, math.inf, b"raw"])
        return msgspec.msgpack.encode(_small(item))
    return msgspec.json.encode(item)


def _small(item: Any) -> Any:
    """Replace integers beyond 64 bits, which MessagePack cannot hold."""
    if isinstance(item, dict):
        return {key: _small(value) for key, value in item.items()}
    if isinstance(item, list):
        return [_small(value) for value in item]
    return float("inf") if isinstance(item, int) and abs(item) >= 2**63 else item


def fuzz_decoders() -> list[tuple[str, Decoder]]:
    roles = {"label": "label", "time": "t", "sequence": "n"}
    columns = [*NAMES, "t", "n", "label", "d"]
    labels = LabelsSection(topic="sensors/{device}/label", sequence="n", time="t")
    cases: list[dict[str, Any]] = [
        {"format": "json", "features": NAMES},
        {"format": "json"},
        {"format": "json", "features": NAMES, "device": "d"},
        {"format": "json_array", "columns": columns},
        {"format": "msgpack"},
        {"format": "msgpack", "features": NAMES},
        {"format": "msgpack", "columns": columns, "device": "d"},
        {"format": "float32", "columns": columns},
    ]
    made = []
    for case in cases:
        section = ReadingsSection(**roles, **case)
        made.append((case["format"], Decoder(Config(readings=section, labels=labels))))
    return made


def check(decoder: Decoder, messages: Sequence[Message], counts: Counter[str]) -> None:
    """Check that every message is accounted for exactly once, with numbers fit for a model."""
    decoded = decoder.decode(messages)
    seen: list[int] = []
    for event in decoded.events:
        if isinstance(event, LateLabel):
            seen.append(event.source)
            counts["late labels"] += 1
            continue
        assert isinstance(event, Readings)
        assert event.rows.shape == (len(event.devices), len(event.features))
        assert (np.isnan(event.rows) | (np.abs(event.rows) <= LARGEST_VALUE)).all()
        assert not np.isnan(event.rows).all(axis=1).any()
        seen += event.sources
        counts["readings"] += len(event)
    assert seen == sorted(seen)
    for refused in decoded.refused:
        assert refused.reason in REFUSAL_REASONS, refused
        assert refused.reason != "failure", (refused, messages[refused.source])
        msgspec.json.decode(dead_letter(messages[refused.source], refused))
        counts[f"refused: {refused.reason}"] += 1
        seen.append(refused.source)
    assert sorted(seen) == list(range(len(messages)))


def fuzz(count: int, seed: int) -> None:
    rng = random.Random(seed)
    decoders = fuzz_decoders()
    topics = ["sensors/a/readings", "sensors/b/readings", "sensors/b/label", "sensors//readings",
              "other", "", "sensors/%ff/readings", f"sensors/{'x' * 300}/readings"]  # fmt: skip
    weights = [40, 40, 8, 1, 1, 8, 1, 1]
    counts: Counter[str] = Counter()
    done = 0
    start = time.perf_counter()
    while done < count:
        form, decoder = rng.choice(decoders)
        size = min(rng.choice([1, 5, 50, 256]), count - done)
        spoil = rng.choice([0.01, 0.3, 1.0])
        messages = []
        for topic in rng.choices(topics, weights, k=size):
            payload = make_payload(form, rng)
            if rng.random() < spoil:
                payload = damage(payload, rng)
            messages.append(Message(topic, payload, 1.7e9, rng.random() < 0.1))
        check(decoder, messages, counts)
        done += size
    print(f"{done} payloads in {time.perf_counter() - start:.0f} s, all accounted for:")
    for name, number in sorted(counts.items()):
        print(f"  {name:24}{number:10}")
    assert sum(counts.values()) == done


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--fuzz", type=int, metavar="N", help="how many payloads to try")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.fuzz:
        fuzz(arguments.fuzz, arguments.seed)
        return
    decoding(devices=64)
    shapes()
    encoding()


if __name__ == "__main__":
    main()
