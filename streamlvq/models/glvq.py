"""Generalized LVQ, `GLVQ` to `LGMLVQ`, and the bases of all models that follow a gradient."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_choice, check_range, documented

# --- bases of gradient models --------------------------------------------------------------------

STEP_KINDS = {
    "adagrad": at.ADAGRAD_STEPS,
    "constant": at.CONSTANT_STEPS,
    "published": at.PUBLISHED_STEPS,
}


@dataclass(kw_only=True, eq=False, repr=False)
class GradientLVQ(LVQClassifier):
    """Base class of models trained by gradient descent."""

    step: str = "adagrad"
    step_decay: float = 0.999

    def _check(self) -> None:
        super()._check()
        owner = type(self).__name__
        check_choice(owner, "step", self.step, tuple(STEP_KINDS))
        check_range(owner, "step_decay", self.step_decay, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"step_decay"}

    def _parameters(self) -> dict[int, float]:
        parameters = super()._parameters()
        parameters[at.STEP_DECAY] = self.step_decay * parameters[at.FORGET]
        return parameters

    def _switches(self) -> dict[int, int]:
        return {**super()._switches(), at.STEPS: STEP_KINDS[self.step]}

    def _as_published(self) -> bool:
        return self.step == "published"


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

    Notes
    -----
    Published: Sato and Yamada (1996), and (2.11) to (2.14) of Brinkrolf (2023): a gradient step on
    Phi((d+ - d-) / (d+ + d-)) with squared Euclidean distances, Phi the identity. Added for streams:
    running scales of features, AdaGrad steps, prototypes born on errors, rehearsal, weights of rare
    classes. `GLVQ.textbook()` does without and is that gradient step exactly; Sato and Yamada print a
    quarter of the gradient. With `activation="sigmoid"` multiply the published rates by slope / 4:
    ours has slope one at the border.

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
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University.

    """

    learning_rate: float = 0.1


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class GRLVQ(MetricLVQ, Activation):
    """GLVQ with learnt feature relevances.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: Hammer and Villmann (2002): the steps of GLVQ with distances weighted by relevances,
    which take a gradient step of their own, stay positive and sum up to one. Added for streams: what
    GLVQ adds; the roots of the relevances are learnt, as a diagonal matrix in GMLVQ would be; features
    without spread have no share; prototypes stay within the range of their class.
    `GRLVQ.textbook()` does without and is the published update, up to constant factors that the
    source leaves to the rates: here steps are those of the whole gradient.

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

    Notes
    -----
    Published: Hammer, Schleif and Villmann (2005): GRLVQ, where the relevances of the closest right and
    the closest wrong prototype take the step. Added for streams: what GRLVQ adds.
    `LGRLVQ.textbook()` does without and is the published update, up to constant factors that the
    source leaves to the rates: here steps are those of the whole gradient.

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
    - Hammer, B., Schleif, F.-M., Villmann, T. (2005). On the generalization ability of prototype-based classifiers with local relevance determination. Technical Report IfI-05-14, Clausthal University of Technology.

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

    Notes
    -----
    Published: Schneider et al. (2009), and (2.12) to (2.20) of Brinkrolf (2023); of limited rank
    Bunte et al. (2012) and (2.25): a gradient step for the two prototypes and Omega, which is then
    normalised. Added for streams: what GLVQ adds, with AdaGrad steps for Omega by row and column;
    features without spread have no share; prototypes stay within the range of their class.
    `GMLVQ.textbook()` does without and is the published update exactly. `rank=None` is the full matrix.

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
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University.

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

    Notes
    -----
    Published: Schneider et al. (2009), and (2.21) to (2.24) of Brinkrolf (2023): GMLVQ, where each of
    the two prototypes moves its own Omega. Added for streams: what GMLVQ adds. `LGMLVQ.textbook()` does
    without and is the gradient step exactly. (2.23) and (2.24) print half of the gradient for Omega: for
    their update take half the `metric_learning_rate`.

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
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University.

    """

    _local = True

    learning_rate: float = 0.02
