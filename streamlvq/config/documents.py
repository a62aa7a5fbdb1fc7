"""Documents made of the schema: sample configurations, JSON Schema and the table of keys.

`python -m streamlvq.config.documents configs` writes them into that folder.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from streamlvq.config.reader import expected
from streamlvq.config.schema import (
    KEY_DESCRIPTIONS,
    PRIVATE_MODEL,
    SECTION_DESCRIPTIONS,
    Config,
)
from streamlvq.registry import MODELS

# --- all keys, in the order of the documentation -------------------------------------------------

REQUIRED_VALUE = msgspec.NODEFAULT


class Key(NamedTuple):
    """A key that holds a value, or a section that holds keys."""

    path: str  # with dots
    kind: Any  # its type, as `msgspec.inspect` sees it
    default: Any  # `REQUIRED_VALUE` if there is none
    section: bool

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def depth(self) -> int:
        """Number of sections around it."""
        return self.path.count(".")


def all_keys() -> list[Key]:
    """Return every section followed by its keys; nested sections come last."""
    return list(_keys(inspect.type_info(Config), ""))


def _keys(kind: Any, prefix: str) -> Iterator[Key]:
    order = {path: i for i, path in enumerate(KEY_DESCRIPTIONS)}
    for field in sorted(kind.fields, key=lambda f: order.get(prefix + f.name, len(order))):
        path = prefix + field.name
        inner = _struct(field.type)
        yield Key(path, field.type, _default(field), inner is not None)
        if inner is not None:
            yield from _keys(inner, f"{path}.")


def _struct(kind: Any) -> Any:
    """Return the struct of a section; None for a key that holds a value."""
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return next((k for k in kinds if isinstance(k, inspect.StructType)), None)


def _default(field: Any) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


# --- sample configurations -----------------------------------------------------------------------

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
    >>> from streamlvq.config.documents import sample

    >>> loads(sample()) == Config()
    True

    """
    off: tuple[str, ...] = ()  # optional sections
    lines = [f"# {line}" for line in _HEAD.splitlines()]
    for key in all_keys():
        hidden = any(key.path.startswith(section + ".") for section in off)
        if key.section:
            lines += [
                *([] if key.depth else [""]),
                *_comment(SECTION_DESCRIPTIONS[key.path], key.depth),
            ]
            if key.default is None or key.default is REQUIRED_VALUE:
                off = (*off, key.path)
                hidden = True
            lines.append(_line(key, "", hidden))
            continue
        lines += _comment(KEY_DESCRIPTIONS[key.path].meaning, key.depth)
        if key.default is None or key.default is REQUIRED_VALUE:
            lines.append(_line(key, _yaml(KEY_DESCRIPTIONS[key.path].example), True))
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


# --- JSON Schema and table of keys ---------------------------------------------------------------

TABLE_START = "<!-- keys: written by python -m streamlvq.config.documents -->"
TABLE_END = "<!-- end of keys -->"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema, with descriptions, examples, ranges and defaults.

    Examples
    --------

    >>> from streamlvq.config.documents import json_schema

    >>> json_schema()["properties"]["integrator"]["properties"]["window"]
    {'anyOf': [{'type': 'integer', 'minimum': 1, 'maximum': 100000}, {'enum': ['adaptive']}],
     'default': 'adaptive', 'description': 'adaptive: a filter that learns from labels ...',
     'examples': ['adaptive']}

    """
    whole = msgspec.json.schema(Config)
    root: dict[str, Any] = _described(whole["$defs"]["Config"], whole["$defs"], "")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "Configuration of streamlvq",
    }


def _described(struct: dict[str, Any], parts: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a struct of msgspec's schema with nested structs inlined and descriptions added."""
    properties = {}
    for name, kind in struct["properties"].items():
        path = prefix + name
        inner = _reference(kind)
        if inner is None:
            word = KEY_DESCRIPTIONS[path]
            properties[name] = {**kind, "description": word.meaning, "examples": [word.example]}
            continue
        section = _described(parts[inner], parts, f"{path}.")
        # A section with nothing in it is null to YAML.
        section = {**section, "type": ["object", "null"], "description": SECTION_DESCRIPTIONS[path]}
        properties[name] = section
    if prefix == "broker.":
        properties["protocol"]["enum"] = ["5", "3.1.1", 5]  # 5 is a number to YAML
    if prefix == "model.":
        properties["type"]["enum"] = [*MODELS, PRIVATE_MODEL]
    return {
        "type": "object",
        "properties": properties,
        "required": struct["required"],
        "additionalProperties": False,
    }


def _reference(kind: dict[str, Any]) -> str | None:
    """Return the name of the struct that a property refers to, if any."""
    for option in (kind, *kind.get("anyOf", ())):
        if "$ref" in option:
            return str(option["$ref"]).rpartition("/")[2]
    return None


def key_table() -> str:
    """Return a Markdown table of keys for each section."""
    lines: list[str] = []
    for key in all_keys():
        if key.section:
            lines += ["", f"### `{key.path}`", "", SECTION_DESCRIPTIONS[key.path], ""]
            lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        else:
            cells = (
                f"`{key.name}`",
                _value(key),
                _default_text(key),
                KEY_DESCRIPTIONS[key.path].meaning,
            )
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines).strip() + "\n"


def _value(key: Key) -> str:
    if isinstance(key.kind, inspect.DictType):
        return "names with values"
    return expected(key.kind).replace(", such as [one, two]", "")


def _default_text(key: Key) -> str:
    if key.default is REQUIRED_VALUE:
        return "must be given"
    return "none" if key.default is None else f"`{json.dumps(key.default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def readme_with_table(text: str) -> str:
    """Return a README with an updated table of keys between its two marks."""
    head, _, rest = text.partition(TABLE_START)
    _, end, tail = rest.partition(TABLE_END)
    if not end:
        raise ValueError(f"expected the lines {TABLE_START!r} and {TABLE_END!r}, got neither")
    return f"{head}{TABLE_START}\n{key_table()}{TABLE_END}{tail}"


def publish(folder: Path) -> None:
    """Write the schema, the sample and the table of the README into a folder."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    (folder / "schema.json").write_text(text, "utf-8")
    (folder / "sample.yaml").write_text(sample(), "utf-8")
    readme = folder / "README.md"
    readme.write_text(readme_with_table(readme.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    publish(Path(sys.argv[1]))
