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
    """River's mini-batch interface for everything that can learn and predict arrays."""

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def mutable_parameters(self) -> frozenset[str]:
        """The parameters that may change in a model that has begun to learn."""
        return frozenset(self._mutable_attributes)

    @property
    @abc.abstractmethod
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of their appearance."""

    @abc.abstractmethod
    def learn_array(self, X: Any, y: Any, features: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of an array one after the other."""

    @abc.abstractmethod
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Class probabilities, a row for each reading and a column for each of `classes`."""

    def predict_array(self, X: Any, features: Sequence[Hashable] | None = None) -> npt.NDArray[Any]:
        """The most probable class of each row."""
        probabilities = self.predict_proba_array(X, features)
        known = list(self.classes)
        if not known:
            return np.full(len(probabilities), None)
        kinds = {type(label) for label in known}
        if len(kinds) == 1 and kinds <= {str, int, float, bool}:
            labels = np.array(known)
        else:  # labels that numpy would convert
            labels = np.empty(len(known), object)
            for code, label in enumerate(known):
                labels[code] = label
        return np.asarray(labels[probabilities.argmax(axis=1)])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn a data frame, row by row."""
        self.learn_array(X, y)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Class probabilities, a column for each class."""
        import pandas as pd  # noqa: PLC0415

        return pd.DataFrame(self.predict_proba_array(X), index=X.index, columns=list(self.classes))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The most probable class of each row."""
        import pandas as pd  # noqa: PLC0415

        labels = self.predict_array(X)
        return pd.Series(list(labels), index=X.index, dtype=None if len(labels) else object)
