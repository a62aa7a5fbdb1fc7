"""`streamlvq inspect`: show what a snapshot has learnt."""

from __future__ import annotations

import argparse
import shutil
import sys

from streamlvq import replay

TEXT = "Show the prototypes and the relevances of the features in a snapshot, in raw units."
EXAMPLES = """\
examples:
  streamlvq inspect first.slvq            a file that `train` or `replay --save` wrote
  streamlvq inspect state/                the newest valid snapshot of a daemon
  streamlvq inspect first.slvq | less -S  tables may be wide"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="a file, or the folder of a daemon")


def run(options: argparse.Namespace) -> int:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(replay.inspect(options.snapshot, width))
    return 0
