"""`streamlvq audit`: attack what nodes publish, as an outsider would."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamlvq import config as configs
from streamlvq.cli import arguments
from streamlvq.errors import StreamLVQError
from streamlvq.registry import ATTACKS
from streamlvq.text import entry

if TYPE_CHECKING:
    from streamlvq.audit import AuditReport, Truth
    from streamlvq.config import Config
    from streamlvq.privacy import PrivateLVQ

TEXT = """\
Attack what nodes publish, as somebody would who receives it, and tell which readings that gives
away. Every attack says what it assumes, and "does not apply" where it cannot be tried. WHAT is

  snapshots     .slvq files: one, or several of a node in the order of time
  state folders of daemons: the snapshots in them, without stored readings, as they would publish;
                the mechanism of a private one is run too
  a log         with --config: learnt as the daemon would, attacked at the times it would publish
  configuration a YAML file: the same with readings of a simulated machine; with a section
                `privacy` its mechanism is run thousands of times, which takes a minute

With --log the readings that were learnt tell how good the attacks on snapshots are; a log that is
WHAT itself always does.

Exit status: 0 if no attack succeeded, 1 if one did (see --fail-on), 2 for errors."""
EXAMPLES = """\
examples:
  streamlvq audit monday.slvq tuesday.slvq          what do two publications of a node tell?
  streamlvq audit state/ --report audit.html        what would this daemon give away?
  streamlvq audit plant.csv --config monitor.yaml   is this configuration safe for these readings?
  streamlvq audit plant.csv --config monitor.yaml --every 1 --attack counts-and-means
  streamlvq audit monitor.yaml --fail-on exact      in CI: fail if single readings come out

attacks:
"""
EXAMPLES += "\n".join(f"  {name:<17} {ATTACKS.summary(name)}" for name in ATTACKS)

SUCCEEDED = 1  # exit status
CONFIG_SUFFIXES = (".yaml", ".yml")
HEADER_START = 8  # of a snapshot: after the length of the header, which is an object


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", metavar="WHAT", nargs="+", help="snapshots, state folders, a log or a configuration"
    )
    parser.add_argument(
        "--every",
        type=arguments.count,
        metavar="N",
        help="of a log: labelled readings between publications (default: as `fleet` publishes)",
    )
    parser.add_argument(
        "--log", metavar="LOG", help="the readings that snapshots learnt, to measure success"
    )
    arguments.add_log_settings(parser)
    parser.add_argument(
        "--attack",
        action="append",
        type=arguments.names,
        metavar="NAME",
        help="run only this attack; may be repeated, or separated by commas",
    )
    parser.add_argument(
        "--fail-on",
        metavar="WHAT",
        default="any",
        help="what makes the exit status 1: any (default) success, only exact readings and broken "
        "guarantees, never, or attacks separated by commas",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of what attacks draw (default 0)")
    out = parser.add_argument_group("results")
    out.add_argument("--report", metavar="HTML", help="write a page with the readings found")
    out.add_argument("--json", metavar="FILE", help="write all findings; - for standard output")
    out.add_argument("--quiet", action="store_true", help="print neither progress nor findings")


def run(options: argparse.Namespace) -> int:
    from streamlvq.audit.findings import FAIL_ON  # noqa: PLC0415 - slow to import

    fail_on, counted = _fail_on(options.fail_on, FAIL_ON)
    outputs = {"--report": options.report, "--json": options.json}
    arguments.check_outputs(outputs, options.what)
    report = _audit(options)
    if options.report:
        from streamlvq.report.audit_page import audit_html  # noqa: PLC0415

        Path(options.report).write_text(audit_html(report), encoding="utf-8")
    if options.json:
        _write_json(options.json, report)
    if not options.quiet:
        from streamlvq.audit.summary import audit_text  # noqa: PLC0415

        if options.json != arguments.STANDARD_OUTPUT:
            print(audit_text(report))
        if options.report:
            print(entry("page", options.report))
    return SUCCEEDED if report.failures(fail_on, counted) else 0


def _fail_on(text: str, levels: object) -> tuple[str, list[str] | None]:
    """Return the level and the attacks that count; None for all."""
    assert isinstance(levels, dict)
    if text in levels:
        return text, None
    names = arguments.names(text)
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        raise StreamLVQError(
            f"--fail-on: expected one of {', '.join(levels)}, or attacks, got {unknown[0]!r}"
        )
    return "any", names


def _attacks(options: argparse.Namespace) -> list[str] | None:
    if not options.attack:
        return None
    names = [name for given in options.attack for name in given]
    for name in names:
        ATTACKS.check(name)
    return names


def _audit(options: argparse.Namespace) -> AuditReport:
    from streamlvq import audit  # noqa: PLC0415 - slow to import

    attacks = _attacks(options)
    progress = False if options.quiet else None
    how = {"attacks": attacks, "seed": options.seed, "progress": progress}
    kinds = [_kind(path) for path in options.what]
    if "snapshot" in kinds:
        _only(options, kinds, "snapshot")
        found, notes = [], list[str]()
        fleet = None if options.config is None else configs.load(options.config).fleet
        least = {} if fleet is None else {"min_new_per_class": fleet.min_new_per_class}
        for path in options.what:
            snapshots, said = audit.load_publications(path, **least)
            found += snapshots
            notes += said
        private, whose = _mechanism(options.what)
        report = audit.audit_snapshots(found, _truth(options), private=private, **how)
        notes += whose
        return replace(report, notes=[*report.notes, *notes])
    if len(options.what) > 1:
        raise StreamLVQError(
            f"WHAT: expected one log or configuration, got {len(options.what)}: {options.what[1]!r}"
        )
    if options.log is not None:
        raise StreamLVQError("--log: expected together with snapshots, got it with a log")
    if kinds == ["configuration"]:
        if options.config is not None:
            raise StreamLVQError("--config: expected together with a log, got two configurations")
        return audit.audit_config(configs.load(options.what[0]), every=options.every, **how)
    limit = {} if options.limit is None else {"limit": options.limit}
    return audit.audit_log(
        options.what[0],
        _settings(options),
        format=options.format,
        every=options.every,
        **limit,
        **how,
    )


def _mechanism(paths: Sequence[str]) -> tuple[Callable[[], PrivateLVQ] | None, list[str]]:
    """Return how to build the first private model, and a note of whose it is if others follow."""
    from streamlvq import audit  # noqa: PLC0415 - slow to import

    found = {path: audit.private_mechanism(path) for path in paths}
    private = {path: make for path, make in found.items() if make is not None}
    if not private:
        return None, []
    path, make = next(iter(private.items()))
    notes = [f"of private models, the mechanism of {path} was run"] if len(private) > 1 else []
    return make, notes


def _only(options: argparse.Namespace, kinds: list[str], kind: str) -> None:
    others = [path for path, each in zip(options.what, kinds, strict=True) if each != kind]
    if others:
        raise StreamLVQError(
            f"WHAT: expected snapshots alone, got {others[0]!r}; name the log with --log"
        )
    if options.every is not None:
        raise StreamLVQError("--every: expected together with a log, got it with snapshots")


def _kind(path: str) -> str:
    """Return what a path is: "snapshot", "configuration" or "log"."""
    if Path(path).is_dir():
        return "snapshot"
    if Path(path).suffix.lower() in CONFIG_SUFFIXES:
        return "configuration"
    with open(path, "rb") as file:
        start = file.read(HEADER_START + 1)
    length = int.from_bytes(start[:HEADER_START], "little")
    is_snapshot = start[HEADER_START:] == b"{" and length <= Path(path).stat().st_size
    return "snapshot" if is_snapshot else "log"


def _settings(options: argparse.Namespace) -> Config:
    return arguments.settings(options)


def _truth(options: argparse.Namespace) -> Truth | None:
    from streamlvq.audit import truth_of_log  # noqa: PLC0415 - slow to import

    if options.log is None:
        return None
    return truth_of_log(options.log, _settings(options), options.format, options.limit)


def _write_json(path: str, report: AuditReport) -> None:
    data = msgspec.json.format(msgspec.json.encode(report, enc_hook=str), indent=2)
    if path == arguments.STANDARD_OUTPUT:
        print(data.decode())
    else:
        Path(path).write_bytes(data + b"\n")
