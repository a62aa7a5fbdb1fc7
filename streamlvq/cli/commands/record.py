"""`streamlvq record`: record messages of a broker to a log."""

from __future__ import annotations

import argparse

from streamlvq import config, replay
from streamlvq.cli import arguments

TEXT = """\
Subscribe to the configured topics (readings and labels) and write every message, byte for byte and
with its time, until Ctrl-C. It uses its own session and does not disturb a daemon with the same
configuration. An existing file is appended to."""
EXAMPLES = """\
examples:
  streamlvq record --config monitor.yaml -o monday.messages
  streamlvq record --config monitor.yaml -o monday.messages.gz --seconds 8h
  streamlvq record --config monitor.yaml -o all.messages --topic 'plant/#' --seconds 60
  streamlvq replay monday.messages --config monitor.yaml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="C", required=True, help="YAML, as for `run`")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the log to write")
    parser.add_argument(
        "--seconds",
        type=arguments.seconds,
        metavar="N",
        help="stop after this time, such as 90, 15m or 8h",
    )
    parser.add_argument(
        "--messages", type=arguments.count, metavar="N", help="stop after N messages"
    )
    parser.add_argument(
        "--topic",
        action="append",
        metavar="FILTER",
        help="topics instead of the configured ones; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor summary")


def run(options: argparse.Namespace) -> int:
    recorded = replay.record(
        config.load(options.config),
        options.output,
        topics=options.topic,
        seconds=options.seconds,
        messages=options.messages,
        progress=False if options.quiet else None,
    )
    if not options.quiet:
        print(
            f"recorded {recorded.messages} messages in {recorded.seconds:.1f} s: {options.output}"
        )
        if recorded.breaks:
            times = "once" if recorded.breaks == 1 else f"{recorded.breaks} times"
            print(f"the connection broke {times}: messages may be missing")
        if not recorded.messages:
            print("next: nothing arrived; is the topic right, and may this user subscribe to it?")
    return 0
