"""Documents generated from the schema: JSON Schema, sample, table of all keys.

`python -m streamlvq.config.document configs` writes them into that folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from streamlvq.config.keys import REQUIRED, Key, all_keys
from streamlvq.config.sample import describe, minimal_sample, sample
from streamlvq.config.schema import Config
from streamlvq.config.walk import expected
from streamlvq.config.words import KEYS, SECTIONS

TABLE_STARTS = "<!-- keys: written by python -m streamlvq.config.document -->"
TABLE_ENDS = "<!-- end of keys -->"


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema, with descriptions, examples, ranges and defaults.

    Examples
    --------

    >>> from streamlvq.config.document import json_schema

    >>> json_schema()["properties"]["integrator"]["properties"]["window"]
    {'type': 'integer', 'minimum': 1, 'maximum': 100000, 'default': 5,
     'description': 'Number of readings that are combined, the current one included.',
     'examples': [5]}

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
            word = KEYS[path]
            properties[name] = {**kind, "description": word.meaning, "examples": [word.example]}
            continue
        section = _described(parts[inner], parts, f"{path}.")
        # A section with nothing in it is null to YAML.
        section = {**section, "type": ["object", "null"], "description": SECTIONS[path]}
        properties[name] = section
    if prefix == "broker.":
        properties["protocol"]["enum"] = ["5", "3.1.1", 5]  # 5 is a number to YAML
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
            lines += ["", f"### `{key.path}`", "", SECTIONS[key.path], ""]
            lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        else:
            cells = (f"`{key.name}`", _value(key), _default(key), KEYS[key.path].meaning)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines).strip() + "\n"


def _value(key: Key) -> str:
    if isinstance(key.kind, inspect.DictType):
        return "names with values"
    return expected(key.kind).replace(", such as [one, two]", "")


def _default(key: Key) -> str:
    if key.default is REQUIRED:
        return "must be given"
    return "none" if key.default is None else f"`{json.dumps(key.default)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def readme_with_table(text: str) -> str:
    """Return a README with an updated table of keys between its two marks."""
    head, _, rest = text.partition(TABLE_STARTS)
    _, end, tail = rest.partition(TABLE_ENDS)
    if not end:
        raise ValueError(f"expected the lines {TABLE_STARTS!r} and {TABLE_ENDS!r}, got neither")
    return f"{head}{TABLE_STARTS}\n{key_table()}{TABLE_ENDS}{tail}"


def publish(folder: Path) -> None:
    """Write the schema, the sample and the table of the README into a folder."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    (folder / "schema.json").write_text(text, "utf-8")
    (folder / "sample.yaml").write_text(sample(), "utf-8")
    readme = folder / "README.md"
    readme.write_text(readme_with_table(readme.read_text("utf-8")), "utf-8")


__all__ = ["describe", "json_schema", "key_table", "minimal_sample", "publish", "sample"]

if __name__ == "__main__":
    publish(Path(sys.argv[1]))
