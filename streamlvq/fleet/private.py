"""Publications of a node under differential privacy: releases, and nothing else.

What others get of such a node is made of the releases in its ledger, at times that the clock and
the number of releases decide. Each publication says what is guaranteed and how far the ledger is,
so that the node and everyone else notice a ledger that was put back.
"""

from __future__ import annotations

from typing import Any

from streamlvq.config import PrivacySection
from streamlvq.config.build import build_privacy
from streamlvq.errors import StreamLVQError
from streamlvq.privacy import LedgerExhaustedError, Privacy, PrivateLVQ
from streamlvq.privacy.budget import schedule_of
from streamlvq.privacy.ledger import Ledger
from streamlvq.snapshot import Snapshot, capture
from streamlvq.snapshot.statement import MAX_EARLIER, PUT_BACK, PrivacyStatement, SuccessionError

FIRST_MODEL = 2  # releases that a first model is made of


class NotPrivateError(StreamLVQError, ValueError):
    """Publication that would tell more than releases."""


class ReleasePublisher:
    """Publisher of the model that a private learner has made of its releases.

    Parameters
    ----------
    section
        What is promised.
    ledger
        Account of the releases, which must be those of the learner.

    """

    def __init__(self, section: PrivacySection, ledger: Ledger) -> None:
        self.section, self.ledger = section, ledger
        self._promise: Privacy = build_privacy(section)

    def progress(self, learner: Any) -> int:
        """Return how many labelled readings the releases stand for, by their public number."""
        return readings_of(self._promise, learner.releases)

    def published(self, statement: PrivacyStatement | None) -> int:
        """Return the progress that a publication told of."""
        return 0 if statement is None else readings_of(self._promise, statement.releases)

    def payload(self, learner: Any, node: str, before: PrivacyStatement | None) -> bytes:
        """Return the snapshot of the released model.

        `before` is what the last publication said. Raises `NotPrivateError`, `SuccessionError` or
        `LedgerExhaustedError` if nothing may be published.
        """
        if type(learner) is not PrivateLVQ:
            raise NotPrivateError(f"expected a PrivateLVQ to publish, got {learner!r}")
        if learner.exhausted is not None:
            raise LedgerExhaustedError(
                f"nothing is published any more, decisions go on: {learner.exhausted}"
            )
        if learner.releases != self.ledger.releases:
            raise SuccessionError(
                f"expected a model of {self.ledger.releases} releases, as the ledger has, got one "
                f"of {learner.releases}"
            )
        statement = make_statement(self.ledger, before)
        state = capture(learner.released_model(), readings=False)
        return Snapshot(state, node, readings=False, privacy=statement).to_bytes()


def readings_of(privacy: Privacy, releases: int) -> int:
    """Return how many labelled readings a model of so many releases is made of.

    The first release tells scales, the second gives the first model.

    Examples
    --------
    >>> privacy = Privacy(1.0, bounds={"rms": (0, 2)}, classes=["ok", "worn"])
    >>> [readings_of(privacy, releases) for releases in range(4)]
    [0, 0, 4608, 4864]

    A horizon of few batches shortens the warm-up:

    >>> short = Privacy(1.0, bounds={"rms": (0, 2)}, classes=["ok", "worn"], horizon=10)
    >>> readings_of(short, 2)
    1792

    """
    if releases < FIRST_MODEL:
        return 0
    warmup, _ = schedule_of(privacy)
    return privacy.scale_batch + warmup + (releases - FIRST_MODEL) * privacy.batch


def make_statement(ledger: Ledger, before: PrivacyStatement | None) -> PrivacyStatement:
    """Return the statement of a publication after all releases of a ledger.

    Raises `SuccessionError` if the ledger does not go on where `before` ended.
    """
    if before is not None:
        check_goes_on(ledger, before)
    earlier = [] if before is None else [*before.earlier, (before.releases, before.head)]
    known = {releases: told for releases, told in earlier if releases < ledger.releases}
    head = ledger.head_at(ledger.releases)
    assert head is not None  # the newest release is never forgotten
    return PrivacyStatement(
        epsilon=ledger.account.total("epsilon"),
        delta=ledger.account.total("delta"),
        unit=ledger.account.series[-1].unit,
        ledger=ledger.identity,
        releases=ledger.releases,
        head=head.hex(),
        earlier=list(known.items())[-MAX_EARLIER:],
    )


def check_goes_on(ledger: Ledger, before: PrivacyStatement) -> None:
    """Raise `SuccessionError` if a ledger lacks what was published."""
    if ledger.identity != before.ledger:
        raise SuccessionError(
            f"expected ledger {before.ledger[:8]}, of which {before.releases} releases were "
            f"published, got {ledger.identity[:8]}; put back the first one"
        )
    if ledger.releases < before.releases:
        raise SuccessionError(
            f"expected a ledger of at least {before.releases} releases, which were published, got "
            f"{ledger.releases}: {PUT_BACK}"
        )
    head = ledger.head_at(before.releases)
    if head is not None and head.hex() != before.head:
        raise SuccessionError(
            f"expected the ledger of which {before.releases} releases were published, got another "
            f"history: {PUT_BACK}"
        )
