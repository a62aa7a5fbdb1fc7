"""Sample configurations, and a configuration as YAML."""

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
Keys without a default and optional sections are commented out and show an example value. Keep what
you change and delete the rest: keys that are left out have their default.
Try it: streamlvq config check FILE; streamlvq run FILE --test"""
_MINIMAL = """\
broker:
  url: mqtt://localhost:1883

readings:
  topic: sensors/{device}/readings   # JSON such as {"rms": 0.3, "temperature": 41.5}
  label: label                       # the field that holds the state, if it is known
"""
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)


def minimal_sample() -> str:
    """Return the shortest useful configuration: the broker, the readings and their label."""
    return _MINIMAL


def sample() -> str:
    """Return a configuration with every key, its meaning and its default; it equals the defaults.

    Examples
    --------

    >>> from streamlvq.config import Config, loads
    >>> from streamlvq.config.sample import sample

    >>> loads(sample()) == Config()
    True

    """
    off: tuple[str, ...] = ()  # optional sections
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
    """Return a whole configuration as YAML, defaults included, secrets hidden.

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
    """Return a value as YAML on one line."""
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")
