"""`OLVQ1`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.kohonen import KohonenLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OLVQ1(KohonenLVQ):
    """LVQ1 with an adaptive learning rate for each prototype.

    The rate falls when the prototype is right and rises when it is wrong, up to `learning_rate`.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.OLVQ1()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_OLVQ1

    learning_rate: float = 0.3
