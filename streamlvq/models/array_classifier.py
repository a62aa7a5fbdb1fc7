"""River's mini-batch interface on top of arrays."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.vectorize import Rows

if TYPE_CHECKING:
    import pandas as pd

Label = Hashable


class ArrayClassifier(base.MiniBatchClassifier):  # type: ignore[misc]
    """River's mini-batch interface for classifiers that learn and predict arrays."""

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def mutable_parameters(self) -> frozenset[str]:
        """Parameters that may still be changed once the model has started learning."""
        return frozenset(self._mutable_attributes)

    @property
    @abc.abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """Labels seen so far, in order of first appearance."""

    @abc.abstractmethod
    def learn_array(self, X: Any, y: Any, features: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of an array in order."""

    @abc.abstractmethod
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities: one row per reading, one column per entry of `classes`."""

    def predict_array(self, X: Any, features: Sequence[Hashable] | None = None) -> npt.NDArray[Any]:
        """Return the most probable class of each row."""
        probabilities = self.predict_proba_array(X, features)
        labels_seen = list(self.classes)
        if not labels_seen:
            return np.full(len(probabilities), None)
        types = {type(label) for label in labels_seen}
        if len(types) == 1 and types <= {str, int, float, bool}:
            labels = np.array(labels_seen)
        else:  # numpy would convert mixed labels to one type
            labels = np.empty(len(labels_seen), object)
            for code, label in enumerate(labels_seen):
                labels[code] = label
        return np.asarray(labels[probabilities.argmax(axis=1)])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn a data frame row by row."""
        self.learn_array(X, y)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return class probabilities, one column per class."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.predict_proba_array(X), index=X.index, columns=list(self.classes))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the most probable class of each row."""
        import pandas as pd  # noqa: PLC0415

        labels = self.predict_array(X)
        return pd.Series(list(labels), index=X.index, dtype=None if len(labels) else object)
