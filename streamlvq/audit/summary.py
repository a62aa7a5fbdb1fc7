"""An audit as text for terminals: what an outsider learns, and what to change."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from streamlvq.audit.findings import AuditReport, Finding, Reconstruction
from streamlvq.text import aligned, plural, wrapped

SHOWN_FEATURES = 6  # of a reconstructed reading
SHOWN_READINGS = 1
NUMBER_DIGITS = 6


def audit_text(report: AuditReport) -> str:
    """Describe a report: a line for each attack, the best reconstruction of each, and advice.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq.audit import audit_snapshots
    >>> from streamlvq.audit.summary import audit_text
    >>> from streamlvq.snapshot import Snapshot

    >>> model = streamlvq.GLVQ()
    >>> for heat in (20.0, 22.0, 60.0):
    ...     model.learn_one({"heat": heat}, "ok" if heat < 50.0 else "hot")
    >>> report = audit_snapshots([Snapshot.of(model)], attacks=["counts-and-means", "membership"])
    >>> print(audit_text(report))
    1 snapshot of 1 node
    <BLANKLINE>
    attack            outsider learns
    counts-and-means  exact
    membership        does not apply
    ...

    """
    table = [["attack", "outsider learns"]]
    table += [[each.attack, each.verdict.value] for each in report.findings]
    blocks = [[report.subject], aligned(table, left=2)]
    blocks += [_finding(each) for each in report.succeeded]
    blocks.append([_brief(each) for each in report.findings if not each.verdict.succeeded])
    blocks += [[f"note: {note}"] for note in report.notes]
    count = len(report.succeeded)
    blocks.append(
        [f"{plural(count, 'attack')} succeeded" if count else "no attack that applies succeeded"]
    )
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _brief(finding: Finding) -> str:
    return wrapped(f"{finding.attack}: {finding.measure}")


def _finding(finding: Finding) -> list[str]:
    lines = [f"{finding.attack}: {finding.summary}", wrapped(f"  {finding.measure}")]
    for one in finding.shown[:SHOWN_READINGS]:
        lines += [f"  {line}" for line in reading_lines(one)]
    return [*lines, wrapped(f"  change: {finding.advice}")]


def reading_lines(one: Reconstruction) -> list[str]:
    """Return a reconstructed reading beside the nearest true one, feature by feature."""
    names = list(one.values)[:SHOWN_FEATURES]
    about = "" if one.label is None else f" of class {one.label}"
    head = [f"reading{about}, publication {one.publication} of {one.node}"]
    columns = {"reconstructed": one.values, "or": one.other, "true": one.truth}
    rows = [["", *(name for name, values in columns.items() if values is not None)]]
    for feature in names:
        cells = [value_text(v, feature) for v in columns.values() if v is not None]
        rows.append([str(feature), *cells])
    lines = head + aligned(rows)
    more = len(one.values) - len(names)
    if more > 0:
        lines.append(f"and {plural(more, 'more feature')}")
    if one.error is not None and one.mean_error is not None:
        lines.append(
            f"off by {one.error:.1e} spreads of its class; its mean is off by {one.mean_error:.1e}"
        )
    return lines


def value_text(values: Mapping[Hashable, float], feature: Hashable) -> str:
    """Return the value of a feature, `-` if it is missing."""
    value = values.get(feature, float("nan"))
    return "-" if value != value else f"{value:.{NUMBER_DIGITS}g}"
