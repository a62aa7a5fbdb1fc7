"""`streamlvq demo`: the whole idea in one command."""

from __future__ import annotations

import argparse

from streamlvq.cli import kinds
from streamlvq.demo.run import run as run_demo

TEXT = """\
Start a broker, a few simulated devices with a fault that appears and a sensor that drifts, and the
real daemon, and watch what it decides. Then a second act: a fleet of three nodes whose sensors do
not agree, and what each of them knows before and after it has learnt from the others. Needs no
network and no data; leaves nothing behind. Ends after both acts, or with Ctrl-C, with a summary."""
EXAMPLES = """\
examples:
  streamlvq demo                   watch both acts: two minutes, or end with Ctrl-C
  streamlvq demo --act 1           only the plant, until Ctrl-C
  streamlvq demo --act 2           only the fleet
  streamlvq demo --seconds 60 --plain --devices 8
  streamlvq demo --seconds 60 --keep seen      look afterwards at what ran, in the folder `seen`"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=kinds.seconds, metavar="N", help="end after so long")
    parser.add_argument(
        "--act", type=int, choices=(1, 2), help="1: a plant, 2: a fleet (default: both)"
    )
    parser.add_argument(
        "--devices", type=kinds.count, metavar="N", default=4, help="machines (default 4)"
    )
    parser.add_argument(
        "--rate", type=float, metavar="R", default=20.0, help="readings of each per second (20)"
    )
    parser.add_argument("--port", type=int, help="of the broker (default: a free one)")
    parser.add_argument("--plain", action="store_true", help="lines of text, no live view")
    parser.add_argument(
        "--keep", metavar="FOLDER", help="keep configuration, decisions, logs and snapshots here"
    )
    parser.add_argument(
        "--screenshot",
        metavar="SVG",
        help="a picture of when the first fault was recognised, or of the end of act 2",
    )


def run(options: argparse.Namespace) -> int:
    return run_demo(
        seconds=options.seconds,
        devices=options.devices,
        rate=options.rate,
        port=options.port,
        plain=options.plain,
        keep=options.keep,
        screenshot=options.screenshot,
        act=options.act,
    )
