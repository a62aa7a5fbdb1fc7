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

    Notes
    -----
    Published: Seo and Obermayer (2003): prototype j moves by
    `rate / variance * (P_y(j | x) - P(j | x)) * (x - w_j)`. Added for streams: running scales of
    features, AdaGrad steps, prototypes born on errors, rehearsal, weights; responsibilities below 1e-6
    are skipped. `RSLVQ.textbook()` does without and is the published update exactly, with
    `sigma` the variance divided by the number of features, because distances are means over features.

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

    Notes
    -----
    Published: Schneider et al. (2009): the update of RSLVQ with x - w_j multiplied by Lambda, and a step
    of Omega along the same likelihood ratio, after which it is normalised. Added for streams: what
    RSLVQ adds, with AdaGrad steps for Omega by row and column; features without spread have no share.
    `MRSLVQ.textbook()` does without and is the published update exactly; `sigma` is the variance.

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

    Notes
    -----
    Published: Schneider et al. (2009): MRSLVQ, where each prototype has its own Omega. Added for streams:
    what MRSLVQ adds. `LMRSLVQ.textbook()` does without and is the published update exactly, with
    components that have the same constant whatever their Omega.

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
