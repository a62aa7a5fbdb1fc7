"""`PrivateLVQ`: a classifier of streams whose releases are differentially private."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import msgspec
import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Array, Label, Reading, Rows
from streamlvq.errors import NotLearntYetError, ParameterError, SnapshotError
from streamlvq.estimator import (
    DEFAULT_LIMITS,
    EstimatorState,
    StateLimits,
    check_between,
    check_ours,
    exclusive,
    parameters_of,
)
from streamlvq.models import GMLVQ, LGMLVQ
from streamlvq.models.base import CompiledClassifier
from streamlvq.models.parameters import ABSENT_VALUES, check_choice, check_range
from streamlvq.models.tables import check_numbers, check_tables, check_total
from streamlvq.models.validation import MAX_SAMPLES
from streamlvq.models.vectorizer import Vectorizer
from streamlvq.privacy.budget import NoisePlan, batch_length
from streamlvq.privacy.engine import MAX_ROWS, PrivateEngine
from streamlvq.privacy.factor import BUFFERS, ToeplitzFactor
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.released import public_state
from streamlvq.privacy.releases import ReleaseLedger, Spending
from streamlvq.privacy.series import KEY_WORDS
from streamlvq.privacy.vector import BatchVector

METRIC_CHOICES = ("shared", "local")

# Limits of the numbers in a state.
EXACT_SUM = 2.0**51  # of a batch, or of what an encoder's buffer adds to it; four are below 2^53
LARGEST_DECAY = 1.0 - 1e-9
LARGEST_STATISTIC = 1e60
LARGEST_INVERSE = 1e12  # of the deviation of a feature, as a share of half its bounds
SCALE_ROUNDING = 1e-6


class PrivateSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Counters of a private model that do not follow from parameters and arrays."""

    samples: int
    number: int  # of the next release
    position: int  # readings in the rows
    taken: int  # readings of the current batch
    trained: int  # 1 after a recorded log


@dataclass(eq=False, repr=False)
class PrivateLVQ(CompiledClassifier[PrivateEngine]):
    """LVQ whose model is made of differentially private releases alone.

    A first batch gives the scale of each feature, a silent warm-up the first model, and from then
    on each batch of readings one release: class sums, counts, second moments and a clipped gradient
    as one vector, with one sensitivity and noise correlated over time. With a half-life the promise
    holds for ever. Prototypes, metrics and probabilities are made of releases, so the model itself
    may be known to everybody: share `released_model()`. The *state* holds the current batch and is
    as secret as the readings: for checkpoints only, and for one model at a time (two copies that go
    on learning would each release the same readings). So copies, by `copy` or `pickle`, decide but
    release nothing before they have a ledger: see `use_ledger`.

    Parameters
    ----------
    privacy
        What is promised; a `Privacy` or a mapping with its fields.
    metric
        `"shared"` by all classes, or `"local"`: one for each class, which needs an epsilon of about
        4 or 40 000 readings.
    step
        How far the mean gradient of 256 readings moves the prototypes.
    radius
        Largest norm of a standardised reading, in roots of the number of features.
    clip
        Largest norm of a gradient.
    absent
        What a feature means that a reading does not mention: `"missing"` or `"zero"`. A missing
        value counts as the mean that was released for its class.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import Privacy, PrivateLVQ

    >>> rng = np.random.default_rng(1)
    >>> y = rng.integers(3, size=12_000)
    >>> X = rng.normal(size=(12_000, 3)) + 3 * np.eye(3)[y]

    >>> privacy = Privacy(1.0, bounds={name: (-4, 8) for name in "abc"}, classes=[0, 1, 2])
    >>> model = PrivateLVQ(privacy)
    >>> model.learn_array(X[:10_000], y[:10_000])
    >>> float((model.predict_array(X[10_000:]) == y[10_000:]).mean())
    0.9
    >>> model.releases, type(model.released_model()).__name__
    (23, 'GMLVQ')

    """

    _sizes = PrivateSizes
    shareable: ClassVar[bool] = False  # its state; `released_model()` is

    privacy: Privacy | Mapping[str, Any]
    metric: str = "shared"
    step: float = 4.0
    radius: float = 1.0
    clip: float = 1.0
    absent: str = "missing"

    def __post_init__(self) -> None:
        if isinstance(self.privacy, Mapping):
            self.privacy = Privacy.from_mapping(self.privacy)
        super().__post_init__()
        features = self._promise.features
        self._vectorizer = Vectorizer(features, ABSENT_VALUES[self.absent])
        self._sparse_readings = None
        self._codes = {label: code for code, label in enumerate(self._promise.classes)}
        self._ledger: ReleaseLedger | None = None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"privacy": {"epsilon": 1.0, "bounds": {"x": [0.0, 1.0]}, "classes": [False, True]}}

    @property
    def _promise(self) -> Privacy:
        return cast(Privacy, self.privacy)

    def _check(self) -> None:
        if not isinstance(self.privacy, Privacy):
            raise ParameterError(
                "PrivateLVQ", "privacy", f"expected a Privacy or a mapping, got {self.privacy!r}"
            )
        check_choice("PrivateLVQ", "metric", self.metric, METRIC_CHOICES)
        check_choice("PrivateLVQ", "absent", self.absent, tuple(ABSENT_VALUES))
        check_range("PrivateLVQ", "step", self.step, 0, 1e6)
        for name in ("radius", "clip"):
            check_range("PrivateLVQ", name, getattr(self, name), 1e-6, 1e6)
        NoisePlan.of(self.privacy, self._vector())

    @property
    def _mutable_attributes(self) -> set[str]:
        return set()

    def _apply_parameters(self) -> None:
        """Do nothing: no parameter may change."""

    def _vector(self) -> BatchVector:
        d = len(self._promise.features)
        return BatchVector(
            features=d,
            classes=len(self._promise.classes),
            local=self.metric == "local",
            radius=self.radius * math.sqrt(d),
            clip=self.clip,
        )

    def _new_engine(self, features: int) -> PrivateEngine:
        vector = self._vector()
        engine = PrivateEngine(
            self._promise, vector, NoisePlan.of(self._promise, vector), self.step
        )
        engine.ledger = self._ledger
        return engine

    # --- public features and classes -------------------------------------------------------------

    def _admit(self, names: Sequence[Hashable]) -> PrivateEngine:
        unknown = [name for name in names if name not in self._promise.bounds]
        if unknown:
            raise ValueError(
                f"feature: expected one of the public features {list(self.features)}, "
                f"got {unknown[0]!r}"
            )
        if self._engine is None:
            self._engine = self._new_engine(len(self.features))
        return self._engine

    def _learn_new_class(self, x: Reading, y: Label) -> None:
        raise self._unknown_class(y)

    def _unknown_class(self, y: Label) -> ValueError:
        return ValueError(
            f"label: expected one of the public classes {list(self._promise.classes)}, got {y!r}"
        )

    def _admit_samples(
        self, X: Any, y: Any, features: Sequence[Hashable] | None
    ) -> tuple[PrivateEngine, Rows, npt.NDArray[np.int64]]:
        for label in y.tolist() if hasattr(y, "tolist") else list(y):
            if label not in self._codes:
                raise self._unknown_class(label)
        return super()._admit_samples(X, y, features)

    def _classes_changed(self, engine: PrivateEngine) -> None:
        self._labels = list(self._promise.classes) if engine.known else []
        self._by_label = None

    def learn_one(self, x: Reading, y: Label, w: float = 1.0) -> None:
        """Learn a labelled reading; a weight can only be 1, or 0 for a reading that is ignored."""
        super().learn_one(x, y, w)
        if not self._labels and self._engine is not None and self._engine.known:
            self._classes_changed(self._engine)

    def column_names(self, width: int, names: Sequence[Hashable] | None = None) -> list[Hashable]:
        """Return the names of an array's columns: `names` if given, else the public features."""
        if names is None and self._column_names is None and width == len(self.features):
            return list(self.features)
        if names is None and self._column_names is None:
            raise ValueError(
                f"expected {len(self.features)} columns, in the order of `features`, got {width}; "
                "name them with features=[...]"
            )
        return super().column_names(width, names)

    # --- recorded logs ---------------------------------------------------------------------------

    @exclusive
    def train(
        self,
        X: Any,
        y: Any,
        *,
        epochs: int = 1,
        seed: int | None = None,
        features: Sequence[Hashable] | None = None,
        progress: bool | None = None,
    ) -> None:
        """Learn a recorded log: private statistics, then 200 noisy steps on random samples of it.

        The whole promise is spent on the log, and nothing is learnt afterwards. The number of
        readings is public.

        Parameters
        ----------
        X
            A DataFrame, a list of dictionaries, or an array (name its columns with `features`).
        y
            Labels, one per row.
        epochs
            Accepted as other models do: the number of steps is fixed.
        seed
            Accepted as other models do: samples and noise come from the operating system.
        features
            Names of an array's columns.
        progress
            Accepted as other models do.

        """
        check_range("PrivateLVQ", "epochs", epochs, 1, whole=True)
        engine, rows, codes = self._admit_samples(X, y, features)
        engine.train(np.ascontiguousarray(rows), codes)
        self._classes_changed(engine)

    # --- releases --------------------------------------------------------------------------------

    def use_ledger(self, ledger: ReleaseLedger) -> None:
        """Keep account of releases in a ledger, and take from it what was released before."""
        self._ledger = ledger
        if self._engine is not None:
            self._engine.ledger = ledger

    @property
    def releases(self) -> int:
        """Number of releases made so far."""
        return 0 if self._engine is None else self._engine.number

    @property
    def exhausted(self) -> str | None:
        """Why nothing is released any more; None while there is something left to spend."""
        return None if self._engine is None else self._engine.stopped

    def spending(self) -> Spending:
        """Return what all releases of this model cost together."""
        return self._admit(()).spending()

    def released_model(self) -> GMLVQ | LGMLVQ:
        """Return an ordinary model made of releases only: for snapshots, fusion and publication.

        Raises `NotLearntYetError` before the first model.
        """
        engine = self._engine
        if engine is None or engine.model is None:
            raise NotLearntYetError("expected a model with a release, got one before its first")
        state = public_state(
            engine.model, engine.centre, engine.scale, self.features, self._promise.classes
        )
        kind = LGMLVQ if self.metric == "local" else GMLVQ
        return kind.from_state(state)

    # --- state -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ledger": None}

    def blank_state(self) -> EstimatorState:
        """Return the state of an untrained model with these parameters."""
        check_ours(self)
        parameters = {**parameters_of(self), "privacy": self._promise.as_mapping()}
        return EstimatorState(type(self).__name__, parameters)

    @exclusive
    def state(
        self, *, readings: bool = True, limits: StateLimits = DEFAULT_LIMITS
    ) -> EstimatorState:
        """Return a copy of everything, secrets too; `readings=False` is refused once it has any."""
        state = super().state(readings=readings, limits=limits)
        if self._engine is not None:
            return state
        return replace(state, extra={**state.extra, "features": []})  # none is in use yet

    def _tables(self, sizes: PrivateSizes) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return shape and type of each array of a state."""
        vector = self._vector()
        d, size = vector.features, vector.size
        shapes: dict[str, tuple[int, ...]] = {
            "factor": (2, BUFFERS),
            "rows": (MAX_ROWS, d),
            "sums": (size if sizes.number else 2 * d,),
            "encoder": (BUFFERS, size),
            "remainder": (BUFFERS, size),
            "products": (size - vector.gradients,),
            "squares": (2,),
            "lengths": (BUFFERS,),
            "remembered": (1,),
            "decoder": (BUFFERS, vector.gradients),
            "gradient": (vector.gradients,),
            "smooth": (vector.gradients,),
            "centre": (d,),
            "inverse": (d,),
        }
        tables: dict[str, tuple[tuple[int, ...], Any]] = {
            name: (shape, np.float64) for name, shape in shapes.items()
        }
        integers = {"codes": (MAX_ROWS,), "key": (KEY_WORDS,), "chain": (KEY_WORDS,)}
        tables |= {name: (shape, np.int64) for name, shape in integers.items()}
        return tables

    def _save_engine(
        self, engine: PrivateEngine, readings: bool, limits: StateLimits
    ) -> tuple[dict[str, Array], PrivateSizes]:
        if not readings:
            raise SnapshotError(
                "expected a model whose state can leave out readings, got a PrivateLVQ: its state "
                "is secret; share released_model(), and save the state with readings=True at home"
            )
        arrays, counters = engine.save()
        sizes = PrivateSizes(**counters)
        self._check_engine(sizes, arrays, limits)
        return arrays, sizes

    def _check_engine(
        self, sizes: PrivateSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> object:
        vector = self._vector()
        tables = self._tables(sizes)
        check_total(sum(math.prod(shape) for shape, _ in tables.values()), limits)
        check_between("samples", sizes.samples, 0, MAX_SAMPLES)
        check_between("number", sizes.number, 0, MAX_SAMPLES)
        check_between("trained", sizes.trained, 0, 1)
        check_between("position", sizes.position, 0, MAX_ROWS - 1)
        length = batch_length(self._promise, sizes.number)
        check_between("taken", sizes.taken, sizes.position, length - 1)
        check_tables(arrays, tables)
        decay, weight = arrays["factor"]
        check_numbers({"factor": decay}, "factor", 0.0, LARGEST_DECAY)
        check_numbers({"factor": weight}, "factor", 0.0, 1.0)
        encoded = {"encoder": weight[:, None] * arrays["encoder"]}
        for sums, name in ((arrays, "sums"), (encoded, "encoder"), (arrays, "remainder")):
            check_numbers(sums, name, -EXACT_SUM, EXACT_SUM)
        for name in ("encoder", "products", "decoder", "gradient", "smooth"):
            check_numbers(arrays, name, -LARGEST_STATISTIC, LARGEST_STATISTIC)
        check_numbers(arrays, "rows", -1e60, 1e60, gaps=True)
        check_numbers(arrays, "codes", 0, vector.classes - 1)
        for name in ("squares", "lengths", "remembered"):
            check_numbers(arrays, name, 0.0, LARGEST_STATISTIC)
        if sizes.number > 1:
            check_numbers({"squares": arrays["squares"][:1]}, "squares", 1.0, LARGEST_STATISTIC)
        self._check_scales(arrays)
        return vector

    def _check_scales(self, arrays: Mapping[str, Array]) -> None:
        """Raise `SnapshotError` unless each feature has a scale that its bounds allow."""
        low, high = np.array([self._promise.bounds[name] for name in self.features]).T
        half = (high - low) / 2.0
        near = half + 2.0 * np.spacing(np.maximum(np.abs(low), np.abs(high)))
        centre = (arrays["centre"] - (low + high) / 2.0) / near
        check_numbers({"centre": centre}, "centre", -1.0 - SCALE_ROUNDING, 1.0 + SCALE_ROUNDING)
        inverse = arrays["inverse"] * half
        check_numbers({"inverse": inverse}, "inverse", 1.0 - SCALE_ROUNDING, LARGEST_INVERSE)

    def _restore_engine(
        self, sizes: PrivateSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> PrivateEngine:
        self._check_engine(sizes, arrays, limits)
        vector = self._vector()
        planned = NoisePlan.of(self._promise, vector)
        factor = ToeplitzFactor(
            planned.factor.forget,
            planned.factor.releases,
            tuple(arrays["factor"][0].tolist()),
            tuple(arrays["factor"][1].tolist()),
        )
        try:
            plan = NoisePlan.with_factor(
                self._promise, vector, factor, planned.warmup, planned.releases
            )
        except ParameterError as error:
            raise SnapshotError(f"factor: expected one that keeps the promise: {error}") from error
        engine = PrivateEngine(self._promise, vector, plan, self.step)
        try:
            engine.restore(arrays, msgspec.structs.asdict(sizes))
        except np.linalg.LinAlgError as error:
            raise SnapshotError(
                f"expected statistics that a model fits, got others: {error}"
            ) from error
        for name in ("metrics", "prototypes"):
            check_numbers({name: getattr(engine, name)}, name, -1e150, 1e150)
        return engine

    @classmethod
    def _from_names(cls, state: EstimatorState) -> tuple[Self, Any]:
        model, sizes = super()._from_names(state)
        promise = model._promise
        if sizes is None:
            return model, sizes
        if tuple(state.extra["features"]) != promise.features:
            raise SnapshotError(
                f"features: expected those of the promise, got {str(state.extra['features'])[:80]}"
            )
        known = list(promise.classes) if sizes.number > 1 else []
        if list(state.extra["classes"]) != known:
            raise SnapshotError(
                f"classes: expected {str(known)[:80]}, got {str(state.extra['classes'])[:80]}"
            )
        model._codes = {label: code for code, label in enumerate(promise.classes)}
        return model, sizes
