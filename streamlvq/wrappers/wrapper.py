"""What all wrappers have in common."""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar, Self

from river import base

from streamlvq.errors import ParameterError
from streamlvq.records import Explanation
from streamlvq.vectorize import Reading
from streamlvq.wrappers.chain import observe, reach
from streamlvq.wrappers.keywords import accepted, chosen

METHODS = ("learn_one", "observe_one", "predict_one", "predict_proba_one")


class ClassifierWrapper(base.Wrapper, base.Classifier):  # type: ignore[misc]
    """Base of the wrappers: hands on what it is asked, with the keywords that are of use inside."""

    _chooses_keywords: ClassVar[bool] = True

    def __init__(self, classifier: base.Classifier) -> None:
        if not isinstance(classifier, base.Classifier):
            raise ParameterError(
                type(self).__name__, "classifier", f"expected a classifier, got {classifier!r}"
            )
        self.classifier = classifier
        self._accepted = {method: accepted(classifier, method) for method in METHODS}
        self._takes_all = all(names is None for names in self._accepted.values())

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.classifier

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A fresh wrapper around a fresh classifier, or with its attributes a copy of both.

        River's own clone would keep the wrapper's memory but not that of the classifier, and what
        the one remembers is about the classes of the other. New parameters start afresh.
        """
        if include_attributes and not new_params:
            return copy.deepcopy(self)
        clone: Self = super().clone(new_params)
        return clone

    def moved_to(self, model: Any) -> Self:
        """Return a copy around another model; windows and thresholds follow their classes.

        Devices keep their windows and thresholds their certainties, as copies. What is about a class
        that the model does not know is dropped. Raises ValueError for a model that a wrapper cannot
        work with.
        """
        names = [n for n in inspect.signature(type(self)).parameters if n != "classifier"]
        # `issubclass`, because `isinstance` sees through pipelines
        wraps = issubclass(type(self.classifier), ClassifierWrapper)
        inner = self.classifier.moved_to(model) if wraps else model
        new = type(self)(inner, **{name: getattr(self, name) for name in names})
        new._continue(self, model)
        return new

    def _continue(self, former: ClassifierWrapper, model: Any) -> None:
        """Take over what a wrapper of the same kind remembers about readings, for this model."""

    def _chosen(self, method: str, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords that the classifier's method has use for."""
        return chosen(self._accepted[method], keywords) if keywords else keywords

    def _observe(self, x: Reading, keywords: dict[str, Any]) -> None:
        observe(self.classifier, x, self._chosen("observe_one", keywords))

    def explain_one(self, x: Reading) -> Explanation:
        """The explanation of the innermost model, if it is one of ours."""
        model, x = reach(self.classifier, x)
        explanation: Explanation = model.explain_one(x)
        return explanation
