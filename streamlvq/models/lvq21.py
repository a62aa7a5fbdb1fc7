"""`LVQ21`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.kohonen import KohonenLVQ
from streamlvq.models.parameters import check_range, documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ21(KohonenLVQ):
    """LVQ2.1: the two closest prototypes move when a sample lies near the border between them.

    It only moves borders, so it depends on the prototypes that are added after errors.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ21()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_LVQ21

    learning_rate: float = 0.02
    window: float = 0.25

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "window", self.window, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"window"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.WINDOW: self.window}
