"""Configurations to start from, and the one that is in force."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import msgspec

from streamlvq.config.keys import REQUIRED, Key, all_keys
from streamlvq.config.schema import Config
from streamlvq.config.words import KEYS, SECTIONS

_WIDTH = 96
_HEAD = """\
Configuration of the streamlvq daemon: every key, what it does, and its default.
Keys that have no default, and sections that are off unless they are there, stand behind a '#' with
a value for example. Keep what you change and delete the rest: what is left out has its default.
Try it: streamlvq config check FILE; streamlvq run FILE --test"""
_MINIMAL = """\
broker:
  url: mqtt://localhost:1883

readings:
  topic: sensors/{device}/readings   # JSON such as {"rms": 0.3, "temperature": 41.5}
  label: label                       # where a reading says what state it is from
"""
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)


def minimal_sample() -> str:
    """The least that one would write: where readings come from, and which field is the label."""
    return _MINIMAL


def sample() -> str:
    """A configuration with every key, its meaning and its default; as it is, it says the defaults.

    Examples
    --------

    >>> from streamlvq.config import Config, loads
    >>> from streamlvq.config.sample import sample

    >>> loads(sample()) == Config()
    True

    """
    off: tuple[str, ...] = ()  # sections that are not there unless one writes them
    lines = [f"# {line}" for line in _HEAD.splitlines()]
    for key in all_keys():
        hidden = any(key.path.startswith(section + ".") for section in off)
        if key.section:
            lines += [*([] if key.depth else [""]), *_comment(SECTIONS[key.path], key.depth)]
            if key.default is None or key.default is REQUIRED:
                off = (*off, key.path)
                hidden = True
            lines.append(_line(key, "", hidden))
            continue
        lines += _comment(KEYS[key.path].meaning, key.depth)
        if key.default is None or key.default is REQUIRED:
            lines.append(_line(key, _yaml(KEYS[key.path].example), True))
        else:
            lines.append(_line(key, _yaml(key.default), hidden))
    return "\n".join(lines) + "\n"


def describe(config: Config) -> str:
    """All that a configuration says, defaults included, as YAML; no secrets.

    Examples
    --------

    >>> from streamlvq.config import Config, describe

    >>> print(describe(Config())[:48])
    broker:
      url: mqtt://localhost:1883
      client_id

    """
    import yaml  # noqa: PLC0415

    values = msgspec.to_builtins(config)
    url = values["broker"]["url"]
    values["broker"]["url"] = _CREDENTIALS.sub("//***@", url)
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text


def _comment(text: str, depth: int) -> list[str]:
    indent = "  " * depth + "# "
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _line(key: Key, value: str, hidden: bool) -> str:
    mark = "#" if hidden else ""
    return f"{'  ' * key.depth}{mark}{key.name}: {value}".rstrip()


def _yaml(value: Any) -> str:
    """A value on one line."""
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")
