"""GLVQ."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.gradient import Activation
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GLVQ(Activation):
    """Generalized LVQ: minimises how much closer the wrong class is than the right one.

    The relative distance difference `(d+ - d-) / (d+ + d-)` of every sample is made small. The
    cheapest of the models that follow a gradient.

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
