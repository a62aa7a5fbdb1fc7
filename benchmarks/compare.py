"""One benchmark in two trees, side by side: this one, and another with an environment of its own.

    git worktree add ../before v0.1 && python -m venv ../before-env
    ../before-env/bin/pip install -e "../before[test]"
    python benchmarks/compare.py ../before ../before-env/bin/python speed.py --skip growth peers

The trees take turns, so that a slow moment of the machine does not fall on one of them only. The
smallest of each number counts, which suits times; a ratio above 1 means that this tree is slower.
Of figures with a target such as ">= 8" the largest counts, and a ratio above 1 is better.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from common import Table, progress, show

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class Cell(NamedTuple):
    """Place of a number: tables may have rows of the same name, such as one for each d."""

    table: str
    row: str
    number: int
    at_least: bool = False  # the larger, the better

    @property
    def best(self) -> Callable[[float, float], float]:
        return max if self.at_least else min


Measured = dict[Cell, float]


def numbers(printed: str) -> Measured:
    """Return the numbers of all tables in the output of a benchmark.

    Examples
    --------
    >>> printed = "d=18\\nmodel  learn\\n-----  -----\\nGLVQ   1.25 / 2.5 us\\n"
    >>> for cell, value in numbers(printed + "\\n" + printed.replace("18", "64")).items():
    ...     print(*cell, value)
    d=18 GLVQ 0 False 1.25
    d=18 GLVQ 1 False 2.5
    d=64 GLVQ 0 False 1.25
    d=64 GLVQ 1 False 2.5
    >>> [(cell.at_least, value) for cell, value in numbers("peer  9.5x  >= 8x  met").items()]
    [(True, 9.5), (True, 8.0)]

    """
    found: Measured = {}
    lines, table = printed.splitlines(), ""
    for number, line in enumerate(lines):
        name, *cells = re.split(r"\s{2,}", line.strip())
        if number > 1 and set(line) == {"-", " "}:  # below the columns, which are below the title
            table = lines[number - 2]
        at_least = any(cell.startswith(">=") for cell in cells)
        values = [float(text) for text in _NUMBER.findall(" ".join(cells))]
        found.update({Cell(table, name, k, at_least): v for k, v in enumerate(values)})
    return found


def run(tree: Path, python: str, script: str, arguments: list[str]) -> Measured:
    """Run the benchmark of a tree with its own interpreter."""
    command = [python, str(Path("benchmarks") / script), *arguments]
    done = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    return numbers(done.stdout)


def comparison(others: Measured, ours: Measured) -> list[Table]:
    """Return a table for each that both trees have printed.

    Examples
    --------
    >>> before, now = numbers("GLVQ  2.5"), numbers("GLVQ  2.0")
    >>> [table.rows for table in comparison(before, now)]
    [[['GLVQ [0]', '2.5', '2', '0.80']]]

    """
    tables: dict[str, Table] = {}
    for cell, other in others.items():
        this = ours.get(cell)
        if this is not None:
            title = f"{cell.table}: the other tree and this one"
            table = tables.setdefault(title, Table(title, ["row", "other", "this", "x"]))
            ratio = f"{this / other:.2f}" if other else "-"
            table.add(f"{cell.row} [{cell.number}]", f"{other:g}", f"{this:g}", ratio)
    return list(tables.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, help="the other tree")
    parser.add_argument("python", help="interpreter in which the other tree is installed")
    parser.add_argument("script", help="a file in `benchmarks/` that both trees have")
    parser.add_argument("--rounds", type=int, default=3, help="of each tree; the best counts")
    options, arguments = parser.parse_known_args()
    here = Path(__file__).parents[1]
    trees = [(options.tree.resolve(), options.python), (here, sys.executable)]
    best: list[Measured] = [{}, {}]
    for _ in progress(range(options.rounds), "rounds", options.rounds):
        for measured, (tree, python) in zip(best, trees, strict=True):
            for cell, value in run(tree, python, options.script, arguments).items():
                measured[cell] = cell.best(measured.get(cell, value), value)
    show(comparison(*best))


if __name__ == "__main__":
    main()
