"""`streamlvq replay`: run a monitor on a recorded log."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq import replay
from streamlvq.cli import arguments
from streamlvq.config import Config
from streamlvq.errors import StreamLVQError
from streamlvq.text import entry

if TYPE_CHECKING:
    from streamlvq.monitor import Monitor


TEXT = """\
Run a recorded log through the same decoder and monitor that `streamlvq run` uses. Every reading is
decided before its label is learnt, so the accuracy is what a live monitor would have achieved.
Reads CSV, JSONL, Parquet, InfluxDB line protocol, and recordings of `streamlvq record`,
`mosquitto_sub -F '%U %t %p'` and mqtt-recorder."""
EXAMPLES = """\
examples:
  streamlvq replay plant.csv --label state --time t --device pump
  streamlvq replay monday.jsonl.gz --config monitor.yaml --report monday.html
  streamlvq replay monday.jsonl --config monitor.yaml --snapshot first.slvq --no-learn
  streamlvq replay monday.csv --label state --suppress 10 --report monday.html
  streamlvq replay recorded.messages --config monitor.yaml --publish --speed 10x"""

FILES = ("report", "json", "decisions", "save")  # options that name one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_arguments(parser)
    out = parser.add_argument_group("results")
    out.add_argument(
        "--report", metavar="HTML", help="write a page with plots (needs the extra `plot`)"
    )
    out.add_argument("--json", metavar="FILE", help="write all numbers; - for standard output")
    out.add_argument("--decisions", metavar="FILE", help="write each decision as a line of JSON")
    out.add_argument(
        "--suppress",
        type=arguments.count,
        metavar="N",
        help="hide counts of fewer than N readings in the summary, --report and --json, and those "
        "that would give them back, so that the report may leave the house; this is no "
        "differential privacy",
    )
    out.add_argument("--quiet", action="store_true", help="print neither progress nor summary")
    state = parser.add_argument_group("state")
    state.add_argument("--snapshot", metavar="FILE", help="start from this snapshot")
    state.add_argument("--save", metavar="FILE", help="write a snapshot at the end")
    state.add_argument(
        "--no-learn", action="store_true", help="only measure with labels, do not learn them"
    )
    live = parser.add_argument_group("as if live")
    live.add_argument(
        "--publish", action="store_true", help="send the log to the configured broker instead"
    )
    live.add_argument(
        "--speed",
        type=arguments.speed,
        metavar="S",
        help="speed of --publish: 10x, 0.5x or max (default 1x)",
    )


def run(options: argparse.Namespace) -> int:
    config = arguments.settings(options)
    if options.publish:
        return _publish(options, config)
    if options.speed is not None:
        raise StreamLVQError("--speed: expected together with --publish, got it alone")
    arguments.check_outputs({f"--{name}": getattr(options, name) for name in FILES}, options.log)
    if options.suppress and options.decisions:
        raise StreamLVQError(
            "--suppress: expected without --decisions, which writes every reading's decision"
        )
    if options.report:
        arguments.check_plots()
    return _replay(options, config)


def _replay(options: argparse.Namespace, config: Config) -> int:
    monitor = replay.load_monitor(config, options.snapshot)
    unwritten: dict[str, str] = {}  # errors, by option
    try:
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
    except replay.UnwrittenError as error:
        report = error.report
        unwritten["--decisions"] = f"--decisions could not be written: {error}"
    if options.suppress and report.readings:
        report = replay.suppress(report, options.suppress)
    if not options.quiet and options.json != arguments.STANDARD_OUTPUT:
        print(replay.summary(report), flush=True)  # before writing, which may fail
    return _write(options, report, monitor, unwritten)


def _write(
    options: argparse.Namespace,
    report: replay.Report,
    monitor: Monitor,
    unwritten: dict[str, str],
) -> int:
    """Write the requested files and name them."""
    from streamlvq.report.replay_page import replay_html  # noqa: PLC0415 - drawn only if asked for

    numbers = report.to_json() + b"\n"
    # Prototypes lie near single readings.
    models = monitor.models() if options.suppress is None else {}
    writers: dict[str, Callable[[], object]] = {
        "--save": lambda: replay.save_monitor(monitor, options.save),
        "--report": lambda: _write_page(options.report, replay_html(report, models)),
        "--json": lambda: _write_json(options.json, numbers),
    }
    wanted = {name: each for name, each in writers.items() if getattr(options, name[2:])}
    unwritten |= arguments.write_all(wanted)
    if not options.quiet and options.json != arguments.STANDARD_OUTPUT:
        _say_files(options, unwritten)
    wrong = list(unwritten.values())
    if not report.readings and not report.duplicates:
        why = replay.explain_empty(
            report.refused, report.refused_examples, report.notes, report.hints
        )
        wrong.append(f"{options.log}: expected readings, got none: {why}")
    if wrong:
        raise StreamLVQError("; ".join(wrong))
    return 0


def _write_page(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def _write_json(path: str, numbers: bytes) -> None:
    if path == arguments.STANDARD_OUTPUT:
        sys.stdout.write(numbers.decode())
    else:
        Path(path).write_bytes(numbers)


def _say_files(options: argparse.Namespace, unwritten: Container[str]) -> None:
    for name in FILES:
        if (path := getattr(options, name)) and f"--{name}" not in unwritten:
            print(entry(name, path))


def _publish(options: argparse.Namespace, config: Config) -> int:
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
