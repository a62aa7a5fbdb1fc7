"""Snapshots: what is rebuilt goes on as if nothing had happened, bit by bit."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from river import preprocessing

import streamlvq
from streamlvq import config
from streamlvq.config.schema import MAX_MODELS, MAX_VALUES
from streamlvq.estimator import TRUSTED_LIMITS, StateLimits, private_classes
from streamlvq.kernels import layout as at
from streamlvq.models import validation
from streamlvq.models.engine import ARRAY_SECTIONS, FIXED_SIZES
from streamlvq.models.validation import (
    BOUNDS,
    DERIVED,
    NAMES,
    class_sizes,
    pair_labels,
)
from streamlvq.registry import MODELS
from streamlvq.snapshot import (
    TRUSTED_MAX_BYTES,
    Snapshot,
    SnapshotError,
    container,
    decode,
    encode,
    inspect_text,
    kind_of,
)
from streamlvq.snapshot.container import MAX_ARRAYS, MAX_INLINE_CHARACTERS, TRUSTED_MAX_HEADER_BYTES
from streamlvq.snapshot.state import (
    WRAPPER_CLASSES,
    decode_name,
    decode_parameter,
    encode_name,
    encode_parameter,
    model_names,
    prefixed,
    split,
)
from streamlvq.text import display_width
from streamlvq.wrappers.time_integrator import NO_WINDOW, Windows
from support.samples import (
    GROWING,
    blobs,
    build,
    described,
    frozen,
    knowledge,
    readings,
    rebuilt,
    taught,
)

# --- the container --------------------------------------------------------------------------------

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "b/c": np.array([1, -(2**62)]),
    "bytes": np.frombuffer(b"abcde", np.uint8),
    "empty": np.empty((0, 3)),
    "number": np.array(math.pi),
    "odd": np.array([np.nan, np.inf, -0.0]),
}
METADATA = {"text": 'ä "quoted" \\ \ud800', "numbers": [1, 2.5, None, True], "deep": {"x": {}}}


def test_container_gives_back_what_went_in() -> None:
    arrays, metadata = decode(encode(ARRAYS, METADATA))
    assert metadata == METADATA
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_container_is_a_safetensors_file() -> None:
    found = safetensors.numpy.load(encode(ARRAYS, METADATA))
    np.testing.assert_array_equal(found["a"], ARRAYS["a"])


def test_container_takes_arrays_in_any_layout() -> None:
    arrays = {
        "t": ARRAYS["a"].T,
        "every": np.arange(10.0)[::3],
        "big": np.arange(3.0).astype(">f8"),
    }
    found, _ = decode(encode(arrays, {}))
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_same_content_gives_same_bytes() -> None:
    backwards = dict(reversed(ARRAYS.items()))
    assert encode(ARRAYS, METADATA) == encode(backwards, dict(reversed(METADATA.items())))
    script = (
        "import numpy as np; from streamlvq.snapshot import encode;"
        "print(encode({'b': np.ones(3), 'a': np.ones(2)}, {'z': 1, 'a': 2}).hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1, "another process, with other hashes of text, must agree"


def test_every_changed_byte_is_noticed() -> None:
    data = encode({"a": np.arange(3.0)}, {"x": 1})
    for k in range(len(data)):
        for change in (1, 128):
            damaged = bytearray(data)
            damaged[k] ^= change
            with pytest.raises(SnapshotError):
                decode(bytes(damaged))


def test_every_truncation_is_noticed() -> None:
    data = encode({"a": np.arange(3.0)}, {"x": 1})
    for k in range(len(data)):
        with pytest.raises(SnapshotError):
            decode(data[:k])
    with pytest.raises(SnapshotError, match="bytes of arrays"):
        decode(data + b"\0")


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode(data)


def raw(entries: Any, body: bytes = b"") -> bytes:
    header = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + body


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F64", "shape": [2], "data_offsets": [0, 16], **changes}


GOOD = '{"checksum":"%s","kind":"snapshot","schema":3,"metadata":{}}' % ("0" * 64)
META = {"__metadata__": {"streamlvq": GOOD}}
LYING_HEADERS = {
    "not JSON": (b"{" * 20, b"", "expected JSON"),
    "nested too deep": (b"[" * 100_000, b"", "expected JSON"),
    "a list": (b"[1, 2]", b"", "expected an object"),
    "UTF-16": (json.dumps(META).encode("utf-16"), b"", "expected JSON"),
    "no metadata": ({"a": entry()}, bytes(16), "file of streamlvq"),
    "other metadata": ({"__metadata__": {"format": "pt"}}, b"", "file of streamlvq"),
    "more metadata": ({"__metadata__": {"streamlvq": GOOD, "b": "c"}}, b"", "file of streamlvq"),
    "metadata that is no text": ({"__metadata__": {"streamlvq": 3}}, b"", "file of streamlvq"),
    "float32": (META | {"a": entry(dtype="F32")}, bytes(8), "expected one of"),
    "dtype that is no text": (META | {"a": entry(dtype=[])}, bytes(8), "expected one of"),
    "odd name": (META | {"../a": entry()}, bytes(16), "names of arrays"),
    "empty name": (META | {"": entry()}, bytes(16), "names of arrays"),
    "shape too large": (META | {"a": entry(shape=[3])}, bytes(16), "expected 24 bytes"),
    "shape overflows": (META | {"a": entry(shape=[2**40, 2**40])}, bytes(16), "expected"),
    "negative shape": (META | {"a": entry(shape=[-2])}, bytes(16), "expected a shape"),
    "fraction of a shape": (META | {"a": entry(shape=[2.0])}, bytes(16), "expected a shape"),
    "bool as a shape": (META | {"a": entry(shape=[True])}, bytes(8), "expected a shape"),
    "too many dimensions": (META | {"a": entry(shape=[2, 1, 1, 1, 1])}, bytes(16), "a shape"),
    "three offsets": (META | {"a": entry(data_offsets=[0, 8, 16])}, bytes(16), "two offsets"),
    "beyond the end": (META | {"a": entry()}, bytes(8), "bytes of arrays"),
    "hole": (META | {"a": entry(data_offsets=[8, 24])}, bytes(24), "to begin at 0"),
    "overlap": (META | {"a": entry(), "b": entry(data_offsets=[8, 24])}, bytes(24), "to begin at"),
    "same place": (META | {"a": entry(), "b": entry()}, bytes(16), "to begin at"),
    "backwards": (META | {"a": entry(data_offsets=[16, 0])}, bytes(16), "expected 16 bytes"),
    "unknown key": (META | {"a": entry(more=1)}, bytes(16), "dtype, shape"),
    "number as an array": (META | {"a": 7}, b"", "dtype, shape"),
    "a name twice": (
        json.dumps(META).encode()[:-1] + b', "a": 1, "a": 2}',
        b"",
        "a name occurs twice",
    ),
}


@pytest.mark.parametrize("case", LYING_HEADERS)
def test_lying_headers_are_refused_before_anything_is_made(case: str) -> None:
    entries, body, message = LYING_HEADERS[case]
    with pytest.raises(SnapshotError, match=message):
        decode(raw(entries, body))


@pytest.mark.parametrize(
    ("envelope", "message"),
    [
        ("[]", "expected an object"),
        ("{", "expected JSON"),
        ('{"schema": 4}', "newer streamlvq"),
        ('{"schema": "3"}', "expected schema 3"),
        ('{"schema": true}', "expected schema 3"),
        ('{"schema": 2}', "must be learnt again"),
        ('{"schema": 3, "kind": "checkpoint"}', "expected a snapshot, got a 'checkpoint'"),
        ('{"schema": 3, "kind": "snapshot"}', "expected a checksum first"),
        (GOOD, "the file is damaged"),
    ],
)
def test_lying_envelopes_are_refused(envelope: str, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        decode(raw({"__metadata__": {"streamlvq": envelope}}))


def test_kinds_are_not_taken_for_each_other() -> None:
    data = encode({}, {}, kind="checkpoint")
    assert kind_of(data) == "checkpoint"
    assert decode(data, kind="checkpoint") == ({}, {})
    with pytest.raises(SnapshotError, match="expected a snapshot"):
        decode(data)


def test_size_is_limited() -> None:
    data = encode({"a": np.zeros(100)}, {})
    with pytest.raises(SnapshotError, match="expected at most 500 bytes"):
        decode(data, limit=500)
    with pytest.raises(SnapshotError, match="expected bytes"):
        decode("text")  # type: ignore[arg-type]


def test_what_is_too_large_to_be_read_is_not_written() -> None:
    arrays = {"a": np.zeros(100), "b/c": np.zeros((50, 3))}
    size = len(encode(arrays, {}))
    assert encode(arrays, {}, limit=size) == encode(arrays, {})
    decode(encode(arrays, {}, limit=size), limit=size)
    for limit in (size - 1, 2000, 10):  # beyond by the header, by the arrays
        with pytest.raises(
            SnapshotError, match=rf"at most {limit} bytes, got \d+; .*'b/c' of shape \(50, 3\)"
        ):
            encode(arrays, {}, limit=limit)


def test_size_is_looked_at_before_anything_is_made() -> None:
    """A terabyte that takes up no room, being one number again and again."""
    huge = np.broadcast_to(np.zeros(1), (2**37,))
    with pytest.raises(SnapshotError, match="at most 68719476736 bytes, got 1099511627776"):
        encode({"a": huge}, {}, limit=TRUSTED_MAX_BYTES)


@pytest.mark.parametrize("more", [-40, 0, 1, 1000])
def test_long_metadata_come_back(more: int) -> None:
    metadata = {"text": "x" * (MAX_INLINE_CHARACTERS + more), "unpaired": "\ud800"}
    data = encode(ARRAYS, metadata)
    arrays, found = decode(data)
    assert found == metadata
    assert arrays.keys() == ARRAYS.keys()
    assert encode(arrays, found) == data
    for place in (9, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(SnapshotError):
            decode(bytes(damaged))


def test_metadata_and_headers_have_limits_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of files that may come from a stranger, made small; both ways have the same."""
    long = {"text": "x" * MAX_INLINE_CHARACTERS}
    many = {f"array{k}": np.zeros(1) for k in range(100)}
    files = [encode({}, long), encode(many, {})]
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", 5000)
    for data, (arrays, metadata), message in zip(
        files, [({}, long), (many, {})], ["metadata: expected", "expected a header"], strict=True
    ):
        with pytest.raises(SnapshotError, match=f"{message} .*at most 5000 bytes"):
            decode(data)
        with pytest.raises(SnapshotError, match=f"{message} .*at most 5000 bytes"):
            encode(arrays, metadata)
        assert encode(arrays, metadata, limit=TRUSTED_MAX_BYTES) == data
        found = decode(data, limit=TRUSTED_MAX_BYTES)
        assert (found[0].keys(), found[1]) == (arrays.keys(), metadata)


def test_headers_are_never_larger_than_the_format_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MAX_INLINE_CHARACTERS", 2**30)
    with pytest.raises(SnapshotError, match=r"header of at most 100000000 bytes, got .*too large"):
        encode({}, {"text": "x" * 100_000_000}, limit=TRUSTED_MAX_BYTES)
    monkeypatch.setattr(container, "MAX_ARRAYS", 3)
    with pytest.raises(SnapshotError, match="at most 3 arrays, got 6"):
        encode(ARRAYS, {})


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "expected a row of bytes"),
        (np.zeros((2, 2), np.uint8), "expected a row of bytes"),
        (np.frombuffer(b"{", np.uint8), "expected JSON"),
        (np.frombuffer(b"[1]", np.uint8), "expected an object"),
        (np.frombuffer(b'{"a":1,"a":2}', np.uint8), "a name occurs twice"),
        (np.frombuffer(b'{"a":"\xff"}', np.uint8), "expected JSON"),
    ],
)
def test_lies_in_long_metadata_are_refused(
    array: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "_add_metadata", lambda *_: ({"metadata": array}, "null"))
    data = encode({}, {})
    with pytest.raises(SnapshotError, match=message):
        decode(data)


def test_snapshots_have_the_limit_that_is_asked_for() -> None:
    snapshot = Snapshot.of(learnt(streamlvq.GLVQ(), *blobs(20)))
    with pytest.raises(SnapshotError, match="at most 5000 bytes"):
        snapshot.to_bytes(limit=5000)


@pytest.mark.parametrize(
    ("arrays", "metadata", "message"),
    [
        ({"a": np.zeros(3, np.float32)}, {}, "got float32"),
        ({"a": np.array(["x"])}, {}, "got <U1"),
        ({"a": np.array([object()])}, {}, "got object"),
        ({"a": [1.0]}, {}, "got list"),
        ({"a b": np.zeros(1)}, {}, "names of arrays"),
        ({"metadata": np.zeros(1)}, {}, "it is taken"),
        ({}, {"x": object()}, "what JSON can express"),
        ({}, {"x": b"bytes"}, "what JSON can express"),
    ],
)
def test_encode_refuses_what_cannot_be_kept(arrays: Any, metadata: Any, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        encode(arrays, metadata)


# --- names ----------------------------------------------------------------------------------------

NAMES_OF_ALL_KINDS = [1, 1.0, True, "1", None, 0, False, -(2**70), "", "ü\n", 1e-300, math.inf]


@pytest.mark.parametrize("name", NAMES_OF_ALL_KINDS, ids=repr)
def test_names_keep_their_type(name: Any) -> None:
    restored = decode_name(json.loads(json.dumps(encode_name(name, "label"))), "label")
    assert type(restored) is type(name)
    assert restored == name


@pytest.mark.parametrize("name", [(1, 2), b"x", math.nan, frozenset(), datetime.now(UTC), 2**300])
def test_names_of_other_types_are_refused(name: Any) -> None:
    with pytest.raises(SnapshotError, match="label: expected text"):
        encode_name(name, "label")


def test_numbers_of_numpy_become_plain() -> None:
    assert [
        decode_name(encode_name(x, "label"), "label")
        for x in (np.int64(3), np.float32(0.5), np.str_("a"))
    ] == [
        3,
        0.5,
        "a",
    ]


@pytest.mark.parametrize(
    "tagged",
    [
        *(1, "x", [], ["int"], ["int", 1], ["int", "01"], ["int", "1_0"], ["int", "9" * 99]),
        *(["str", 1], ["bool", 1], ["float", "nan"], ["float", 1.0], ["float", "x"], ["none", 0]),
        [["a"], "b"],
    ],
    ids=str,
)
def test_lying_tags_are_refused(tagged: Any) -> None:
    with pytest.raises(SnapshotError, match="with its type"):
        decode_name(tagged, "label")


@pytest.mark.parametrize(
    "value", [None, True, 3, 0.1, "x", timedelta(days=-1, microseconds=7), {1: 0.5, "1": 0.25}]
)
def test_parameters_come_back(value: Any) -> None:
    assert decode_parameter(json.loads(json.dumps(encode_parameter(value, "p"))), "p") == value


@pytest.mark.parametrize("packed", [[1], {"a": 1}, {"timedelta": [1e99, 0, 0]}, {"mapping": [1]}])
def test_lying_parameters_are_refused(packed: Any) -> None:
    with pytest.raises(SnapshotError, match="expected a parameter"):
        decode_parameter(packed, "p")


# --- models go on as if nothing had happened ------------------------------------------------------


def learnt(model: Any, X: Any, y: Any) -> Any:
    return taught(model, X, y.tolist())  # labels of numpy would come back as plain ones


def through_bytes(classifier: Any, **options: Any) -> Any:
    return Snapshot.from_bytes(Snapshot.of(classifier, **options).to_bytes()).classifier()


def go_on(model: Any, d: int = 4) -> list[Any]:
    """Everything that may come after a snapshot; returns what was said on the way."""
    said: list[Any] = []
    X, y = blobs(40, d=d, seed=7, missing=0.1)
    for x, label in zip(readings(X), y.tolist(), strict=True):
        said.append(model.predict_proba_one(x))
        model.learn_one(x, label)
    model.observe_one(readings(X)[0])
    for k, x in enumerate(readings(X)[:12]):  # features and classes that are new
        x = {**x, "new": float(k % 3)} if k % 2 else {"f00": x["f00"], "newer": float(k)}
        model.learn_one(x, ["late", "later", 5, 6, 7.5][k % 5])
        said.append(model.predict_proba_one(x))
    names = [f"f{i:02}" for i in reversed(range(d))]
    model.learn_array(X[:, ::-1], y, features=names)
    model.learn_array(X[:, ::-1], y)  # the columns of before
    said.append(model.predict_proba_array(X[:, ::-1], features=names).tolist())
    return said


def assert_same(first: list[Any], second: list[Any]) -> None:
    """NaN is like NaN here."""
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert repr(one) == repr(other)


VARIANTS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "drifting": {"half_life": 30},
    "no rehearsal": {"rehearsal": 0},
    "full buffer": {"buffer_size": 50},
    "as measured": {"standardize": False},
    "many prototypes": {"prototypes_per_class": 3, "max_prototypes_per_class": 40},
    "any seed": {"seed": None},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_rebuilt_models_go_on_bit_by_bit(name: str, variant: str) -> None:
    model = learnt(build(name, **VARIANTS[variant]), *blobs(130, missing=0.1))
    twin = through_bytes(model)
    assert knowledge(twin) == knowledge(model)
    assert twin._engine.spec.seed == model._engine.spec.seed
    assert twin.seed == model.seed
    assert_same(go_on(twin), go_on(model))
    assert knowledge(twin) == knowledge(model)


@pytest.mark.parametrize("samples", [0, 1, 2, 9, 10, 11])
def test_young_models_go_on_bit_by_bit(name: str, samples: int) -> None:
    X, y = blobs(20)
    model = learnt(build(name), X[:samples], y[:samples])
    twin = through_bytes(model)
    assert_same(go_on(twin), go_on(model))
    assert knowledge(twin) == knowledge(model)


@pytest.mark.parametrize("rank", [1, 2, None])
@pytest.mark.parametrize("kind", ["GMLVQ", "LGMLVQ", "MRSLVQ", "LMRSLVQ", "PairwiseLVQ"])
def test_metrics_of_any_rank_go_on_bit_by_bit(kind: str, rank: int | None) -> None:
    model = learnt(build(kind, rank=rank, step="constant"), *blobs(60, d=6))
    twin = through_bytes(model)
    assert_same(go_on(twin, d=6), go_on(model, d=6))
    assert knowledge(twin) == knowledge(model)


@pytest.mark.parametrize("coupling", list(at.COUPLINGS))
def test_couplings_go_on_bit_by_bit(coupling: str) -> None:
    model = learnt(build("PairwiseLVQ", coupling=coupling), *blobs(100, classes=6))
    twin = through_bytes(model)
    assert_same(go_on(twin), go_on(model))


def test_trained_models_go_on_bit_by_bit(name: str) -> None:
    X, y = blobs(80, missing=0.05)
    model = build(name)
    model.train(X, y, epochs=2, progress=False)
    twin = through_bytes(model)
    model.train(X[:60], y[:60], epochs=1, progress=False)
    twin.train(X[:60], y[:60], epochs=1, progress=False)
    assert knowledge(twin) == knowledge(model)


def test_changed_parameters_go_on_bit_by_bit(name: str) -> None:
    model = learnt(build(name, rehearsal=0), *blobs(50))
    model.rehearsal, model.learning_rate, model.half_life = 3, 0.07, 25
    twin = through_bytes(learnt(model, *blobs(50, seed=1)))
    assert (twin.rehearsal, twin.learning_rate, twin.half_life) == (3, 0.07, 25)
    twin.rehearsal = model.rehearsal = 0
    assert_same(go_on(twin), go_on(model))
    assert knowledge(twin) == knowledge(model)


def test_models_that_were_only_shown_readings(name: str) -> None:
    model = build(name)
    for x in readings(blobs(20)[0]):
        model.observe_one(x)
    twin = through_bytes(model)
    assert knowledge(twin) == knowledge(model)
    assert_same(go_on(twin), go_on(model))


def test_models_without_features(name: str) -> None:
    model = build(name)
    model.learn_one({}, "a")
    model.learn_one({}, "b")
    twin = through_bytes(model)
    assert knowledge(twin) == knowledge(model)
    assert_same(go_on(twin), go_on(model))


def test_extremes_can_be_kept(name: str) -> None:
    """What a model comes to by itself must pass all checks, or a file could not be read back."""
    random = np.random.default_rng(3)
    for values in ([0, 1e60, -1e60, 1e-300, 1], [0.0], [1.0, np.nan, -1e-308], [1e59, 1e-59]):
        model = build(name, learning_rate=1.0)
        X, y = random.choice(values, size=(120, 3)), random.integers(0, 4, 120)
        learnt(model, X, y)
        twin = through_bytes(model)
        assert knowledge(twin) == knowledge(model)


def test_names_and_labels_keep_their_type_in_models() -> None:
    labels = [1, "1", 2.5, "ü", -7]
    model = streamlvq.GLVQ()
    for k, label in enumerate(labels):
        model.learn_one({0: float(k), "0": 1.0, 1.5: 2.0, None: 0.0}, label)
    twin = through_bytes(model)
    assert [(type(c), c) for c in twin.classes] == [(type(c), c) for c in labels]
    assert [(type(c), c) for c in twin.features] == [(type(c), c) for c in model.features]
    for label in (True, False):
        boolean = streamlvq.GLVQ()
        boolean.learn_one({"x": 1.0}, label)
        assert through_bytes(boolean).predict_one({"x": 1.0}) is label


def test_labels_that_cannot_be_kept_say_so() -> None:
    model = streamlvq.GLVQ()
    model.learn_one({"x": 1.0}, (1, 2))
    with pytest.raises(SnapshotError, match=r"label: expected text.*got '\(1, 2\)'"):
        Snapshot.of(model)


def test_taking_a_snapshot_changes_nothing(name: str) -> None:
    model = learnt(build(name), *blobs(60))
    before = frozen(model)
    snapshot = Snapshot.of(model)
    data = snapshot.to_bytes()
    assert frozen(model) == before
    learnt(model, *blobs(30, seed=5))
    assert snapshot.to_bytes() == data, "a snapshot stays while its model goes on"
    one, other = snapshot.classifier(), snapshot.classifier()
    learnt(one, *blobs(30, seed=5))
    assert knowledge(one) == knowledge(model)
    assert knowledge(other) != knowledge(one)
    assert snapshot.to_bytes() == data


def test_same_state_gives_same_bytes(name: str) -> None:
    data = blobs(80, missing=0.1)
    one, other = (Snapshot.of(learnt(build(name), *data)) for _ in range(2))
    assert one.to_bytes() == other.to_bytes()
    assert Snapshot.of(one.classifier()).to_bytes() == one.to_bytes()
    assert Snapshot.from_bytes(one.to_bytes()).to_bytes() == one.to_bytes()


def test_parameters_that_were_bent_afterwards_are_refused() -> None:
    model = learnt(build("GMLVQ", rank=3), *blobs(20))
    model.rank = 2  # takes no effect on what was learnt
    with pytest.raises(SnapshotError, match="the parameters in force at the first reading"):
        Snapshot.of(model)


def test_a_model_that_ran_away_is_refused_when_it_is_saved() -> None:
    model = learnt(build("GLVQ"), *blobs(20))
    model._engine.state["w"][0, 0] = np.inf
    with pytest.raises(SnapshotError, match=r"w\[0, 0\]: expected a number .* got inf"):
        Snapshot.of(model)


def test_models_may_be_as_large_as_is_asked_for() -> None:
    chain = streamlvq.TimeIntegrator(learnt(build("GLVQ"), *blobs(20)))
    size = chain.classifier._engine.state.floats.size
    for room in (10, size // 2):
        with pytest.raises(SnapshotError, match=rf"model of at most {room} numbers|to {room}, got"):
            described(chain, limits=StateLimits(room))
        with pytest.raises(SnapshotError, match=rf"model of at most {room} numbers|to {room}, got"):
            rebuilt(*described(chain), limits=StateLimits(room))
    enough = StateLimits(4 * size)
    twin = rebuilt(*described(chain, limits=enough), limits=enough)
    assert knowledge(twin.classifier) == knowledge(chain.classifier)


def test_a_large_buffer_is_kept_only_where_it_is_allowed() -> None:
    """Not even the room for it is asked for: that would be gigabytes."""
    arrays, meta = described(learnt(build("GLVQ"), *blobs(20)))
    meta["parameters"]["buffer_size"] = meta["memory"]["buffer"] = 10**8
    with pytest.raises(SnapshotError, match=f"model of at most {2**28} numbers"):
        rebuilt(arrays, meta)
    validation.check_sizes(
        validation.StateSizes(**meta["memory"]),
        build("GLVQ", buffer_size=10**8).spec(),
        buffer_size=10**8,
        features=4,
        known=3,
        max_numbers=TRUSTED_LIMITS.max_numbers,
    )


# --- whatever a configuration may ask for ---------------------------------------------------------

MAXIMA = """
model: {type: GLVQ, parameters: {rehearsal: %(rehearsal)d, buffer_size: %(buffer_size)d}}
integrator: {window: %(window)d, max_devices: %(max_devices)d}
rejector: {target_rate: 0.1, memory: %(memory)d}
"""


def maxima_of_schema() -> dict[str, int]:
    """The largest numbers that sections of wrappers allow, as their JSON schema has them."""
    sections = [config.IntegratorSection, config.RejectorSection]
    _, parts = msgspec.json.schema_components(sections)
    keys = {k: v for part in parts.values() for k, v in part["properties"].items()}
    kinds = [(name, each) for name, about in keys.items() for each in about.get("anyOf", [about])]
    return {name: kind["maximum"] for name, kind in kinds if kind.get("type") == "integer"}


def test_maxima_of_a_configuration_are_those_of_snapshots() -> None:
    assert maxima_of_schema() == {k: MAX_VALUES[k] for k in ("window", "max_devices", "memory")}


def test_all_that_a_configuration_allows_can_be_kept() -> None:
    chain = config.build_classifier(config.loads(MAXIMA % MAX_VALUES))
    twin = through_bytes(chain)
    integrator, model = twin.classifier, twin.classifier.classifier
    assert (twin.memory, integrator.window, integrator.max_devices) == (10**6, 10**5, 10**8)
    assert (model.rehearsal, model.buffer_size) == (10**4, 10**8)


@pytest.mark.parametrize("name", MAX_VALUES)
def test_more_than_can_be_kept_is_refused_by_configurations(name: str) -> None:
    with pytest.raises(config.ConfigError, match=rf"{name}: expected .*{MAX_VALUES[name]}"):
        config.loads(MAXIMA % {**MAX_VALUES, name: MAX_VALUES[name] + 1})


def test_members_of_committees_have_the_same_limits() -> None:
    member = "{type: GLVQ, parameters: {rehearsal: %d}}"
    text = f"model: {{type: LVQCommittee, parameters: {{members: {{learner: {member}}}}}}}"
    through_bytes(config.build_classifier(config.loads(text % 10_000)))
    with pytest.raises(
        config.ConfigError, match=r"learner\.parameters\.rehearsal: expected .*10000"
    ):
        config.loads(text % 10_001)


def test_as_many_models_as_a_configuration_allows_fit_into_a_file() -> None:
    """The header names the arrays of all; each is given here the same ones."""
    chain = CHAINS["committee in all"]()
    run_chain(chain, 20, seed=0)
    arrays, _ = described(chain)
    tiny = {name: np.zeros(1) for name in arrays}
    groups = range(MAX_MODELS - 20, MAX_MODELS)  # the longest names
    one = encode({}, {}, limit=TRUSTED_MAX_BYTES)
    data = encode({k: v for n in groups for k, v in prefixed(f"group{n}", tiny).items()}, {})
    header = int.from_bytes(data[:8], "little") - int.from_bytes(one[:8], "little")
    room = 10 * MAX_MODELS * len(arrays)  # offsets may have ten digits more
    assert header / 20 * MAX_MODELS + 2 * room < TRUSTED_MAX_HEADER_BYTES
    assert MAX_MODELS * len(arrays) < MAX_ARRAYS


# --- committees and wrappers ----------------------------------------------------------------------


def committee_knowledge(committee: Any) -> tuple[Any, ...]:
    learnt = [
        (name, array_name, array.tobytes())
        for name, part in committee.state().parts.items()
        for array_name, array in sorted(part.arrays.items())
    ]
    return *learnt, committee._fitted.tobytes()


COMMITTEES: dict[str, Callable[[], Any]] = {
    "as it comes": streamlvq.LVQCommittee,
    "of others": lambda: streamlvq.LVQCommittee(
        members={"learner": streamlvq.PairwiseLVQ(seed=3), "other": streamlvq.RSLVQ(rehearsal=0)}
    ),
}


@pytest.mark.parametrize("kind", COMMITTEES)
@pytest.mark.parametrize("samples", [0, 1, 5, 120])
def test_committees_go_on_bit_by_bit(kind: str, samples: int) -> None:
    X, y = blobs(120, missing=0.05)
    model = learnt(COMMITTEES[kind](), X[:samples], y[:samples])
    twin = through_bytes(model)
    assert committee_knowledge(twin) == committee_knowledge(model)
    assert_same(go_on(twin), go_on(model))
    assert committee_knowledge(twin) == committee_knowledge(model)
    assert repr(twin.clone()) == repr(model.clone())


CHAINS: dict[str, Callable[[], Any]] = {
    "integrator": lambda: streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=4),
    "centred": lambda: streamlvq.TimeIntegrator(streamlvq.LGMLVQ(), window=5, centered=True),
    "gaps in numbers": lambda: streamlvq.TimeIntegrator(streamlvq.GLVQ(), max_gap=3.5),
    "few devices": lambda: streamlvq.TimeIntegrator(streamlvq.GLVQ(), max_devices=2),
    "integrated committee": lambda: streamlvq.TimeIntegrator(streamlvq.LVQCommittee()),
    "threshold": lambda: streamlvq.RelSimRejector(streamlvq.GLVQ(), threshold=0.2),
    "thresholds": lambda: streamlvq.RelSimRejector(
        streamlvq.GLVQ(), threshold={0: 0.1, "1": 0.2, 2: 1.0}
    ),
    "rate": lambda: streamlvq.RelSimRejector(streamlvq.GLVQ(), target_rate=0.2, memory=30),
    "accuracy": lambda: streamlvq.ProbabilityRejector(
        streamlvq.PairwiseLVQ(), target_accuracy=0.9, memory=50, per_class=True
    ),
    "cost": lambda: streamlvq.ProbabilityRejector(streamlvq.LVQ1(), reject_cost=0.3),
    "all": lambda: streamlvq.RelSimRejector(
        streamlvq.TimeIntegrator(streamlvq.LGMLVQ(), window=3), reject_cost=0.3, per_class=True
    ),
    "committee in all": lambda: streamlvq.ProbabilityRejector(
        streamlvq.TimeIntegrator(streamlvq.LVQCommittee()), target_rate=0.1
    ),
}


def run_chain(chain: Any, samples: int, seed: int) -> list[Any]:
    X, y = blobs(samples, seed=seed, missing=0.05)
    said: list[Any] = []
    for k, (x, label) in enumerate(zip(readings(X), y.tolist(), strict=True)):
        given: dict[str, Any] = {"device": [None, "a", 7][k % 3], "t": k + 2.0 * (k % 5)}
        said.append(chain.predict_proba_one(x, **given))
        said.append(chain.predict_one(x, **given))
        if hasattr(chain, "decide_one"):
            said.append(chain.decide_one(x, **given))
        else:
            said.append(chain.integrated_one(x, **given))
        if k % 4 == 3:
            chain.observe_one(x, **given)
        else:
            chain.learn_one(x, label + (seed if k > samples - 5 else 0), **given)
    return said


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("samples", [0, 1, 6, 90])
def test_wrappers_go_on_bit_by_bit(kind: str, samples: int) -> None:
    chain = CHAINS[kind]()
    run_chain(chain, samples, seed=0)
    twin = through_bytes(chain)
    assert_same(run_chain(twin, 60, seed=4), run_chain(chain, 60, seed=4))
    assert Snapshot.of(twin).to_bytes() == Snapshot.of(chain).to_bytes()


@pytest.mark.parametrize("kind", CHAINS)
def test_rebuilt_wrappers_share_nothing(kind: str) -> None:
    chain = CHAINS[kind]()
    run_chain(chain, 40, seed=0)
    snapshot = Snapshot.from_bytes(Snapshot.of(chain).to_bytes())
    data = snapshot.to_bytes()
    run_chain(snapshot.classifier(), 40, seed=2)
    assert snapshot.to_bytes() == data
    assert Snapshot.of(snapshot.classifier()).to_bytes() == data


def test_times_may_be_datetimes() -> None:
    def chain() -> Any:
        return streamlvq.TimeIntegrator(streamlvq.GLVQ(), max_gap=timedelta(seconds=5))

    def run(model: Any, start: int) -> list[Any]:
        said = []
        for k, (x, label) in enumerate(
            zip(readings(blobs(30)[0]), blobs(30)[1].tolist(), strict=True)
        ):
            t = datetime(2024, 5, 1, tzinfo=UTC) + timedelta(seconds=start + k + 6 * (k % 4))
            said.append(model.predict_proba_one(x, device="d", t=t))
            model.learn_one(x, label, device="d", t=t)
        return said

    model = chain()
    run(model, 0)
    twin = through_bytes(model)
    assert twin.max_gap == timedelta(seconds=5)
    assert_same(run(twin, 60), run(model, 60))


# --- windows --------------------------------------------------------------------------------------


def filled_windows(
    times: list[Any], devices: list[Any] | None = None, kept: int = 1, max_gap: Any = None
) -> Windows:
    windows = Windows(2, kept, max_gap, 100)
    for k, t in enumerate(times):
        device = k if devices is None else devices[k]
        windows.advance(device, t, windows.find(device, t), np.array([0.3, 0.7]))
    return windows


def again(windows: Windows, lie: Callable[[Any, Any], None] | None = None) -> Windows:
    arrays, extra = windows.memory()
    extra = json.loads(json.dumps(extra))
    if lie is not None:
        lie(arrays, extra)
    twin = Windows(windows.readings, windows.kept_times, windows.max_gap, windows.max_devices)
    twin.restore(arrays, extra)
    return twin


TIMES: list[Any] = [None, 0.0, -1.5, 7, 2**62, 1.7e18, datetime(2024, 5, 1), datetime.now(UTC)]


@given(
    st.lists(st.tuples(st.sampled_from(TIMES), st.sampled_from([None, "a", "ü", 7, -1, "7"]))),
    st.integers(1, 3),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_windows_come_back_with_times_of_all_kinds(stream: Any, kept: int) -> None:
    windows = filled_windows([t for t, _ in stream], [device for _, device in stream], kept)
    windows.forget("a")  # leaves a place that is free
    twin = again(windows)
    assert list(twin._slots) == list(windows._slots)
    for device, place in windows._slots.items():
        other = twin._slots[device]
        assert repr(twin.times[other]) == repr(windows.times[place])
        assert twin.counts[other] == windows.counts[place]
        np.testing.assert_array_equal(twin.logs[other], windows.logs[place])
    assert repr(again(twin).memory()) == repr(windows.memory())


def test_times_are_an_array_where_they_can_be() -> None:
    arrays, extra = filled_windows([1.0, None, np.float64(3.5)]).memory()
    np.testing.assert_array_equal(arrays["times"], [1.0, np.nan, 3.5])
    assert extra == {"devices": [0, 1, 2], "times": None}
    arrays, extra = filled_windows([1.0, 2, np.int64(3)]).memory()
    assert extra["times"] == [[1.0], [2], [3]]
    assert arrays["times"].shape == (0,)


@pytest.mark.parametrize("t", [math.inf, 1e19, 2**64, 10**400, True, "now", [1]])
def test_times_that_could_not_be_read_are_not_written(t: Any) -> None:
    with pytest.raises(ValueError, match="windows: expected times"):
        filled_windows([1.0, t]).memory()
    with pytest.raises(ValueError, match="windows: expected times"):
        again(filled_windows([1, 2]), lambda arrays, extra: extra["times"].__setitem__(0, [t]))


@pytest.mark.parametrize("device", [1.5, (1,), b"a", frozenset()])
def test_devices_of_other_kinds_are_refused(device: Any) -> None:
    with pytest.raises(ValueError, match="devices named by text or whole numbers"):
        filled_windows([1.0, 2.0], ["a", device]).memory()
    with pytest.raises(ValueError, match="devices named by text or whole numbers"):
        again(filled_windows([1.0]), lambda arrays, extra: extra.update(devices=[device]))


WINDOW_LIES: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "too few times": (lambda a, e: a.update(times=a["times"][1:]), "for each of 3 devices"),
    "no times": (lambda a, e: e.update(times=[[], [], []]), "1 to 1 times"),
    "too many times": (lambda a, e: e.update(times=[[1.0, 2.0]] * 3), "1 to 1 times"),
    "a table of times": (lambda a, e: a.update(times=np.zeros((3, 1))), "expected times"),
    "endless time": (lambda a, e: a.update(times=np.full(3, np.inf)), "expected times"),
    "no time": (lambda a, e: a.update(times=np.full(3, np.nan)), "max_gap=5.0, got NoneType"),
    "datetimes": (lambda a, e: e.update(times=[[{"datetime": "2024-05-01"}]] * 3), "got datetime"),
    "a dictionary": (lambda a, e: e.update(times=[[{"date": "2024-05-01"}]] * 3), "expected times"),
    "a device twice": (lambda a, e: e.update(devices=["a", "a", "b"]), "all different"),
    "1 and True": (lambda a, e: e.update(devices=["a", 1, True]), "all different"),
    "devices by number": (lambda a, e: e.update(devices={"a": 1}), "a list of devices"),
}


@pytest.mark.parametrize("case", WINDOW_LIES)
def test_lies_about_windows_are_found(case: str) -> None:
    lie, message = WINDOW_LIES[case]
    with pytest.raises(ValueError, match=message):
        again(filled_windows([1.0, 2.0, 3.0], max_gap=5.0), lie)


def test_many_windows_are_captured_quickly() -> None:
    windows = Windows(4, 1, None, 100_000)
    for k in range(100_000):
        windows.advance(f"device {k}", float(k), NO_WINDOW, np.array([0.3, 0.7]))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        windows.memory()
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5, "it keeps readings waiting"


@pytest.mark.parametrize(
    "classifier",
    [
        preprocessing.StandardScaler() | streamlvq.GLVQ(),
        streamlvq.TimeIntegrator(preprocessing.StandardScaler() | streamlvq.GLVQ()),
        streamlvq.GLVQ,
        None,
        "GLVQ",
    ],
    ids=["pipeline", "wrapped pipeline", "class", "None", "text"],
)
def test_other_classifiers_are_refused(classifier: Any) -> None:
    with pytest.raises(SnapshotError, match="expected a model of streamlvq"):
        Snapshot.of(classifier)


def test_models_derived_by_others_are_refused() -> None:
    class Mine(streamlvq.GLVQ):
        pass

    with pytest.raises(SnapshotError, match="expected a model of streamlvq"):
        Snapshot.of(Mine())


def test_every_model_and_wrapper_is_known() -> None:
    known = {*model_names(), *WRAPPER_CLASSES, "LVQCommittee"}
    public = {n for n in streamlvq.__all__ if hasattr(getattr(streamlvq, n), "learn_one")}
    assert known == {*MODELS, *WRAPPER_CLASSES, *private_classes()}
    assert public <= known


def test_every_section_is_kept_or_follows() -> None:
    floats = {
        n
        for n in (*FIXED_SIZES, *ARRAY_SECTIONS)
        if (FIXED_SIZES.get(n) or ARRAY_SECTIONS[n])[0] < at.FLOAT_SECTIONS
    }
    assert set(NAMES) | set(DERIVED) == {*FIXED_SIZES, *ARRAY_SECTIONS}
    assert set(BOUNDS) == floats - set(DERIVED)


def test_arrays_in_folders() -> None:
    arrays = {"a": np.zeros(1), **prefixed("x", {"a": np.ones(1), "y/b": np.ones(2)})}
    own, parts = split(arrays, ("x", "z"))
    assert list(own) == ["a"]
    assert list(parts["x"]) == ["a", "y/b"]
    assert parts["z"] == {}


def test_order_of_pairs_is_that_of_the_kernels() -> None:
    model = learnt(build("PairwiseLVQ"), *blobs(100, classes=5))
    state = model._engine.state
    labels = state["label"][: state.size(at.N_PROTOTYPES)]
    np.testing.assert_array_equal(labels, pair_labels(5))
    np.testing.assert_array_equal(
        class_sizes(state["label"], len(state["class_size"])), state["class_size"]
    )


# --- without readings -----------------------------------------------------------------------------


def test_without_readings_none_is_in_the_file(name: str) -> None:
    X, y = blobs(200)
    model = learnt(build(name), X, y)
    data = Snapshot.of(model, readings=False).to_bytes()
    arrays, _ = decode(data)
    assert not [key for key in arrays if key.startswith("buffer")]
    born_on = {p.index: list(p.values.values()) for p in model.prototypes()}
    still = sum(row.tobytes() in data for row in X)
    untouched = sum(any(np.array_equal(row, w) for w in born_on.values()) for row in X)
    assert still == untouched, "only prototypes that have not moved may equal a reading"
    assert sum(row.tobytes() in Snapshot.of(model).to_bytes() for row in X) == 200


def test_without_readings_answers_are_nearly_the_same(name: str) -> None:
    X, y = blobs(150, classes=5, missing=0.05)
    model = learnt(build(name), X, y)
    twin = through_bytes(model, readings=False)
    assert twin._engine.state.size(at.STORED) == 0
    assert len(twin._engine.state["buffer_y"]) == len(model._engine.state["buffer_y"])
    alike = [twin.predict_one(x) == model.predict_one(x) for x in readings(X)]
    assert sum(alike) >= 0.9 * len(alike)
    places = [(p.label, p.values) for p in model.prototypes()]
    assert repr([(p.label, p.values) for p in twin.prototypes()]) == repr(places)
    # Rounded peaks err by up to 2 ** .25, squared scales by 2 ** .5, and shares of their sum by 2.
    for feature, relevance in model.relevances().items():
        assert relevance / 2 <= twin.relevances()[feature] + 0.01 <= 2 * relevance + 0.02
    learnt(twin, *blobs(60, seed=9, classes=7))  # grows again
    assert twin._engine.state.size(at.STORED) == 60


def test_without_readings_nothing_changes_when_it_is_shared_again(name: str) -> None:
    model = learnt(build(name), *blobs(150, classes=5, missing=0.05))
    shared = Snapshot.of(model, readings=False)
    assert Snapshot.of(shared.classifier(), readings=False).to_bytes() == shared.to_bytes()
    whole = type(model).shared_state(Snapshot.of(model).estimator_state())  # with room to grow
    again = Snapshot.of(Snapshot(whole).classifier(), readings=False)
    assert again.to_bytes() == shared.to_bytes()


def test_without_readings_no_trace_of_a_single_one_is_left(name: str) -> None:
    X, y = blobs(150, classes=5, missing=0.05)
    model = learnt(build(name), X, y)
    state = Snapshot.of(model, readings=False).estimator_state()
    arrays, sizes = state.arrays, state.extra["sizes"]
    count = sizes["prototypes"]
    assert not arrays["born"].any()
    assert sizes["random"] == 1 + sizes["seed"]  # as before the first draw
    for counts in ("wins", "usefulness"):
        used = np.abs(arrays[counts][arrays[counts] != 0.0])
        assert (np.log2(used) == np.rint(np.log2(used))).all()
    assert (arrays["w_moment"][:count] == arrays["w_moment"][:count, :1]).all()
    largest = np.nanmax(np.abs(X - model.engine.state["mean"]), axis=0)
    assert not np.isin(arrays["peak"], [*largest, *model.engine.state["peak"]]).any()
    assert not {"class_low", "class_high"} & arrays.keys()


def test_without_readings_learning_goes_on_sanely(name: str) -> None:
    X, y = blobs(300, classes=4)
    model = learnt(build(name), X[:200], y[:200])
    twin = through_bytes(model, readings=False)
    before = np.mean(
        [twin.predict_one(x) == label for x, label in zip(readings(X), y, strict=True)]
    )
    learnt(twin, X[200:], y[200:])
    after = np.mean([twin.predict_one(x) == label for x, label in zip(readings(X), y, strict=True)])
    assert after >= before - 0.05
    assert np.isfinite(twin.engine.state["w"][: twin.engine.state.size(at.N_PROTOTYPES)]).all()


def test_without_readings_it_is_small() -> None:
    X, y = blobs(2500, d=64, classes=10)
    model = learnt(streamlvq.GLVQ(max_prototypes_per_class=1), X, y)
    assert len(Snapshot.of(model, readings=False).to_bytes()) < 40_000
    assert len(Snapshot.of(model).to_bytes()) > 1_000_000


def test_without_readings_windows_and_certainties_are_left_out() -> None:
    chain = CHAINS["rate"]()
    run_chain(chain, 60, seed=0)
    shared = through_bytes(chain, readings=False)
    assert shared.threshold_for() == CHAINS["rate"]().threshold_for()
    assert through_bytes(chain).threshold_for() == chain.threshold_for()
    integrator = CHAINS["integrator"]()
    run_chain(integrator, 60, seed=0)
    snapshot = Snapshot.of(integrator, readings=False)
    assert not [name for name in decode(snapshot.to_bytes())[0] if name.startswith("memory")]
    assert len(snapshot.classifier()._windows) == 0
    assert len(through_bytes(integrator)._windows) == 3


# --- what a snapshot says -------------------------------------------------------------------------


def test_snapshot_tells_what_it_knows() -> None:
    X, y = blobs(300, missing=0.1)
    names = np.array(["a", "b", "c"])[y]
    model = learnt(streamlvq.GLVQ(), X, names)
    snapshot = Snapshot.from_bytes(Snapshot.of(model, node="press 4").to_bytes())
    assert (snapshot.node, snapshot.type_name, snapshot.samples) == ("press 4", "GLVQ", 300)
    assert snapshot.features == ("f00", "f01", "f02", "f03")
    assert snapshot.labels == ("a", "b", "c")
    assert snapshot.counts == {label: int((names == label).sum()) for label in "abc"}
    for label in "abc":
        mine = X[names == label]
        means, spreads = np.nanmean(mine, axis=0), np.nanstd(mine, axis=0)
        np.testing.assert_allclose(list(snapshot.means[label].values()), means)
        np.testing.assert_allclose(list(snapshot.spreads[label].values()), spreads)
        assert list(snapshot.seen[label].values()) == (~np.isnan(mine)).sum(axis=0).tolist()
    assert snapshot.prototypes == model.prototypes()
    assert snapshot.relevances == model.relevances()
    assert snapshot.created is None
    assert snapshot.has_readings
    assert repr(snapshot) == (
        "Snapshot(GLVQ of node 'press 4': 300 samples, 4 features, 3 classes)"
    )


def test_snapshot_of_nothing() -> None:
    snapshot = Snapshot.from_bytes(Snapshot.of(streamlvq.LGMLVQ()).to_bytes())
    assert snapshot.samples == 0
    assert (snapshot.features, snapshot.labels, snapshot.prototypes) == ((), (), [])
    assert (snapshot.counts, snapshot.means, snapshot.relevances) == ({}, {}, {})
    assert "nothing learnt yet" in inspect_text(snapshot)


def test_features_that_a_class_never_had_are_missing() -> None:
    model = streamlvq.GLVQ()
    model.learn_one({"x": 1.0}, "a")
    model.learn_one({"x": 1.0, "y": 2.0}, "b")
    snapshot = Snapshot.of(model)
    assert math.isnan(snapshot.means["a"]["y"])
    assert math.isnan(snapshot.spreads["a"]["y"])
    assert snapshot.seen["a"]["y"] == 0.0
    assert snapshot.means["b"]["y"] == 2.0


def test_snapshot_sees_through_wrappers_and_committees() -> None:
    chain = CHAINS["committee in all"]()
    run_chain(chain, 80, seed=0)
    snapshot = Snapshot.of(chain)
    assert snapshot.type_name == "ProbabilityRejector(TimeIntegrator(LVQCommittee))"
    assert list(snapshot.members) == ["learner", "follower", "forest", "bins"]
    assert snapshot.weights == chain.classifier.classifier.weights
    assert repr(snapshot.prototypes) == repr(snapshot.members["learner"].prototypes())
    assert snapshot.samples == 60


def test_time_is_written_only_if_it_is_given() -> None:
    model = learnt(streamlvq.GLVQ(), *blobs(10))
    when = datetime(2024, 5, 1, 12, tzinfo=UTC)
    dated = Snapshot.of(model, created=when)
    assert dated.created == when
    assert Snapshot.from_bytes(dated.to_bytes()).created == when
    assert Snapshot.of(model, created=when.timestamp()).to_bytes() == dated.to_bytes()
    assert Snapshot.of(model).to_bytes() == Snapshot.of(model).to_bytes() != dated.to_bytes()
    for wrong in (1e300, math.nan, "today"):
        with pytest.raises(SnapshotError, match="created: expected seconds since 1970"):
            Snapshot.of(model, created=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("node", ["", "a\nb", "x" * 201, 7, None])
def test_nodes_need_a_name(node: Any) -> None:
    with pytest.raises(SnapshotError, match="node: expected 1 to 200 printable characters"):
        Snapshot.of(streamlvq.GLVQ(), node=node)


# --- as a table -----------------------------------------------------------------------------------


def test_table_shows_every_model(name: str) -> None:
    text = inspect_text(Snapshot.of(learnt(build(name), *blobs(60))))
    assert text.startswith(f"{name} of node n1\n60 samples, 4 features, 3 classes")
    assert "f00" in text
    assert "relevance" in text
    prototypes = len(learnt(build(name), *blobs(60)).prototypes())
    table = text.split("\n\n")[2].splitlines()
    assert len(table) == 1 + prototypes
    assert ("against" in table[0]) == (name not in GROWING)


def test_table_shows_the_most_relevant_features_that_fit() -> None:
    model = learnt(streamlvq.GRLVQ(), *blobs(200, d=20))
    relevances = model.relevances()
    ranked = sorted(relevances, key=lambda n: -relevances[n])
    text = inspect_text(Snapshot.of(model), features=5)
    assert text.split("\n\n")[2].splitlines()[0].split()[3:] == ranked[:5]
    assert "and 15 more features, together 0." in text
    narrow = inspect_text(Snapshot.of(model), width=40)
    assert max(map(display_width, narrow.splitlines()[2:])) <= 40
    assert ranked[0] in narrow.split("\n\n")[2]
    assert ranked[-1] not in narrow.split("\n\n")[2]


def test_table_shows_both_members_of_a_committee() -> None:
    text = inspect_text(Snapshot.of(learnt(streamlvq.LVQCommittee(), *blobs(50))))
    assert "learner: LGMLVQ, weight" in text
    assert "follower: GLVQ, weight" in text


def test_table_is_aligned_and_safe_whatever_names_hold() -> None:
    model = streamlvq.GLVQ()
    for k in range(6):
        model.learn_one(
            {"温度": float(k), "esc\x1b[31m": 1.0, "x" * 60: 2.0}, "läuft\n" * (k % 2) or 1
        )
    text = inspect_text(Snapshot.of(model))
    assert "\x1b" not in text
    table = text.split("\n\n")[2].splitlines()
    assert len({display_width(line) for line in table}) == 1
    assert "x" * 23 + "…" in text


def test_table_says_when_and_with_what() -> None:
    when = datetime(2024, 5, 1, 12, tzinfo=UTC)
    text = inspect_text(Snapshot.of(streamlvq.GLVQ(), created=when, readings=False))
    assert text.startswith("GLVQ of node n1, 2024-05-01 12:00:00+00:00\n")
    assert "without readings" in text


# --- states and arrays ----------------------------------------------------------------------------


def test_description_is_a_copy() -> None:
    model = learnt(streamlvq.GLVQ(), *blobs(20))
    arrays, meta = described(model)
    for array in arrays.values():
        assert not np.shares_memory(array, model._engine.floats)
        assert not np.shares_memory(array, model._engine.ints)
    twin = rebuilt(arrays, meta)
    before = knowledge(twin)
    for array in arrays.values():
        array[...] = 0
    assert knowledge(twin) == before
