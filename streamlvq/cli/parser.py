"""The parser: commands, their help, and what to say to a command that does not exist."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from streamlvq.cli import (
    config,
    demo,
    fleet,
    fuse,
    inspect,
    keys,
    record,
    replay,
    run,
    train,
    version,
)
from streamlvq.text import nearest

COMMANDS = (demo, run, replay, train, record, inspect, fuse, fleet, config, keys, version)
NAMES = tuple(command.NAME for command in COMMANDS)

DESCRIPTION = """\
Online monitoring of sensor data with learning vector quantization: readings in, decisions with a
certainty out, labels learnt as they come."""

EXAMPLES = """\
examples:
  streamlvq demo                                     see the whole idea, nothing needed
  streamlvq config sample > monitor.yaml             a configuration to start from
  streamlvq replay plant.csv --label state --time t --device pump
                                                     how good would it have been on a log?
  streamlvq run monitor.yaml                         the daemon

`streamlvq COMMAND --help` shows examples of each command."""


class Parser(argparse.ArgumentParser):
    """One line for what is wrong, as for all other errors, and where to read more."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"streamlvq: error: {message}; see `{self.prog} --help`\n")


def make_parser() -> Parser:
    """The parser of all commands; it sets `run` to the function of the one that was chosen."""
    parser = Parser(prog="streamlvq", description=DESCRIPTION, epilog=EXAMPLES)
    parser.set_defaults(run=None, debug=False)
    parser.add_argument("--version", action="version", version=version.text())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        mine = commands.add_parser(
            command.NAME, help=command.SUMMARY, description=command.TEXT, epilog=command.EXAMPLES
        )
        mine.add_argument("--debug", action="store_true", help="show tracebacks of errors")
        run_command: Callable[[argparse.Namespace], int] = command.run
        mine.set_defaults(run=run_command)
        command.add_arguments(mine)
    return parser


def suggestion(arguments: Sequence[str]) -> str | None:
    """What to say if the first word is no command; None if it is one."""
    first = next(iter(arguments), "-")
    if first.startswith("-") or first in NAMES:
        return None
    near = nearest(first, NAMES, cutoff=0.5)
    meant = f"; did you mean `streamlvq {near}`?" if near else ""
    return f"expected one of {', '.join(NAMES)}, got {first!r}{meant}"
