"""Building blocks of self-contained HTML pages: document, section, table, tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

PAGE_CSS = Path(__file__).with_name("page.css")  # light and dark
DRAWING_WIDTH = 1000  # of every drawing (SVG), in its own units


def document(title: str, body: Iterable[str], style: str = "") -> str:
    """Return a whole page.

    Parameters
    ----------
    title
        What the window is called.
    body
        Elements one after the other; empty ones are left out.
    style
        Rules to add to those that all pages have.

    """
    inside = "\n".join(part for part in body if part)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{PAGE_CSS.read_text(encoding='utf-8')}{style}</style></head>"
        f"<body>\n{inside}\n</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Return content under a heading; empty without content."""
    inside = "\n".join(part for part in parts if part)
    return f"<section><h2>{escape(title)}</h2>\n{inside}\n</section>" if inside else ""


def table(rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Return a table whose first row is its head; cells are text.

    Examples
    --------
    >>> from streamlvq.report.html import table
    >>> "<td>&lt;5</td>" in table([["node", "samples"], ["n1", "<5"]])
    True

    """
    head, *body = [[escape(cell) for cell in row] for row in rows]
    titles = "".join(f"<th>{cell}</th>" for cell in head)
    lines = "\n".join(
        f"<tr><th>{row[0]}</th>{''.join(f'<td>{cell}</td>' for cell in row[1:])}</tr>"
        for row in body
    )
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{titles}</tr></thead>'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def tiles(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Return key figures, each with its name and a few words."""
    cells = "".join(
        f"<div><strong>{escape(value)}</strong><span>{escape(name)}</span>"
        f"<small>{escape(more)}</small></div>"
        for value, name, more in numbers
    )
    return f'<div class="tiles">{cells}</div>'
