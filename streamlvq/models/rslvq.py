"""`RSLVQ`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.models.gradient import Likelihood
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
