"""`GMLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.gradient import Activation, MatrixLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GMLVQ(MatrixLVQ, Activation):
    """GLVQ with a relevance matrix: weights for features and for pairs of features.

    All prototypes share one metric `Omega' Omega`, so borders are linear and the model can be
    plotted in the plane of its leading eigenvectors.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.GMLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    References
    ----------
    - Schneider, P., Biehl, M., Hammer, B. (2009). Adaptive relevance matrices in learning vector quantization. Neural Computation 21, 3532-3561.
    - Bunte, K., et al. (2012). Limited rank matrix learning, discriminative dimension reduction and visualization. Neural Networks 26, 159-173.

    """

    _kind = at.MATRIX

    learning_rate: float = 0.05
