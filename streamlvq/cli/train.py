"""`streamlvq train`: a first snapshot from a labelled log."""

from __future__ import annotations

import argparse

from streamlvq import replay
from streamlvq.cli import kinds, outputs, settings
from streamlvq.text import entry

TEXT = """\
Learn a labelled log and write what was learnt, so that a monitor need not start from nothing. With
several epochs the whole log is kept in memory and learnt again and again; with one it streams
through the monitor as it would have live. The last part of the log is held out first, to say how
good the model is on what it has not seen; then it is learnt too. This held-out accuracy is what to
look at when you try more epochs: they often help at first, but a model that has seen a log too many
times knows it by heart and does worse on the next one.

One model is trained on all devices, also if the configuration asks for one per device: each of
those can begin with it."""
EXAMPLES = """\
examples:
  streamlvq train plant.csv --label state --time t --device pump -o first.slvq
  streamlvq train plant.csv --config monitor.yaml -o first.slvq --epochs 10
  streamlvq inspect first.slvq
  streamlvq replay tuesday.csv --config monitor.yaml --snapshot first.slvq"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the snapshot")
    parser.add_argument(
        "--epochs",
        type=kinds.count,
        metavar="N",
        default=1,
        help="passes over the log (default 1); more may overfit: compare held-out accuracies",
    )
    parser.add_argument(
        "--hold-out",
        type=kinds.share,
        metavar="SHARE",
        default=0.2,
        help="part at the end that the accuracy is measured on (default 0.2; 0: none)",
    )
    parser.add_argument(
        "--node",
        metavar="NAME",
        default="train",
        help="who learnt it, in the file (default train); `fuse` tells nodes apart by it",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order in epochs (default 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress, no summary")


def run(options: argparse.Namespace) -> int:
    outputs.check_outputs({"-o": options.output}, options.log)
    trained = replay.train(
        options.log,
        settings.settings(options),
        format=options.format,
        limit=options.limit,
        epochs=options.epochs,
        hold_out=options.hold_out,
        seed=options.seed,
        progress=False if options.quiet else None,
    )
    if not options.quiet:
        print(trained.summary(), flush=True)  # first: whatever happens, it was not in vain
    trained.snapshot(options.node).save(options.output)
    if not options.quiet:
        print(entry("snapshot", options.output))
    return 0
