"""Kohonen's models: `LVQ1`, `OLVQ1`, `LVQ21` and `LVQ3`."""

from __future__ import annotations

from dataclasses import dataclass

from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.models.parameters import check_range, documented


@dataclass(kw_only=True, eq=False, repr=False)
class KohonenLVQ(LVQClassifier):
    """Base class of models whose learning rate is a fraction of the way to the sample.

    Without standardisation they take features as they come, constant or not.
    """

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "learning_rate", self.learning_rate, 0, 1)

    def _switches(self) -> dict[int, int]:
        steps = at.PUBLISHED_STEPS if self._as_published() else at.CONSTANT_STEPS
        return {**super()._switches(), at.STEPS: steps}

    def _as_published(self) -> bool:
        return not self.standardize


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ1(KohonenLVQ):
    """LVQ1: the closest prototype moves towards the sample or away from it.

    Kohonen's original heuristic: cheap, easy to understand, and a baseline for the others.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: Kohonen (1990), and (2.10) of Brinkrolf (2023): the closest prototype w moves by
    `learning_rate * (x - w)`, away from the sample if its class is wrong. Added for streams: running
    scales of features, prototypes born on errors, rehearsal, weights. `LVQ1.textbook()` does without
    and is the published update exactly.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ1()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University.

    """

    _rule = at.RULE_LVQ1

    learning_rate: float = 0.05


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class OLVQ1(KohonenLVQ):
    """LVQ1 with an adaptive learning rate for each prototype.

    The rate falls when the prototype is right and rises when it is wrong, up to `learning_rate`.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: Kohonen et al. (1996): the winner's rate a becomes a / (1 + a) if it is right and
    a / (1 - a) if it is wrong, never more than the first one; then it moves as in LVQ1. Added for
    streams: running scales of features, prototypes born on errors, rehearsal, weights.
    `OLVQ1.textbook()` does without and is the published update exactly.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.OLVQ1()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T., Hynninen, J., Kangas, J., Laaksonen, J., Torkkola, K. (1996). LVQ_PAK: The learning vector quantization program package. Report A30, Helsinki University of Technology.

    """

    _rule = at.RULE_OLVQ1

    learning_rate: float = 0.3


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ21(KohonenLVQ):
    """LVQ2.1: the two closest prototypes move when a sample lies near the border between them.

    It only moves borders, so it depends on the prototypes that are added after errors.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: Kohonen (1990): if one of the two closest prototypes, at distances d1 <= d2, is of the
    right class and the other is not, and d1 / d2 > (1 - window) / (1 + window), both move as in LVQ1.
    Added for streams: running scales of features, prototypes born on errors, rehearsal, weights.
    `LVQ21.textbook()` does without and is the published update exactly.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ21()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.91

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_LVQ21

    learning_rate: float = 0.02
    window: float = 0.25

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "window", self.window, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"window"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.WINDOW_WIDTH: self.window}


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class LVQ3(LVQ21):
    """LVQ2.1 that also moves two prototypes of the right class towards the sample.

    This keeps prototypes close to their data, where LVQ2.1 may let them drift away.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: Kohonen (1990): LVQ2.1, and if both of the two closest prototypes are right, both move
    by `epsilon * learning_rate * (x - w)`. Added for streams: running scales of features, prototypes
    born on errors, rehearsal, weights. `LVQ3.textbook()` does without and is the published update
    exactly.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.LVQ3()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.92

    References
    ----------
    - Kohonen, T. (1990). The self-organizing map. Proceedings of the IEEE 78(9), 1464-1480.

    """

    _rule = at.RULE_LVQ3

    epsilon: float = 0.2

    def _check(self) -> None:
        super()._check()
        check_range(type(self).__name__, "epsilon", self.epsilon, 0, 1)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"epsilon"}

    def _parameters(self) -> dict[int, float]:
        return {**super()._parameters(), at.EPSILON: self.epsilon}
