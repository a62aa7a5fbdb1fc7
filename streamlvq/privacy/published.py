"""Private GLVQ and GMLVQ for recorded logs, as Brinkrolf (thesis, chapter 3) published them.

Everything is computed on readings that are scaled from their public bounds to [-1, 1] and rounded
to a grid of `GRID_STEPS` steps, so that sums are exact integers. The lemmas are in docs/privacy.md,
"Accounting".
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from river import base

from streamlvq.arrays import Bools, Floats, Ints, Label, Reading, as_rows
from streamlvq.errors import NotLearntYetError, ParameterError
from streamlvq.kernels import kernels
from streamlvq.privacy.accountant import (
    curve_epsilon,
    gaussian_curve,
    gaussian_mu,
    poisson_curve,
    poisson_sigma,
    pure_curve,
)
from streamlvq.privacy.noise import BYTES_PER_NUMBER, gaussian_of_bits
from streamlvq.privacy.privacy import Privacy

GRID_STEPS = 2**20  # steps between 0 and 1
ACCOUNTINGS = ("proved", "published")
Randomness = Callable[[int], bytes]  # gives that many random bytes


class TrainingPlan(NamedTuple):
    """Noise that a training will draw; it depends on no reading.

    `initial` is the standard deviation of the noise of class counts and sums, `sigma` that of the
    noise of a step divided by the norm one gradient may have, and `proved` the epsilon that the
    accountant proves for both together.
    """

    initial: float
    sigma: float
    proved: float


class DPGLVQ(base.Classifier):  # type: ignore[misc]
    """GLVQ under differential privacy, for recorded logs, one prototype per class.

    Prototypes start at noisy class means and follow noisy sums of clipped gradients on
    Poisson-sampled batches. The model is trained once by `train`; it then may be published, and
    protects single readings. For streams there is `PrivateLVQ`.

    Parameters
    ----------
    privacy
        What is promised, and what is public: epsilon, delta, bounds and classes. The unit is a
        reading; the fields about batches and forgetting are those of streams and have no effect.
    clip
        Norm that the gradient of a reading is shortened to.
    sampling
        Probability with which a reading joins a batch.
    epochs
        How often each reading joins a batch on average; there are `epochs / sampling` steps.
    learning_rate
        Length of a step of the prototypes, per unit of the mean clipped gradient.
    initial_share
        Share of epsilon for the initial prototypes.
    accounting
        `"proved"`: noise for which (epsilon, delta) is proved, and nothing else that depends on
        readings. `"published"`: the noise and the batch size of the thesis, to compare with its
        figures; the true guarantee is another one, see `plan`.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import DPGLVQ, Privacy

    >>> rng = np.random.default_rng(7)
    >>> y = rng.choice(["ok", "worn"], 4000)
    >>> rms = np.where(y == "ok", 0.6, 1.4) + 0.2 * rng.normal(size=4000)
    >>> heat = np.where(y == "ok", 50, 70) + 10 * rng.normal(size=4000)
    >>> privacy = Privacy(1.0, bounds={"rms": (0, 2), "heat": (0, 120)}, classes=["ok", "worn"])

    >>> model = DPGLVQ(privacy, epochs=5).train(np.column_stack([rms, heat]), y)
    >>> model.predict_one({"rms": 1.3, "heat": 66})
    'worn'
    >>> model.plan.sigma, model.plan.proved
    (1.27..., 0.99...)

    The noise of the thesis protects this log better than it says:

    >>> DPGLVQ(privacy, accounting="published").plan.proved
    0.65...

    References
    ----------
    - Brinkrolf, J., Göpfert, C., Hammer, B. (2019). Differential privacy for learning vector
      quantization. Neurocomputing 342, 125-136.
    - Abadi, M., Chu, A., Goodfellow, I., McMahan, H. B., Mironov, I., Talwar, K., Zhang, L. (2016).
      Deep learning with differential privacy. ACM CCS, 308-318.

    """

    def __init__(
        self,
        privacy: Privacy,
        *,
        clip: float = 0.5,
        sampling: float = 0.01,
        epochs: float = 50,
        learning_rate: float = 0.1,
        initial_share: float = 0.2,
        accounting: str = "proved",
    ) -> None:
        self.privacy = privacy
        self.clip = clip
        self.sampling = sampling
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.initial_share = initial_share
        self.accounting = accounting
        self._check_parameters()
        self._box = Box(privacy.bounds)
        self._plan: TrainingPlan | None = None
        self._w: Floats | None = None
        self._omega = np.empty((0, len(privacy.bounds)))

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if not self.privacy.bounds or self.privacy.unit != "reading":
            raise ParameterError(
                owner,
                "privacy",
                f"expected bounds of features and the unit 'reading', got {self.privacy!r}",
            )
        limits = {
            "clip": (0.0, 1e3),
            "sampling": (0.0, 1.0),
            "epochs": (0.0, 1e6),
            "learning_rate": (0.0, 1e3),
            "metric_rate": (0.0, 1e3),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name, high)
            if not low < value <= high:
                raise ParameterError(
                    owner, name, f"expected more than {low:g}, at most {high:g}, got {value!r}"
                )
        if not 0.0 < self.initial_share < 1.0:
            message = f"expected a share between 0 and 1, got {self.initial_share!r}"
            raise ParameterError(owner, "initial_share", message)
        if self.accounting not in ACCOUNTINGS:
            message = f"expected one of {', '.join(ACCOUNTINGS)}, got {self.accounting!r}"
            raise ParameterError(owner, "accounting", message)

    # --- noise ------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """Number of gradient steps."""
        return math.ceil(self.epochs / self.sampling)

    @property
    def plan(self) -> TrainingPlan:
        """Noise of a training and the epsilon that is proved for it."""
        if self._plan is None:
            self._plan = self._proved() if self.accounting == "proved" else self._published()
        return self._plan

    def _proved(self) -> TrainingPlan:
        """One Gaussian for counts and sums; the steps get what the composition leaves."""
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        mu = gaussian_mu(self.initial_share * epsilon, delta)
        sigma = poisson_sigma(epsilon, delta, self.sampling, self.steps, mu=mu)
        curve = poisson_curve(sigma, self.sampling, self.steps) + gaussian_curve(mu)
        norm = math.sqrt(len(self._box.features) + 1)  # of a reading in its corner, and its count
        return TrainingPlan(norm / mu, sigma, curve_epsilon(curve, delta))

    def _published(self) -> TrainingPlan:
        """Laplace noise for counts and sums, and the sigma of the thesis (3.7) with factor 2."""
        initial = self.initial_share * self.privacy.epsilon
        rest = self.privacy.epsilon - initial
        spread = math.sqrt(self.steps * math.log(1 / self.privacy.delta))
        sigma = 2 * self.sampling * spread / rest
        curve = poisson_curve(sigma, self.sampling, self.steps) + pure_curve(initial)
        scale = 2 * len(self._box.features) / initial
        return TrainingPlan(math.sqrt(2) * scale, sigma, curve_epsilon(curve, self.privacy.delta))

    # --- training ---------------------------------------------------------------------------------

    def train(
        self,
        X: npt.ArrayLike | Iterable[Reading],
        y: Iterable[Label],
        *,
        randomness: Randomness = os.urandom,
    ) -> DPGLVQ:
        """Learn a recorded log, once; what `plan` says is spent then.

        Parameters
        ----------
        X
            Readings: mappings, or rows of numbers in the order of the bounds. Values beyond a bound
            count as the bound.
        y
            Their labels, of the public classes.
        randomness
            Source of random bytes. Everything but the operating system's voids the guarantee and is
            for studies that must be repeatable.

        """
        if self._w is not None:
            raise ValueError(
                f"{type(self).__name__}: already trained, and training again would spend epsilon "
                "again; make a new model and add up"
            )
        grid = self._box.on_grid(self._box.rows(X))
        labels = class_numbers(self.privacy.classes, y, len(grid))
        plan = self.plan
        w, size = self._initial(grid, labels, randomness)
        self._descend(grid / GRID_STEPS, labels, w, size, plan.sigma, randomness)
        return self

    def _initial(self, grid: Ints, labels: Ints, randomness: Randomness) -> tuple[Floats, float]:
        """Return noisy class means, and the number of readings as far as it may be known."""
        classes, d = len(self.privacy.classes), grid.shape[1]
        table = np.zeros((classes, d + 1), dtype=np.int64)
        np.add.at(table, labels, np.column_stack([grid, np.full(len(grid), GRID_STEPS)]))
        if self.accounting == "published":
            initial = self.initial_share * self.privacy.epsilon
            sums = table[:, :d] + _laplace(2 * d / initial, (classes, d), randomness)
            counts = table[:, d] + _laplace(2 / initial, (classes,), randomness)
            return sums / np.where(counts == 0, 1, counts)[:, None], float(len(grid))
        sigma = self.plan.initial * GRID_STEPS
        noisy = table + _gaussian(sigma, table.shape, randomness)
        counts = np.maximum(noisy[:, d], sigma)  # fewer cannot be told from none
        means = np.clip(noisy[:, :d] / counts[:, None], -1.0, 1.0)
        return means, float(counts.sum()) / GRID_STEPS

    def _descend(
        self,
        X: Floats,
        y: Ints,
        w: Floats,
        size: float,
        sigma: float,
        randomness: Randomness,
    ) -> None:
        """Take noisy steps on Poisson-sampled batches."""
        omega = self._omega.copy()
        scratch = gradient_scratch(w, omega)
        sums, omega_sums = np.empty_like(w), np.empty_like(omega)
        chance = _Chance(self.sampling)
        unit = GRID_STEPS * max(1.0, self.sampling * size)  # of a mean over a batch
        for _ in range(self.steps):
            rows = np.flatnonzero(chance.draw(len(X), randomness))
            kernels("clipped").clipped_sums(
                X, y, rows, w, omega, self.clip, float(GRID_STEPS), sums, omega_sums, scratch
            )
            noise = _gaussian(sigma * self.clip * GRID_STEPS, (w.size + omega.size,), randomness)
            w -= self.learning_rate / unit * (sums + noise[: w.size].reshape(w.shape))
            omega -= self._metric_step / unit * (omega_sums + noise[w.size :].reshape(omega.shape))
        self._w, self._omega = w, omega

    @property
    def _metric_step(self) -> float:
        return 0.0

    # --- what was learnt --------------------------------------------------------------------------

    @property
    def prototypes(self) -> dict[Label, dict[Any, float]]:
        """Prototypes in the units of the bounds, by class."""
        rows = self._box.raw(self._learnt())
        return {
            label: dict(zip(self._box.features, row.tolist(), strict=True))
            for label, row in zip(self.privacy.classes, rows, strict=True)
        }

    def _learnt(self) -> Floats:
        if self._w is None:
            raise NotLearntYetError(f"{type(self).__name__}: expected a trained model; call train")
        return self._w

    def distances(self, X: npt.ArrayLike | Iterable[Reading]) -> Floats:
        """Return squared distances of readings to the prototypes, a column per public class."""
        rows, w = self._box.scaled(self._box.rows(X)), self._learnt()
        if len(self._omega):
            rows, w = rows @ self._omega.T, w @ self._omega.T
        parts = (rows[:, None] - w[None]) if len(rows) < 64 else None
        if parts is not None:
            return np.asarray((parts**2).sum(axis=2))
        return np.asarray(
            np.maximum((rows**2).sum(axis=1)[:, None] - 2 * rows @ w.T + (w**2).sum(axis=1), 0.0)
        )

    def predict_rows(self, X: npt.ArrayLike | Iterable[Reading]) -> list[Label]:
        """Return the class of the nearest prototype for each of many readings."""
        return [self.privacy.classes[k] for k in self.distances(X).argmin(axis=1)]

    def predict_proba_one(self, x: Reading) -> dict[Label, float]:
        """Return inverse squared distances as shares: what is nearest is likeliest."""
        if self._w is None:
            return {}
        inverse = 1.0 / np.maximum(self.distances([x])[0], 1e-12)
        shares = (inverse / inverse.sum()).tolist()
        return dict(zip(self.privacy.classes, shares, strict=True))

    def learn_one(self, x: Reading, y: Label) -> None:
        """Refuse: each step would need noise for itself."""
        raise NotImplementedError(
            f"{type(self).__name__} learns a recorded log with train(X, y): its guarantee is for "
            "batches sampled from all readings; for streams use PrivateLVQ"
        )


class DPGMLVQ(DPGLVQ):
    """GMLVQ under differential privacy: `DPGLVQ` that learns a metric as well.

    The gradient of a reading, of prototypes and metric together, is clipped to one norm.

    Parameters
    ----------
    privacy, clip, sampling, epochs, learning_rate, initial_share, accounting
        As in `DPGLVQ`.
    metric_rate
        Length of a step of the metric's matrix, which starts as the identity.

    Examples
    --------

    >>> import numpy as np
    >>> from streamlvq.privacy import DPGMLVQ, Privacy

    >>> rng = np.random.default_rng(7)
    >>> y = rng.integers(2, size=8000)
    >>> X = np.column_stack([y - 0.5, rng.normal(size=8000)]) + 0.1 * rng.normal(size=(8000, 2))
    >>> privacy = Privacy(2.0, bounds={"level": (-1, 1), "noise": (-4, 4)}, classes=[0, 1])
    >>> model = DPGMLVQ(privacy, epochs=10).train(X, y)
    >>> bool(model.omega[0, 0] ** 2 > model.omega[1, 1] ** 2)
    True

    """

    def __init__(
        self,
        privacy: Privacy,
        *,
        clip: float = 0.5,
        sampling: float = 0.01,
        epochs: float = 50,
        learning_rate: float = 0.1,
        metric_rate: float = 0.05,
        initial_share: float = 0.2,
        accounting: str = "proved",
    ) -> None:
        self.metric_rate = metric_rate
        super().__init__(
            privacy,
            clip=clip,
            sampling=sampling,
            epochs=epochs,
            learning_rate=learning_rate,
            initial_share=initial_share,
            accounting=accounting,
        )
        self._omega = np.eye(len(self._box.features))

    @property
    def _metric_step(self) -> float:
        return self.metric_rate

    @property
    def omega(self) -> Floats:
        """Matrix of the metric, for readings in the units of the bounds."""
        self._learnt()
        return np.asarray(self._omega / self._box.half)


# --- what the public knows ------------------------------------------------------------------------


class Box:
    """Public bounds of features: readings as rows, scaled to [-1, 1]."""

    def __init__(self, bounds: Mapping[Any, tuple[float, float]]) -> None:
        self.features = tuple(bounds)
        low, high = np.array([bounds[name] for name in self.features], dtype=np.float64).T
        self.half = (high - low) / 2
        self._middle = (high + low) / 2

    def rows(self, X: npt.ArrayLike | Iterable[Reading]) -> Floats:
        """Return readings as an array; a missing feature or number is an error."""
        table: Any = X if isinstance(X, np.ndarray) or not isinstance(X, Iterable) else list(X)
        if isinstance(table, list) and table and isinstance(table[0], Mapping):
            table = [
                [self._value(x, name, k) for name in self.features] for k, x in enumerate(table)
            ]
        rows = as_rows(table)
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise ValueError(
                f"expected rows of {len(self.features)} features, got shape {rows.shape}"
            )
        wrong = np.argwhere(np.isnan(rows))
        if len(wrong):
            k, j = wrong[0]
            raise ValueError(f"row {k}: expected a number for {self.features[j]!r}, got nan")
        return rows

    @staticmethod
    def _value(x: Reading, name: Any, number: int) -> Any:
        if name not in x:
            raise ValueError(f"row {number}: expected a value for {name!r}, got {list(x)!r}")
        return x[name]

    def scaled(self, rows: Floats) -> Floats:
        """Return rows in [-1, 1]."""
        return np.asarray(np.clip((rows - self._middle) / self.half, -1.0, 1.0))

    def on_grid(self, rows: Floats) -> Ints:
        """Return scaled rows in whole steps of the grid."""
        return np.trunc(self.scaled(rows) * GRID_STEPS).astype(np.int64)

    def raw(self, scaled: Floats) -> Floats:
        """Return scaled rows in the units of the bounds."""
        return np.asarray(scaled * self.half + self._middle)


def class_numbers(classes: Sequence[Label], y: Iterable[Label], count: int) -> Ints:
    """Return labels as numbers of public classes."""
    number = {label: k for k, label in enumerate(classes)}
    labels = y.tolist() if isinstance(y, np.ndarray) else list(y)
    if len(labels) != count:
        raise ValueError(f"expected {count} labels, one for each reading, got {len(labels)}")
    unknown = next((k for k, label in enumerate(labels) if label not in number), None)
    if unknown is not None:
        raise ValueError(
            f"row {unknown}: expected one of the public classes {list(classes)!r}, "
            f"got {labels[unknown]!r}"
        )
    return np.array([number[label] for label in labels], dtype=np.int64)


def gradient_scratch(w: Floats, omega: Floats) -> Floats:
    """Return the scratch that `clipped_sums` needs."""
    m = len(omega)
    return np.empty((len(w) + 3) * m + 4 * w.shape[1])


# --- randomness -----------------------------------------------------------------------------------


class _Chance:
    """Independent events of one probability, rounded down to a multiple of 2**-32."""

    def __init__(self, probability: float) -> None:
        self._below = math.floor(probability * 2**32)

    def draw(self, count: int, randomness: Randomness) -> Bools:
        bits = np.frombuffer(randomness(4 * count), np.dtype("<u4"))
        return np.asarray(bits < np.uint64(self._below))


def _gaussian(sigma: float, shape: tuple[int, ...], randomness: Randomness) -> Ints:
    count = math.prod(shape)
    return gaussian_of_bits(sigma, randomness(BYTES_PER_NUMBER * count)).reshape(shape)


def _laplace(scale: float, shape: tuple[int, ...], randomness: Randomness) -> Ints:
    """Draw Laplace noise on the grid; only for the published accounting, as it rounds a float."""
    bits = np.frombuffer(randomness(8 * math.prod(shape)), np.dtype("<u8")).reshape(shape)
    u = ((bits >> np.uint64(1)).astype(np.float64) + 0.5) / 2**63
    distance = np.rint(scale * GRID_STEPS * -np.log(u)).astype(np.int64)
    return np.where(bits & np.uint64(1), distance, -distance)
