"""`PairwiseLVQ`: a model for each pair of classes, coupled into class probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamlvq.arrays import Reading
from streamlvq.kernels import layout as at
from streamlvq.models.glvq import Activation, MatrixLVQ
from streamlvq.models.parameters import check_choice, documented


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class PairwiseLVQ(MatrixLVQ, Activation):
    """One GMLVQ per pair of classes, coupled into one probability per class.

    Every pair has a prototype for each class, a metric, and a sigmoid that turns its score into the
    probability of one class given that it is one of the two. The sigmoids are fitted on scores taken
    before the samples are learnt, and so is a temperature, because coupling many sigmoids gives
    underconfident probabilities. Choose it when probabilities matter and there are not too many
    classes: c classes make c (c - 1) / 2 pairs.

    Parameters
    ----------
    {parameters}

    Notes
    -----
    Published: section 4.4 of Brinkrolf (2023): a GMLVQ for each pair of classes, which learns the samples
    of both, a sigmoid fitted to its scores (4.16), and coupling of the pairs. Added for streams: what
    GMLVQ adds but growth and ranges; prototypes follow the means of young classes; a pair does not learn
    samples that it is sure of; sigmoids and temperature are fitted on the way, where the source holds out
    folds; scores have a sign, without which a sigmoid could not tell the classes apart.
    `PairwiseLVQ.textbook()` learns each pair exactly as published.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.PairwiseLVQ()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.93

    References
    ----------
    - Platt, J. C. (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods. Advances in Large Margin Classifiers, 61-74.
    - Price, D., Knerr, S., Personnaz, L., Dreyfus, G. (1994). Pairwise neural network classifiers with probabilistic outputs. NIPS 7, 1109-1116.
    - Wu, T.-F., Lin, C.-J., Weng, R. C. (2004). Probability estimates for multi-class classification by pairwise coupling. Journal of Machine Learning Research 5, 975-1005.
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University.

    """

    _rule = at.RULE_PAIRWISE
    _kind = at.MATRIX
    _start_temperature = 1.0
    has_relsim = False  # each pair has one, but the model as a whole has none

    prototypes_per_class: int = field(default=1, init=False)
    max_prototypes_per_class: int = field(default=1, init=False)
    coupling: str = "pkpd"
    learning_rate: float = 0.05
    metric_learning_rate: float = 0.2
    rehearsal: int = 2

    def _check(self) -> None:
        super()._check()
        check_choice(type(self).__name__, "coupling", self.coupling, tuple(at.COUPLINGS))

    @property
    def _mutable_attributes(self) -> set[str]:
        return (super()._mutable_attributes | {"coupling"}) - {"max_prototypes_per_class"}

    def _switches(self) -> dict[int, int]:
        return {**super()._switches(), at.COUPLING: at.COUPLINGS[self.coupling]}

    def relsim_one(self, x: Reading) -> float | None:
        """Raise NotImplementedError: a pairwise model has no single RelSim."""
        raise NotImplementedError(
            "PairwiseLVQ has a relative similarity for each pair of classes but none overall; "
            "use the largest value of predict_proba_one as certainty"
        )
