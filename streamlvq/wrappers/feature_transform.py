"""`FeatureTransform`: functions of features before a classifier, and private ones removed."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.arrays import Floats, Label, Reading, Rows
from streamlvq.errors import ParameterError
from streamlvq.estimator import DEFAULT_LIMITS, EstimatorState, StateLimits
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.models.vectorizer import EXPECTED_NUMBER, Vectorizer, to_number, to_rows
from streamlvq.records import Decision, Explanation, Integrated, Prototype
from streamlvq.wrappers.base import (
    ClassifierWrapper,
    accepted,
    available_if,
    chosen,
    if_wrapped,
    innermost,
    innermost_model,
    is_pipeline,
    unwrap,
)
from streamlvq.wrappers.private_map import PrivateMap
from streamlvq.wrappers.time_integrator import Time

if TYPE_CHECKING:
    import pandas as pd


# --- monotone functions --------------------------------------------------------------------------

Ufunc = Callable[[Floats], Any]


@dataclass(frozen=True, slots=True)
class Monotone:
    """Strictly increasing function for readings of at least `low`.

    Even a single reading goes through the array functions: scalar functions could differ in the last
    bit, and results would depend on how readings are split into batches.
    """

    name: str
    forward: Ufunc
    backward: Ufunc
    low: float
    expected: str  # the domain, in words
    advice: str  # what to do about values outside of it

    def outside(self, values: Floats) -> npt.NDArray[np.bool_]:
        """Return a mask of the values outside the domain; NaN (missing) is inside."""
        outside: npt.NDArray[np.bool_] = (values < self.low) | (values > LARGEST_VALUE)
        return outside

    def surely_takes(self, numbers: Sequence[float]) -> bool:
        """Return True only if no value is outside the domain: a fast test that may miss.

        Comparisons with NaN are false, so `min` and `max` return NaN if it comes first and ignore
        it otherwise.
        """
        return not numbers or (self.low <= min(numbers) and max(numbers) <= LARGEST_VALUE)

    def apply(self, values: Floats) -> Floats:
        """Apply the function to values inside the domain."""
        out: Floats = self.forward(np.ascontiguousarray(values, np.float64))
        return out

    def invert(self, values: Floats) -> Floats:
        """Apply the inverse and clip to the domain: prototypes may lie outside its image."""
        with np.errstate(over="ignore"):
            readings = self.backward(np.ascontiguousarray(values, np.float64))
        out: Floats = np.clip(readings, self.low, LARGEST_VALUE)
        return out

    def complaint(self, value: float) -> str:
        """Return the error message for a value outside the domain."""
        if abs(value) > LARGEST_VALUE:
            return f"{EXPECTED_NUMBER}, got {value!r}"
        return f"expected {self.expected} for transform={self.name!r}, got {value!r}; {self.advice}"


def _square(values: Floats) -> Floats:
    return np.square(np.maximum(values, 0.0))  # NaN stays NaN


MONOTONE = {
    each.name: each
    for each in (
        Monotone(
            name="log",
            forward=np.log,
            backward=np.exp,
            low=math.ulp(0.0),
            expected="a number above 0",
            advice="'log1p' takes 0 as well, 'asinh' any number; missing values are NaN",
        ),
        Monotone(
            name="log1p",
            forward=np.log1p,
            backward=np.expm1,
            low=math.nextafter(-1.0, 0.0),
            expected="a number above -1",
            advice="'asinh' takes any number; missing values are NaN",
        ),
        Monotone(
            name="sqrt",
            forward=np.sqrt,
            backward=_square,
            low=0.0,
            expected="a number of at least 0",
            advice="'asinh' takes any number; missing values are NaN",
        ),
        Monotone(
            name="asinh",
            forward=np.arcsinh,
            backward=np.sinh,
            low=-LARGEST_VALUE,
            expected="a number",
            advice="missing values are NaN",
        ),
    )
}

_IDENTITY = Monotone(
    name="none",
    forward=np.positive,
    backward=np.positive,
    low=-LARGEST_VALUE,
    expected="a number",
    advice="missing values are NaN",
)


# --- transforms of readings ----------------------------------------------------------------------


class Transform:
    """Monotone function of selected features (None: all), then a map of private ones.

    The function leaves private features as they are; without a name there is none.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.wrappers.feature_transform import Transform

    >>> transform = Transform("sqrt", features=["counts"])
    >>> rows = np.array([[16.0, 20.5], [np.nan, 21.0]])
    >>> inside = transform.rows(rows, ["counts", "degrees"])
    >>> inside.tolist()
    [[4.0, 20.5], [nan, 21.0]]
    >>> transform.inverse_rows(inside, ["counts", "degrees"]).tolist()
    [[16.0, 20.5], [nan, 21.0]]

    """

    def __init__(
        self,
        name: str | None,
        features: Sequence[Hashable] | None = None,
        private: PrivateMap | Mapping[str, Any] | None = None,
        owner: str = "Transform",
    ) -> None:
        self._check(name, features, private, owner)
        self.name = name
        self.features = None if features is None else tuple(features)
        self.private = _private_map(private, owner)
        selected = [] if name is None else features
        self._selected = None if selected is None else frozenset(selected)
        self._unchanged = frozenset(self.private.private if self.private is not None else ())

    @staticmethod
    def _check(name: Any, features: Any, private: Any, owner: str) -> None:
        if name is None and private is not None:
            if features is not None:
                raise ParameterError(
                    owner, "features", f"expected None with transform=None, got {features!r}"
                )
            return
        if not isinstance(name, str) or name not in MONOTONE:
            known = ", ".join(MONOTONE)
            raise ParameterError(owner, "transform", f"expected one of {known}, got {name!r}")
        if features is None:
            return
        try:
            good = not isinstance(features, str) and len(features) == len(set(features)) > 0
        except TypeError:
            good = False
        if not good:
            raise ParameterError(
                owner,
                "features",
                f"expected distinct feature names, or None for all, got {features!r}",
            )

    @property
    def monotone(self) -> Monotone:
        """The function with its domain and inverse."""
        return _IDENTITY if self.name is None else MONOTONE[self.name]

    def _changes(self, name: Hashable) -> bool:
        """Return True for a feature that the monotone function changes."""
        chosen = self._selected is None or name in self._selected
        return chosen and name not in self._unchanged

    def passing(self, names: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the columns that `rows` makes of those with these names."""
        return names if self.private is None else self.private.passing(names)

    # --- arrays ----------------------------------------------------------------------------------

    def _columns(self, names: Sequence[Hashable] | None) -> list[int] | None:
        """Return the columns to transform; None for all."""
        if self._selected is None and self.private is None:
            return None
        if names is None:
            because = "private=..." if self.private is not None else f"features={self.features!r}"
            raise ValueError(
                f"expected the names of the columns because of {because}, got none: "
                "pass them as names=[...]"
            )
        return [column for column, name in enumerate(names) if self._changes(name)]

    def outside(self, rows: Rows, names: Sequence[Hashable] | None = None) -> npt.NDArray[np.bool_]:
        """Return a mask of the values outside the domain."""
        columns = self._columns(names)
        if columns is None:
            return self.monotone.outside(rows)
        outside = np.zeros(np.shape(rows), np.bool_)
        outside[:, columns] = self.monotone.outside(rows[:, columns])
        return outside

    def refusals(self, rows: Rows, names: Sequence[Hashable]) -> dict[int, str]:
        """Return an error message for each row with a value outside the domain."""
        outside = self.outside(rows, names)
        bad = np.flatnonzero(outside.any(axis=1)).tolist()
        first = (
            outside[bad].argmax(axis=1).tolist() if bad else []
        )  # argmax needs at least one column
        found = {
            row: f"feature {names[column]!r}: {self.monotone.complaint(float(rows[row, column]))}"
            for row, column in zip(bad, first, strict=True)
        }
        if self.private is None:
            return found
        good = np.setdiff1d(np.arange(len(rows)), bad)
        inside = self._mapped(self.monotone.apply, rows[good], names)
        large = self.private.refusals(inside, names)
        return dict(sorted({**found, **{int(good[k]): said for k, said in large.items()}}.items()))

    def rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return transformed rows; raise ValueError for values outside the domain.

        With a map of private features their columns are `passing(names)`.
        """
        outside = self.outside(rows, names)
        if outside.any():
            row, column = np.argwhere(outside)[0].tolist()
            name = column if names is None else names[column]
            complaint = self.monotone.complaint(float(rows[row, column]))
            raise ValueError(f"feature {name!r} of row {row}: {complaint}")
        inside = self._mapped(self.monotone.apply, rows, names)
        if self.private is None or names is None:
            return inside
        return self.private.rows(inside, names)

    def inverse_rows(self, rows: Rows, names: Sequence[Hashable] | None = None) -> Rows:
        """Return rows in sensor units, clipped to the domain.

        What a map of private features removed stays removed: these are the readings of somebody
        whose private values are the mean ones.
        """
        return self._mapped(self.monotone.invert, rows, names)

    def _mapped(
        self, function: Callable[[Floats], Floats], rows: Rows, names: Sequence[Hashable] | None
    ) -> Rows:
        columns = self._columns(names)
        if columns is None:
            return function(rows)
        out = np.array(rows, np.float64, order="C")
        out[:, columns] = function(out[:, columns])
        return out

    def frame(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return a transformed copy of a data frame; other columns may hold any type."""
        if self.private is not None:
            return self._passing_frame(X)
        columns = self._columns(list(X.columns))
        names = list(X.columns) if columns is None else [X.columns[k] for k in columns]
        inside = self.rows(X[names].to_numpy(dtype=np.float64, na_value=np.nan), names)
        frame = X.copy()
        for name, column in zip(names, inside.T, strict=True):
            frame[name] = column
        return frame

    def _passing_frame(self, X: pd.DataFrame) -> pd.DataFrame:
        names = list(X.columns)
        rows = self.rows(X.to_numpy(dtype=np.float64, na_value=np.nan), names)
        frame = X[list(self.passing(names))].copy()
        for name, column in zip(frame.columns, rows.T, strict=True):
            frame[name] = column
        return frame

    # --- readings --------------------------------------------------------------------------------

    def one(self, x: Reading) -> dict[Hashable, Any]:
        """Return a transformed reading; raise ValueError for values outside the domain."""
        Vectorizer.check_mapping(x)
        names, numbers = self._numbers(x)
        if not self.monotone.surely_takes(numbers):
            self._refuse_outside(names, numbers)
        transformed = self.monotone.apply(np.frombuffer(numbers)).tolist()
        changed = dict(zip(names, transformed, strict=True))
        if self.private is not None:
            return self.private.one({**x, **changed})
        return changed if self._selected is None else {**x, **changed}

    def _refuse_outside(self, names: Sequence[Hashable], numbers: Sequence[float]) -> None:
        outside = self.monotone.outside(np.array(numbers))
        if outside.any():
            k = int(outside.argmax())
            raise ValueError(f"feature {names[k]!r}: {self.monotone.complaint(numbers[k])}")

    def inverse_one(self, x: Mapping[Any, float]) -> dict[Hashable, float]:
        """Return a reading or prototype in sensor units."""
        names, numbers = self._numbers(x)
        readings = self.monotone.invert(np.frombuffer(numbers)).tolist()
        return {**x, **dict(zip(names, readings, strict=True))}

    def _numbers(self, x: Reading) -> tuple[list[Hashable], array[float]]:
        """Return the features to transform and their values, NaN where missing."""
        every = self._selected is None and not self._unchanged
        names = list(x) if every else [name for name in x if self._changes(name)]
        try:
            numbers = array("d", [x[name] for name in names])
        except (TypeError, ValueError, OverflowError):  # None or not a number: take the slow path
            numbers = array("d", [to_number(name, x[name]) for name in names])
        return names, numbers


def _private_map(private: Any, owner: str) -> PrivateMap | None:
    if private is None or isinstance(private, PrivateMap):
        return private
    try:
        return PrivateMap.parse(private)
    except (ValueError, TypeError) as error:
        raise ParameterError(owner, "private", str(error)) from error


# --- the wrapper ---------------------------------------------------------------------------------


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
    private
        Map that removes private features and what the others tell of them: a `PrivateMap`, or what
        its `to_dict` returns. It is applied after `transform`, which leaves private features as
        they are and may be None then; fit it to readings as `fit_private` does. Prototypes and
        explanations cannot be turned back: they are those of somebody whose private values are the
        mean ones.

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
        transform: str | None = "log",
        features: Sequence[Hashable] | None = None,
        private: PrivateMap | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(classifier)
        self.transform = transform
        self.features = features
        owner = type(self).__name__
        self._transform = Transform(transform, features, private, owner)
        hiding = self._transform.private
        self.private = None if hiding is None else hiding.to_dict()
        model = innermost_model(classifier)
        if hiding is not None and getattr(model, "absent", "missing") == "zero":
            raise ParameterError(
                owner,
                "private",
                "expected a model with absent='missing', got absent='zero': a feature that a "
                "reading does not mention would tell of the private ones",
            )
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

    @staticmethod
    def fit_private(
        X: Any,
        private: Sequence[Hashable],
        transform: str | None = None,
        features: Sequence[Hashable] | None = None,
        *,
        names: Sequence[Hashable] | None = None,
    ) -> PrivateMap:
        """Fit a map of private features to a recorded log, behind the same transform.

        Parameters
        ----------
        X
            Readings in sensor units: dictionaries, a DataFrame, or an array with `names`.
        private
            Names of the private features.
        transform, features
            Those of the wrapper that the map is for.
        names
            Names of an array's columns.

        """
        rows, columns = to_rows(X, names)
        if transform is not None and columns is not None:
            known = [name for name in columns if name not in set(private)]
            own = known if features is None else [name for name in features if name in known]
            rows = Transform(transform, own).rows(rows, columns)
        return PrivateMap.fit(rows, private, columns)

    @property
    def private_features(self) -> tuple[Hashable, ...]:
        """Names of the private features that are removed."""
        hiding = self._transform.private
        return () if hiding is None else hiding.private

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
            Feature names of the columns; optional if all features are transformed and none is
            private. Columns of the result are `passing(names)`.

        """
        return self._transform.rows(rows, names)

    def passing(self, names: Sequence[Hashable]) -> Sequence[Hashable]:
        """Return the features that the classifier sees of these."""
        return self._transform.passing(names)

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

    @available_if
    def predict_labels_one(self, x: Reading) -> tuple[Sequence[Label], Rows] | None:
        """Return labels and an array of their probabilities, see `LVQClassifier`."""
        answer: tuple[Sequence[Label], Rows] | None = self._call_first("predict_labels_one", x, {})
        return answer

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
            reading=self._reading(x, explanation.reading),
        )

    def _reading(self, x: Reading, inside: Mapping[Any, float]) -> dict[Hashable, float]:
        if self.private is not None:  # its own values would tell of the private ones
            return self.inverse_one(inside)
        return {name: to_number(name, x.get(name)) for name in inside}

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
    def last_evidence(self) -> Floats | None:
        """Return what the integrator inside needs to learn the label of the last reading later."""
        evidence: Floats | None = self._owner("last_evidence").last_evidence()
        return evidence

    @available_if
    def record_label(self, evidence: Floats | None, y: Label, device: Hashable = None) -> None:
        """Report the true label of an earlier reading to the integrator inside."""
        self._owner("record_label").record_label(evidence, y, device)

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
    def learn_array(
        self, X: Any, y: Any, features: Sequence[Hashable] | None = None, *, w: Any = None
    ) -> None:
        """Learn the rows of an array in order, exactly as `learn_one` would."""
        rows, names = self._rows(X, features)
        self.classifier.learn_array(rows, y, features=names, w=w)

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
        if self.private is not None:
            passing = None if given is None else self._transform.passing(given)
            return self._transform.rows(rows, given), passing
        return self._transform.rows(rows, given or self._names(rows.shape[1])), given

    def _names(self, width: int) -> Sequence[Hashable]:
        """Return the model's feature names for an array without column names."""
        names: Sequence[Hashable] = innermost_model(self.classifier).column_names(width)
        return names

    # --- state -----------------------------------------------------------------------------------

    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of the wrapper and the classifier inside; without a map it says nothing."""
        state = super().state(readings=readings, limits=limits)
        kept = {n: v for n, v in state.parameters.items() if n != "private" or v is not None}
        return replace(state, parameters=kept)

    @classmethod
    def from_state_around(cls, state: EstimatorState, inner: Any) -> Self:
        """Validate a state, then rebuild the wrapper around what it wrapped, which is at hand."""
        parameters = {"private": None, **state.parameters}
        return super().from_state_around(replace(state, parameters=parameters), inner)

    def memory_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return empty memory: a transform is stateless."""
        return {}, {}

    def restore_memory(self, arrays: dict[str, Any], extra: dict[str, Any]) -> None:
        """Raise ValueError unless the memory is empty."""
        if arrays or extra:
            raise ValueError(f"expected nothing to remember, got {sorted({*arrays, *extra})[:9]}")
