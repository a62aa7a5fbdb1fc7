"""CPU time of `import streamlvq` and of the first prediction, each in a fresh interpreter.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from common import Figure, Table, figure_table, show, streamlvq

# Each script prints one JSON value. They run in children, where nothing has been imported yet.
IMPORT = """
import json, sys, time
start = time.process_time()
import streamlvq
print(json.dumps([time.process_time() - start, "numba" in sys.modules]))
"""

PREDICT = """
model = streamlvq.{model}()
for i in range(3):
    model.learn_one({{"a": float(i), "b": float(-i)}}, i % 2)
model.predict_proba_one({{"a": 0.5, "b": 0.5}})
"""

FIRST_PREDICTION = """
import json, time
import streamlvq
start = time.process_time()
{predict}
print(json.dumps(time.process_time() - start))
"""

# Not timed: importing numba first, to listen to its compiler, would hide numba's own cost.
COMPILATIONS = """
import json
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    import streamlvq
    {predict}
print(json.dumps(sum(e.is_start for _, e in recorder.buffer)))
"""


def child(script: str, cache: str) -> Any:
    """Run a script in a fresh interpreter with numba's cache in the folder `cache`."""
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(run.stdout)


def measure(model: str, cache: str, repeats: int) -> tuple[list[Figure], Table]:
    predict = PREDICT.format(model=model)
    first = FIRST_PREDICTION.format(predict=predict)
    compilations = COMPILATIONS.format(predict=predict.replace("\n", "\n    "))
    cold = child(first, cache)
    imports = [child(IMPORT, cache) for _ in range(repeats)]
    warm = min(child(first, cache) for _ in range(repeats))
    table = Table(f"First prediction of {model}", ["numba's cache", "CPU s"])
    table.add("empty", f"{cold:.2f}")
    table.add("warm", f"{warm:.2f}")
    return [
        Figure("import streamlvq", min(i[0] for i in imports), 0.5, unit=" s"),
        Figure("import streamlvq imports numba", float(imports[0][1]), 0),
        Figure(f"{model}: first prediction after the import, warm cache", warm, 1, unit=" s"),
        Figure(f"{model}: kernels compiled, warm cache", child(compilations, cache), 0),
    ], table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="LGMLVQ")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    streamlvq()  # says how to install it when it is missing
    with tempfile.TemporaryDirectory() as cache:
        figures, table = measure(args.model, cache, args.repeats)
    show([table, figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
