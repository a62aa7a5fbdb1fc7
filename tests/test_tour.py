"""The notebook: it runs, and what is stored of its outputs is small.

`python tests/test_tour.py` runs it and stores the outputs anew, which the site shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[1] / "examples" / "tour.ipynb"
MAX_BYTES = 400_000


def executed() -> Any:
    """The notebook with new outputs; an error in a cell raises."""
    notebook = nbformat.read(TOUR, as_version=4)
    NotebookClient(notebook, timeout=300, record_timing=False).execute()
    return notebook


def outputs(notebook: Any) -> list[list[str]]:
    """Kinds of outputs of each cell; text may come in pieces, and with a notice of compiling."""
    return [
        sorted(
            {
                kind
                for output in cell.get("outputs", ())
                if not output.get("text", "").startswith("compiling the kernels")
                for kind in output.get("data") or ("text",)
            }
        )
        for cell in notebook.cells
    ]


def warnings_of(notebook: Any) -> list[str]:
    cells = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = [output.text for output in cells if output.get("name") == "stderr"]
    return [text for text in said if not text.startswith("compiling the kernels")]


@pytest.mark.filterwarnings("ignore")
def test_tour_runs_and_shows_what_is_stored() -> None:
    notebook = executed()
    assert warnings_of(notebook) == []
    assert outputs(notebook) == outputs(nbformat.read(TOUR, as_version=4))
    assert sum("image/png" in kinds for kinds in outputs(notebook)) >= 4


def test_tour_is_small() -> None:
    assert TOUR.stat().st_size < MAX_BYTES


if __name__ == "__main__":
    nbformat.write(executed(), TOUR)
