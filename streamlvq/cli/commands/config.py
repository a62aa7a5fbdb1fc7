"""`streamlvq config`: check, show and create configurations."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from streamlvq import config
from streamlvq.config.documents import json_schema
from streamlvq.errors import StreamLVQError
from streamlvq.fleet.checks import config_warnings
from streamlvq.text import plural

TEXT = """\
check FILE   report all problems with their line numbers; also check files that it names
show FILE    print the whole configuration, defaults included, secrets hidden
sample       print a configuration with every key explained, to start from
schema       print a JSON Schema, for editors that check while you type"""
EXAMPLES = """\
examples:
  streamlvq config sample > monitor.yaml
  streamlvq config check monitor.yaml
  streamlvq config show monitor.yaml
  streamlvq config schema > streamlvq.schema.json"""

NEEDS_FILE = ("check", "show")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("check", "show", "sample", "schema"))
    parser.add_argument("file", metavar="FILE", nargs="?", help="for check and show: a YAML file")


def run(options: argparse.Namespace) -> int:
    if (options.what in NEEDS_FILE) != (options.file is not None):
        wanted = "a file" if options.what in NEEDS_FILE else "no file"
        got = "none" if options.file is None else options.file
        example = f"streamlvq config {options.what}" + " monitor.yaml" * (options.file is None)
        raise StreamLVQError(
            f"config {options.what}: expected {wanted}, got {got}; try `{example}`"
        )
    if options.what == "sample":
        print(config.sample(), end="")
    elif options.what == "schema":
        print(json.dumps(json_schema(), indent=2))
    elif options.what == "show":
        print(config.describe(config.load(options.file)), end="")
    else:
        _check(options.file)
    return 0


def _check(file: str) -> None:
    loaded = config.load(file)
    warnings = config_warnings(loaded)
    start = loaded.model.start
    if start is not None and not Path(start).is_file():
        made = "make it with `streamlvq train`"
        warnings.append(f"model.start: there is no file {start!r} here; {made}")
    for warning in warnings:
        print(f"{file}: warning: {warning}")
    if warnings:
        print(f"{file}: can be read, with {plural(len(warnings), 'warning')}")
    else:
        print(f"{file}: all is well")
