"""`LVQ1`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.kohonen import KohonenLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ1(KohonenLVQ):
    """LVQ1: the closest prototype moves towards the sample or away from it.

    Kohonen's original heuristic: cheap, easy to understand, and a baseline for the others.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ1()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_LVQ1

    learning_rate: float = 0.05
