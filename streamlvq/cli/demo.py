"""`streamlvq demo`: the whole idea in one command."""

from __future__ import annotations

import argparse

from streamlvq.cli import kinds

NAME = "demo"
SUMMARY = "see it work: simulated devices, a broker, the daemon, a live view"
TEXT = """\
Start a broker, a few simulated devices with a fault that appears and a sensor that drifts, and the
real daemon, and watch what it decides. Needs no network and no data; leaves nothing behind. Ends
with Ctrl-C, or after --seconds, with a summary."""
EXAMPLES = """\
examples:
  streamlvq demo                   watch, end with Ctrl-C
  streamlvq demo --seconds 60      a minute of it
  streamlvq demo --seconds 20 > demo.txt    without a terminal it prints a line now and then"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=kinds.seconds, metavar="N", help="end after so long")


def run(options: argparse.Namespace) -> int:
    from streamlvq import demo  # noqa: PLC0415

    status: int = demo.run(options)
    return status
