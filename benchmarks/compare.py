"""One benchmark in two trees, side by side: this one, and another with an environment of its own.

    git worktree add ../before v0.1 && python -m venv ../before-env
    ../before-env/bin/pip install -e "../before[test]"
    python benchmarks/compare.py ../before ../before-env/bin/python speed.py --skip growth peers

The trees take turns, so that a slow moment of the machine does not fall on one of them only. The
smallest of each number counts, which suits times; a ratio above 1 means that this tree is slower.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from pathlib import Path

from common import Table, progress, show

Measured = dict[tuple[str, int], float]  # by the name of a row and the number of its column
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def numbers(printed: str) -> Measured:
    """Return the numbers of all tables in the output of a benchmark.

    Examples
    --------
    >>> numbers("model  learn\\n-----  -----\\nGLVQ   1.25 / 2.5 us\\n")
    {('GLVQ', 0): 1.25, ('GLVQ', 1): 2.5}

    """
    found: Measured = {}
    for line in printed.splitlines():
        name, *cells = re.split(r"\s{2,}", line.strip())
        values = [float(number) for number in _NUMBER.findall(" ".join(cells))]
        found.update({(name, k): value for k, value in enumerate(values)})
    return found


def run(tree: Path, python: str, script: str, arguments: list[str]) -> Measured:
    """Run the benchmark of a tree with its own interpreter."""
    command = [python, str(Path("benchmarks") / script), *arguments]
    done = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    return numbers(done.stdout)


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
            for key, value in run(tree, python, options.script, arguments).items():
                measured[key] = min(measured.get(key, math.inf), value)
    table = Table(f"{options.script}: the other tree and this one", ["row", "other", "this", "x"])
    for (name, k), other in best[0].items():
        this = best[1].get((name, k))
        if this is not None:
            ratio = f"{this / other:.2f}" if other else "-"
            table.add(f"{name} [{k}]", f"{other:g}", f"{this:g}", ratio)
    show([table])


if __name__ == "__main__":
    main()
