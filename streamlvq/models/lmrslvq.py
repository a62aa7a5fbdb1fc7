"""`LMRSLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.mrslvq import MRSLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LMRSLVQ(MRSLVQ):
    """MRSLVQ with one matrix per prototype.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LMRSLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.95

    References
    ----------
    - Schneider, P., Biehl, M., Hammer, B. (2009). Distance learning in discriminative vector quantization. Neural Computation 21, 2942-2969.

    """

    _local = True

    learning_rate: float = 0.02
