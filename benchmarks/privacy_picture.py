"""Draw accuracy against epsilon, with and without privacy, from tables on the page of benchmarks.

python benchmarks/privacy_picture.py docs/benchmarks.md docs/privacy.png
"""

from __future__ import annotations

import argparse
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

PRIVATE = "| set | epsilon | PrivateLVQ |"  # first words of the tables, of which the first counts
PLAIN = "| set | without privacy |"


class Curve(NamedTuple):
    """Accuracies of one data set by epsilon, and the one without privacy."""

    name: str
    epsilons: list[float]
    ours: list[float]
    softmax: list[float]
    plain: float


def rows_of(page: str, header: str) -> list[list[str]]:
    """Return the cells of the first table whose header starts so."""
    lines = page.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(header)), None)
    if start is None:
        raise ValueError(f"expected a table that starts with {header!r}")
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip(" `*\\") for cell in line.split("|")[1:-1]])
    return rows


def number(cell: str) -> float:
    """Return the number that a cell starts with, NaN if there is none."""
    found = re.match(r"\d*\.?\d+", cell)
    return float(found[0]) if found else math.nan


def read_curves(page: str) -> list[Curve]:
    """Return a curve for each data set of the table."""
    plain = {row[0]: number(row[1]) for row in rows_of(page, PLAIN)}
    curves: dict[str, Curve] = {}
    for name, epsilon, ours, _, softmax in rows_of(page, PRIVATE):
        empty = Curve(name, [], [], [], plain.get(name, math.nan))
        curve = curves.setdefault(name, empty)
        curve.epsilons.append(number(epsilon))
        curve.ours.append(number(ours))
        curve.softmax.append(number(softmax))
    return list(curves.values())


def draw(curves: list[Curve], path: Path) -> None:
    """Draw a panel for each data set."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(curves), figsize=(2.1 * len(curves), 2.9), layout="constrained", squeeze=False
    )
    for ax, curve in zip(axes[0], curves, strict=True):
        ax.axhline(curve.plain, c="0.45", ls="--", label="without privacy")
        ax.plot(curve.epsilons, curve.ours, c="#0072B2", marker="D", ms=4, label="PrivateLVQ")
        ax.plot(
            curve.epsilons, curve.softmax, c="#E69F00", marker="^", ms=5, label="private softmax"
        )
        ax.set(xscale="log", title=curve.name, xlabel="epsilon")
        ax.set_xticks(curve.epsilons, [f"{each:g}" for each in curve.epsilons])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("accuracy")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
    print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=Path, help="docs/benchmarks.md")
    parser.add_argument("picture", type=Path, help="the PNG file to write")
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window
    draw(read_curves(options.page.read_text(encoding="utf-8")), options.picture)


if __name__ == "__main__":
    main()
