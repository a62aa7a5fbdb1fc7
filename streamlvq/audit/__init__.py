"""An audit that attacks us: what an outsider learns from what nodes publish.

`audit_snapshots`, `audit_log`, `audit_config` and `audit_private` run the attacks of the registry
`ATTACKS` and return an `AuditReport`. An attack says what it assumes, and "does not apply" where it
cannot be tried; where it can tell that a reconstruction is right (two lines that meet, a variance
that agrees), only such readings count.
"""

from __future__ import annotations

from streamlvq.audit.attack import Attack, Case
from streamlvq.audit.findings import AuditError, AuditReport, AuditVerdict, Finding, Reconstruction
from streamlvq.audit.publications import Step, Truth
from streamlvq.audit.run import (
    audit_config,
    audit_log,
    audit_private,
    audit_readings,
    audit_snapshots,
    load_publications,
    private_mechanism,
    truth_of_log,
)

__all__ = [
    "Attack",
    "AuditError",
    "AuditReport",
    "AuditVerdict",
    "Case",
    "Finding",
    "Reconstruction",
    "Step",
    "Truth",
    "audit_config",
    "audit_log",
    "audit_private",
    "audit_readings",
    "audit_snapshots",
    "load_publications",
    "private_mechanism",
    "truth_of_log",
]
