"""`streamlvq config`: check, show and begin configurations."""

from __future__ import annotations

import argparse
import json

NAME = "config"
SUMMARY = "check a configuration, or get one to start from"
TEXT = """\
check FILE   say what is wrong, with line numbers, or that all is well; of a fleet look also at
             its keys
show FILE    what it amounts to, defaults included; secrets are not shown
sample       a configuration with every key explained, to start from
schema       a JSON Schema, for editors that check while you type"""
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
    from streamlvq import config  # noqa: PLC0415
    from streamlvq.config.document import json_schema  # noqa: PLC0415
    from streamlvq.errors import StreamLVQError  # noqa: PLC0415

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
    from streamlvq import config  # noqa: PLC0415

    found: list[str] = []
    wanted = config.load(file)
    if wanted.fleet is not None:
        from streamlvq.fleet.checks import config_warnings  # noqa: PLC0415

        found = config_warnings(wanted)
    for doubt in found:
        print(f"{file}: warning: {doubt}")
    many = f"{len(found)} warning" + "s" * (len(found) != 1)
    print(f"{file}: all is well" if not found else f"{file}: can be read, with {many}")
