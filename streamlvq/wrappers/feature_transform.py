"""`FeatureTransform`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.errors import ParameterError
from streamlvq.models.array_classifier import Label
from streamlvq.records import Decision, Explanation, Integrated, Prototype
from streamlvq.vectorize import Reading, Rows, to_number, to_rows
from streamlvq.wrappers.chain import innermost, innermost_model, is_pipeline, unwrap
from streamlvq.wrappers.if_inside import available_if, if_wrapped
from streamlvq.wrappers.keywords import accepted, chosen
from streamlvq.wrappers.monotone import Monotone
from streamlvq.wrappers.transform import Transform
from streamlvq.wrappers.windows import Time
from streamlvq.wrappers.wrapper import ClassifierWrapper

if TYPE_CHECKING:
    import pandas as pd


class FeatureTransform(ClassifierWrapper):
    """Wrapper that gives a classifier the logarithm, or another monotone function, of readings.

    Two sensors of one kind may differ by a gain: one reads 1.3 times what the other does. In their
    logarithms that is a constant shift, and fusion can correct models for a shift. Logarithms also
    suit readings that span orders of magnitude.

    It must be the outermost wrapper: all methods take readings in sensor units, and explanations and
    `prototypes` are returned in sensor units. Distances, scales and metrics are those of the
    transformed readings.

    A reading outside the domain of the function is refused and changes nothing. Missing values stay
    missing.

    Parameters
    ----------
    classifier
        Classifier to wrap: a model, alone or in an integrator, a rejector, or both; or any other
        classifier.
    transform
        `"log"` for numbers above 0, where sensors differ by gain; `"log1p"`, log(1 + x), for counts
        and other numbers from 0 up; `"sqrt"` for counts whose noise grows with them; `"asinh"`,
        logarithmic on both sides and linear around 0, for numbers of any sign.
    features
        Names of the features to transform; the others stay unchanged. None for all.

    Examples
    --------

    Two sensors see the same, but the second one is more sensitive by 30 %:

    >>> import numpy as np
    >>> import streamlvq

    >>> random = np.random.default_rng(1)
    >>> def read(state, gain=1.0):
    ...     typical = {"idle": (2.0, 30.0), "busy": (5.0, 20.0)}[state]
    ...     return dict(zip(("current", "speed"), gain * random.lognormal(np.log(typical), 0.1)))

    >>> first, second = (streamlvq.FeatureTransform(streamlvq.GLVQ()) for _ in range(2))
    >>> for k in range(400):
    ...     state = "busy" if k % 2 else "idle"
    ...     first.learn_one(read(state), state)
    ...     second.learn_one(read(state, gain=1.3), state)
    >>> first.predict_one({"current": 4.6, "speed": 21.0})
    'busy'

    To the models inside, all classes are shifted by log(1.3) = 0.26:

    >>> one, other = (streamlvq.Snapshot.of(model).means for model in (first, second))
    >>> [other[state]["speed"] - one[state]["speed"] for state in ("idle", "busy")]
    [0.26, 0.25]

    Prototypes are shown as the sensors would read them:

    >>> {p.label: p.values["speed"] for p in first.prototypes()}
    {'idle': 29.6, 'busy': 20.3}

    >>> first.learn_one({"current": 0.0, "speed": 21.0}, "idle")
    Traceback (most recent call last):
    ...
    ValueError: feature 'current': expected a number above 0 for transform='log', got 0.0; ...

    """

    goes_outermost: ClassVar[bool] = True

    def __init__(
        self,
        classifier: base.Classifier,
        transform: str = "log",
        features: Sequence[Hashable] | None = None,
    ) -> None:
        super().__init__(classifier)
        self.transform = transform
        self.features = features
        owner = type(self).__name__
        self._transform = Transform(transform, features, owner)
        for link in unwrap(classifier):
            if issubclass(type(link), FeatureTransform):  # `isinstance` looks through pipelines
                raise ParameterError(
                    owner,
                    "classifier",
                    f"expected a classifier without a FeatureTransform of its own, got {link}",
                )

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from streamlvq.models import GLVQ  # noqa: PLC0415

        yield {"classifier": GLVQ(rehearsal=2), "transform": "asinh"}

    # --- numbers ---------------------------------------------------------------------------------

    def transform_one(self, x: Reading) -> dict[Hashable, Any]:
        """Return a transformed reading; raise ValueError for values outside the domain."""
        return self._transform.one(x)

    def inverse_one(self, x: Mapping[Any, float]) -> dict[Hashable, float]:
        """Return a transformed reading or prototype in sensor units, clipped to the domain."""
        return self._transform.inverse_one(x)

    def transform_rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return transformed rows; raise ValueError for values outside the domain.

        Parameters
        ----------
        rows
            Values in sensor units, one row per reading; NaN where missing.
        names
            Feature names of the columns; optional if all features are transformed.

        """
        return self._transform.rows(rows, names)

    @property
    def monotone(self) -> Monotone:
        """The function with its domain and inverse."""
        return self._transform.monotone

    def outside(self, rows: Rows, names: Sequence[Hashable] | None = None) -> npt.NDArray[np.bool_]:
        """Return a mask of the values that `transform_rows` would refuse."""
        return self._transform.outside(rows, names)

    def refusals(self, rows: Rows, names: Sequence[Hashable]) -> dict[int, str]:
        """Return an error message for each row that `transform_rows` would refuse."""
        return self._transform.refusals(rows, names)

    def inverse_rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return transformed rows in sensor units, clipped to the domain."""
        return self._transform.inverse_rows(rows, names)

    # --- one reading at a time -------------------------------------------------------------------

    def learn_one(self, x: Reading, y: Label, **kwargs: Any) -> None:
        """Learn a labelled reading."""
        self.classifier.learn_one(self.transform_one(x), y, **self._chosen("learn_one", kwargs))

    def observe_one(self, x: Reading, *, scales: bool = True, **kwargs: Any) -> None:
        """Pass an unlabelled reading to the classifier inside.

        With `scales=False` the innermost model stays unchanged.
        """
        x = self.transform_one(x)
        if scales:
            self._observe(x, kwargs)
        elif issubclass(type(self.classifier), ClassifierWrapper):
            self._observe(x, {**kwargs, "scales": False})

    def predict_one(self, x: Reading, **kwargs: Any) -> Label | None:
        """Return the predicted label; None if there is none."""
        keywords = self._chosen("predict_one", kwargs)
        label: Label | None = self.classifier.predict_one(self.transform_one(x), **keywords)
        return label

    def predict_proba_one(self, x: Reading, **kwargs: Any) -> dict[Label, float]:
        """Return the probability of every class."""
        keywords = self._chosen("predict_proba_one", kwargs)
        probabilities: dict[Label, float] = self.classifier.predict_proba_one(
            self.transform_one(x), **keywords
        )
        return probabilities

    def explain_one(self, x: Reading) -> Explanation:
        """Return the explanation of the innermost model, in sensor units."""
        model, inside = innermost(self.classifier, self.transform_one(x))
        explanation: Explanation = model.explain_one(inside)
        if not self._sees_directly():
            return explanation
        runner_up = explanation.runner_up
        return replace(
            explanation,
            winner=self._shown(explanation.winner),
            runner_up=None if runner_up is None else self._shown(runner_up),
            reading={name: to_number(name, x.get(name)) for name in explanation.reading},
        )

    def _sees_directly(self) -> bool:
        """Return True if no pipeline inside changes units: its steps could not be inverted."""
        return not any(is_pipeline(link) for link in unwrap(self.classifier))

    # --- methods that depend on the classifier inside --------------------------------------------

    def _owner(self, method: str) -> Any:
        """Return the first estimator inside that has a method."""
        return next(link for link in unwrap(self.classifier) if hasattr(link, method))

    def _call_first(self, method: str, x: Reading, keywords: dict[str, Any]) -> Any:
        """Call a method of the first estimator inside that has it, with the transformed reading."""
        x = self.transform_one(x)
        for link in unwrap(self.classifier):
            if hasattr(link, method):
                return getattr(link, method)(x, **keywords)
            if is_pipeline(link):
                x = link.transform_one(x)
        raise AttributeError(method)  # unreachable, see `available_if`

    @available_if
    def decide_one(self, x: Reading, **kwargs: Any) -> Decision:
        """Return the decision of the rejector inside, with certainty and reason."""
        decision: Decision = self._call_first("decide_one", x, kwargs)
        return decision

    @available_if
    def threshold_for(self, label: Label = None) -> float:
        """Return the current threshold of the rejector inside for a predicted label."""
        threshold: float = self._owner("threshold_for").threshold_for(label)
        return threshold

    @available_if
    def record_outcome(self, label: Label | None, certainty: float, y: Label) -> None:
        """Report the true label of an earlier decision to the rejector inside."""
        self._owner("record_outcome").record_outcome(label, certainty, y)

    @available_if
    def integrated_one(
        self, x: Reading, device: Hashable = None, t: Time = None, **kwargs: Any
    ) -> Integrated | None:
        """Return the integrated decision of the integrator inside, with its details."""
        keywords = {"device": device, "t": t, **kwargs}
        answer: Integrated | None = self._call_first("integrated_one", x, keywords)
        return answer

    @available_if
    def starts_segment(self, device: Hashable = None, t: Time = None) -> bool:
        """Return True if a reading at this time would start a new window for its device."""
        starts: bool = self._owner("starts_segment").starts_segment(device, t)
        return starts

    @available_if
    def finish(self, device: Hashable = None) -> list[Integrated]:
        """Return the outstanding decisions of a centred window and empty it."""
        outstanding: list[Integrated] = self._owner("finish").finish(device)
        return outstanding

    @available_if
    def reset(self, device: Hashable = None) -> None:
        """Empty the window of a device."""
        self._owner("reset").reset(device)

    @available_if
    def relsim_one(self, x: Reading) -> float | None:
        """Return the relative similarity of a reading, see `LVQClassifier.relsim_one`."""
        relsim: float | None = self._call_first("relsim_one", x, {})
        return relsim

    @available_if
    def prototypes(self) -> list[Prototype]:
        """Return the prototypes of the innermost model, in sensor units."""
        found: list[Prototype] = self._owner("prototypes").prototypes()
        return [self._shown(each) for each in found] if self._sees_directly() else found

    def _shown(self, prototype: Prototype) -> Prototype:
        return replace(prototype, values=self.inverse_one(prototype.values))

    # --- arrays and data frames ------------------------------------------------------------------

    @if_wrapped
    def learn_array(self, X: Any, y: Any, features: Sequence[Hashable] | None = None) -> None:
        """Learn the rows of an array in order, exactly as `learn_one` would."""
        rows, names = self._rows(X, features)
        self.classifier.learn_array(rows, y, features=names)

    @if_wrapped
    def predict_proba_array(self, X: Any, features: Sequence[Hashable] | None = None) -> Rows:
        """Return class probabilities, one row per reading."""
        rows, names = self._rows(X, features)
        probabilities: Rows = self.classifier.predict_proba_array(rows, features=names)
        return probabilities

    @if_wrapped
    def predict_array(self, X: Any, features: Sequence[Hashable] | None = None) -> npt.NDArray[Any]:
        """Return the most probable class of each row."""
        rows, names = self._rows(X, features)
        labels: npt.NDArray[Any] = self.classifier.predict_array(rows, features=names)
        return labels

    @if_wrapped
    def learn_many(self, X: pd.DataFrame, y: pd.Series, **kwargs: Any) -> None:
        """Learn a data frame row by row."""
        self._many("learn_many", X, y, **kwargs)

    @if_wrapped
    def predict_proba_many(self, X: pd.DataFrame, **kwargs: Any) -> pd.DataFrame:
        """Return class probabilities, one column per class."""
        return self._many("predict_proba_many", X, **kwargs)

    @if_wrapped
    def predict_many(self, X: pd.DataFrame, **kwargs: Any) -> pd.Series:
        """Return the most probable class of each row."""
        return self._many("predict_many", X, **kwargs)

    def _many(self, method: str, X: pd.DataFrame, *labels: Any, **kwargs: Any) -> Any:
        keywords = chosen(accepted(self.classifier, method), kwargs) if kwargs else kwargs
        return getattr(self.classifier, method)(self._transform.frame(X), *labels, **keywords)

    @if_wrapped
    def train(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 30,
        seed: int | None = 1,
        features: Sequence[Hashable] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Train on a recorded set in several passes, see `LVQClassifier.train`."""
        rows, names = self._rows(X, features)
        self.classifier.train(rows, y, epochs=epochs, seed=seed, features=names, progress=progress)

    def _rows(
        self, X: Any, features: Sequence[Hashable] | None
    ) -> tuple[Any, Sequence[Hashable] | None]:
        """Return a transformed batch and its column names (None if it has none)."""
        if len(X) == 0:
            return X, features
        rows, given = to_rows(X, features)
        return self._transform.rows(rows, given or self._names(rows.shape[1])), given

    def _names(self, width: int) -> Sequence[Hashable]:
        """Return the model's feature names for an array without column names."""
        model = innermost_model(self.classifier)
        first = model.members[0] if hasattr(model, "members") else model
        names: Sequence[Hashable] = first.column_names(width)
        return names

    # --- state -----------------------------------------------------------------------------------

    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return empty memory: a transform is stateless."""
        return {}, {}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Raise ValueError unless the memory is empty."""
        if arrays or extra:
            raise ValueError(f"expected nothing to remember, got {sorted({*arrays, *extra})[:9]}")
