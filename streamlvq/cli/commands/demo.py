"""`streamlvq demo`: a simulated plant and fleet, watched live."""

from __future__ import annotations

import argparse
import signal

from streamlvq.cli import arguments
from streamlvq.demo.run import run as run_demo

TEXT = """\
Start a broker, a few simulated devices with a fault that appears and a sensor that drifts, and the
real daemon, and watch its decisions. The second act is a fleet of three nodes whose sensors
disagree, and shows what each node knows before and after it has learnt from the others. Needs no
network and no data, leaves nothing behind, and ends with a summary after both acts or on Ctrl-C."""
EXAMPLES = """\
examples:
  streamlvq demo                   watch both acts: two minutes, or until Ctrl-C
  streamlvq demo --act 1           only the plant, until Ctrl-C
  streamlvq demo --act 2           only the fleet
  streamlvq demo --seconds 60 --plain --devices 8
  streamlvq demo --seconds 60 --keep seen      keep the files in folder `seen`"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        type=arguments.seconds,
        metavar="N",
        help="length without the start-up, such as 90 (seconds) or 2m; if short, the story is told "
        "faster (default: two minutes; with --act 1 until Ctrl-C)",
    )
    parser.add_argument(
        "--act", type=int, choices=(1, 2), help="1: a plant, 2: a fleet (default: both)"
    )
    parser.add_argument(
        "--devices",
        type=arguments.count,
        metavar="N",
        default=4,
        help="number of machines (default 4)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="R",
        default=20.0,
        help="readings per second of each machine (default 20)",
    )
    parser.add_argument("--port", type=int, help="port of the broker (default: any free port)")
    parser.add_argument(
        "--plain", action="store_true", help="print lines of text instead of a live view"
    )
    parser.add_argument(
        "--keep",
        metavar="FOLDER",
        help="keep configuration, decisions, logs and snapshots in this folder",
    )
    parser.add_argument(
        "--screenshot",
        metavar="SVG",
        help="write a picture of the first recognised fault, or of the end of act 2",
    )


def run(options: argparse.Namespace) -> int:
    status = run_demo(
        seconds=options.seconds,
        devices=options.devices,
        rate=options.rate,
        port=options.port,
        plain=options.plain,
        keep=options.keep,
        screenshot=options.screenshot,
        act=options.act,
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is over: one more Ctrl-C is no failure
    return status
