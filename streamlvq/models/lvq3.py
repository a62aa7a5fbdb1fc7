"""`LVQ3`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.lvq21 import LVQ21
from streamlvq.models.parameters import check_range, documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ3(LVQ21):
    """LVQ2.1 that also moves two prototypes of the right class towards the sample.

    This keeps prototypes close to their data, where LVQ2.1 may let them drift away.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ3()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.92

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_LVQ3

    epsilon: float = 0.2

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "epsilon", self.epsilon, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"epsilon"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.EPSILON: self.epsilon}
