"""Draw what nodes gain from a fleet, as measured, from the table on the page of benchmarks.

python benchmarks/fusion_picture.py docs/benchmarks.md docs/sharing.png
"""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import NamedTuple

HEADER = "| fleet, nodes | alone |"  # the first words of the table
MISSING = "same, a class missing"
MARKS = {  # way to decide: colour and marker
    "alone": ("0.45", "o"),
    "auto": ("#D55E00", "v"),
    "best correction": ("#E69F00", "^"),
    "default": ("#0072B2", "D"),
}
NAMES = {
    "alone": "its own model",
    "auto": "one fused model",
    "best correction": "the same, with the best correction in hindsight",
    "default": "both, pooled (default)",
}


class Row(NamedTuple):
    """A fleet with the accuracy of its nodes by each way to decide."""

    fleet: str
    values: dict[str, float]


def read_table(page: Path) -> list[Row]:
    """Return the rows of the table, each the mean of its models."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(HEADER))
    names = [cell.strip(" `") for cell in lines[start].split("|")[2:-1]]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        fleet, *cells = (cell.strip(" `*\\") for cell in line.split("|")[1:-1])
        means = [[float(number) for number in re.findall(r"\.\d+", cell)] for cell in cells]
        values = {name: sum(mean) / len(mean) for name, mean in zip(names, means, strict=True)}
        rows.append(Row(fleet, values))
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Draw a line of marks for each fleet, those with a missing class to the right."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 3.6), sharey=True, layout="constrained")
    sides = [row for row in rows if row.fleet != MISSING], [r for r in rows if r.fleet == MISSING]
    titles = "all nodes know all classes", "each node has never seen one of the classes"
    for ax, side, title in zip(axes, sides, titles, strict=True):
        for name, (colour, marker) in MARKS.items():
            x = [row.values[name] for row in side]
            ax.scatter(
                x, range(len(side)), s=52, c=colour, marker=marker, label=NAMES[name], zorder=3
            )
        for k, row in enumerate(side):
            ax.plot([row.values[name] for name in MARKS], [k] * len(MARKS), c="0.85", zorder=1)
        ax.set(title=title, xlabel="accuracy over all nodes")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(sides[0])), [row.fleet for row in sides[0]])
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/benchmarks.md")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window
    draw(read_table(options.page), options.picture)


if __name__ == "__main__":
    main()
