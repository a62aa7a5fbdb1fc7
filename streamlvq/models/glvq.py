"""`GLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.gradient import Activation
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GLVQ(Activation):
    """Generalized LVQ: minimises the relative distance difference of every sample.

    The cost is `(d+ - d-) / (d+ + d-)` of the distances to the closest prototype of the right class
    and of any other class. The cheapest of the gradient models.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.GLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.92

    References
    ----------
    - Sato, A., Yamada, K. (1996). Generalized learning vector quantization. NIPS 8, 423-429.

    """

    learning_rate: float = 0.1
