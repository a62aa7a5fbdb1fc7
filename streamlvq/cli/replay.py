"""`streamlvq replay`: how good a monitor would have been on a recorded log."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.cli import kinds, settings

if TYPE_CHECKING:
    from streamlvq.config import Config

NAME = "replay"
SUMMARY = "show a recorded log to a monitor and say how good it was"
TEXT = """\
Show a recorded log to the same decoder and the same monitor that `streamlvq run` uses. Every
reading is decided before its label is learnt, so the accuracy is what a live monitor would have
had. Reads CSV, JSONL, Parquet, InfluxDB line protocol, and recordings of `streamlvq record`,
`mosquitto_sub -F '%U %t %p'` and mqtt-recorder."""
EXAMPLES = """\
examples:
  streamlvq replay plant.csv --label state --time t --device pump
  streamlvq replay monday.jsonl.gz --config monitor.yaml --report monday.html
  streamlvq replay monday.jsonl --config monitor.yaml --snapshot first.slvq --no-learn
  streamlvq replay recorded.messages --config monitor.yaml --publish --speed 10x"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    settings.add_arguments(parser)
    out = parser.add_argument_group("results")
    out.add_argument("--report", metavar="HTML", help="write a page with plots (extra `plot`)")
    out.add_argument("--json", metavar="FILE", help="write all numbers; - for standard output")
    out.add_argument("--decisions", metavar="FILE", help="write each decision as a line of JSON")
    out.add_argument("--quiet", action="store_true", help="no progress, no summary")
    state = parser.add_argument_group("state")
    state.add_argument("--snapshot", metavar="FILE", help="start from what this one has learnt")
    state.add_argument("--save", metavar="FILE", help="write what was learnt in the end")
    state.add_argument("--no-learn", action="store_true", help="compare labels, do not learn them")
    live = parser.add_argument_group("as if live")
    live.add_argument(
        "--publish", action="store_true", help="send the log to the configured broker instead"
    )
    live.add_argument(
        "--speed",
        type=kinds.speed,
        metavar="S",
        help="10x, 0.5x or max; with --publish (default 1x)",
    )


def run(options: argparse.Namespace) -> int:
    config = settings.settings(options)
    if options.publish:
        return _publish(options, config)
    if options.speed is not None:
        from streamlvq.errors import StreamLVQError  # noqa: PLC0415

        raise StreamLVQError("--speed: expected together with --publish, got it alone")
    return _replay(options, config)


def _replay(options: argparse.Namespace, config: Config) -> int:
    from streamlvq import replay  # noqa: PLC0415

    monitor = replay.load_monitor(config, options.snapshot)
    report = replay.replay(
        options.log,
        config,
        format=options.format,
        limit=options.limit,
        learn=not options.no_learn,
        monitor=monitor,
        decisions=options.decisions,
        progress=False if options.quiet else None,
    )
    if options.save:
        replay.save_monitor(monitor, options.save)
    if options.report:
        text = replay.page(report, monitor.models())
        Path(options.report).write_text(text, encoding="utf-8")
    if options.json == "-":
        sys.stdout.write(report.to_json().decode() + "\n")
    elif options.json:
        Path(options.json).write_bytes(report.to_json() + b"\n")
    if not options.quiet and options.json != "-":
        print(replay.summary(report))
        _say_files(options)
    return 0


def _say_files(options: argparse.Namespace) -> None:
    for name in ("report", "json", "decisions", "save"):
        if path := getattr(options, name):
            print(f"{name:<12} {path}")


def _publish(options: argparse.Namespace, config: Config) -> int:
    from streamlvq import replay  # noqa: PLC0415

    sent = replay.publish(
        options.log,
        config,
        format=options.format,
        limit=options.limit,
        speed=options.speed or 1.0,
        progress=False if options.quiet else None,
    )
    if not options.quiet:
        print(f"published {sent.messages} messages to {config.broker.url} in {sent.seconds:.1f} s")
        if sent.late > 1.0:
            print(f"at most {sent.late:.1f} s late: the broker does not take them faster")
    return 0
