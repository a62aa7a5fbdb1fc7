"""`RelSimRejector`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.records import Decision
from streamlvq.robustness import is_beyond
from streamlvq.vectorize import Reading
from streamlvq.wrappers.chain import innermost, is_pipeline
from streamlvq.wrappers.integrator import TimeIntegrator
from streamlvq.wrappers.rejector import Rejector, documented_rejector, likeliest, no_model
from streamlvq.wrappers.wrapper import ClassifierWrapper


@documented_rejector
class RelSimRejector(Rejector):
    """Rejector of readings that are about equally close to two classes, or far from all.

    The certainty of a decision is the relative similarity of the reading to its closest class,
    (d2 - d1) / (d2 + d1) of the squared distances d1 to the closest and d2 to the second closest
    class. It is computed by the innermost model for the current reading, while label and
    probabilities come from the wrapped classifier, which may integrate over time. If the reading is
    closest to another class than that label, the certainty is 0.

    `predict_one` returns None for a rejected reading, and `decide_one` gives the reason: "outlier" if
    it is farther from the winner than any reading that the threshold accepts, else "ambiguous".

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, metrics
    >>> import streamlvq

    >>> model = streamlvq.RelSimRejector(streamlvq.LGMLVQ(), target_rate=0.1, memory=200)
    >>> kept, rejected = metrics.Accuracy(), 0
    >>> for x, y in datasets.ImageSegments():
    ...     label = model.predict_one(x)
    ...     if label is None:
    ...         rejected += 1
    ...     else:
    ...         kept.update(y, label)
    ...     model.learn_one(x, y)
    >>> rejected / 2310, kept.get()  # of all, 0.94 are right
    (0.10, 0.97)

    >>> strange = {name: 2 * value for name, value in x.items()}
    >>> decision = model.decide_one(strange)
    >>> decision.accepted, decision.reason
    (False, 'outlier')

    References
    ----------
    - Fischer, L., Hammer, B., Wersing, H. (2015). Efficient rejection strategies for prototype-based classification. Neurocomputing 169, 334-342.
    - Fischer, L., Hammer, B., Wersing, H. (2016). Optimal local rejection for classifiers. Neurocomputing 214, 445-457.
    - Brinkrolf, J. (2023). Learning vector quantization for the real-world: privacy, robustness, and sparsity. Dissertation, Bielefeld University, sections 4.2 and 4.3.

    """

    _certainty: ClassVar[str] = "RELSIM"

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2), "threshold": 0.2}
        yield {"classifier": GLVQ(rehearsal=2), "target_rate": 0.1, "memory": 50}

    def _check_chain(self, chain: list[Any]) -> None:
        super()._check_chain(chain)
        *wrappers, model = chain
        if not getattr(model, "has_relsim", False):
            raise ParameterError(
                "RelSimRejector",
                "classifier",
                f"expected a model of streamlvq with prototypes, got {model}, which has no RelSim",
                instead="ProbabilityRejector",
            )
        if any(issubclass(type(link), TimeIntegrator) and link.delay for link in wrappers):
            raise ParameterError(
                "RelSimRejector",
                "classifier",
                "expected decisions about the latest reading, whose RelSim is known, "
                "got a centred window; use ProbabilityRejector, or centered=False",
            )
        # Pipelines and our own wrappers ask the model once per prediction, so its last answer is
        # about the reading just predicted and need not be computed again.
        direct = all(is_pipeline(e) or issubclass(type(e), ClassifierWrapper) for e in wrappers)
        self._model: LVQClassifier | None = model if direct else None

    def _judge(self, x: Reading, keywords: dict[str, Any]) -> tuple[Label | None, float]:
        model = self._model
        if model is None:
            label = likeliest(self.predict_proba_one(x, **keywords))
            return label, self._predicted_model(x).last_relsim(label)
        if not self._takes_all:
            keywords = self._chosen("predict_one", keywords)
        label = self.classifier.predict_one(x, **keywords)
        return label, model.last_relsim(label)

    def _predicted_model(self, x: Reading) -> LVQClassifier:
        """Return the innermost model after it has predicted this reading."""
        if self._model is not None:
            return self._model
        model: LVQClassifier
        model, x = innermost(self.classifier, x)
        model.predict_labels_one(x)
        return model

    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision on a reading, with its certainty and the reason of a rejection."""
        probabilities = self.predict_proba_one(x, **kwargs)
        label = likeliest(probabilities)
        threshold = self._thresholds.find(label)
        model = self._predicted_model(x)
        pair = model.last_closest()
        if pair is None:
            return no_model(label, threshold, probabilities)
        labels = model.known_labels
        winner = labels[pair.winner]
        certainty = pair.relsim if winner == label else 0.0
        reason = None
        if not certainty >= threshold:
            separation = model.last_separation(pair)
            reason = self.reason_for(threshold, pair.relsim, pair.distance, separation)
        return Decision(
            label=label,
            certainty=certainty,
            accepted=reason is None,
            reason=reason,
            threshold=threshold,
            winner=winner,
            runner_up=labels[pair.runner_up],
            distance=pair.distance,
            runner_up_distance=pair.runner_up_distance,
            probabilities=probabilities,
        )

    def reason_for(
        self, threshold: float, relsim: float, distance: float, separation: float
    ) -> str:
        """Return the reason of a rejection: "ambiguous" or "outlier"."""
        # A threshold above 1 rejects every reading, near or far.
        beyond = relsim < threshold <= 1.0 and is_beyond(threshold, distance, separation)
        return "outlier" if beyond else "ambiguous"
