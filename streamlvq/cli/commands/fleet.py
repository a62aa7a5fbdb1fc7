"""`streamlvq fleet`: show the nodes of a fleet."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from streamlvq.cli import arguments
from streamlvq.config import load
from streamlvq.fleet.status import FleetStatus, NodeStatus, fetch_status
from streamlvq.text import age, aligned, display_width, entry, size

TEXT = """\
status CONFIG   connect to the broker of a node or hub and show what the fleet has published and
                the broker retains: nodes and the age of their models, samples and classes, how far
                their sensors are off, which nodes are alike, what was left out, what was refused
                and why. For nodes whose status topic is like that in CONFIG, also show who is
                online, whether the fleet's model, the node's own or a pool of both decides, how
                each model in a pool is weighed, and why. Nothing is published or changed."""
EXAMPLES = """\
examples:
  streamlvq fleet status monitor.yaml
  streamlvq fleet status monitor.yaml --json > fleet.json
  streamlvq fleet status monitor.yaml --wait 1m      if the broker is slow to answer"""

WIDTH = 80
# Columns, the least important last; empty ones are left out.
STATUS_COLUMNS = (
    "node",
    "fresh",
    "samples",
    "classes",
    "decides",
    "state",
    "model",
    "off by",
    "left over",
    "size",
)
ORDER = ("node", "state", "decides", "fresh", "samples", "classes", *STATUS_COLUMNS[7:], "model")
LAYOUTS = [
    *((count, True) for count in (10, 9, 8)),
    *((count, False) for count in range(10, 5, -1)),
]
DECIDES = {"fused": "fleet", "local": "local", "pool": "pool", None: ""}
# Refusals of messages that are no envelope of a known node; they stay until removed by hand.
GARBAGE = ("malformed", "truncated", "oversized", "unknown_key", "unsigned", "fleet", "node")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("status",))
    parser.add_argument("config", metavar="CONFIG", help="the YAML file of a node or of the hub")
    parser.add_argument("--json", action="store_true", help="all numbers, for programs")
    parser.add_argument(
        "--wait",
        type=arguments.seconds,
        default=10.0,
        metavar="N",
        help="seconds to wait for the broker (default 10)",
    )


def run(options: argparse.Namespace) -> int:
    with _quiet():
        status = fetch_status(load(options.config), options.wait)
    if options.json:
        print(msgspec.json.encode(status).decode())
    else:
        print("\n".join(words(status)))
    return 0


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log of the link, whose errors are raised as well."""
    logger = logging.getLogger("streamlvq.mqtt")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def words(status: FleetStatus) -> Iterator[str]:
    """Yield a table of the nodes, the correction between them, notes and warnings."""
    if status.nodes:
        yield f"fleet {status.fleet!r}, as the broker retains it:"
        yield ""
        yield from _table(status.nodes)
    else:
        yield f"nobody is in fleet {status.fleet!r}, as far as the broker retains it"
        yield (
            f"(a node publishes once it has learnt {status.min_samples} labelled readings: "
            "fleet.min_samples)"
        )
    if status.silent:
        yield f"online without a snapshot that is believed: {', '.join(status.silent)}"
    yield ""
    yield from _notes(status)
    for refused in status.refused:
        yield entry("refused", f"{refused.topic} ({refused.reason}): {refused.text}")
    yield from _hint(status)


def _notes(status: FleetStatus) -> Iterator[str]:
    """Yield notes and warnings, each once."""
    if status.why is not None:
        yield entry("correction", status.why)
    if status.trouble is not None:
        yield entry("not fused", status.trouble)
    for node in status.nodes:
        if node.privacy is not None:
            yield entry("private", f"{node.node}: {node.privacy}")
    for node in status.nodes:
        if (text := _weighed(node)) is not None:
            yield entry("weights", f"{node.node}: {text}")
    for node in status.nodes:
        for note in node.notes if node.left_out is None else ():  # warnings say who was left out
            yield entry("note", f"{node.node}: {note}")
    if status.note is not None:
        yield entry("note", status.note)
    for warning in dict.fromkeys(status.warnings):
        yield entry("warning", warning)


def _weighed(node: NodeStatus) -> str | None:
    """Return how the models of a node's pool are weighed, and why; None if nothing is known."""
    if node.pool is None:
        told = _listed(node.published)
        return f"{told} (as it tells others)" if told else None
    pool, reasons = node.pool, []
    if "local" in pool.losses and "pool" in pool.losses:
        reasons.append(
            f"log loss {pool.losses['local']:.3f} alone, {pool.losses['pool']:.3f} together"
        )
    reasons.append(
        f"judged on {pool.records} readings" if pool.records else "no readings to judge by"
    )
    reasons += [f"without {', '.join(pool.dropped)}"] if pool.dropped else []
    return f"{_listed(pool.weights)} ({'; '.join(reasons)})"


def _listed(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in weights.items())


def _hint(status: FleetStatus) -> Iterator[str]:
    """Yield how to remove messages that nobody can use."""
    topics = [refused.topic for refused in status.refused if refused.reason in GARBAGE]
    if topics:
        yield entry(
            "hint",
            "make the broker forget what does not belong here with "
            f"`mosquitto_pub -r -n -t '{topics[0]}'`",
        )


def _table(nodes: Sequence[NodeStatus]) -> list[str]:
    """Return a table that fits the terminal; names of classes come before optional columns."""
    for count, named in LAYOUTS:
        lines = _grid([_cells(node, named) for node in nodes], STATUS_COLUMNS[:count])
        if max(map(display_width, lines)) <= WIDTH:
            break
    if "off by" in lines[0]:
        lines.append("(off by, left over: in deviations within the classes)")
    if not named:
        lines += ["", *(entry("classes", f"{node.node}: {_classes(node)}") for node in nodes)]
    return lines


def _grid(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> list[str]:
    kept = [name for name in ORDER if name in columns and any(row[name] for row in rows)]
    return aligned([kept, *([row[name] for name in kept] for row in rows)])


def _classes(node: NodeStatus) -> str:
    known = ", ".join(f"{label} {count}" for label, count in node.counts.items())
    return known + (f" (+ {', '.join(node.gained)})" if node.gained else "")


def _cells(node: NodeStatus, named: bool) -> dict[str, str]:
    short = f"{len(node.counts)}" + (f" (+ {len(node.gained)})" if node.gained else "")
    return {
        "node": node.node,
        "state": node.state or "",
        "decides": DECIDES[node.decides],
        "fresh": age(node.age),
        "samples": str(node.samples),
        "classes": _classes(node) if named else short,
        "off by": "" if node.drift is None else f"{node.drift:.2f}",
        "left over": "" if node.residual is None else f"{node.residual:.2f}",
        "size": size(node.bytes),
        "model": "" if node.model_age is None else f"{age(node.model_age)} by {node.hub}",
    }
