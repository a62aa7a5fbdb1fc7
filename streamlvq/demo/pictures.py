"""The live pictures of both acts, drawn with rich; the only module of the demo that needs it."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streamlvq.demo.processes import AskedToEnd
from streamlvq.demo.tracker import (
    FleetTracker,
    JudgedDecision,
    Note,
    PlantTracker,
    TrackedDevice,
    TrackedNode,
    Tracker,
)
from streamlvq.demo.views import (
    COMPILING_HINT,
    EXPLAIN_WAIT_SECONDS,
    PREVIEW_FEATURES,
    Drawing,
    TrackerT,
    View,
)
from streamlvq.synth import BEARING_FAULT, SENSOR_UNITS

STATE_COLOURS = {  # five that stay different where a terminal has but sixteen
    "idle": "#5f87d7",
    "running": "#5faf5f",
    "heavy load": "#d7a700",
    "imbalance": "#b05fd7",
    BEARING_FAULT: "#e0555f",
}
NO_COLOUR = "#3a3a3a"  # rejected, or no decision
NOTE_STYLES = {"fault": "bold red", "drift": "yellow", "plug": "yellow", "found": "bold green"}
MAX_NOTES = 6
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

# Widths in characters: of pictures, bars, table columns.
NARROW_WIDTH, WIDE_WIDTH, SVG_WIDTH = 66, 100, 118
BAR_WIDTH = 12
STRIP_COLUMN = "said over truth"
STRIP_MIN_WIDTH, STRIP_MAX_WIDTH = 15, 60  # narrower ones would cut the column's title
DECISIONS_PER_MARK = 4  # of the strip
PLANT_COLUMNS = {"the model says": 14, "certainty": BAR_WIDTH + 5, "verdict": 9, "in truth": 13}
FLEET_COLUMNS = {
    "node": 6,
    "learnt": 6,
    "joined": 6,
    "sensors off": 11,
    "decides": 9,
    "alone": 7,
    "together": 8,
}
# Columns that go, in this order, until there is room for the strip.
PLANT_OPTIONAL = ("certainty", "verdict", "the model says")
FLEET_OPTIONAL = ("learnt", "joined", "sensors off", "decides")


class PictureView(View[TrackerT]):
    """A picture in the terminal that is drawn afresh several times a second.

    Parameters
    ----------
    title
        What stands above it.
    drawing
        Draws the state of things.
    console
        Where to draw; None for the terminal.

    """

    def __init__(
        self, title: str, drawing: Drawing[TrackerT], console: Console | None = None
    ) -> None:
        self._title = title
        self._drawing = drawing
        self.console = console or Console()
        # Without a thread of its own: children are started from a process with one thread.
        self._live = Live(console=self.console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        # The terminal must get its cursor back.
        with contextlib.suppress(AskedToEnd, KeyboardInterrupt):
            self._live.stop()

    def waiting(self, what: str, elapsed: float, tracker: TrackerT | None = None) -> None:
        text = Text(f"{self._title}\n", style="bold")
        text.append(f"{SPINNER[int(elapsed * 10) % len(SPINNER)]} ", style="green")
        text.append(f"starting {what}, {elapsed:.0f} s", style="not bold")
        if elapsed > EXPLAIN_WAIT_SECONDS:
            text.append(f"\n  {COMPILING_HINT}", style="not bold dim")
        shown = [text] if tracker is None else [text, *preview_tables(tracker, self.console)]
        self._live.update(Group(*shown), refresh=True)

    def update(self, tracker: TrackerT) -> None:
        self._live.update(self.draw(tracker), refresh=True)

    def draw(self, tracker: TrackerT) -> RenderableType:
        """Return the picture of this moment."""
        title = f"{self._title}   {tracker.seconds:.0f} s"
        picture: RenderableType = self._drawing(tracker, title, self.console.width)
        return picture


def save_picture(tracker: TrackerT, title: str, path: Path, drawing: Drawing[TrackerT]) -> None:
    """Write the picture of this moment to an SVG file that needs nothing from elsewhere."""
    console = Console(
        record=True,
        width=SVG_WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(PictureView(title, drawing, console).draw(tracker))
    text = console.export_svg(title="streamlvq demo", unique_id="demo")
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL)  # these would be fetched
    path.write_text(text, encoding="utf-8")


# --- parts of both pictures -----------------------------------------------------------------------


def fit_columns(columns: dict[str, int], optional: Sequence[str], width: int) -> dict[str, int]:
    """Return the columns that there is room for beside the strip, with their widths.

    Examples
    --------
    >>> from streamlvq.demo.pictures import FLEET_COLUMNS, FLEET_OPTIONAL, fit_columns
    >>> fit_columns(FLEET_COLUMNS, FLEET_OPTIONAL, 70)
    {'node': 6, 'decides': 9, 'alone': 7, 'together': 8, 'said over truth': 24}

    """
    columns = dict(columns)
    for title in optional:
        if _room(columns, width) >= STRIP_MIN_WIDTH:
            break
        del columns[title]
    return {**columns, STRIP_COLUMN: max(1, min(STRIP_MAX_WIDTH, _room(columns, width)))}


def _room(columns: dict[str, int], width: int) -> int:
    """Return how many characters are left for the strip."""
    return width - sum(columns.values()) - 3 * (len(columns) + 1) - 1


def _device_table(
    columns: dict[str, int], rows: Sequence[tuple[TrackedDevice, dict[str, Text]]]
) -> Table:
    """Return a table with a line for each device, its recent decisions at the end."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim")
    for title, size in columns.items():
        table.add_column(title, no_wrap=True, width=size)
    for device, cells in rows:
        strip = _strip(list(device.recent), columns[STRIP_COLUMN])
        table.add_row(*({**cells, STRIP_COLUMN: strip}[title] for title in columns))
    return table


def _strip(recent: Sequence[JudgedDecision], width: int) -> Text:
    """Return the past in colours, several decisions in a mark: decisions above, truth below.

    The latest mark is at the right. Marks begin at sequence numbers that are multiples of their
    length, so that they move but do not flicker.
    """
    marks: dict[int, list[JudgedDecision]] = {}
    for judged in recent:
        marks.setdefault(judged.decision.sequence // DECISIONS_PER_MARK, []).append(judged)
    text = Text()
    for number in sorted(marks)[-width:]:
        group = marks[number]
        text.append("▀", style=f"{_decision_colour(group)} on {_truth_colour(group)}")
    return text


def _decision_colour(group: Sequence[JudgedDecision]) -> str:
    """Return the colour of the most frequent accepted label; none if most are rejected."""
    labels = [one.decision.label or "" for one in group if one.decision.accepted]
    if 2 * len(labels) < len(group):
        return NO_COLOUR
    return STATE_COLOURS.get(max(labels, key=labels.count), "white")


def _truth_colour(group: Sequence[JudgedDecision]) -> str:
    states = [one.truth.state for one in group]
    return STATE_COLOURS.get(max(states, key=states.count), "white")


def _legend() -> Text:
    text = Text("  ")
    for name, colour in {**STATE_COLOURS, "rejected": NO_COLOUR}.items():
        text.append("■ ", style=colour).append(f"{name}  ", style="dim")
    return text


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=title, title_align="left", border_style="dim")


def _note_panel(notes: Sequence[Note]) -> Panel:
    """Return the last notes, the latest below; always as many lines, so that nothing jumps."""
    text = Text(no_wrap=True, overflow="ellipsis")
    notes = notes[-MAX_NOTES:]
    for note in notes:
        style = NOTE_STYLES.get(note.kind, "default" if note is notes[-1] else "dim")
        text.append(f"{note.seconds:4.0f} s  ", style="dim").append(note.text, style=style)
        text.append("\n" if note is not notes[-1] else "")
    text.append("\n" * (MAX_NOTES - max(1, len(notes))))
    return _panel(text, "what is happening")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def preview_tables(tracker: Tracker[Any], console: Console) -> list[Table]:
    """Return what the machines measure while nobody decides yet, in one table or none.

    It has as many features as there is room for, so that names and numbers are whole.
    """
    unlimited = console.options.update(max_width=SVG_WIDTH)
    for count in range(len(PREVIEW_FEATURES), -1, -1):
        table = _preview_table(tracker, PREVIEW_FEATURES[:count])
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return [table] if table.row_count else []


def _preview_table(tracker: Tracker[Any], features: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="dim")
    for title in ("machine", "in truth", *features):
        table.add_column(title.replace("_", " "), no_wrap=True)
    for name, device in tracker.devices.items():
        if (preview := device.preview) is not None:
            values = (f"{preview.values[one]:6.1f} {SENSOR_UNITS[one]}" for one in features)
            table.add_row(Text(name), _state(preview.state), *values)
    return table


# --- the plant ------------------------------------------------------------------------------------


def plant_picture(tracker: PlantTracker, title: str, width: int) -> RenderableType:
    """Return the picture of the first act."""
    columns = plant_columns(max(map(len, tracker.devices)), width)
    rows = [
        (device, {"machine": Text(name), **_plant_cells(device)})
        for name, device in tracker.devices.items()
    ]
    return Group(
        Text(title, style="bold"),
        _device_table(columns, rows),
        _legend(),
        _panel(_plant_figures(tracker, width), "so far"),
        _note_panel(tracker.notes),
    )


def plant_columns(longest: int, width: int) -> dict[str, int]:
    """Return the columns that there is room for; however narrow it is, names are whole.

    Examples
    --------
    >>> from streamlvq.demo.pictures import plant_columns
    >>> plant_columns(7, 60)
    {'machine': 7, 'the model says': 14, 'verdict': 9, 'said over truth': 17}

    """
    columns = {"machine": max(longest, len("machine")), **PLANT_COLUMNS}
    if width >= WIDE_WIDTH:
        return fit_columns(columns, (), width)
    del columns["in truth"]
    return fit_columns(columns, PLANT_OPTIONAL, width)


def _plant_cells(device: TrackedDevice) -> dict[str, Text]:
    judged = device.last
    if judged is None:
        return dict.fromkeys(PLANT_COLUMNS, Text("...", style="dim"))
    decision, truth = judged.decision, judged.truth
    rejected = Text(decision.label or "?", style="dim strike")
    return {
        "the model says": _state(decision.label) if decision.accepted else rejected,
        "certainty": _bar(decision.certainty, decision.threshold),
        "verdict": _verdict(judged),
        "in truth": _state("nonsense" if truth.glitch else truth.state),
    }


def _state(name: str | None) -> Text:
    return Text(name or "?", style=STATE_COLOURS.get(name or "", "white"))


def _bar(certainty: float, threshold: float | None) -> Text:
    """Return the certainty as a bar, with a mark at the threshold."""
    filled = round(certainty * BAR_WIDTH)
    mark = BAR_WIDTH if threshold is None else min(BAR_WIDTH - 1, round(threshold * BAR_WIDTH))
    enough = threshold is not None and certainty >= threshold
    text = Text()
    for n in range(BAR_WIDTH):
        full = n < filled
        sign = "┃" if n == mark and not full else "━"
        colour = ("green" if enough else "red") if full else "white" if n == mark else NO_COLOUR
        text.append(sign, style=colour)
    return text.append(f" {certainty:.2f}", style="default" if enough else "dim")


def _verdict(judged: JudgedDecision) -> Text:
    if not judged.decision.accepted:
        return Text((judged.decision.reason or "rejected").replace("_", " "), style="yellow")
    return Text("right", style="green") if judged.correct else Text("wrong", style="bold red")


def _plant_figures(tracker: PlantTracker, width: int) -> Table:
    columns = {
        "readings/s": f"{tracker.throughput:.0f}",
        "decided": f"{tracker.decided}",
        "labels learnt": f"{tracker.version}",
        "accepted: right": _percent(tracker.accuracy),
        "rejected": _percent(tracker.reject_rate),
    }
    if width < NARROW_WIDTH:
        del columns["labels learnt"]  # or titles would touch each other
    if width >= WIDE_WIDTH:
        reasons = (f"{count} {name}" for name, count in sorted(tracker.reasons.items()))
        columns["because"] = ", ".join(reasons).replace("_", " ") or "-"
    table = Table.grid(expand=True)
    for _ in columns:
        table.add_column(no_wrap=True)
    table.add_row(*(Text(name, style="dim") for name in columns))
    table.add_row(*(Text(value, style="bold") for value in columns.values()))
    return table


# --- the fleet ------------------------------------------------------------------------------------


def fleet_picture(tracker: FleetTracker, title: str, width: int) -> RenderableType:
    """Return the picture of the second act."""
    columns = fit_columns(FLEET_COLUMNS, FLEET_OPTIONAL, width)
    rows = [
        (node, _fleet_cells(name, node, tracker.insight.drift(name)))
        for name, node in tracker.nodes.items()
    ]
    return Group(
        Text(title, style="bold"),
        _device_table(columns, rows),
        _legend(),
        _panel(_findings(tracker), "what the fleet has found out (and what is true)"),
        _note_panel(tracker.notes),
    )


def _fleet_cells(name: str, node: TrackedNode, drift: float | None) -> dict[str, Text]:
    return {
        "node": Text(name),
        "learnt": Text(f"{node.labels:6d}"),
        "joined": Text("yes", style="green") if node.joined else Text("-", style="dim"),
        "sensors off": Text("-", style="dim") if drift is None else Text(f"{drift:.1f} sd"),
        "decides": _decider(node),
        "alone": Text(_percent(node.alone.accuracy), style="bold"),
        "together": Text(_percent(node.together.accuracy), style=_together_style(node)),
    }


def _decider(node: TrackedNode) -> Text:
    if node.last is None:
        return Text("...", style="dim")
    return Text("the fleet", style="green") if node.fused else Text("its own")


def _together_style(node: TrackedNode) -> str:
    """Return green only if the fleet is at least as good as the node alone."""
    alone, together = node.alone.accuracy, node.together.accuracy
    if alone is None or together is None:
        return "bold"
    return "bold green" if together >= alone else "bold yellow"


def _findings(tracker: FleetTracker) -> Text:
    """Return how sensors differ from those of the first node, and what was gained."""
    first, *others = tracker.nodes
    text = Text(no_wrap=True, overflow="ellipsis")
    for name in others:
        shifts = "; ".join(map(str, tracker.insight.shifts(name)))
        text.append(f"{name:<6}", style="bold").append(f"against {first}: ", style="dim")
        text.append(f"{shifts or '-'}\n", style="default" if shifts else "dim")
    for name, node in tracker.nodes.items():
        if node.unseen_state is not None:
            text.append(f"{name:<6}", style="bold")
            text.append(f"{node.unseen_state}, never labelled there: ", style="dim")
            text.append(node.describe_unseen())
    return text
