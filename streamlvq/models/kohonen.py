"""Base class of Kohonen's models."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_range


@dataclass(kw_only=True, eq=False, repr=False)
class KohonenLVQ(LVQClassifier):
    """Base class of models whose learning rate is a fraction of the way to the sample."""

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "learning_rate", self.learning_rate, 0, 1)
