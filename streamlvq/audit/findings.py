"""What an audit finds: verdicts, reconstructed readings, and the report of all attacks."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from streamlvq.arrays import Label
from streamlvq.errors import StreamLVQError

MAX_SHOWN = 12  # reconstructed readings of an attack that a report keeps
EXACT_ERROR = 1e-6  # of a reconstruction, in spreads of its class
CLOSE_SHARE = 0.5  # of the error of the class mean


class AuditError(StreamLVQError, ValueError):
    """Something that cannot be audited."""


class AuditVerdict(StrEnum):
    """How far an attack got."""

    NOT_APPLICABLE = "does not apply"
    NOTHING = "nothing"
    CLOSE = "close"  # better than guessing the mean of the class, or than chance
    EXACT = "exact"  # single readings, up to rounding
    BROKEN = "broken"  # a claimed guarantee does not hold

    @property
    def succeeded(self) -> bool:
        """True if the attack tells an outsider something about single readings."""
        return self in {AuditVerdict.CLOSE, AuditVerdict.EXACT, AuditVerdict.BROKEN}


FAIL_ON: Mapping[str, frozenset[AuditVerdict]] = {
    "any": frozenset({AuditVerdict.CLOSE, AuditVerdict.EXACT, AuditVerdict.BROKEN}),
    "exact": frozenset({AuditVerdict.EXACT, AuditVerdict.BROKEN}),
    "never": frozenset(),
}


@dataclass(frozen=True)
class Reconstruction:
    """A reading as an attack reconstructed it, in sensor units, beside the nearest true one.

    Parameters
    ----------
    node, publication
        Where it came from: the node, and the number of its publication, from 1 on.
    label
        Class of the reading; None if the attack does not tell.
    values
        Value of each feature.
    other
        The second of two readings that an attack cannot assign: each feature of a reading is in
        one of the two. None if there is one.
    truth
        The true reading nearest to it; None without a log.
    error
        Root mean square difference to it, in spreads of the class; None without a log.
    mean_error
        What guessing the mean of the class would have given; None without a log.
    approximate
        Whether the attack itself does not expect all digits.

    """

    node: str
    publication: int
    label: Label | None
    values: Mapping[Hashable, float]
    other: Mapping[Hashable, float] | None = None
    truth: Mapping[Hashable, float] | None = None
    error: float | None = None
    mean_error: float | None = None
    approximate: bool = False

    @property
    def is_exact(self) -> bool:
        """True if a log confirms it, or there is no log and the attack is sure of it."""
        if self.error is None:
            return not self.approximate
        return self.error <= EXACT_ERROR

    @property
    def is_close(self) -> bool:
        """True if it is nearer to a true reading than half the way from the mean of its class."""
        if self.error is None or self.mean_error is None:
            return True
        return self.error < CLOSE_SHARE * self.mean_error


@dataclass(frozen=True)
class Finding:
    """Result of one attack.

    Parameters
    ----------
    verdict
        How far it got.
    measure
        Its success in numbers, or why it does not apply.
    assumes
        What an outsider needs for it.
    advice
        What to change; empty if nothing has to be.
    shown
        Readings it reconstructed, the best first.
    figures
        The numbers behind `measure`.
    attack, summary
        Name of the attack, and what it does in a few words; set by the audit.

    """

    verdict: AuditVerdict
    measure: str
    assumes: str = ""
    advice: str = ""
    shown: Sequence[Reconstruction] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    attack: str = ""
    summary: str = ""


def not_applicable(why: str) -> Finding:
    """Return the finding of an attack that cannot be tried."""
    return Finding(AuditVerdict.NOT_APPLICABLE, why)


def best_first(found: Sequence[Reconstruction]) -> tuple[Reconstruction, ...]:
    """Return the reconstructions that a report shows: exact ones first, then by their error.

    Of exact ones, those furthest from the mean of their class: there a guess would have failed.
    """

    def rank(one: Reconstruction) -> tuple[bool, float, float]:
        error = math.inf if one.error is None else one.error
        return not one.is_exact, 0.0 if one.is_exact else error, -(one.mean_error or 0.0)

    return tuple(sorted(found, key=rank)[:MAX_SHOWN])


@dataclass(frozen=True)
class AuditReport:
    """Findings of all attacks on what was given.

    Parameters
    ----------
    subject
        What was audited, in a few words.
    findings
        One for each attack, in the order of the registry.
    notes
        What was left out, sampled or assumed.
    logged
        Whether the true readings are those of a log, and not made up.

    """

    subject: str
    findings: Sequence[Finding]
    notes: Sequence[str] = ()
    logged: bool = False

    def __getitem__(self, attack: str) -> Finding:
        for finding in self.findings:
            if finding.attack == attack:
                return finding
        raise KeyError(attack)

    @property
    def succeeded(self) -> list[Finding]:
        """Attacks that told something about single readings."""
        return [finding for finding in self.findings if finding.verdict.succeeded]

    def failures(self, fail_on: str = "any", attacks: Collection[str] | None = None) -> list[str]:
        """Return the names of the attacks that should fail a build.

        Parameters
        ----------
        fail_on
            "any" success, only "exact" ones (and broken guarantees), or "never".
        attacks
            Count only these; None for all.

        """
        if fail_on not in FAIL_ON:
            raise AuditError(f"fail_on: expected one of {', '.join(FAIL_ON)}, got {fail_on!r}")
        return [
            finding.attack
            for finding in self.findings
            if finding.verdict in FAIL_ON[fail_on]
            and (attacks is None or finding.attack in attacks)
        ]
