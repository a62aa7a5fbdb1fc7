"""`LGRLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.grlvq import GRLVQ
from streamlvq.models.parameters import documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LGRLVQ(GRLVQ):
    """GRLVQ with one set of relevances per prototype.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LGRLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.92

    References
    ----------
    - Hammer, B., Villmann, T. (2002). Generalized relevance learning vector quantization. Neural Networks 15, 1059-1068.

    """

    _local = True
