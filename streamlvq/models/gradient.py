"""Base classes of the models that follow the gradient of a cost function."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_choice, check_range


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
