"""Robust soft LVQ: `RSLVQ`, `MRSLVQ` and `LMRSLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.glvq import Likelihood, MatrixLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class RSLVQ(Likelihood):
    """Robust soft LVQ: maximises the likelihood ratio of the right class in a Gaussian mixture.

    Every prototype is the centre of a component with variance `sigma`.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.RSLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.93

    References
    ----------
    - Seo, S., Obermayer, K. (2003). Soft learning vector quantization. Neural Computation 15, 1589-1604.

    """

    learning_rate: float = 0.1


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
