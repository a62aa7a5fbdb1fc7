"""The command line: parser, choice of a command, errors in one line and exit statuses."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import streamlvq
from streamlvq.errors import StreamLVQError
from streamlvq.text import nearest

# --- parser --------------------------------------------------------------------------------------

# Every command with its summary. The rest of a command is in the module of its name, which is
# imported only if the command was chosen, so that the others need not be quick to import.
COMMANDS = {
    "demo": "see it work: simulated devices, a broker, the daemon, a live view",
    "run": "monitor a broker's topics: the daemon",
    "replay": "run a monitor on a recorded log and measure its accuracy",
    "train": "train a first snapshot on a labelled log",
    "hide": "fit a map that hides private features, and measure what can still be guessed",
    "record": "record messages of a broker to a log that replays exactly",
    "inspect": "show what a snapshot has learnt",
    "fuse": "fuse the models of several nodes, without their readings",
    "fleet": "show the nodes of a fleet, their age and sensor drift",
    "audit": "attack what nodes publish: which readings does it give away?",
    "config": "check a configuration, or get one to start from",
    "keys": "create the key of a node, trust the keys of others",
    "warm": "compile all kernels now, for images and services",
    "version": "show the version of streamlvq and of its dependencies",
}

DESCRIPTION = """\
Online monitoring of sensor data with learning vector quantization: readings in, decisions with a
certainty out, labels learnt as they arrive."""

EXAMPLES = """\
examples:
  streamlvq demo                                     see it work; needs no setup
  streamlvq config sample > monitor.yaml             a configuration to start from
  streamlvq replay plant.csv --label state --time t --device pump
                                                     how accurate would it have been on a log?
  streamlvq run monitor.yaml                         the daemon

`streamlvq COMMAND --help` shows examples of each command."""


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, like all other errors, with a hint to --help."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"streamlvq: error: {message}; see `{self.prog} --help`\n")


def make_parser(chosen: str | None = None) -> Parser:
    """Build the parser of all commands; only the chosen one gets its arguments and full help.

    It sets `run` to the function of the chosen command.
    """
    parser = Parser(prog="streamlvq", description=DESCRIPTION, epilog=EXAMPLES)
    parser.set_defaults(run=None, debug=False)
    version = f"streamlvq {streamlvq.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    for name, summary in COMMANDS.items():
        command_parser = commands.add_parser(name, help=summary)
        if name == chosen:
            _add_command(command_parser, name)
    return parser


def _add_command(parser: argparse.ArgumentParser, name: str) -> None:
    command = importlib.import_module(f"streamlvq.cli.commands.{name}")
    parser.description, parser.epilog = command.TEXT, command.EXAMPLES
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    parser.set_defaults(run=command.run)
    command.add_arguments(parser)


def chosen_command(arguments: Sequence[str]) -> str | None:
    """Return the first argument that is no option; none of the options before it has a value."""
    return next((word for word in arguments if not word.startswith("-")), None)


def unknown_command(arguments: Sequence[str]) -> str | None:
    """Return what to say if the first argument is no command; None if it is one, or an option."""
    first = next(iter(arguments), "-")
    if first.startswith("-") or first in COMMANDS:
        return None
    near = nearest(first, COMMANDS, cutoff=0.5)
    hint = f"; did you mean `streamlvq {near}`?" if near else ""
    return f"expected one of {', '.join(COMMANDS)}, got {first!r}{hint}"


# --- running a command ---------------------------------------------------------------------------

FAILED, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # the last two are 128 + the number of the signal
DEBUG_VARIABLE = "STREAMLVQ_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    0 means success, 1 that `audit` found something, 2 an error that the user can put right: one
    line on standard error says what it is. Its traceback is shown only with `--debug` or if
    `STREAMLVQ_DEBUG` is set.

    Examples
    --------

    >>> from streamlvq.cli import main
    >>> main(["version", "--short"])
    0.1.0
    0

    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if message := unknown_command(arguments):
        return _fail(message)
    try:
        return _run(arguments)
    except BrokenPipeError:
        # Whoever read our output has stopped; exiting must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print(file=sys.stderr)  # ends the line that shows ^C
        return INTERRUPTED
    except (StreamLVQError, OSError) as error:
        if "--debug" in arguments or os.environ.get(DEBUG_VARIABLE):
            raise
        return _fail(_message(error))


def _run(arguments: Sequence[str]) -> int:
    parser = make_parser(chosen_command(arguments))
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 0
    status: int = options.run(options)
    sys.stdout.flush()  # a closed pipe is noticed here rather than at exit
    return status


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _fail(message: str) -> int:
    print(f"streamlvq: error: {message}", file=sys.stderr)
    return FAILED
