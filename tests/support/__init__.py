"""Brokers, daemons, streams and samples that several tests share."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]  # of the repository
