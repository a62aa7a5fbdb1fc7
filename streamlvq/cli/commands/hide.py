"""`streamlvq hide`: fit a map of private features to a log."""

from __future__ import annotations

import argparse
from pathlib import Path

from streamlvq import replay
from streamlvq.cli import arguments
from streamlvq.text import entry

TEXT = """\
Fit a map to a recorded log that removes private features from readings, and what the other features
tell of them linearly, and write it as a section of a configuration: put it into the configuration
of every node of a fleet. Two attackers then guess the private features from what is left, trained
on one half of the log and judged on the other, to show what a linear map cannot hide.

The map is made of means and covariances of the log, without any noise."""
EXAMPLES = """\
examples:
  streamlvq hide plant.csv --private operator -o private.yaml
  streamlvq hide plant.csv --config monitor.yaml --private age,operator"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_arguments(parser)
    parser.add_argument(
        "--private",
        type=arguments.names,
        metavar="NAME",
        required=True,
        help="the private feature, or several separated by commas",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the section to write (default: print it)"
    )
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def run(options: argparse.Namespace) -> int:
    arguments.check_outputs({"-o": options.output}, options.log)
    hidden = replay.hide(
        options.log,
        arguments.settings(options),
        options.private,
        format=options.format,
        limit=options.limit,
        progress=False if options.quiet else None,
    )
    if options.output is None:
        said = "" if options.quiet else "".join(f"# {s}\n" for s in hidden.summary().splitlines())
        print(said + hidden.section(), end="")
        return 0
    if not options.quiet:
        print(hidden.summary(), flush=True)
    Path(options.output).write_text(hidden.section(), encoding="utf-8")
    if not options.quiet:
        print(entry("map", options.output))
    return 0
