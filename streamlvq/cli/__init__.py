"""The command line: `streamlvq COMMAND ...`, a file for each command."""

from __future__ import annotations

from streamlvq.cli.main import main

__all__ = ["main"]
