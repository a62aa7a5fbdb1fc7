"""The page of an audit: what an outsider learns, with reconstructed readings beside true ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from html import escape
from pathlib import Path

import streamlvq
from streamlvq.audit.findings import AuditReport, AuditVerdict, Finding, Reconstruction
from streamlvq.audit.summary import value_text
from streamlvq.plot.style import short
from streamlvq.report.html import DRAWING_WIDTH, document, section, table, tiles
from streamlvq.text import plural

AUDIT_CSS = Path(__file__).with_name("audit.css")
DRAWN_READINGS = 4  # of each attack
TABLED_FEATURES = 24
MAX_DRAWN_FEATURES = 128
BAR_HEIGHT, NAMES_HEIGHT, SIDE_MARGIN = 120.0, 70.0, 30.0  # in units of the drawing
MAX_NAMED_FEATURES = 40
NAME_LETTERS = 12
_Scale = Callable[[float], float]


def audit_html(report: AuditReport) -> str:
    """Return the HTML page of an audit, self-contained."""
    body = [
        f"<header><h1>What an outsider learns</h1><p>{escape(report.subject)}</p></header>",
        _secrecy(report),
        _tiles(report),
        section("Attacks", _table(report.findings)),
        *(section(each.attack, _finding(each)) for each in report.findings if each.shown),
        section("What to change", _advice(report)),
        section("Notes", _items(report.notes, "")),
        f"<footer>streamlvq {escape(streamlvq.__version__)}</footer>",
    ]
    return document("Audit", body, AUDIT_CSS.read_text(encoding="utf-8"))


def _secrecy(report: AuditReport) -> str:
    """Return a warning if a true reading is on the page."""
    shown = (one for each in report.findings for one in each.shown[:DRAWN_READINGS])
    if not report.logged or all(one.truth is None for one in shown):
        return ""
    return _items(["Keep this page to yourself: it shows readings of the log."], "warnings")


def _tiles(report: AuditReport) -> str:
    tried = [each for each in report.findings if each.verdict is not AuditVerdict.NOT_APPLICABLE]
    exact = sum(each.verdict is AuditVerdict.EXACT for each in tried)
    return tiles(
        [
            (str(len(report.succeeded)), "attacks succeeded", f"of {len(tried)} that apply"),
            (str(exact), "give single readings", "up to rounding"),
            (
                str(len(report.findings) - len(tried)),
                "do not apply",
                "to what was given",
            ),
        ]
    )


def _table(findings: Sequence[Finding]) -> str:
    """Return a table with a row for each attack, coloured by its verdict."""
    rows = [["attack", "outsider learns", "success", "assumes"]]
    rows += [[each.attack, each.verdict.value, each.measure, each.assumes] for each in findings]
    html = table(rows, "verdicts")
    for each in findings:
        cell = f"<tr><th>{escape(each.attack)}</th>"
        kind = each.verdict.value.split()[-1].replace("apply", "applicable")
        html = html.replace(cell, cell.replace("<tr>", f'<tr class="{kind}">'))
    return html


def _advice(report: AuditReport) -> str:
    advised: dict[str, list[str]] = {}
    for each in report.succeeded:
        if each.advice:
            advised.setdefault(each.advice, []).append(each.attack)
    lines = [f"{advice} ({', '.join(names)})" for advice, names in advised.items()]
    return _items(lines, "warnings")


def _items(lines: Sequence[str], kind: str) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<ul class="{kind}">{items}</ul>' if items else ""


# --- reconstructed readings ----------------------------------------------------------------------


def _finding(finding: Finding) -> str:
    shown = finding.shown[:DRAWN_READINGS]
    text = f"<p>{escape(finding.summary)}: {escape(finding.measure)}</p>"
    more = len(finding.shown) - len(shown)
    rest = f"<p>and {escape(plural(more, 'more reading'))}</p>" if more > 0 else ""
    if max(len(one.values) for one in shown) <= TABLED_FEATURES:
        cards = "".join(f"<div>{_title(one)}{_values(one)}</div>" for one in shown)
        return f'{text}<div class="cards">{cards}</div>{rest}'
    drawings = "".join(_title(one) + _drawing(one) for one in shown)
    return f'{text}<div class="readings">{_legend(shown)}{drawings}</div>{rest}'


def _legend(shown: Sequence[Reconstruction]) -> str:
    keys = [("found-key", "reconstructed")]
    if any(one.truth is not None for one in shown):
        keys.append(("true-key", "true reading"))
    cells = "".join(f'<span><i class="{kind}"></i>{name}</span>' for kind, name in keys)
    return f'<div class="legend">{cells}</div>'


def _title(one: Reconstruction) -> str:
    about = "" if one.label is None else f" of class {one.label}"
    title = f"Reading{about}"
    where = f"publication {one.publication} of {one.node}"
    if one.error is not None and one.mean_error is not None:
        where += f"; off by {one.error:.1e} spreads, the class mean by {one.mean_error:.2g}"
    return f"<h3>{escape(title)} <small>{escape(where)}</small></h3>"


def _values(one: Reconstruction) -> str:
    columns = {"reconstructed": one.values, "or": one.other, "true": one.truth}
    shown = {name: values for name, values in columns.items() if values is not None}
    rows = [["", *shown]]
    rows += [[str(f), *(value_text(v, f) for v in shown.values())] for f in one.values]
    return table(rows)


def _drawing(one: Reconstruction) -> str:
    """Draw each feature between the lowest and the highest value that is shown of any."""
    features = list(one.values)[:MAX_DRAWN_FEATURES]
    width = (DRAWING_WIDTH - 2 * SIDE_MARGIN) / len(features)
    named = len(features) <= MAX_NAMED_FEATURES
    height = BAR_HEIGHT + (NAMES_HEIGHT if named else 10.0)
    known = [each for each in (one.values, one.other, one.truth) if each is not None]
    numbers = [values[f] for values in known for f in features if f in values]
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    size = (high - low) or 1.0

    def y(value: float) -> float:
        return BAR_HEIGHT - 5.0 - (BAR_HEIGHT - 10.0) * (value - low) / size

    parts = [
        f'<rect class="frame" x="{SIDE_MARGIN}" y="0" '
        f'width="{DRAWING_WIDTH - 2 * SIDE_MARGIN}" height="{BAR_HEIGHT}"></rect>'
    ]
    for k, feature in enumerate(features):
        left = SIDE_MARGIN + k * width
        parts.append(_column(one, feature, left, width, y))
        if named:
            place = f"translate({left + 0.6 * width:.1f} {BAR_HEIGHT + 10:.0f}) rotate(-45)"
            name = escape(short(str(feature), NAME_LETTERS))
            parts.append(f'<text class="column" transform="{place}">{name}</text>')
    box = f'viewBox="0 0 {DRAWING_WIDTH} {height:.0f}" role="img" aria-label="a reading"'
    return f"<svg {box}>{''.join(parts)}</svg>"


def _column(one: Reconstruction, feature: Hashable, left: float, width: float, y: _Scale) -> str:
    """Draw the true value as a bar and reconstructed ones as marks, with a tooltip."""
    inner, start = 0.8 * width, left + 0.1 * width
    told = [f"{feature}: reconstructed {value_text(one.values, feature)}"]
    marks = ""
    if one.truth is not None and feature in one.truth:
        told.append(f"true {value_text(one.truth, feature)}")
        top, bottom = sorted((y(0.0), y(one.truth[feature])))
        marks += (
            f'<rect class="true-bar" x="{start:.1f}" y="{top:.1f}" width="{inner:.1f}" '
            f'height="{max(bottom - top, 1.0):.1f}"></rect>'
        )
    for values, kind in ((one.values, "found-mark"), (one.other, "other-mark")):
        if values is not None and feature in values:
            place = y(values[feature])
            marks += (
                f'<line class="{kind}" x1="{start:.1f}" x2="{start + inner:.1f}" '
                f'y1="{place:.1f}" y2="{place:.1f}"></line>'
            )
    return f"<g><title>{escape(', '.join(told))}</title>{marks}</g>"
