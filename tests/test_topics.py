"""Topic templates: what they match, what they refuse, and names that must not break a topic."""

from __future__ import annotations

import time

import paho.mqtt.client as paho
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamlvq.topics import (
    MAX_TOPIC_BYTES,
    MAX_VALUE_BYTES,
    Template,
    TemplateError,
    clean,
    original,
)
from support.brokers import BrokerProcess, broker  # noqa: F401

# Few letters, so that random filters and topics often meet.
LEVELS = st.sampled_from(["", "a", "b", "ab", "$a", "plant"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=5).map("/".join).filter(bool)
TEMPLATE_LEVELS = st.sampled_from(["a", "b", "plant", "$a", "+", "NAMED"])
PLAIN = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="+#/*>%$"), min_size=1
)
ANYTHING = st.text(st.characters(exclude_categories=[]))


@st.composite
def templates(draw: st.DrawFn) -> Template:
    levels = draw(st.lists(TEMPLATE_LEVELS, min_size=1, max_size=5))
    levels = [f"{{p{i}}}" if level == "NAMED" else level for i, level in enumerate(levels)]
    if draw(st.booleans()):
        levels.append("#")
    return Template("/".join(levels))


def delivered(filter_: list[str], topic: list[str], first: bool = True) -> bool:
    """The rules of the MQTT specification, level by level."""
    if first and topic[0].startswith("$") and filter_[0] in ("+", "#"):
        return False
    if not filter_:
        return not topic
    if filter_[0] == "#":
        return True
    if not topic:
        return False
    return filter_[0] in ("+", topic[0]) and delivered(filter_[1:], topic[1:], False)


# --- matching ------------------------------------------------------------------------------------


@given(templates(), TOPICS)
def test_a_template_matches_what_a_broker_would_deliver(template: Template, topic: str) -> None:
    matched = template.match(topic) is not None
    assert matched == delivered(template.filter.split("/"), topic.split("/"))
    assert matched == paho.topic_matches_sub(template.filter, topic)


@given(templates(), st.lists(LEVELS, min_size=6, max_size=6))
def test_placeholders_are_the_levels_in_their_place(template: Template, fill: list[str]) -> None:
    pairs = zip(template.levels, fill, strict=False)
    levels = [new if old in ("+", "#") or "{" in old else old for old, new in pairs]
    assume(not levels[0].startswith("$") or template.levels[0].startswith("$"))
    assume(any(levels))
    found = template.match("/".join(levels))
    expected = {
        level[1:-1]: levels[i] for i, level in enumerate(template.levels) if level.startswith("{")
    }
    assert found == expected
    assert tuple(found or ()) == template.placeholders


@given(templates(), templates(), TOPICS)
def test_templates_that_share_a_topic_overlap(a: Template, b: Template, topic: str) -> None:
    if a.match(topic) is not None and b.match(topic) is not None:
        assert a.overlaps(b)
        assert b.overlaps(a)


@given(templates(), templates())
def test_templates_overlap_only_if_there_is_such_a_topic(a: Template, b: Template) -> None:
    """The one that is most alike: fixed levels where either has one, `x` elsewhere."""
    first, second = a.filter.split("/"), b.filter.split("/")
    width = max(len(first), len(second)) - 1
    candidates = []
    for size in (width, width + 1):
        padded = [[*f[: f.index("#")], *["+"] * size] if "#" in f else f for f in (first, second)]
        pairs = zip(padded[0][:size], padded[1][:size], strict=False)
        candidates.append("/".join(next((p for p in pair if p != "+"), "x") for pair in pairs))
    found = any(a.match(t) is not None and b.match(t) is not None for t in candidates if t)
    assert a.overlaps(b) == found


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("a/{device}", "a/b", True),
        ("a/{device}", "b/{device}", False),
        ("a/#", "a", True),
        ("a/b/#", "a", False),
        ("#", "$SYS/load", False),
        ("{device}/x", "$SYS/x", False),
        ("a/{x}/c", "a/b/{y}", True),
        ("a/{x}", "a/{x}/c", False),
    ],
)
def test_overlaps(first: str, second: str, overlap: bool) -> None:
    assert Template(first).overlaps(Template(second)) is overlap
    assert Template(second).overlaps(Template(first)) is overlap


def test_a_level_may_be_empty() -> None:
    assert Template("a/{device}/r").match("a//r") == {"device": ""}


def test_wildcards_at_the_start_leave_the_topics_of_the_broker_alone() -> None:
    assert Template("{a}/{b}").match("$SYS/uptime") is None
    assert Template("$SYS/{b}").match("$SYS/uptime") == {"b": "uptime"}


def test_a_newline_in_a_topic_is_a_character_like_any_other() -> None:
    assert Template("a/{device}").match("a/b\n") == {"device": "b\n"}
    assert Template("a/#").match("a/b\nc/d") == {}
    assert Template("a/b").match("a/b\n") is None


# --- filling -------------------------------------------------------------------------------------


@given(PLAIN, PLAIN)
def test_clean_values_come_back_as_they_were(site: str, device: str) -> None:
    assume(max(len(site.encode()), len(device.encode())) <= MAX_VALUE_BYTES)
    template = Template("plant/{site}/{device}/decision", publish=True)
    values = {"site": site, "device": device}
    assert template.fill(values) == f"plant/{site}/{device}/decision"
    assert template.match(template.fill(values)) == values


@given(ANYTHING, ANYTHING)
def test_any_two_values_stay_different(a: str, b: str) -> None:
    assert (clean(a) == clean(b)) == (a == b)


@given(ANYTHING)
def test_any_value_becomes_one_harmless_level(value: str) -> None:
    level = clean(value)
    assert level
    assert not level.startswith("$")
    assert not set(level) & set("+#/*> ")
    assert level.isascii() or level.encode("utf-8").decode() == level
    assert all(ord(c) > 0x20 and not 0x7F <= ord(c) <= 0x9F for c in level)
    assert len(level.encode()) <= MAX_VALUE_BYTES
    template = Template("a/{device}/b", publish=True)
    assert template.match(template.fill({"device": value})) == {"device": level}


@given(st.text())  # no lone surrogates: they are names that nobody can write down
def test_the_original_can_be_had_back(value: str) -> None:
    assume(len(value) * 12 <= MAX_VALUE_BYTES)  # at most 4 bytes each, 3 characters for a byte
    assert original(clean(value)) == value


@given(ANYTHING)
def test_levels_of_others_are_left_alone(level: str) -> None:
    """`original` takes anything, and undoes nothing but what `clean` did."""
    value = original(level)
    assert value == level or clean(value) == level


@pytest.mark.parametrize("level", ["50%", "a%2", "%zz", "%2f", "%41", "%FF", "a+b", "%~00"])
def test_percent_signs_that_are_not_ours_stay(level: str) -> None:
    assert original(level) == level


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("pump 7", "pump%207"),
        ("a/b", "a%2Fb"),
        ("+", "%2B"),
        ("#1", "%231"),
        ("*>", "%2A%3E"),
        ("$SYS", "%24SYS"),
        ("a$b", "a$b"),
        ("50%", "50%25"),
        ("", "%"),
        ("\x00", "%00"),
        ("tab\t", "tab%09"),
        ("\x85", "%C2%85"),
        ("\ufffe", "%EF%BF%BE"),
        ("Pumpe Süd", "Pumpe%20Süd"),
        ("泵7", "泵7"),
    ],
)
def test_how_values_are_written(value: str, level: str) -> None:
    assert clean(value) == level
    assert original(level) == value


def test_half_a_character_is_no_name() -> None:
    """It can be made fit for a topic, but what comes back must be a text that can be written."""
    assert clean("\ud800") == "%ED%A0%80"
    assert original("%ED%A0%80") == "%ED%A0%80"


def test_long_values_are_cut_and_stay_different() -> None:
    names = ["x" * 2000, "x" * 2001, "x" * 1999 + "y", "ü" * 1000, "/" * 1000]
    levels = [clean(name) for name in names]
    assert len(set(levels)) == len(names)
    assert all(len(level.encode()) <= MAX_VALUE_BYTES for level in levels)
    assert [original(level) for level in levels] == levels
    assert clean("x" * MAX_VALUE_BYTES) == "x" * MAX_VALUE_BYTES


def test_values_that_are_not_asked_for_are_left_out() -> None:
    assert Template("a/{x}").fill({"x": "1", "y": "2"}) == "a/1"
    assert Template("a/b").fill({}) == "a/b"


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(TemplateError, match=r"a value for device .* got \['site'\]"):
        Template("{site}/{device}").fill({"site": "leeds"})


@pytest.mark.parametrize("text", ["a/#", "{device}/+", "+"])
def test_wildcards_cannot_be_filled(text: str) -> None:
    with pytest.raises(TemplateError, match="without wildcards"):
        Template(text).fill({"device": "x"})


# --- templates that are refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name for each level, got an empty one in ''"),
        ("a//b", "expected a name for each level, got an empty one in 'a//b'"),
        ("a/", "expected a name for each level, got an empty one in 'a/'"),
        ("/", "expected a name for each level, got an empty one in '/'"),
        ("{x}/{x}", "expected each placeholder once, got {x} twice in '{x}/{x}'"),
        ("a/{x", "expected a '}' for each '{', got '{x' in 'a/{x'"),
        ("a/x}", "expected a '}' for each '{', got 'x}' in 'a/x}'"),
        ("a/{}", "expected a name of letters, digits and _ in the braces, got '{}' in 'a/{}'"),
        ("{a b}", "expected a name of letters, digits and _ in the braces, got '{a b}' in '{a b}'"),
        ("{1}", "expected a name of letters, digits and _ in the braces, got '{1}' in '{1}'"),
        (
            "a/dev-{x}",
            "expected a placeholder as a level of its own, such as {device}, "
            "got 'dev-{x}' in 'a/dev-{x}'",
        ),
        (
            "{x}{y}",
            "expected a placeholder as a level of its own, such as {device}, "
            "got '{x}{y}' in '{x}{y}'",
        ),
        ("a/b#", "expected a wildcard as a level of its own, got 'b#' in 'a/b#'"),
        ("a/b+/c", "expected a wildcard as a level of its own, got 'b+' in 'a/b+/c'"),
        ("#/a", "expected '#' only as the last level, got '#/a'"),
        ("a\x00b", "expected a topic of printable characters, got '\\x00' in 'a\\x00b'"),
    ],
)
def test_bad_templates(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a/+",
            "expected a topic to publish to, got the wildcard '+' in 'a/+'; "
            "name the level instead, such as {device}",
        ),
        (
            "$SYS/x",
            "expected a topic to publish to, got '$SYS/x'; "
            "those that begin with $ are the broker's own",
        ),
    ],
)
def test_bad_templates_to_publish_to(text: str, message: str) -> None:
    Template(text)
    with pytest.raises(TemplateError) as caught:
        Template(text, publish=True)
    assert str(caught.value) == message


def test_a_topic_can_never_become_too_long() -> None:
    names = "/".join(f"{{p{i}}}" for i in range(10))
    template = Template(f"{'a' * 50_000}/{names}", publish=True)
    topic = template.fill({f"p{i}": "/" * 5000 for i in range(10)})
    assert len(topic.encode()) <= MAX_TOPIC_BYTES
    with pytest.raises(TemplateError, match="at most 65535 bytes"):
        Template(f"{'a' * 60_000}/{names}")


@given(st.text("ab{}+#/$ ", max_size=12))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        template = Template(text)
    except TemplateError:
        return
    assert template.filter.count("+") >= len(template.placeholders)
    assert "{" not in template.filter


def test_templates_compare_and_show_themselves() -> None:
    assert Template("a/{x}") == Template("a/{x}") != Template("a/{x}", publish=True)
    assert len({Template("a"), Template("a"), Template("b")}) == 2
    assert repr(Template("a/{x}", publish=True)) == "Template('a/{x}', publish=True)"
    assert Template("a") != "a"


def test_a_leading_slash_is_allowed() -> None:
    assert Template("/home/{device}").match("/home/lamp") == {"device": "lamp"}


# --- real brokers --------------------------------------------------------------------------------


def test_brokers_take_topics_of_any_device(broker: BrokerProcess) -> None:  # noqa: F811
    """Each name arrives under its own topic, and nobody is disconnected."""
    names = [
        "a b",
        "a/b",
        "+",
        "#",
        "$SYS",
        "",
        "50%",
        "\x00\x01",
        "\x85",
        "\ufffe",
        "\ud800",
        "泵",
    ]
    names += ["x" * 1500, "a.b", "*", ">", "\n", "\U0001f600"]
    template = Template("test/{device}/decision", publish=True)
    topics = [template.fill({"device": name}) for name in names]
    arrived: list[str] = []
    lost: list[object] = []
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: arrived.append(message.topic)
    client.on_disconnect = lambda *arguments: lost.append(arguments)
    host, port = broker.url.removeprefix("mqtt://").split(":")
    client.connect(host, int(port))
    client.subscribe(template.filter, qos=1)
    for topic in topics:
        client.publish(topic, b"x", qos=1)
    deadline = time.monotonic() + 20
    while len(arrived) < len(topics) and not lost and time.monotonic() < deadline:
        client.loop(0.1)
    assert lost == []
    assert arrived == topics
    client.disconnect()
