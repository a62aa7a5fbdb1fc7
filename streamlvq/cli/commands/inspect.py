"""`streamlvq inspect`: show what a snapshot has learnt."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from streamlvq import replay

LEDGER_FILE = "privacy.ledger"

TEXT = """\
Show the prototypes and the relevances of the features in a snapshot, in raw units. Of a node that
learns under privacy, also show what its ledger says."""
EXAMPLES = """\
examples:
  streamlvq inspect first.slvq            a file that `train` or `replay --save` wrote
  streamlvq inspect state/                the newest valid snapshot of a daemon
  streamlvq inspect state/privacy.ledger  what was promised, released and spent
  streamlvq inspect first.slvq | less -S  tables may be wide"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="a file, or the folder of a daemon")


def run(options: argparse.Namespace) -> int:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    path = Path(options.snapshot)
    ledger = path / LEDGER_FILE if path.is_dir() else path
    has_ledger = ledger.name == LEDGER_FILE and ledger.exists()
    if path.is_dir() or not has_ledger:
        print(replay.inspect(options.snapshot, width))
    if has_ledger:
        from streamlvq.privacy.ledger import describe  # noqa: PLC0415 - slow to import

        print(f"\n{describe(ledger)}" if path.is_dir() else describe(ledger))
    if path.is_dir():
        from streamlvq.service.releases import ledger_problem  # noqa: PLC0415

        if (problem := ledger_problem(path)) is not None:
            print(f"\nwarning: the daemon will not start with this folder: {problem}")
    return 0
