"""`ProbabilityRejector`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.records import Decision
from streamlvq.vectorize import Reading
from streamlvq.wrappers.integrator import TimeIntegrator
from streamlvq.wrappers.rejector import (
    NO_MODEL,
    Rejector,
    documented_rejector,
    likeliest,
    no_model,
)
from streamlvq.wrappers.thresholds import Chow, Fixed


@documented_rejector
class ProbabilityRejector(Rejector):
    """Rejector of readings whose most probable class is not probable enough.

    Works with any classifier that gives probabilities. Probabilities cannot tell a reading between
    two classes from one that is far from all, so the reason of a rejection always is "ambiguous".

    Parameters
    ----------
    {parameters}

    Examples
    --------

    A rejection costs a fifth of an error, so decisions below 80 % are not worth the risk:

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.ProbabilityRejector(streamlvq.LGMLVQ(), reject_cost=0.2)
    >>> model.threshold_for("sky")
    0.8
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()  # of those that were kept
    0.98

    References
    ----------
    - Chow, C. K. (1970). On optimum recognition error and reject tradeoff. IEEE Transactions on Information Theory 16(1), 41-46.

    """

    _fixed: ClassVar[Mapping[str, type[Fixed]]] = {"threshold": Fixed, "reject_cost": Chow}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2), "threshold": 0.5}
        yield {"classifier": GLVQ(rehearsal=2), "target_accuracy": 0.9, "memory": 50}

    def _check_chain(self, chain: list[Any]) -> None:
        super()._check_chain(chain)
        delayed = any(issubclass(type(link), TimeIntegrator) and link.delay for link in chain)
        if delayed and self.target_accuracy is not None:
            raise ParameterError(
                "ProbabilityRejector",
                "target_accuracy",
                "expected decisions about the reading that is learnt, "
                "got those of a centred window; use target_rate, or centered=False",
            )

    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        probabilities = self.predict_proba_one(x, **keywords)
        label = likeliest(probabilities)
        return label, NO_MODEL if len(probabilities) < 2 else probabilities[label]

    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision on a reading, with its certainty and the reason of a rejection."""
        probabilities = self.predict_proba_one(x, **kwargs)
        label = likeliest(probabilities)
        threshold = self._thresholds.find(label)
        if len(probabilities) < 2:
            return no_model(label, threshold, probabilities)
        certainty = probabilities[label]
        accepted = certainty >= threshold
        return Decision(
            label=label,
            certainty=certainty,
            accepted=accepted,
            reason=None if accepted else "ambiguous",
            threshold=threshold,
            winner=label,
            runner_up=likeliest({k: p for k, p in probabilities.items() if k != label}),
            distance=None,
            runner_up_distance=None,
            probabilities=probabilities,
        )
