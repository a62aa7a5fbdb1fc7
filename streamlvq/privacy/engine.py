"""`PrivateEngine`: batches of readings, their releases, and the model made of releases."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from streamlvq.arrays import Array, Floats, Ints, Rows
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.tables import TableKernel
from streamlvq.privacy.budget import LogPlan, NoisePlan, batch_length
from streamlvq.privacy.noise import bernoulli
from streamlvq.privacy.privacy import Privacy
from streamlvq.privacy.released import ReleasedModel, fit_model, fit_scales
from streamlvq.privacy.releases import (
    CopyError,
    LedgerExhaustedError,
    LedgerMismatchError,
    ReleaseLedger,
    Spending,
)
from streamlvq.privacy.series import BatchSeal, ReleaseSeries, draw
from streamlvq.privacy.vector import (
    COUNT_WEIGHT,
    GRADIENT_WEIGHT,
    GRID,
    SECOND_WEIGHT,
    SUM_WEIGHT,
    BatchVector,
)

TRAINED = "a model of a recorded log learns no more"
MAX_ROWS = 256  # readings kept before they are added up
MEAN_OF = 256.0  # readings whose mean gradient is a step
MIXTURE_SHARPNESS = 0.5  # of a mixture of Gaussians with unit variance


class PrivateEngine:
    """Secret sums of the current batch, and what releases have said so far.

    A batch, or a recorded log, is learnt by a twin, which is taken over in one step when everything
    is released: whatever interrupts learning leaves all as it was before.

    Parameters
    ----------
    privacy
        The promise.
    vector
        What a batch says.
    plan
        Noise of the releases.
    step
        How far the mean gradient of 256 readings moves prototypes.

    """

    module: ClassVar[str] = "private"
    learn_kernel = TableKernel("learn")
    predict_kernel = TableKernel("predict")
    _predict_rows_kernel = TableKernel("predict", "_rows")

    def __init__(self, privacy: Privacy, vector: BatchVector, plan: NoisePlan, step: float) -> None:
        self.privacy, self.vector, self.plan, self.step = privacy, vector, plan, step
        at_private = kernels(self.module)
        d, n = vector.features, vector.classes
        self.floats = np.zeros(at_private.PRIVATE_NUMBERS)
        self.ints = np.zeros(at_private.PRIVATE_HEADER, np.int64)
        self.ints[at.N_FEATURES] = d
        self._position, self._length = at_private.POSITION, at_private.LENGTH
        self._taken, self._number = at_private.TAKEN, at_private.NUMBER
        self.floats[: at_private.SHARPNESS + 1] = (
            vector.radius,
            vector.clip,
            GRID,
            SUM_WEIGHT,
            COUNT_WEIGHT,
            SECOND_WEIGHT,
            GRADIENT_WEIGHT,
            MIXTURE_SHARPNESS,
        )
        low, high = np.array([privacy.bounds[name] for name in privacy.features]).T
        self.low, self.high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        self.rows, self.codes = np.zeros((MAX_ROWS, d)), np.zeros(MAX_ROWS, np.int64)
        self.sums = np.zeros(2 * d)
        self.seal = BatchSeal()
        statistics = vector.size - vector.gradients
        self.series = ReleaseSeries(plan.factor, statistics, vector.gradients)
        self.centre, self.inverse = (low + high) / 2.0, 2.0 / (high - low)
        self.missing = np.zeros((n, d))
        metrics = n if vector.local else 1
        self.metrics = np.broadcast_to(np.eye(d), (metrics, d, d)).copy()
        self.prototypes = np.zeros((0, d))
        self.model: ReleasedModel | None = None
        self.ledger: ReleaseLedger | None = None
        self.is_copy = False  # of one that may release the same readings
        self.stopped: str | None = None  # why nothing is learnt any more
        self._set_length()
        self._adopt()

    def _adopt(self) -> None:
        """Make room for a reading and its result, and keep direct references for the hot path."""
        d, n = self.vector.features, self.vector.classes
        self.buffer = bytearray(8 * (5 * d + 3 * n))
        self.work: Floats = np.frombuffer(self.buffer, np.float64)
        self.probabilities = self.work[d : d + n]
        self.memory = (
            self.floats,
            self.ints,
            self.work,
            self.rows,
            self.codes,
            *self._model_arrays(),
        )

    def _model_arrays(self) -> tuple[Array, ...]:
        feature_arrays = (self.low, self.high, self.centre, self.inverse, self.missing)
        return (*feature_arrays, self.metrics, self.prototypes)

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def number(self) -> int:
        """Number of the next release."""
        return int(self.ints[self._number])

    @property
    def known(self) -> int:
        """Number of classes learnt: none before the first model, then all."""
        return len(self.prototypes)

    @property
    def samples(self) -> int:
        """Number of labelled samples learnt."""
        return int(self.ints[at.SAMPLES])

    @property
    def class_capacity(self) -> int:
        """Number of classes that the arrays have room for."""
        return self.vector.classes

    def add_features(self, count: int) -> None:
        """Raise: features are public and never change."""
        raise ValueError(f"expected the public features, got {count} more")

    def count_as_zero(self, first: int) -> None:
        """Do nothing: no features are added."""

    def make_room_for_classes(self, count: int) -> None:
        """Raise unless there is room: classes are public and never change."""
        if count > self.vector.classes:
            raise ValueError(f"expected {self.vector.classes} public classes, got {count}")

    def classes_changed(self) -> None:
        """Do nothing: probabilities always have all classes."""

    def weigh(self, weight: float) -> None:
        """Raise unless a reading counts once, which is what the noise hides."""
        if weight != 1.0:
            raise ValueError(
                f"expected readings of weight 1, which the noise can hide, got {weight}"
            )

    # --- learning --------------------------------------------------------------------------------

    def learn(self, c: int) -> int:
        """Learn the reading in `buffer`; release the batch if this completes it."""
        status: int = self.learn_kernel(*self.memory, c)
        if status != at.NEEDS_SLOT:
            return status
        self._learn_last(self.work[: self.vector.features].copy(), c)
        return at.DONE

    def observe(self) -> int:
        """Return a status as `learn` does; a reading without a label teaches nothing."""
        bad = np.flatnonzero(np.abs(self.work[: self.vector.features]) > at.LARGEST_VALUE)
        return int(bad[0]) + 1 if len(bad) else at.DONE

    def learn_rows(
        self,
        rows: Rows,
        classes: Ints,
        before: Rows | None = None,
        weights: Floats | None = None,
    ) -> None:
        """Learn rows in order; they must be free of infinities."""
        if weights is not None and not np.all(weights == 1.0):
            self.weigh(float(weights[weights != 1.0][0]))
        done = 0
        while done < len(rows):
            position, taken = int(self.ints[self._position]), int(self.ints[self._taken])
            room = min(MAX_ROWS - position, int(self.ints[self._length]) - taken)
            part = slice(done, min(done + room, len(rows)))
            if before is not None and before.size and self.known:
                before[part, : self.known] = self.predict_rows(rows[part])
            done = part.stop
            plain = done - part.start - (done - part.start == room)
            self.rows[position : position + plain] = rows[part.start : part.start + plain]
            self.codes[position : position + plain] = classes[part.start : part.start + plain]
            for which in (self._position, self._taken, at.SAMPLES):
                self.ints[which] += plain
            if plain < done - part.start:
                self._learn_last(rows[done - 1], int(classes[done - 1]))

    def predict_rows(self, rows: Rows) -> Rows:
        """Return class probabilities, one row per reading."""
        out = np.empty((len(rows), self.vector.classes))
        self._predict_rows_kernel(*self.memory, np.ascontiguousarray(rows), out)
        return out[:, : self.known]

    def _learn_last(self, reading: Floats, c: int) -> None:
        """Learn a reading that fills the rows or the batch; if that fails, it is not learnt."""
        position, taken = int(self.ints[self._position]), int(self.ints[self._taken]) + 1
        rows = np.concatenate([self.rows[:position], reading[None]])
        codes = np.append(self.codes[:position], c)
        after = self._twin()
        after.rows, after.codes = np.zeros_like(self.rows), np.zeros_like(self.codes)
        sums = self._added(rows, codes)
        chain = self.seal.extended(rows.tobytes(), codes.tobytes())
        whole = taken >= self.ints[self._length]
        if whole:
            after._release(sums, chain)
        else:
            after.sums, after.seal.chain = sums, chain
        after.ints[self._position] = 0
        after.ints[self._taken] = 0 if whole else taken
        after.ints[at.SAMPLES] += 1
        self._take_over(after)

    def _twin(self) -> Self:
        """Return an engine to change in place of this one."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.ints, twin.series, twin.seal = (
            self.ints.copy(),
            copy.copy(self.series),
            copy.copy(self.seal),
        )
        return twin

    def _take_over(self, after: Self) -> None:
        """Become an engine that was changed, in one step that nothing can interrupt."""
        after._adopt()
        self.__dict__.update(after.__dict__)

    def _added(self, rows: Rows, codes: Ints) -> Floats:
        sums, kernel = self.sums.copy(), kernels(self.module)
        if self.number == 0:
            kernel.add_scale_rows(GRID, rows, self.low, self.high, sums)
        else:
            arrays = self._model_arrays()
            kernel.add_private_rows(self.floats, rows, codes, *arrays, self.work.copy(), sums)
        return sums

    # --- releases --------------------------------------------------------------------------------

    def _release(self, vector: Floats, chain: Ints) -> None:
        """Release the batch that the vector says, and go on to the next."""
        if self.stopped is None and self.number > self.plan.releases:
            self.stopped = f"expected at most {self.plan.releases + 1} releases, got one more"
        if self.stopped is None:
            try:
                released = self._released(vector, self.seal.of_release(self.number, chain))
            except LedgerExhaustedError as error:
                self.stopped = str(error)
            else:
                self._take(vector, released)
                self.ints[self._number] += 1
        self.seal.chain = chain
        self.sums = np.zeros(2 * self.vector.features if self.number == 0 else self.vector.size)
        self._set_length()

    def _set_length(self) -> None:
        self.ints[self._length] = batch_length(self.privacy, self.number)

    def _take(self, vector: Floats, released: Ints) -> None:
        if self.number == 0:
            self._standardise(released, self.plan.scale_sigma, self.privacy.scale_batch)
        else:
            self.series.accept(vector, released, int(self.ints[self._length]))
            self._fit()

    def _released(self, vector: Floats, seal: int) -> Ints:
        """Return what this release says: what was recorded for it, else drawn now."""
        number, first = self.number, self.number == 0
        found = None if self.ledger is None else self.ledger.recorded(number)
        if found is not None:
            if len(found) != len(vector) + 1 or int(found[-1]) != seal:
                raise LedgerMismatchError(
                    f"release {number}: expected the readings that it was made of, got others: the "
                    "model is older than the ledger and readings between them are lost; begin anew"
                )
            return found[:-1]
        if self.is_copy and self.ledger is None:
            raise CopyError(
                "expected a ledger for a copy of a private model, got none: the other may release "
                "the same readings, and two releases tell more than one; call use_ledger"
            )
        encoded = vector if first else self.series.encode(vector)
        if self.ledger is not None:
            self.ledger.reserve(number, self.spending())
        released = draw(encoded, self.plan.scale_sigma if first else self.plan.sigma)
        if self.ledger is not None:
            self.ledger.record(number, np.append(released, seal))
        return released

    def spending(self) -> Spending:
        """Return what all releases of this model cost together."""
        privacy = self.privacy
        length = privacy.longest
        unit = privacy.unit if length == 1 else f"{privacy.unit} of {length}"
        return Spending(self.seal.name, privacy.epsilon, privacy.delta, unit, self.plan.mu)

    def _standardise(self, released: Array, sigma: float, readings: int) -> None:
        """Standardise by the mean and deviation of each feature that a release says."""
        d, half = self.vector.features, (self.high - self.low) / 2.0
        unit = math.sqrt(2.0 * d) / GRID / readings
        mean, deviation = fit_scales(released[:d] * unit, released[d:] * unit, sigma * unit)
        self.centre = (self.low + self.high) / 2.0 + half * mean
        self.inverse = 1.0 / (half * deviation)

    def _fit(self) -> None:
        series = self.series
        self.model = fit_model(
            self.vector.unpack(series.running_sums()),
            self.plan.sigma / GRID * series.amplification,
            float(series.remembered[0]),
            self.vector.radius,
            self.step / MEAN_OF,
            self.vector.local,
        )
        self.metrics = np.ascontiguousarray(self.model.metrics)
        self.prototypes = self.model.prototypes
        self.missing = np.ascontiguousarray(self.model.means)

    # --- recorded logs ---------------------------------------------------------------------------

    def train(self, rows: Rows, codes: Ints) -> None:
        """Learn a recorded log: private statistics, then steps on Poisson samples of it.

        All three kinds of release see every reading, so they share the promise: `SCALE_SHARE` and
        `STATISTICS_SHARE` of mu, and what is left to the steps.
        """
        if self.samples or self.number or self.stopped is not None:
            raise ValueError(
                f"expected a model that has learnt nothing, got {self.samples} samples and "
                f"{self.number} releases"
            )
        if self.privacy.unit != "reading":
            raise ValueError(
                f"expected the unit 'reading' for a recorded log, got {self.privacy.unit!r}: steps "
                "on samples of the log hide one reading each"
            )
        plan = LogPlan.of(self.privacy, self.vector)
        self._check_unspent()
        if self.ledger is not None:
            self.ledger.reserve(0, replace(self.spending(), mu=None))
        self._begin_log()
        after = self._twin()
        released = after._learn_log(rows, codes, plan)
        if self.ledger is not None:
            self.ledger.record(0, released)
        self._take_over(after)

    def _check_unspent(self) -> None:
        """Raise unless a log of this series was certainly never released, nor partly drawn."""
        if self.ledger is None:
            if self.is_copy:
                raise CopyError(
                    "expected a ledger for a copy of a private model, got none: the other may have "
                    "learnt the same log; call use_ledger"
                )
            return
        if self.ledger.recorded(0) is not None:
            raise LedgerMismatchError("release 0: expected none, got one: begin a new ledger")
        if self.ledger.is_reserved(0, self.seal.name):
            raise LedgerMismatchError(
                "release 0: expected none, got one that was begun and not finished: the promise is "
                "spent; begin a new model with a new ledger, and readings that were never learnt"
            )

    def _begin_log(self) -> None:
        """Count the promise as spent before anything is drawn: no log is learnt after this one."""
        self.stopped = TRAINED
        self.sums = np.zeros(self.vector.size)
        self.ints[self._number] = 1
        self._set_length()

    def _learn_log(self, rows: Rows, codes: Ints, plan: LogPlan) -> Ints:
        """Learn a log and return what of it is released."""
        kernel, work = kernels(self.module), self.work.copy()
        scales = np.zeros(2 * self.vector.features)
        kernel.add_scale_rows(GRID, rows, self.low, self.high, scales)
        scales = draw(scales, plan.scale_sigma).astype(np.float64)
        self._standardise(scales, plan.scale_sigma, len(rows))
        sums = np.zeros(self.vector.size)
        kernel.add_private_rows(self.floats, rows, codes, *self._model_arrays(), work, sums)
        statistics = self.vector.size - self.vector.gradients
        sums = draw(sums[:statistics], plan.statistics_sigma).astype(np.float64)
        self.series.take_statistics(sums, len(rows), plan.statistics_sigma / self.plan.sigma)
        self._fit()
        if self.vector.gradients and self.step:
            self._take_steps(rows, codes, plan, work)
        self.ints[at.SAMPLES], self.ints[self._number] = len(rows), 2
        self._set_length()
        return np.concatenate([scales, sums, np.rint(self.series.smooth)]).astype(np.int64)

    def _take_steps(self, rows: Rows, codes: Ints, plan: LogPlan, work: Floats) -> None:
        """Take noisy gradient steps; the model is the mean of those of the second half."""
        kernel, mean = kernels(self.module), np.zeros(self.vector.gradients)
        for step in range(plan.steps):
            chosen = bernoulli(plan.rate, len(rows))
            sums = np.zeros(self.vector.gradients)
            kernel.add_gradient_rows(
                self.floats, rows[chosen], codes[chosen], *self._model_arrays(), work, sums
            )
            sums = draw(sums, plan.step_sigma).astype(np.float64)
            self.series.smooth = self.series.smooth + sums * plan.gain(len(rows))
            if 2 * step >= plan.steps:
                mean += self.series.smooth / (plan.steps - plan.steps // 2)
            self._fit()
        self.series.smooth = mean
        self._fit()

    @property
    def scale(self) -> Floats:
        """Deviation of each feature, in sensor units, as released."""
        scale: Floats = 1.0 / self.inverse
        return scale

    # --- states ----------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Array], dict[str, int]]:
        """Return copies of all arrays and counters from which the engine can be rebuilt."""
        factor = np.array([self.plan.factor.decay, self.plan.factor.weight])
        arrays = {
            "factor": factor,
            "rows": self.rows,
            "codes": self.codes,
            "sums": self.sums,
            "key": self.seal.key,
            "chain": self.seal.chain,
            "centre": self.centre,
            "inverse": self.inverse,
            **self.series.arrays(),
        }
        counters = {
            "samples": self.samples,
            "number": self.number,
            "position": int(self.ints[self._position]),
            "taken": int(self.ints[self._taken]),
            "trained": int(self.stopped == TRAINED),
        }
        return {name: array.copy() for name, array in arrays.items() if array.size}, counters

    def restore(self, arrays: Mapping[str, Array], counters: Mapping[str, int]) -> None:
        """Take over arrays and counters that were saved; they have been checked."""
        for name in ("rows", "codes", "sums", "centre", "inverse"):
            setattr(self, name, arrays[name].copy())
        self.seal.key, self.seal.chain = arrays["key"].copy(), arrays["chain"].copy()
        self.series.restore(arrays)
        self.ints[self._number] = counters["number"]
        self.ints[self._position] = counters["position"]
        self.ints[self._taken] = counters["taken"]
        self.ints[at.SAMPLES] = counters["samples"]
        self.stopped = TRAINED if counters["trained"] else None
        self._set_length()
        if self.number > 1:
            self._fit()
        self._adopt()

    # --- copies ----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("buffer", "work", "memory", "probabilities", "ledger")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.ledger, self.is_copy = None, True
        self._adopt()
