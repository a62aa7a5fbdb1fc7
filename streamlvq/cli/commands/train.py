"""`streamlvq train`: train a first snapshot on a labelled log."""

from __future__ import annotations

import argparse

from streamlvq import replay
from streamlvq.cli import arguments
from streamlvq.text import entry

TEXT = """\
Learn a labelled log and write a snapshot, so that a monitor need not start from scratch. With one
epoch the log streams through the monitor as it would live; with several epochs the whole log is
kept in memory and learnt repeatedly. The last part of the log is held out first, to measure the
accuracy on readings that the model has not seen; then it is learnt too. Compare this held-out
accuracy when you try more epochs: they often help at first, but too many make the model overfit.

One model is trained on all devices, even if the configuration asks for one per device: each of
them can start from it."""
EXAMPLES = """\
examples:
  streamlvq train plant.csv --label state --time t --device pump -o first.slvq
  streamlvq train plant.csv --config monitor.yaml -o first.slvq --epochs 10
  streamlvq inspect first.slvq
  streamlvq replay tuesday.csv --config monitor.yaml --snapshot first.slvq"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="the snapshot to write"
    )
    parser.add_argument(
        "--epochs",
        type=arguments.count,
        metavar="N",
        default=1,
        help="passes over the log (default 1); more may overfit: compare held-out accuracies",
    )
    parser.add_argument(
        "--hold-out",
        type=arguments.share,
        metavar="SHARE",
        default=0.2,
        help="last part of the log, to measure accuracy on (default 0.2; 0: none)",
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        default="train",
        help="name of the node in the snapshot (default train); `fuse` tells nodes apart by it",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the order within epochs (default 0)"
    )
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def run(options: argparse.Namespace) -> int:
    arguments.check_outputs({"-o": options.output}, options.log)
    trained = replay.train(
        options.log,
        arguments.settings(options),
        format=options.format,
        limit=options.limit,
        epochs=options.epochs,
        hold_out=options.hold_out,
        seed=options.seed,
        progress=False if options.quiet else None,
    )
    if not options.quiet:
        print(trained.summary(), flush=True)  # before writing, which may fail
    trained.snapshot(options.node).save(options.output)
    if not options.quiet:
        print(entry("snapshot", options.output))
    return 0
