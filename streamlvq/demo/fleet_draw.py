"""The live view of the fleet, drawn with rich."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamlvq.demo.draw import happenings, legend, share, strip
from streamlvq.demo.fleet_summary import unseen_words
from streamlvq.demo.fleet_watch import FleetWatch, NodeWatch

STRIP = "said over truth"
WIDTHS = {  # of the columns; the first to go where there is little room stand last in LEAVING
    "node": 6,
    "learnt": 6,
    "joined": 6,
    "sensors off": 11,
    "decides": 9,
    "alone": 7,
    "together": 8,
}
LEAVING = ("learnt", "joined", "sensors off", "decides")
FEWEST, MOST = 15, 60  # marks of the strip


def picture(watch: FleetWatch, title: str, width: int) -> RenderableType:
    """Everything, to be drawn afresh several times a second."""
    return Group(
        Text(title, style="bold"),
        table(watch, width),
        legend(),
        _panel(findings(watch), "what the fleet has found out (and what is true)"),
        _panel(happenings(watch.notes), "what is happening"),
    )


def _panel(text: Text, title: str) -> Panel:
    return Panel(text, title=title, title_align="left", border_style="dim")


# --- nodes ---------------------------------------------------------------------------------------


def table(watch: FleetWatch, width: int) -> Table:
    """A line for each node."""
    columns = fitting(width)
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim")
    for title, size in columns.items():
        drawn.add_column(title, no_wrap=True, width=size)
    for name, node in watch.nodes.items():
        shown = cells(name, node, watch.insight.size(name))
        shown[STRIP] = strip(list(node.strip), columns[STRIP])
        drawn.add_row(*(shown[title] for title in columns))
    return drawn


def fitting(width: int) -> dict[str, int]:
    """The columns that there is room for, and how wide they are.

    Examples
    --------
    >>> fitting(70)
    {'node': 6, 'decides': 9, 'alone': 7, 'together': 8, 'said over truth': 24}

    """
    columns = dict(WIDTHS)
    for title in LEAVING:
        if room(columns, width) >= FEWEST:
            break
        del columns[title]
    return {**columns, STRIP: max(1, min(MOST, room(columns, width)))}


def room(columns: dict[str, int], width: int) -> int:
    """Characters that are left for the strip."""
    return width - sum(columns.values()) - 3 * (len(columns) + 1) - 1


def cells(name: str, node: NodeWatch, off: float | None) -> dict[str, Text]:
    return {
        "node": Text(name),
        "learnt": Text(f"{node.learnt:6d}"),
        "joined": Text("yes", style="green") if node.joined else Text("-", style="dim"),
        "sensors off": Text("-", style="dim") if off is None else Text(f"{off:.1f} sd"),
        "decides": decider(node),
        "alone": Text(share(node.alone.accuracy), style="bold"),
        "together": Text(share(node.together.accuracy), style=better(node)),
    }


def decider(node: NodeWatch) -> Text:
    if node.last is None:
        return Text("...", style="dim")
    return Text("the fleet", style="green") if node.fused else Text("its own")


def better(node: NodeWatch) -> str:
    """The colour of what came of it: green only if it is at least as good as before."""
    alone, together = node.alone.accuracy, node.together.accuracy
    if alone is None or together is None:
        return "bold"
    return "bold green" if together >= alone else "bold yellow"


# --- findings ------------------------------------------------------------------------------------


def findings(watch: FleetWatch) -> Text:
    """How sensors differ from those of the first node, and what was gained."""
    first, *others = watch.nodes
    text = Text(no_wrap=True, overflow="ellipsis")
    for name in others:
        off = "; ".join(map(str, watch.insight.off(name)))
        text.append(f"{name:<6}", style="bold").append(f"against {first}: ", style="dim")
        text.append(f"{off or '-'}\n", style="default" if off else "dim")
    for name, node in watch.nodes.items():
        if node.lacks is not None:
            text.append(f"{name:<6}", style="bold")
            text.append(f"{node.lacks}, never labelled there: ", style="dim")
            text.append(unseen_words(node))
    return text
