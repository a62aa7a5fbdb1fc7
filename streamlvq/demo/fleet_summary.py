"""What the fleet of a demo came to."""

from __future__ import annotations

from streamlvq.demo.fleet_watch import FleetWatch, NodeWatch, Tally

TITLE = f"  {'node':<8}{'labels':>8}   {'decided alone':<22}{'together':<22}{'points':>8}"


def summary(watch: FleetWatch) -> str:
    """The lines at the end: each node's own model against that of the fleet, as it happened."""
    if watch.began is None:
        return "\nThe fleet was stopped before its presses were switched on."
    lines = ["", f"The fleet, after {watch.seconds:.0f} s: the same readings, decided twice", TITLE]
    lines += [_row(name, node) for name, node in watch.nodes.items()]
    for name, node in watch.nodes.items():
        if node.lacks is not None:
            lines.append(f"  {node.lacks} on {name}, never labelled there: {unseen_words(node)}")
    return "\n".join([*lines, *_insight(watch)])


def _row(name: str, node: NodeWatch) -> str:
    alone, together = node.alone.accuracy, node.together.accuracy
    points = "-" if alone is None or together is None else f"{100 * (together - alone):+.1f}"
    figures = f"{_right(node.alone):<22}{_right(node.together):<22}{points:>8}"
    return f"  {name:<8}{node.learnt:>8}   {figures}"


def _right(tally: Tally) -> str:
    if tally.accuracy is None:
        return "-"
    return f"{tally.accuracy:.1%} ({tally.right} of {tally.decided})"


def unseen_words(node: NodeWatch) -> str:
    """How often a state was recognised that the node knows only from others.

    Examples
    --------
    >>> from streamlvq.demo.fleet_watch import NodeWatch, Tally
    >>> unseen_words(NodeWatch("worn", alone=Tally(50, 40, 10, 0), together=Tally(50, 49, 10, 9)))
    'recognised 0 of 10 alone, 9 of 10 together'

    """
    parts = [
        f"{tally.recognised} of {tally.unseen} {how}"
        for how, tally in (("alone", node.alone), ("together", node.together))
        if tally.unseen
    ]
    return f"recognised {', '.join(parts)}" if parts else "not asked yet"


def _insight(watch: FleetWatch) -> list[str]:
    report = watch.insight.report
    if report is None:
        return ["  nothing was fused: too few nodes had joined"]
    lines = [f"  correction between the sensors: {report.why}"]
    first = next(iter(watch.nodes))
    for name in watch.nodes:
        off = watch.insight.off(name)
        if off:
            lines.append(f"  {name} against {first} (in truth): {', '.join(map(str, off))}")
    return [*lines, *(f"  warning: {text}" for text in report.warnings)]
