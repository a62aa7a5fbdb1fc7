"""`Attack`, the base of all attacks, and `Case`: what an audit has at hand."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamlvq.audit.findings import Finding
from streamlvq.audit.publications import Step, Truth
from streamlvq.privacy import PrivateLVQ


@dataclass(frozen=True)
class Case:
    """What an audit has at hand besides publications.

    Parameters
    ----------
    truth
        The readings that were learnt, to measure success; None if only publications are at hand.
    make
        Builds the model that was audited, untrained; None if no model can be trained here.
    stored
        Readings that the given files hold as they are.
    private
        Builds the private model that was audited, untrained; None if there is none.
    seed
        Seed of what attacks draw.
    progress
        Whether to show progress bars; None to show them in a terminal only.

    """

    truth: Truth | None = None
    make: Callable[[], Any] | None = None
    stored: int = 0
    private: Callable[[], PrivateLVQ] | None = None
    seed: int = 0
    progress: bool | None = False


class Attack(abc.ABC):
    """One way to learn about single readings from what is published.

    It sees the publications of all nodes in the order of time, then says what it found. It keeps
    no publication, so that logs of any length can be audited.
    """

    def __init__(self, case: Case) -> None:
        self.case = case

    def see(self, step: Step) -> None:  # noqa: B027 - not every attack looks at publications
        """Look at one more publication; attacks that need none do nothing."""

    @abc.abstractmethod
    def finding(self) -> Finding:
        """Return what was found."""
