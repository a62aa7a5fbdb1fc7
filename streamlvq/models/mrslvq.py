"""`MRSLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.gradient import Likelihood, MatrixLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class MRSLVQ(MatrixLVQ, Likelihood):
    """RSLVQ with a relevance matrix shared by all prototypes.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.MRSLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    References
    ----------
    - Schneider, P., Biehl, M., Hammer, B. (2009). Distance learning in discriminative vector quantization. Neural Computation 21, 2942-2969.

    """

    _kind = at.MATRIX

    learning_rate: float = 0.05
