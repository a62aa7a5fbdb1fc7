"""The configuration of commands that read logs: from a file, changed by arguments."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from streamlvq import config as configs
from streamlvq.cli import kinds
from streamlvq.config import Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a log is and what its columns mean."""
    parser.add_argument("log", metavar="LOG", help="a file; .gz is welcome")
    parser.add_argument("--config", metavar="C", help="YAML, as for `run`; defaults without it")
    parser.add_argument("--format", metavar="F", help="csv, jsonl, messages ... (default: look)")
    parser.add_argument("--limit", type=kinds.count, metavar="N", help="stop after N readings")
    fields = parser.add_argument_group(
        "columns or fields, instead of those in the configuration; '' for one that is not there"
    )
    fields.add_argument(
        "--feature", action="append", type=kinds.names, metavar="NAME", help="repeat, or use commas"
    )
    for name, help_text in (
        ("label", "the class"),
        ("device", "where a reading comes from"),
        ("time", "when it was taken"),
        ("time-unit", "s, ms, us, ns or iso"),
        ("sequence", "its number"),
    ):
        fields.add_argument(f"--{name}", metavar="NAME", help=help_text)
    parser.add_argument("--model", metavar="NAME", help="such as GLVQ, instead of the configured")


def settings(options: argparse.Namespace) -> Config:
    """The configuration, with the changes that the arguments ask for, checked."""
    config = configs.load(options.config) if options.config else configs.Config()
    readings = msgspec.structs.replace(config.readings, **_fields(options))
    model = config.model
    if options.model and options.model != model.type:
        # parameters of another model may not suit this one
        model = msgspec.structs.replace(model, type=options.model, parameters={})
    changed = msgspec.structs.replace(config, readings=readings, model=model)
    if changed != config:
        configs.check(changed)
    return changed


def _fields(options: argparse.Namespace) -> dict[str, Any]:
    """What the arguments say about columns."""
    given: dict[str, Any] = {
        name: getattr(options, name) or None  # '' takes back what the configuration says
        for name in ("label", "device", "time", "sequence")
        if getattr(options, name) is not None
    }
    if options.time_unit is not None:
        given["time_unit"] = options.time_unit
    if options.feature:
        given["features"] = [name for names in options.feature for name in names]
    return given
