"""Generalized LVQ, `GLVQ` to `LGMLVQ`, and the bases of all models that follow a gradient."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_choice, check_range, documented

# --- bases of gradient models --------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, repr=False)
class GradientLVQ(LVQClassifier):
    """Base class of models trained by gradient descent."""

    step: str = "adagrad"
    step_decay: float = 0.999

    def _check(self) -> None:
        super()._check()
        owner = type(self).__name__
        check_choice(owner, "step", self.step, ("adagrad", "constant"))
        check_range(owner, "step_decay", self.step_decay, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"step_decay"}

    def _parameters(self) -> dict[int, float]:
        parameters = super()._parameters()
        parameters[at.STEP_DECAY] = self.step_decay * parameters[at.FORGET]
        return parameters

    def _switches(self) -> dict[int, int]:
        return {**super()._switches(), at.ADAPTIVE: int(self.step == "adagrad")}


@dataclass(kw_only=True, eq=False, repr=False)
class MetricLVQ(GradientLVQ):
    """Base class of models that also learn a metric."""

    metric_learning_rate: float = 0.05

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "metric_learning_rate", self.metric_learning_rate, 0)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"metric_learning_rate"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.METRIC_RATE: self.metric_learning_rate}


@dataclass(kw_only=True, eq=False, repr=False)
class MatrixLVQ(MetricLVQ):
    """Base class of models with a matrix metric."""

    rank: int | None = 12

    def _check(self) -> None:
        super()._check()
        if self.rank is not None:
            check_range(type(self).__name__, "rank", self.rank, 1, whole=True)

    def _rank(self) -> int | None:
        return self.rank


@dataclass(kw_only=True, eq=False, repr=False)
class Activation(GradientLVQ):
    """Base class of models whose cost is an activation of the relative distance difference."""

    _rule = at.RULE_GLVQ

    activation: str = "identity"
    slope: float = 3.0

    def _check(self) -> None:
        super()._check()
        owner = type(self).__name__
        check_choice(owner, "activation", self.activation, ("identity", "sigmoid"))
        check_range(owner, "slope", self.slope, 1e-6)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"slope"}

    def _parameters(self) -> dict[int, float]:
        slope = self.slope if self.activation == "sigmoid" else 0.0
        return {**super()._parameters(), at.SLOPE: slope}


@dataclass(kw_only=True, eq=False, repr=False)
class Likelihood(GradientLVQ):
    """Base class of models that maximise the likelihood ratio of a mixture."""

    _rule = at.RULE_RSLVQ
    _start_temperature = 1.0

    sigma: float = 0.05

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "sigma", self.sigma, 1e-9)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"sigma"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.SIGMA: self.sigma}


# --- models --------------------------------------------------------------------------------------


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


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GRLVQ(MetricLVQ, Activation):
    """GLVQ with learnt feature relevances.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.GRLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.94

    References
    ----------
    - Hammer, B., Villmann, T. (2002). Generalized relevance learning vector quantization. Neural Networks 15, 1059-1068.

    """

    _kind = at.DIAGONAL

    learning_rate: float = 0.05


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
    0.93

    References
    ----------
    - Hammer, B., Villmann, T. (2002). Generalized relevance learning vector quantization. Neural Networks 15, 1059-1068.

    """

    _local = True


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
