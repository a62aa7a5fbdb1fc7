"""`GRLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.gradient import Activation, MetricLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GRLVQ(MetricLVQ, Activation):
    """GLVQ with learnt feature relevances.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.GRLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    References
    ----------
    - Hammer, B., Villmann, T. (2002). Generalized relevance learning vector quantization. Neural Networks 15, 1059-1068.

    """

    _kind = at.DIAGONAL

    learning_rate: float = 0.05
