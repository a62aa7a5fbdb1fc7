"""`streamlvq fleet`: who is in a fleet, how fresh, how far shifted."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamlvq.cli import kinds

if TYPE_CHECKING:
    from streamlvq.daemon.fleet_status import FleetStatus, NodeStatus

NAME = "fleet"
SUMMARY = "who is in a fleet, how fresh, how far its sensors are off"
TEXT = """\
status CONFIG   connect to the broker of a node or hub, as a guest, and look at what the fleet has
                published: who is in, how fresh, samples and classes, how far the sensors are off,
                and what was refused and why. Nothing is published, nothing is changed."""
EXAMPLES = """\
examples:
  streamlvq fleet status monitor.yaml
  streamlvq fleet status monitor.yaml --json > fleet.json
  streamlvq fleet status monitor.yaml --wait 1m      a broker that is slow to answer"""

HEAD = ("node", "fresh", "samples", "classes", "off by", "left over", "size", "model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("status",))
    parser.add_argument("config", metavar="CONFIG", help="the YAML file of a node or of the hub")
    parser.add_argument("--json", action="store_true", help="all numbers, for programs")
    parser.add_argument(
        "--wait",
        type=kinds.seconds,
        default=10.0,
        metavar="N",
        help="seconds to wait for the broker (default 10)",
    )


def run(options: argparse.Namespace) -> int:
    import msgspec  # noqa: PLC0415

    from streamlvq.config import load  # noqa: PLC0415
    from streamlvq.daemon.fleet_status import look  # noqa: PLC0415

    status = look(load(options.config), options.wait)
    if options.json:
        print(msgspec.json.encode(status).decode())
    else:
        print("\n".join(words(status)))
    return 0


def words(status: FleetStatus) -> Iterator[str]:
    """A table of the nodes, the correction between them, and what somebody should know."""
    from streamlvq.replay.text import grid  # noqa: PLC0415

    if status.nodes:
        yield from grid([HEAD, *(_row(node) for node in status.nodes)])
        yield "(off by, left over: in deviations within the classes)"
    else:
        yield f"nobody is in fleet {status.fleet!r}"
    yield ""
    if status.why is not None:
        yield f"{'correction':<12} {status.why}"
    if status.trouble is not None:
        yield f"{'not fused':<12} {status.trouble}"
    for node in status.nodes:
        notes = node.clipped if node.left_out is None else (f"left out: {node.left_out}",)
        yield from (f"{'note':<12} {node.node}: {note}" for note in notes)
    for warning in status.warnings:
        yield f"{'warning':<12} {warning}"
    for refused in status.refused:
        yield f"{'refused':<12} {refused.topic} ({refused.reason}): {refused.text}"


def _row(node: NodeStatus) -> tuple[str, ...]:
    classes = ", ".join(f"{label} {count}" for label, count in node.counts.items())
    gained = f" (+ {', '.join(node.gained)})" if node.gained else ""
    return (
        node.node,
        age(node.age),
        str(node.samples),
        classes + gained,
        "" if node.drift is None else f"{node.drift:.2f}",
        "" if node.residual is None else f"{node.residual:.2f}",
        size(node.bytes),
        "" if node.model_age is None else f"{age(node.model_age)} by {node.hub}",
    )


def age(seconds: float) -> str:
    """How long ago, in a few letters.

    Examples
    --------
    >>> age(4.2), age(200.0), age(7300.0), age(400_000.0)
    ('4 s', '3 min', '2.0 h', '4.6 d')

    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"


def size(count: int) -> str:
    """So many bytes, in a few letters.

    Examples
    --------
    >>> size(700), size(20_000), size(3_000_000)
    ('700 B', '19.5 KiB', '2.9 MiB')

    """
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"
