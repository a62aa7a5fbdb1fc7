"""The page of an audit: every finding is on it, values as text or drawn, names escaped."""

from __future__ import annotations

import re

import numpy as np

from streamlvq.audit import AuditReport, AuditVerdict, Finding, Reconstruction, audit_snapshots
from streamlvq.models import GLVQ
from streamlvq.report.audit_page import DRAWN_READINGS, TABLED_FEATURES, audit_html
from support.publications import gaussians, published, truth_of


def found(features: int, **more: object) -> Reconstruction:
    values = {f"p<{k}>": float(k) for k in range(features)}
    return Reconstruction("n & m", 3, "a<b", values, **more)  # type: ignore[arg-type]


def test_a_real_audit() -> None:
    rows, labels = gaussians(160)
    snapshots = list(published(GLVQ(rehearsal=0), rows, labels, 150))
    report = audit_snapshots(snapshots, truth_of(rows, labels))
    page = audit_html(report)
    for finding in report.findings:
        assert f"<th>{finding.attack}</th>" in page
    assert page.count('<tr class="exact">') == sum(
        each.verdict is AuditVerdict.EXACT for each in report.findings
    )
    assert "What to change" in page
    assert "Keep this page to yourself" in page
    assert "to yourself" not in audit_html(audit_snapshots(snapshots))
    assert not re.findall(r'(?:src|href)="https?:', page)
    shown = report["counts-and-means"].shown[0]
    assert shown.truth is not None
    assert page.count(f"<td>{shown.truth['f5']:.6g}</td>") >= 2  # reconstructed and true


def test_names_are_escaped_and_few_readings_shown() -> None:
    many = [found(3, truth={"p<0>": 1.0}, error=0.5, mean_error=2.0)] * (DRAWN_READINGS + 2)
    report = AuditReport("a & b", [Finding(AuditVerdict.CLOSE, "m<1>", shown=many, attack="x")])
    page = audit_html(report)
    assert "a &amp; b" in page and "m&lt;1&gt;" in page and "a&lt;b" in page
    assert "p<0>" not in page and "a<b" not in page
    assert "and 2 more readings" in page
    assert page.count("<h3>") == DRAWN_READINGS
    assert "the class mean by 2" in page


def test_many_features_are_drawn() -> None:
    features = TABLED_FEATURES + 1
    one = found(
        features, truth={f"p<{k}>": 0.5 for k in range(features)}, error=1.0, mean_error=1.0
    )
    other = found(features, other={f"p<{k}>": -1.0 for k in range(features)})
    report = AuditReport("s", [Finding(AuditVerdict.EXACT, "m", shown=[one, other], attack="x")])
    page = audit_html(report)
    assert page.count("<svg") == 2
    assert page.count('class="true-bar"') == features
    assert page.count('class="found-mark"') == 2 * features
    assert page.count('class="other-mark"') == features
    numbers = [float(each) for each in re.findall(r'y1="(-?[\d.]+)"', page)]
    assert np.isfinite(numbers).all() and min(numbers) >= 0.0
