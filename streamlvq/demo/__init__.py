"""The whole idea in one command: machines, a broker, the daemon, and a view of what it decides."""

from __future__ import annotations

from streamlvq.demo.run import run

__all__ = ["run"]
