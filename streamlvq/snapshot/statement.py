"""`PrivacyStatement`: what a published model says about its guarantee and its ledger."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from streamlvq.errors import StreamLVQError

MAX_EARLIER = 64  # publications that a statement remembers
PUT_BACK = "it seems that a backup was put back, and that what came after it was drawn again"

Head = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, le=2**62)]


class SuccessionError(StreamLVQError, ValueError):
    """Publication whose ledger does not go on where the one before it ended."""


class PrivacyStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Guarantee of everything that a node ever published, and how far its ledger is.

    Parameters
    ----------
    epsilon, delta
        What anyone who sees all publications may learn about one unit.
    unit
        What is protected: `"reading"`, or `"segment of 20"`.
    ledger
        Random name of the ledger.
    releases
        How many releases the published model is made of.
    head
        Head of the ledger after the last of them.
    earlier
        The same of earlier publications, by which receivers notice a ledger that was put back.

    Examples
    --------
    >>> heads = {n: f"{n:064x}" for n in (3, 5, 9)}
    >>> known = PrivacyStatement(1.0, 1e-5, "reading", "ab" * 16, 5, heads[5])
    >>> print(known)
    (1, 1e-05)-private for each reading, after 5 releases of ledger abababab
    >>> PrivacyStatement(1.0, 1e-5, "reading", "ab" * 16, 3, heads[3]).check_follows(known)
    Traceback (most recent call last):
    ...
    streamlvq.snapshot.statement.SuccessionError: expected at least 5 releases, got 3: ...

    """

    epsilon: Annotated[float, Meta(gt=0, le=1e6)]
    delta: Annotated[float, Meta(ge=0, lt=1)]
    unit: Annotated[str, Meta(min_length=1, max_length=40)]
    ledger: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    releases: Count
    head: Head
    earlier: Annotated[list[tuple[Count, Head]], Meta(max_length=MAX_EARLIER)] = []

    def check_follows(self, before: PrivacyStatement) -> None:
        """Raise `SuccessionError` unless this may follow another statement of the same node."""
        if self.ledger != before.ledger:
            raise SuccessionError(
                f"expected ledger {before.ledger[:8]}, got {self.ledger[:8]}: a new ledger forgets "
                "what was released before; give the node another name, or wait until its last "
                "publication is too old"
            )
        if self.guarantee != before.guarantee:
            raise SuccessionError(
                f"expected {before.guarantee}, got {self.guarantee} by the same ledger"
            )
        if self.releases < before.releases:
            raise SuccessionError(
                f"expected at least {before.releases} releases, got {self.releases}: {PUT_BACK}"
            )
        known = dict(self.earlier)
        known[self.releases] = self.head
        oldest = min(known)
        if before.releases >= oldest and known.get(before.releases) != before.head:
            raise SuccessionError(
                f"expected a ledger that knows the publication after {before.releases} releases, "
                f"got another history: {PUT_BACK}"
            )

    @property
    def guarantee(self) -> str:
        """What is guaranteed, as words."""
        return f"({self.epsilon:g}, {self.delta:g})-private for each {self.unit}"

    def __str__(self) -> str:
        return f"{self.guarantee}, after {self.releases} releases of ledger {self.ledger[:8]}"
