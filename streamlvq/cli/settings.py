"""Configuration of commands that read logs: a file, overridden by arguments."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec

from streamlvq import config as configs
from streamlvq.cli import kinds
from streamlvq.config import Config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that describe a log and its columns."""
    parser.add_argument("log", metavar="LOG", help="a file, which may be compressed (.gz)")
    parser.add_argument(
        "--config", metavar="C", help="a YAML file, as for `run` (default: all defaults)"
    )
    parser.add_argument(
        "--format", metavar="F", help="csv, jsonl, messages ... (default: recognised by content)"
    )
    parser.add_argument("--limit", type=kinds.count, metavar="N", help="stop after N readings")
    fields = parser.add_argument_group(
        "columns or fields, instead of the configured ones; '' for none"
    )
    fields.add_argument(
        "--feature",
        action="append",
        type=kinds.names,
        metavar="NAME",
        help="a feature; may be repeated, or separated by commas",
    )
    for name, help_text in (
        ("label", "the class of a reading"),
        ("device", "the device of a reading"),
        ("time", "the time of a reading"),
        ("time-unit", "unit of the time: s, ms, us, ns or iso"),
        ("sequence", "the sequence number of a reading"),
    ):
        fields.add_argument(f"--{name}", metavar="NAME", help=help_text)
    parser.add_argument(
        "--model", metavar="NAME", help="a model such as GLVQ, instead of the configured one"
    )


def settings(options: argparse.Namespace) -> Config:
    """Return the configuration with the arguments applied, checked."""
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
    """Return the fields of the readings that the arguments set."""
    given: dict[str, Any] = {
        name: getattr(options, name) or None  # '' unsets what is configured
        for name in ("label", "device", "time", "sequence")
        if getattr(options, name) is not None
    }
    if options.time_unit is not None:
        given["time_unit"] = options.time_unit
    if options.feature:
        given["features"] = [name for names in options.feature for name in names]
    return given
