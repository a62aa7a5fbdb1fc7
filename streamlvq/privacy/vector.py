"""`BatchVector`: what a batch says as one vector, and how far one reading can move it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streamlvq.arrays import Floats, Rows

GRID = 2.0**26  # steps of the integer grid in one unit of a vector
SUM_WEIGHT, COUNT_WEIGHT, SECOND_WEIGHT, GRADIENT_WEIGHT = 1.0, 0.25, 0.7, 1.0


@dataclass(frozen=True)
class Sums:
    """Running sums that releases say: of standardised readings, noisy."""

    sums: Rows  # classes x features
    counts: Floats
    moments: Floats  # (1 or classes) x features x features
    gradient: Rows  # classes x features, in whitened space


@dataclass(frozen=True)
class BatchVector:
    """Blocks of the vector of a batch and their weights.

    A reading u of class c adds to each block a part whose norm is at most the block's weight:
    `u / radius` to the sum of its class, 1 to its count, `u u' / radius^2` to the second moments
    (of its class if metrics are local), and with a shared metric a gradient `g / clip`.

    Parameters
    ----------
    features, classes
        Their numbers.
    local
        Second moments for each class, no gradient.
    radius
        Largest norm of a standardised reading.
    clip
        Largest norm of a gradient.

    Examples
    --------

    >>> from streamlvq.privacy.vector import BatchVector

    >>> vector = BatchVector(features=2, classes=3, local=False, radius=1.7, clip=1.0)
    >>> vector.size, round(vector.sensitivity, 3)  # 6 + 3 + 3 + 6; root of 1 + .25^2 + .7^2 + 1
    (18, 1.598)

    """

    features: int
    classes: int
    local: bool
    radius: float
    clip: float

    @property
    def weights(self) -> tuple[float, ...]:
        """Largest norm of what one reading adds to each block."""
        blocks = (SUM_WEIGHT, COUNT_WEIGHT, SECOND_WEIGHT)
        return blocks if self.local else (*blocks, GRADIENT_WEIGHT)

    @property
    def sensitivity(self) -> float:
        """Largest norm of what one reading adds to the whole vector."""
        return math.sqrt(sum(weight * weight for weight in self.weights))

    @property
    def statistics_sensitivity(self) -> float:
        """Largest norm of what one reading adds to the vector without its gradient."""
        return math.sqrt(SUM_WEIGHT**2 + COUNT_WEIGHT**2 + SECOND_WEIGHT**2)

    @property
    def packed(self) -> int:
        """Numbers of one matrix of second moments."""
        return self.features * (self.features + 1) // 2

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of each block."""
        d, n = self.features, self.classes
        blocks = (n * d, n, (n if self.local else 1) * self.packed)
        return blocks if self.local else (*blocks, n * d)

    @property
    def size(self) -> int:
        """Numbers of the whole vector."""
        return sum(self.sizes)

    @property
    def gradients(self) -> int:
        """Numbers of the block of gradients, the last; the others are statistics."""
        return 0 if self.local else self.classes * self.features

    def unpack(self, vector: Floats) -> Sums:
        """Return the sums that a vector in units of the grid means."""
        d, n = self.features, self.classes
        parts = np.split(vector / GRID, np.cumsum(self.sizes)[:-1])
        gradient = np.zeros((n, d)) if self.local else parts[3].reshape(n, d)
        return Sums(
            parts[0].reshape(n, d) * (self.radius / SUM_WEIGHT),
            parts[1] / COUNT_WEIGHT,
            self._matrices(parts[2]) * (self.radius**2 / SECOND_WEIGHT),
            gradient * (self.clip / GRADIENT_WEIGHT),
        )

    def _matrices(self, packed: Floats) -> Floats:
        rows, columns = np.triu_indices(self.features)
        values = packed.reshape(-1, self.packed)
        values = np.where(rows == columns, values, values / math.sqrt(2.0))
        matrices = np.zeros((len(values), self.features, self.features))
        matrices[:, rows, columns] = values
        matrices[:, columns, rows] = values
        return matrices
