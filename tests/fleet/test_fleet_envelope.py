"""Envelopes: one way to write them, one way to read them, and no way to change them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlvq.fleet import (
    MEANINGS,
    REASONS,
    EnvelopeRefused,
    Header,
    PrivateKey,
    TrustedKeys,
    parse_envelope,
    seal,
)
from streamlvq.fleet.envelope import (
    CONTEXT,
    CREATED_MAX,
    ENVELOPE_HEADER_MAX_BYTES,
    NUMBER_MAX,
    digest_of,
)
from streamlvq.topics import MAX_VALUE_BYTES, clean, original

LIMIT = 10_000
HEADER = Header("plant", "camera 1", "snapshot", epoch=3, sequence=9, created=1_800_000_000.25)
PAYLOAD = b"what was learnt" * 10
KEY = PrivateKey.new()
TRUST = TrustedKeys({"camera 1": KEY.public})

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(str.isprintable)
numbers = st.integers(0, NUMBER_MAX)
headers = st.builds(
    Header,
    fleet=names,
    node=names,
    kind=st.sampled_from(["snapshot", "model"]),
    epoch=numbers,
    sequence=numbers,
    created=st.floats(0.0, CREATED_MAX, exclude_max=True),
    author=names,
    length=numbers,
    digest=st.binary(min_size=32, max_size=32),
)


def refusal(data: bytes, trust: TrustedKeys | None = TRUST, limit: int = LIMIT) -> EnvelopeRefused:
    with pytest.raises(EnvelopeRefused) as caught:
        parse_envelope(data, limit=limit).check(trust)
    assert caught.value.reason in REASONS
    return caught.value


# --- headers -------------------------------------------------------------------------------------


@given(headers)
def test_a_header_comes_back_from_its_bytes(header: Header) -> None:
    data = header.to_bytes()
    assert Header.from_bytes(data) == header
    assert Header.from_bytes(data).to_bytes() == data
    assert len(data) <= ENVELOPE_HEADER_MAX_BYTES


@given(headers, headers)
def test_different_headers_have_different_bytes(first: Header, second: Header) -> None:
    assert (first == second) == (first.to_bytes() == second.to_bytes())
    assert (first == second) == (digest_of(first) == digest_of(second))


@given(st.binary(max_size=200))
def test_bytes_are_read_in_one_way_or_not_at_all(data: bytes) -> None:
    """No two byte strings mean the same header, or a signature could be carried over."""
    try:
        header = Header.from_bytes(data)
    except EnvelopeRefused as error:
        assert error.reason == "malformed"
    else:
        assert header.to_bytes() == data


@given(headers, st.integers(0, 10_000), st.integers(0, 255))
def test_every_byte_of_a_header_has_a_meaning(header: Header, place: int, other: int) -> None:
    data = bytearray(header.to_bytes())
    data[place % len(data)] = other
    try:
        read = Header.from_bytes(bytes(data))
    except EnvelopeRefused:
        return
    assert (read == header) == (bytes(data) == header.to_bytes())


def test_names_cannot_run_into_each_other() -> None:
    first = replace(HEADER, fleet="ab", node="c", author="d")
    second = replace(HEADER, fleet="a", node="bc", author="d")
    assert first.to_bytes() != second.to_bytes()


def test_who_writes_about_itself_need_not_say_so() -> None:
    assert HEADER.author == "camera 1"
    assert replace(HEADER, author="hub").author == "hub"
    assert HEADER.number == (3, 9)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"fleet": ""}, "fleet: expected 1 to 200 printable"),
        ({"node": "a\nb"}, "node: expected 1 to 200 printable"),
        ({"node": "x" * 201}, "node: expected 1 to 200 printable"),
        ({"node": "ü" * 128}, "at most 255 bytes"),
        ({"author": "\0"}, "author: expected"),
        ({"node": 7}, "node: expected"),
        ({"kind": "secret"}, "kind: expected one of snapshot, model, got 'secret'"),
        ({"epoch": -1}, "epoch: expected a whole number from 0 to"),
        ({"epoch": NUMBER_MAX + 1}, "epoch: expected a whole number from 0 to"),
        ({"sequence": 1.0}, "sequence: expected a whole number"),
        ({"sequence": True}, "sequence: expected a whole number"),
        ({"created": float("nan")}, "created: expected seconds since 1970, got 'NaN'"),
        ({"created": -1.0}, "created: expected seconds since 1970"),
        ({"created": CREATED_MAX}, "created: expected seconds since 1970"),
        ({"created": "now"}, "created: expected seconds since 1970"),
        ({"digest": b"short"}, "digest: expected 32 bytes"),
    ],
)
def test_headers_that_make_no_sense(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(EnvelopeRefused, match=words) as caught:
        replace(HEADER, **wrong)
    assert caught.value.reason == "malformed"


@given(names)
def test_a_topic_carries_every_name_uncut(name: str) -> None:
    header = replace(HEADER, node=name, author=name)
    assert len(clean(header.node).encode()) < MAX_VALUE_BYTES
    assert original(clean(header.node)) == name


# --- envelopes -----------------------------------------------------------------------------------


@given(st.binary(max_size=500), st.booleans())
@settings(deadline=None)
def test_there_and_back(payload: bytes, signed: bool) -> None:
    sealed = parse_envelope(seal(payload, HEADER, KEY if signed else None), limit=LIMIT)
    assert sealed.payload == payload
    assert sealed.header == replace(
        HEADER, length=len(payload), digest=sealed.header.digest, author="camera 1"
    )
    assert len(sealed.signature) == (64 if signed else 0)
    sealed.check(None)
    if signed:
        sealed.check(TRUST)


def test_the_same_gives_the_same_bytes() -> None:
    assert seal(PAYLOAD, HEADER, KEY) == seal(PAYLOAD, HEADER, KEY)


def test_what_the_caller_says_about_the_payload_does_not_matter() -> None:
    lying = replace(HEADER, length=3, digest=b"x" * 32)
    assert seal(PAYLOAD, lying, KEY) == seal(PAYLOAD, HEADER, KEY)


def test_the_digest_stands_for_header_and_payload() -> None:
    def digest(payload: bytes, header: Header, key: PrivateKey | None = KEY) -> str:
        return parse_envelope(seal(payload, header, key), limit=LIMIT).digest

    assert digest(PAYLOAD, HEADER) == digest(PAYLOAD, HEADER, None)
    assert digest(PAYLOAD, HEADER) != digest(PAYLOAD + b".", HEADER)
    assert digest(PAYLOAD, HEADER) != digest(PAYLOAD, replace(HEADER, sequence=10))


def test_every_bit_counts() -> None:
    """Whatever single bit is changed, a signed envelope is refused."""
    data = seal(b"short", HEADER, KEY)
    for place in range(len(data)):
        for bit in range(8):
            spoilt = bytearray(data)
            spoilt[place] ^= 1 << bit
            refusal(bytes(spoilt))


def test_every_length_counts() -> None:
    data = seal(PAYLOAD, HEADER, KEY)
    for length in range(len(data)):
        assert refusal(data[:length]).reason == "truncated"
    assert refusal(data + b".").reason == "malformed"


def test_signatures_are_made_for_envelopes_only() -> None:
    """What the key signs without our words before it is worth nothing here."""
    honest = seal(PAYLOAD, HEADER, KEY)
    header = parse_envelope(honest, limit=LIMIT).header
    signature = parse_envelope(honest, limit=LIMIT).signature
    other = KEY.sign(header.to_bytes())
    assert signature == KEY.sign(CONTEXT + header.to_bytes()) != other
    assert refusal(honest.replace(signature, other)).reason == "signature"


def test_reasons() -> None:
    data = seal(PAYLOAD, HEADER, KEY)
    assert refusal(data, limit=len(data) - 1).reason == "oversized"
    assert parse_envelope(data, limit=len(data)).payload == PAYLOAD
    assert refusal(b"").reason == "truncated"
    assert refusal(b"PNG").reason == "malformed"
    assert refusal(data[:7] + b"\x02" + data[8:]).reason == "schema"
    assert refusal(seal(PAYLOAD, HEADER, None)).reason == "unsigned"
    assert refusal(seal(PAYLOAD, HEADER, PrivateKey.new())).reason == "signature"
    assert refusal(seal(PAYLOAD, replace(HEADER, author="hub"), KEY)).reason == "unknown_key"
    assert refusal(data[:-1] + b"?").reason == "damaged"
    assert refusal(data[:-1] + b"?", trust=None).reason == "damaged"


def test_who_trusts_everyone_takes_signed_and_unsigned_ones() -> None:
    for key in (None, KEY, PrivateKey.new()):
        parse_envelope(seal(PAYLOAD, HEADER, key), limit=LIMIT).check(None)


def test_nobody_is_trusted_by_default() -> None:
    assert refusal(seal(PAYLOAD, HEADER, KEY), trust=TrustedKeys()).reason == "unknown_key"


def test_refusals_say_what_to_do() -> None:
    assert "streamlvq keys new" in str(refusal(seal(PAYLOAD, HEADER, None)))
    assert "--replace" in str(refusal(seal(PAYLOAD, HEADER, PrivateKey.new())))
    stranger = replace(HEADER, node="x" * 200, author="x" * 200)
    text = str(refusal(seal(PAYLOAD, stranger, KEY)))
    assert "streamlvq keys trust" in text
    assert "x" * 70 in text and "x" * 100 not in text


def test_every_reason_has_a_meaning() -> None:
    assert tuple(MEANINGS) == REASONS
    assert all(MEANINGS.values())
    with pytest.raises(ValueError, match="expected one of oversized"):
        EnvelopeRefused("bored", "no")


def test_importing_the_library_needs_no_cryptography() -> None:
    code = (
        "import sys; import streamlvq; assert 'cryptography' not in sys.modules\n"
        "from streamlvq.fleet import Header, PrivateKey, seal, parse_envelope\n"
        "assert 'cryptography' not in sys.modules\n"
        "sys.modules['cryptography'] = None\n"
        "h = Header('f', 'n', 'snapshot', 1, 1, 0.0)\n"
        "parse_envelope(seal(b'x', h, None), limit=999).check(None)\n"
        "from streamlvq.errors import MissingExtraError\n"
        "try: PrivateKey.new()\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "this needs cryptography: pip install 'streamlvq[fleet]'\n"
