"""`streamlvq run`: the daemon."""

from __future__ import annotations

import argparse

from streamlvq import service
from streamlvq.cli import arguments

TEXT = """\
Subscribe to the configured readings, decide on each, publish the decisions, and learn every
reading that has a label. Runs until SIGTERM or Ctrl-C and loses nothing when stopped; it resumes
where it left off, even after a power cut. SIGHUP reloads the configuration."""
EXAMPLES = """\
examples:
  streamlvq config sample > monitor.yaml     write a configuration, then edit it
  streamlvq run monitor.yaml --test          connect, show readings and decisions for 10 s,
                                             publish nothing, learn nothing
  streamlvq run monitor.yaml --test --test-wait 2m
  streamlvq run monitor.yaml                 run for months

As a service: see configs/streamlvq.service."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a YAML file")
    parser.add_argument(
        "--test", action="store_true", help="show readings and decisions; change nothing"
    )
    parser.add_argument(
        "--test-wait",
        type=arguments.seconds,
        metavar="N",
        help="duration of the test, such as 30 or 2m (default 10 s)",
    )


def run(options: argparse.Namespace) -> int:
    test = options.test or options.test_wait is not None
    return service.run(options.config, test=test, test_wait=options.test_wait)
