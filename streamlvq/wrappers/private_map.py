"""`PrivateMap`: what other features tell linearly of private ones, and how to remove it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Reading, Rows
from streamlvq.kernels.layout import LARGEST_VALUE
from streamlvq.models.vectorizer import EXPECTED_NUMBER, to_number, to_rows

NO_VARIATION = 1e-9  # of two private features, or of one: variances below this share are none


class PrivateMap:
    """Linear map that removes private features, and what the others tell of them.

    Of a reading with private values s, each other feature x becomes `x - slope * (s - mean)`. With
    slopes `C_xs C_ss^-1`, which `fit` and `from_moments` find, no linear attacker can tell s from
    what is left. It does not depend on the model, and all nodes must have the same one.

    A map lets only those features pass that it has slopes for. If a private value is missing, what
    would tell of it is missing too.

    Parameters
    ----------
    means
        The mean of each private feature.
    slopes
        By feature that passes: how much it grows with each private feature. Those not mentioned are
        0.

    Examples
    --------

    An engine draws more current when operator 1 drives it:

    >>> from streamlvq.privacy import PrivateMap

    >>> log = [{"current": 5.0 + 2.0 * (k % 2) + k % 3 / 10, "operator": k % 2} for k in range(60)]
    >>> private = PrivateMap.fit(log, ["operator"])
    >>> private.slopes
    {'current': {'operator': 2.0}}
    >>> private.one({"current": 7.0, "operator": 1}), private.one({"current": 5.0, "operator": 0})
    ({'current': 6.0}, {'current': 6.0})
    >>> private.one({"current": 7.0})
    {'current': nan}

    """

    def __init__(
        self,
        means: Mapping[Hashable, float],
        slopes: Mapping[Hashable, Mapping[Hashable, float]],
    ) -> None:
        self.means = {name: _finite("mean", name, value) for name, value in means.items()}
        self.slopes = {
            name: {s: _finite("slope", name, value) for s, value in found.items()}
            for name, found in slopes.items()
        }
        if not self.means:
            raise ValueError("expected the mean of at least one private feature, got none")
        for name, found in self.slopes.items():
            if name in self.means:
                raise ValueError(f"expected no slopes of the private feature {name!r}, got some")
            if unknown := [s for s in found if s not in self.means]:
                raise ValueError(
                    f"expected slopes of {name!r} for the private features {[*self.means]!r}, "
                    f"got one for {unknown[0]!r}"
                )
        order = {s: k for k, s in enumerate(self.means)}
        self._terms = {
            name: sorted((order[s], slope) for s, slope in found.items() if slope != 0.0)
            for name, found in self.slopes.items()
        }

    # --- making one ------------------------------------------------------------------------------

    @classmethod
    def fit(
        cls, X: Any, private: Sequence[Hashable], features: Sequence[Hashable] | None = None
    ) -> Self:
        """Fit a map to a recorded log.

        Parameters
        ----------
        X
            Readings: dictionaries, a DataFrame, or an array with `features`. Readings in which a
            private value is missing are left out.
        private
            Names of the private features. Those that depend on each other, or never change, are
            taken care of. A category with more than two values needs a feature of 0 and 1 for each.
        features
            Names of an array's columns.

        """
        rows, names = _table(X, features)
        columns = _places(names, private)
        known = np.isfinite(rows[:, columns]).all(axis=1)
        if known.sum() < 2:
            raise ValueError(
                f"expected at least 2 readings with {[*private]!r}, got {int(known.sum())}"
            )
        rows = rows[known]
        means = rows[:, columns].mean(axis=0)
        hidden = rows[:, columns] - means
        slopes = {}
        for column, name in enumerate(names):
            if column in columns:
                continue
            there = np.isfinite(rows[:, column])
            x, s = rows[there, column], hidden[there]
            x, s = (each - each.mean(axis=0) if len(each) else each for each in (x, s))
            slopes[name] = _slopes(s.T @ x, s.T @ s, len(s) * means**2)
        return cls._of(private, means.tolist(), slopes)

    @classmethod
    def from_moments(
        cls,
        means: Mapping[Hashable, float],
        covariance: Mapping[Hashable, Mapping[Hashable, float]],
        private: Sequence[Hashable],
    ) -> Self:
        """Make a map from means and covariances, such as released ones.

        Parameters
        ----------
        means
            The mean of each feature; those of private ones are used.
        covariance
            By feature: its covariance with each private feature, and that of each private feature
            with the private ones.
        private
            Names of the private features.

        """
        names = list(private)
        _places(list(means), names)
        table = np.array([[covariance[s][other] for other in names] for s in names], np.float64)
        if table.size == 0 or not np.allclose(table, table.T):
            raise ValueError(
                f"expected a symmetric covariance of {names!r}, got {table.tolist()!r}"
            )
        level = np.array([means[s] for s in names]) ** 2
        slopes = {
            name: _slopes(np.array([found[s] for s in names], np.float64), table, level)
            for name, found in covariance.items()
            if name not in names
        }
        return cls._of(names, [float(means[s]) for s in names], slopes)

    @classmethod
    def _of(
        cls,
        private: Sequence[Hashable],
        means: Sequence[float],
        slopes: Mapping[Hashable, npt.NDArray[np.float64]],
    ) -> Self:
        return cls(
            dict(zip(private, means, strict=True)),
            {
                name: dict(zip(private, found.tolist(), strict=True))
                for name, found in slopes.items()
            },
        )

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the map that `to_dict` returned; raise ValueError for anything else."""
        expected = "expected a map with means and slopes, such as PrivateMap.fit returns"
        if not isinstance(value, Mapping) or value.keys() != {"means", "slopes"}:
            raise ValueError(f"{expected}, got {str(value)[:80]}")
        means, slopes = value["means"], value["slopes"]
        if not all(isinstance(each, Mapping) for each in (means, slopes)) or not all(
            isinstance(each, Mapping) for each in slopes.values()
        ):
            raise ValueError(f"{expected}, got {str(value)[:80]}")
        return cls(means, slopes)

    def to_dict(self) -> dict[str, Any]:
        """Return the map as plain numbers, for files and for `FeatureTransform`."""
        return {
            "means": dict(self.means),
            "slopes": {name: dict(found) for name, found in self.slopes.items()},
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrivateMap) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PrivateMap({', '.join(map(repr, self.means))}; {len(self.slopes)} features pass)"

    # --- using it --------------------------------------------------------------------------------

    @property
    def private(self) -> tuple[Hashable, ...]:
        """Names of the private features."""
        return tuple(self.means)

    def passing(self, names: Sequence[Hashable]) -> list[Hashable]:
        """Return those of the features that the map lets pass."""
        return [name for name in names if name in self._terms]

    def one(self, x: Reading) -> dict[Hashable, float]:
        """Return what is left of a reading; raise ValueError for numbers that are too large."""
        deviations = [
            _limited(name, to_number(name, x.get(name))) - mean for name, mean in self.means.items()
        ]
        left = {}
        for name, value in x.items():
            terms = self._terms.get(name)
            if terms is None:
                continue
            number = to_number(name, value)
            for k, slope in terms:
                number -= deviations[k] * slope
            left[name] = _limited(name, number)
        return left

    def rows(self, rows: Rows, names: Sequence[Hashable]) -> Rows:
        """Return what is left of rows; its columns are `passing(names)`."""
        left = self._left(rows, names)
        bad = np.argwhere(self._too_large(rows, names, left))
        if len(bad):
            row, column = bad[0].tolist()
            value = float(np.column_stack([left, self._hidden(rows, names)])[row, column])
            name = [*self.passing(names), *self.means][column]
            raise ValueError(f"feature {name!r} of row {row}: {EXPECTED_NUMBER}, got {value!r}")
        return left

    def refusals(self, rows: Rows, names: Sequence[Hashable]) -> dict[int, str]:
        """Return an error message for each row that `rows` would refuse."""
        left = self._left(rows, names)
        large = self._too_large(rows, names, left)
        called = [*self.passing(names), *self.means]
        values = np.column_stack([left, self._hidden(rows, names)])
        found = {}
        for row in np.flatnonzero(large.any(axis=1)).tolist():
            column = int(large[row].argmax())
            value = float(values[row, column])
            found[row] = f"feature {called[column]!r}: {EXPECTED_NUMBER}, got {value!r}"
        return found

    def _left(self, rows: Rows, names: Sequence[Hashable]) -> Rows:
        hidden = self._hidden(rows, names) - np.array(list(self.means.values()))
        columns = [column for column, name in enumerate(names) if name in self._terms]
        left: Rows = np.array(rows[:, columns], np.float64, order="C")
        with np.errstate(over="ignore", invalid="ignore"):
            for place, column in enumerate(columns):
                for k, slope in self._terms[names[column]]:  # as `one` does, to the last bit
                    left[:, place] -= hidden[:, k] * slope
        return left

    def _hidden(self, rows: Rows, names: Sequence[Hashable]) -> Rows:
        """Return the private columns; NaN for those that are absent."""
        place = {name: column for column, name in enumerate(names)}
        hidden: Rows = np.full((len(rows), len(self.means)), np.nan)
        for k, name in enumerate(self.means):
            if name in place:
                hidden[:, k] = rows[:, place[name]]
        return hidden

    def _too_large(
        self, rows: Rows, names: Sequence[Hashable], left: Rows
    ) -> npt.NDArray[np.bool_]:
        large: npt.NDArray[np.bool_] = (
            np.abs(np.column_stack([left, self._hidden(rows, names)])) > LARGEST_VALUE
        )
        return large


def _limited(name: Hashable, value: float) -> float:
    if abs(value) > LARGEST_VALUE:
        raise ValueError(f"feature {name!r}: {EXPECTED_NUMBER}, got {value!r}")
    return value


def _finite(what: str, name: Hashable, value: Any) -> float:
    good = not isinstance(value, (bool, str, bytes)) and isinstance(value, (int, float, np.number))
    if not good or not abs(float(value)) <= LARGEST_VALUE or not math.isfinite(value):
        raise ValueError(f"{what} of {name!r}: {EXPECTED_NUMBER}, got {value!r}")
    return float(value)


def _slopes(
    across: npt.NDArray[np.float64],
    within: npt.NDArray[np.float64],
    level: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return `across within^+`, in units of the private features' own deviations.

    `level` is what their squares would be without any deviation: below `NO_VARIATION` of it a feature
    does not change.
    """
    variances = np.diag(within)
    varies = variances > NO_VARIATION**2 * level
    scales = np.where(varies, np.sqrt(np.where(varies, variances, 1.0)), 1.0)
    inside = np.where(np.outer(varies, varies), within / np.outer(scales, scales), 0.0)
    inverse = np.linalg.pinv(inside, rcond=NO_VARIATION, hermitian=True)
    found: npt.NDArray[np.float64] = inverse @ np.where(varies, across / scales, 0.0) / scales
    return found


def _table(X: Any, features: Sequence[Hashable] | None) -> tuple[Rows, list[Hashable]]:
    rows, names = to_rows(X, features)
    if names is None:
        raise ValueError("expected the names of the columns, got none: pass them as features=[...]")
    if (np.abs(rows) > LARGEST_VALUE).any():
        raise ValueError(f"{EXPECTED_NUMBER}, got a larger one")
    return rows, names


def _places(names: Sequence[Hashable], private: Sequence[Hashable]) -> list[int]:
    if isinstance(private, str) or not len(private) == len(set(private)) > 0:
        raise ValueError(f"expected distinct names of private features, got {private!r}")
    place = {name: column for column, name in enumerate(names)}
    if absent := [name for name in private if name not in place]:
        raise ValueError(f"expected the private feature {absent[0]!r} among {[*names]!r}, got none")
    return [place[name] for name in private]
