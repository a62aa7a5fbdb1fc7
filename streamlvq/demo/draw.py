"""The live view, drawn with rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamlvq.demo.pairs import Seen
from streamlvq.demo.story import BEARING
from streamlvq.demo.watch import DeviceWatch, Note, Watch

COLOURS = {  # that are still five different ones where a terminal has but sixteen
    "idle": "#5f87d7",
    "running": "#5faf5f",
    "heavy load": "#d7a700",
    "imbalance": "#b05fd7",
    BEARING: "#e0555f",
}
NOTHING = "#3a3a3a"  # rejected, or no decision
KINDS = {"fault": "bold red", "drift": "yellow", "plug": "yellow", "found": "bold green"}
BAR = 12
MACHINE, STRIP = "machine", "said over truth"
WIDTHS = {"the model says": 14, "certainty": BAR + 5, "verdict": 9, "in truth": 13}
NARROW, WIDE = 66, 100  # characters
FEWEST = 15  # marks of the strip, so that its title is whole
NOTES = 6
PER_MARK = 4  # decisions in a mark of the strip


def picture(watch: Watch, title: str, width: int) -> RenderableType:
    """Everything, to be drawn afresh several times a second."""
    return Group(
        Text(title, style="bold"),
        machines(watch, width),
        legend(),
        Panel(figures(watch, width), title="so far", title_align="left", border_style="dim"),
        Panel(
            happenings(watch.notes),
            title="what is happening",
            title_align="left",
            border_style="dim",
        ),
    )


# --- machines ------------------------------------------------------------------------------------


def machines(watch: Watch, width: int) -> Table:
    """A line for each machine; a narrow terminal has fewer columns, but whole names."""
    columns = fitting(max(map(len, watch.devices)), width)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim")
    for title, size in columns.items():
        table.add_column(title, no_wrap=True, width=size)
    for name, device in watch.devices.items():
        shown = {MACHINE: Text(name), **cells(device)}
        shown[STRIP] = strip(list(device.strip), columns[STRIP])
        table.add_row(*(shown[title] for title in columns))
    return table


def fitting(longest: int, width: int) -> dict[str, int]:
    """The columns that there is room for, and how wide they are.

    Examples
    --------
    >>> fitting(7, 60)
    {'machine': 7, 'the model says': 14, 'verdict': 9, 'said over truth': 17}

    """
    columns = {MACHINE: max(longest, len(MACHINE)), **WIDTHS}
    for title in ("in truth", "certainty", "verdict", "the model says"):
        if width >= WIDE or (title != "in truth" and room(columns, width) >= FEWEST):
            break
        del columns[title]
    return {**columns, STRIP: max(1, min(60, room(columns, width)))}


def room(columns: dict[str, int], width: int) -> int:
    """Characters that are left for the strip."""
    return width - sum(columns.values()) - 3 * (len(columns) + 1) - 1


def cells(device: DeviceWatch) -> dict[str, Text]:
    seen = device.last
    if seen is None:
        return dict.fromkeys(WIDTHS, Text("...", style="dim"))
    said = seen.said
    return {
        "the model says": (
            state(said.label) if said.accepted else Text(said.label or "?", style="dim strike")
        ),
        "certainty": bar(said.certainty, said.threshold),
        "verdict": verdict(seen),
        "in truth": state("nonsense" if seen.truth.glitch else seen.truth.state),
    }


def state(name: str | None) -> Text:
    return Text(name or "?", style=COLOURS.get(name or "", "white"))


def bar(certainty: float, threshold: float | None) -> Text:
    """How certain, with a mark where it is certain enough."""
    filled = round(certainty * BAR)
    mark = BAR if threshold is None else min(BAR - 1, round(threshold * BAR))
    enough = threshold is not None and certainty >= threshold
    text = Text()
    for n in range(BAR):
        full = n < filled
        sign = "┃" if n == mark and not full else "━"
        colour = ("green" if enough else "red") if full else "white" if n == mark else NOTHING
        text.append(sign, style=colour)
    return text.append(f" {certainty:.2f}", style="default" if enough else "dim")


def verdict(seen: Seen) -> Text:
    if not seen.said.accepted:
        return Text((seen.said.reason or "rejected").replace("_", " "), style="yellow")
    return Text("right", style="green") if seen.right else Text("wrong", style="bold red")


def strip(seen: Sequence[Seen], width: int) -> Text:
    """The past in colours, several decisions in a mark: above what was said, below the truth.

    The latest mark is at the right. Marks begin at sequence numbers that are multiples of their
    length, so that they move but do not flicker.
    """
    marks: dict[int, list[Seen]] = {}
    for one in seen:
        marks.setdefault(one.said.sequence // PER_MARK, []).append(one)
    text = Text()
    for number in sorted(marks)[-width:]:
        group = marks[number]
        text.append("▀", style=f"{mark_colour(group)} on {truth_colour(group)}")
    return text


def mark_colour(group: Sequence[Seen]) -> str:
    """That of the label that most accepted decisions have; none if most are rejected."""
    labels = [one.said.label or "" for one in group if one.said.accepted]
    if 2 * len(labels) < len(group):
        return NOTHING
    return COLOURS.get(max(labels, key=labels.count), "white")


def truth_colour(group: Sequence[Seen]) -> str:
    states = [one.truth.state for one in group]
    return COLOURS.get(max(states, key=states.count), "white")


def legend() -> Text:
    text = Text("  ")
    for name, colour in {**COLOURS, "rejected": NOTHING}.items():
        text.append("■ ", style=colour).append(f"{name}  ", style="dim")
    return text


# --- figures and happenings ----------------------------------------------------------------------


def figures(watch: Watch, width: int) -> Table:
    table = Table.grid(expand=True)
    columns = {
        "readings/s": f"{watch.throughput:.0f}",
        "decided": f"{watch.decided}",
        "labels learnt": f"{watch.version}",
        "accepted: right": share(watch.accuracy),
        "rejected": share(watch.reject_rate),
    }
    if width < NARROW:
        del columns["labels learnt"]  # or titles would touch each other
    if width >= WIDE:
        reasons = (f"{count} {name}" for name, count in sorted(watch.reasons.items()))
        columns["because"] = ", ".join(reasons).replace("_", " ") or "-"
    for _ in columns:
        table.add_column(no_wrap=True)
    table.add_row(*(Text(name, style="dim") for name in columns))
    table.add_row(*(Text(value, style="bold") for value in columns.values()))
    return table


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def happenings(notes: Sequence[Note]) -> Text:
    """The last notes, the latest below; always as many lines, so that nothing jumps."""
    text = Text(no_wrap=True, overflow="ellipsis")
    notes = notes[-NOTES:]
    for note in notes:
        style = KINDS.get(note.kind, "default" if note is notes[-1] else "dim")
        text.append(f"{note.seconds:4.0f} s  ", style="dim").append(note.text, style=style)
        text.append("\n" if note is not notes[-1] else "")
    return text.append("\n" * (NOTES - max(1, len(notes))))
