"""Timing, tables, figures and model look-up shared by the benchmark scripts."""

from __future__ import annotations

import ast
import importlib
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Label = Any
Features = dict[Any, float]
Sample = tuple[Features, Label]


class Classifier(Protocol):
    """The part of River's classifier interface the benchmarks use."""

    def learn_one(self, x: Features, y: Label) -> None: ...

    def predict_proba_one(self, x: Features) -> dict[Label, float]: ...


Factory = Callable[[], Classifier]


# --- tables -----------------------------------------------------------------------------------


@dataclass
class Table:
    """Rows of text under a title, printable for a terminal or as Markdown."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        if len(cells) != len(self.columns):
            raise ValueError(f"expected {len(self.columns)} cells, got {cells!r}")
        self.rows.append([str(cell) for cell in cells])

    def render(self, markdown: bool = False) -> str:
        return self._markdown() if markdown else self._text()

    def _text(self) -> str:
        grid = [list(self.columns), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = ["  ".join(_align(cells, widths)).rstrip() for cells in grid]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *lines])

    def _markdown(self) -> str:
        rule = ["---"] + ["---:"] * (len(self.columns) - 1)
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.columns, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines])


def _align(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Align names to the left and numbers to the right."""
    first, *rest = zip(cells, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]


def show(tables: Iterable[Table], markdown: bool = False) -> None:
    for table in tables:
        print(table.render(markdown), end="\n\n", flush=True)


# --- figures to reach -------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A measured number against its limit."""

    name: str
    measured: float
    limit: float
    at_least: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def cells(self) -> tuple[str, str, str, str]:
        sign = ">=" if self.at_least else "<="
        measured = f"{self.measured:.3g}{self.unit}"
        return self.name, measured, f"{sign} {self.limit:g}{self.unit}", verdict(self.met)


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def figure_table(figures: Iterable[Figure], title: str = "Figures") -> Table:
    table = Table(title, ["figure", "measured", "target", "verdict"])
    for figure in figures:
        table.add(*figure.cells())
    return table


# --- timing -----------------------------------------------------------------------------------


def cpu_seconds(run: Callable[[], object]) -> float:
    """Return the CPU time of one call; wall time says little on a shared machine."""
    start = time.process_time()
    run()
    return time.process_time() - start


def best_us(
    runs: Mapping[str, Callable[[], object]], calls: int, repeats: int = 7
) -> dict[str, float]:
    """Return the microseconds per call of each of `runs`, which make `calls` calls each.

    The best repeat is the least disturbed one. The runs take turns, so that a slow moment of the
    machine does not fall on one of them only: what matters are their ratios.
    """
    best = dict.fromkeys(runs, math.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], cpu_seconds(run) / calls * 1e6)
    return best


def progress(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Show a progress bar on a terminal, nothing in a log file."""
    from tqdm import tqdm

    yield from tqdm(items, description, total, leave=False, disable=not sys.stderr.isatty())


# --- our models -------------------------------------------------------------------------------


def our_model(spec: str, **defaults: Any) -> Factory:
    """Return a factory for a `streamlvq` model written as `LGMLVQ` or `LGMLVQ(rank=8)`."""
    name, params = parse_spec(spec)
    model = getattr(streamlvq(), name, None)
    if model is None:
        raise SystemExit(f"expected a model of streamlvq, got {name!r}")
    return lambda: model(**{**defaults, **params})


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """Split `Name(key=literal, ...)`; only literals, so a command line cannot run code."""
    try:
        node = ast.parse(spec, mode="eval").body
        if isinstance(node, ast.Name):
            return node.id, {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            return node.func.id, {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
    except (SyntaxError, ValueError):
        pass
    raise SystemExit(f"expected a model such as 'LGMLVQ' or 'LGMLVQ(rank=8)', got {spec!r}")


def streamlvq() -> Any:
    """Import the package late, so that peers can be measured without it."""
    try:
        return importlib.import_module("streamlvq")
    except ModuleNotFoundError as error:
        if error.name != "streamlvq":
            raise
        raise SystemExit("streamlvq is not installed: run `pip install -e .`") from error
