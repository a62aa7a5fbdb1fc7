"""MQTT topic templates with named levels: `plant/{site}/{device}/readings`.

When subscribing, a placeholder matches any one level and names it. When publishing, a value takes
its place; values come from payloads and may contain anything, so characters that a topic cannot
carry are escaped, see `clean`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from streamlvq.errors import StreamLVQError

MAX_TOPIC_BYTES = 65_535  # limit of MQTT
MAX_VALUE_BYTES = 1024  # of one filled-in level, so that no name makes a topic too long

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Brokers may disconnect whoever sends control characters or non-characters; Mosquitto does.
_FORBIDDEN = "\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef" + "".join(
    f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
)
_BAD_IN_TEMPLATE = re.compile(f"[{_FORBIDDEN}]")
# NATS disconnects a publisher whose topic has a space and loses what has a > (both * and > are its
# own wildcards); % is how all of these are written.
_UNCLEAN = re.compile(rf"[{_FORBIDDEN} +#/*>%]|\A\$")
_EMPTY_LEVEL = "%"
_DIGEST_MARK = "%~"  # a digest follows; in an escaped value two hex digits follow each %
_DIGEST_BYTES = 16


class TemplateError(StreamLVQError, ValueError):
    """A topic template that is not valid, or values that do not fill it."""


class Template:
    """Topic template whose levels may be placeholders in braces.

    A placeholder is a whole level and stands for exactly one. Templates to subscribe to may also
    hold the wildcards `+` (any one level) and, at the end, `#` (all further levels).

    Parameters
    ----------
    text
        The template.
    publish
        Whether it is for publishing: wildcards and the broker's own topics (those that begin with
        `$`) are then refused.

    Examples
    --------

    >>> from streamlvq.topics import Template

    >>> readings = Template("plant/{site}/{device}/readings")
    >>> readings.filter
    'plant/+/+/readings'
    >>> readings.match("plant/leeds/pump7/readings")
    {'site': 'leeds', 'device': 'pump7'}
    >>> readings.match("plant/leeds/pump7/battery") is None
    True

    >>> decision = Template("plant/{device}/decision", publish=True)
    >>> decision.fill({"device": "pump7", "site": "leeds"})
    'plant/pump7/decision'
    >>> decision.fill({"device": "pump 7/north"})
    'plant/pump%207%2Fnorth/decision'

    """

    __slots__ = ("_pattern", "filter", "levels", "placeholders", "publish", "text")

    def __init__(self, text: str, publish: bool = False) -> None:
        self.text = text
        self.publish = publish
        self.levels = _levels(text)
        names = [level[1:-1] for level in self.levels if _is_named(level)]
        self.placeholders = tuple(names)
        self.filter = "/".join("+" if _is_named(level) else level for level in self.levels)
        self._check(names)
        self._pattern = re.compile(_pattern(self.levels), re.DOTALL)

    def _check(self, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise TemplateError(
                    f"expected each placeholder once, got {{{name}}} twice in {self.text!r}"
                )
        if len(self.filter.encode()) + len(names) * MAX_VALUE_BYTES > MAX_TOPIC_BYTES:
            raise TemplateError(
                f"expected a topic of at most {MAX_TOPIC_BYTES} bytes, {MAX_VALUE_BYTES} for each "
                f"placeholder included, got one of {len(self.text)} characters"
            )
        if self.publish and self.text.startswith("$"):
            raise TemplateError(
                f"expected a topic to publish to, got {self.text!r}; those that begin with $ are "
                f"the broker's own"
            )
        wild = [level for level in self.levels if level in ("+", "#")]
        if self.publish and wild:
            raise TemplateError(
                f"expected a topic to publish to, got the wildcard {wild[0]!r} in {self.text!r}; "
                f"name the level instead, such as {{device}}"
            )

    def __repr__(self) -> str:
        return f"Template({self.text!r}{', publish=True' if self.publish else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Template):
            return NotImplemented
        return (self.text, self.publish) == (other.text, other.publish)

    def __hash__(self) -> int:
        return hash((self.text, self.publish))

    def match(self, topic: str) -> dict[str, str] | None:
        """Return the values of the placeholders in a topic; None if the topic does not match.

        A level may be empty; the value of its placeholder is then empty too.
        """
        found = self._pattern.fullmatch(topic)
        return None if found is None else found.groupdict()

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the topic with each placeholder replaced by its value, escaped by `clean`."""
        if not self.placeholders:
            return self._without_wildcards()
        missing = [name for name in self.placeholders if name not in values]
        if missing:
            raise TemplateError(
                f"expected a value for {', '.join(missing)} to fill {self.text!r}, "
                f"got {sorted(values)}"
            )
        self._without_wildcards()
        return "/".join(
            clean(values[level[1:-1]]) if _is_named(level) else level for level in self.levels
        )

    def _without_wildcards(self) -> str:
        if "+" in self.levels or "#" in self.levels:
            raise TemplateError(f"expected a topic without wildcards to fill, got {self.text!r}")
        return self.text

    def overlaps(self, other: Template) -> bool:
        """Return True if there is a topic that both match.

        Examples
        --------

        >>> Template("plant/{device}/+").overlaps(Template("plant/{device}/decision"))
        True
        >>> Template("plant/{device}/readings").overlaps(Template("plant/{device}/decision"))
        False

        """
        return _overlap(self.filter.split("/"), other.filter.split("/"))


def clean(value: str) -> str:
    """Escape a value as one level of a topic; different values stay different.

    Control characters and characters that Unicode sets aside, space, `+`, `#`, `/`, `*`, `>`, `%`
    and a `$` at the start become `%` and two hexadecimal digits for each of their UTF-8 bytes, as
    in a URL. An empty value becomes a lone `%`. Values longer than 1024 bytes are cut, and end with
    `%~` and a digest of the whole. `original` undoes it.

    Examples
    --------

    >>> from streamlvq.topics import clean, original

    >>> clean("pump7"), clean("pump 7"), clean("$SYS"), clean("50%"), clean("")
    ('pump7', 'pump%207', '%24SYS', '50%25', '%')
    >>> original("pump%207")
    'pump 7'

    """
    if not value:
        return _EMPTY_LEVEL
    if _UNCLEAN.search(value):
        value = _UNCLEAN.sub(_percent, value)
    if len(value) * 4 <= MAX_VALUE_BYTES or len(value.encode()) <= MAX_VALUE_BYTES:
        return value
    digest = hashlib.blake2b(value.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    room = MAX_VALUE_BYTES - len(_DIGEST_MARK) - len(digest)
    kept = value.encode()[:room].decode(errors="ignore")
    return kept + _DIGEST_MARK + digest


def original(level: str) -> str:
    """Undo `clean`.

    A level that `clean` cannot have returned, or that was cut, is returned as it is.
    """
    if "%" not in level:
        return level
    if level == _EMPTY_LEVEL:
        return ""
    try:
        # Strictly: a lone surrogate would be a name that nobody can write down.
        value = unquote_to_bytes(level).decode("utf-8")
    except UnicodeDecodeError:
        return level
    return value if clean(value) == level else level


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _is_named(level: str) -> bool:
    return level.startswith("{")


def _levels(text: str) -> list[str]:
    """Split a template into levels, and check each of them."""
    bad = _BAD_IN_TEMPLATE.search(text)
    if bad:
        raise TemplateError(f"expected a topic of printable characters, got {bad[0]!r} in {text!r}")
    levels = text.split("/")
    for i, level in enumerate(levels):
        if "{" in level or "}" in level:
            _check_named(level, text)
        elif level == "#" and i < len(levels) - 1:
            raise TemplateError(f"expected '#' only as the last level, got {text!r}")
        elif level not in ("+", "#") and ("+" in level or "#" in level):
            raise TemplateError(
                f"expected a wildcard as a level of its own, got {level!r} in {text!r}"
            )
        elif not level and (i > 0 or len(levels) == 1):  # a leading slash is in wide use
            raise TemplateError(f"expected a name for each level, got an empty one in {text!r}")
    return levels


def _check_named(level: str, text: str) -> None:
    if level.count("{") != level.count("}"):
        raise TemplateError(f"expected a '}}' for each '{{', got {level!r} in {text!r}")
    if not (level.startswith("{") and level.endswith("}")) or level.count("{") > 1:
        raise TemplateError(
            f"expected a placeholder as a level of its own, such as {{device}}, "
            f"got {level!r} in {text!r}"
        )
    if not _NAME.fullmatch(level[1:-1]):
        raise TemplateError(
            f"expected a name of letters, digits and _ in the braces, got {level!r} in {text!r}"
        )


def _pattern(levels: list[str]) -> str:
    """Return a regular expression for the topics that a broker would deliver."""
    # Wildcards at the start do not stand for the broker's own topics.
    parts = [r"(?!\$)" if levels[0] in ("+", "#") or _is_named(levels[0]) else ""]
    for i, level in enumerate(levels):
        if level == "#":  # `a/#` is also `a`
            parts.append("(?:/.*)?" if i else ".+")
            break
        separator = "/" if i else ""
        if _is_named(level):
            parts.append(f"{separator}(?P<{level[1:-1]}>[^/]*)")
        else:
            parts.append(separator + ("[^/]*" if level == "+" else re.escape(level)))
    return "".join(parts)


def _overlap(first: list[str], second: list[str]) -> bool:
    for a, b in ((first[0], second[0]), (second[0], first[0])):
        if a in ("+", "#") and b.startswith("$"):
            return False
    for a, b in zip(first, second, strict=False):
        if "#" in (a, b):
            return True
        if a != b and "+" not in (a, b):
            return False
    longer = max(first, second, key=len)
    shorter = min(len(first), len(second))
    return len(longer) == shorter or (len(longer) == shorter + 1 and longer[-1] == "#")
