"""Draw accuracy against epsilon, with and without privacy, from a table on the page of benchmarks.

python benchmarks/privacy_picture.py docs/benchmarks.md docs/privacy.png
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NamedTuple

HEADER = "| set, model |"  # the first words of the table
MARKS = {"PrivateLVQ": ("#0072B2", "D"), "private softmax": ("#E69F00", "^")}  # colour and marker


class Curves(NamedTuple):
    """Accuracies of one data set: by model and epsilon, and without privacy."""

    models: dict[str, list[float]]
    plain: float


def read_table(page: str) -> tuple[list[float], dict[str, Curves]]:
    """Return the values of epsilon, and the curves of each data set."""
    lines = page.splitlines()
    start = next((k for k, line in enumerate(lines) if line.startswith(HEADER)), None)
    if start is None:
        raise ValueError(f"expected a table that starts with {HEADER!r}")
    epsilons = [float(cell) for cell in _cells(lines[start])[1:-1]]
    found: dict[str, Curves] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *numbers, plain = _cells(line)
        data, model = name.split(", ")
        if data not in found:
            found[data] = Curves({}, float(plain))
        found[data].models[model] = [float(each) for each in numbers]
    return epsilons, found


def _cells(line: str) -> list[str]:
    return [cell.strip(" `*\\") for cell in line.split("|")[1:-1]]


def draw(epsilons: list[float], found: dict[str, Curves], path: Path) -> None:
    """Draw a panel for each data set."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1,
        len(found),
        figsize=(2.1 * len(found), 2.9),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for ax, (name, curves) in zip(axes[0], found.items(), strict=True):
        ax.axhline(curves.plain, c="0.45", ls="--", label="without privacy")
        for model, (colour, marker) in MARKS.items():
            ax.plot(epsilons, curves.models[model], c=colour, marker=marker, ms=5, label=model)
        ax.set(xscale="log", title=name, xlabel="epsilon")
        ax.set_xticks(epsilons, [f"{each:g}" for each in epsilons])
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
    draw(*read_table(options.page.read_text(encoding="utf-8")), options.picture)


if __name__ == "__main__":
    main()
