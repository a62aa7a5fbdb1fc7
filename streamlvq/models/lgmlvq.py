"""`LGMLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.gmlvq import GMLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LGMLVQ(GMLVQ):
    """GMLVQ with one matrix per prototype.

    The most accurate of the single models: relevances may differ between regions of the feature
    space.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LGMLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    References
    ----------
    - Schneider, P., Biehl, M., Hammer, B. (2009). Adaptive relevance matrices in learning vector quantization. Neural Computation 21, 3532-3561.
    - Bunte, K., et al. (2012). Limited rank matrix learning, discriminative dimension reduction and visualization. Neural Networks 26, 159-173.

    """

    _local = True

    learning_rate: float = 0.02
