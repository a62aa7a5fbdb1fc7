"""Metrics as matrices: averaged as such, and taken apart again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamlvq.fusion.drift import Correction
from streamlvq.fusion.pool import Pool
from streamlvq.fusion.rules import mean
from streamlvq.kernels import layout as at
from streamlvq.state import Floats, Ints

if TYPE_CHECKING:
    from streamlvq.fusion.blend import Voices

LARGEST = 3.0  # times the usual trace of a metric: more is cut to it


class Fused(NamedTuple):
    """A metric as the rows of a factor, the share of it that these rows lose, and moments."""

    omega: Floats
    loss: float
    columns: Floats
    total: float


class Lambdas:
    """The metrics of all nodes in common coordinates and in units of the common feature scales.

    A factor is not unique, but the matrix is, and the mean of matrices measures the mean of
    distances.
    """

    def __init__(
        self, pool: Pool, correction: Correction, inverse: Floats, kind: int, voices: Voices
    ) -> None:
        self.pool, self.kind, self.voices = pool, kind, voices
        unit = np.where(inverse > 0, 1.0 / np.where(inverse > 0, inverse, 1.0), 0.0)
        self.ratio = pool.scales["inverse"] * correction.gain * unit
        self.factor = self._factors()

    def _factors(self) -> Floats:
        """What metrics are multiplied by: 1, or less if the trace is suspiciously large."""
        node = self.pool.metric_node
        traces = np.array(
            [
                float(((omega * self.ratio[i]) ** 2).sum())
                for i, omega in zip(node, self.pool.omega, strict=True)
            ]
        )
        if self.voices.screened is None or len(np.unique(node)) < 3:
            return np.ones(len(traces))
        heard = self.voices.nodes[node] > 0
        limit = LARGEST * float(np.median(traces[heard])) if heard.any() else np.inf
        for i in np.unique(node[heard & (traces > limit)]).tolist():
            self.voices.screened.note(i, "a metric that is larger than all others was cut")
        factors: Floats = np.minimum(1.0, limit / np.maximum(traces, 1e-300))
        return factors

    def _one(self, m: int) -> Floats:
        omega = self.pool.omega[m] * self.ratio[self.pool.metric_node[m]]
        if self.kind == at.DIAGONAL:
            diagonal: Floats = self.factor[m] * omega[0] ** 2
            return diagonal
        matrix: Floats = self.factor[m] * (omega.T @ omega)
        return matrix

    def fused(self, which: Ints, weights: Floats, rank: int) -> Fused:
        """One metric out of those with these numbers."""
        which, weights = which[weights > 0], weights[weights > 0]
        if self.voices.rule is mean and self.kind != at.DIAGONAL:
            matrix = self._mean(which, weights / weights.sum())
        else:
            stack = np.array([self._one(m) for m in which])
            share = weights.reshape(-1, *[1] * (stack.ndim - 1))
            matrix = self.voices.rule(stack, share)
        omega, loss = (
            (np.sqrt(matrix)[None], 0.0) if self.kind == at.DIAGONAL else factor(matrix, rank)
        )
        columns = mean(np.array([self.pool.moments[m][0] for m in which]), weights[:, None])
        total = float(mean(np.array([self.pool.moments[m][1] for m in which]), weights))
        return Fused(omega, loss, columns, total)

    def _mean(self, which: Ints, share: Floats) -> Floats:
        """The same as the rule on matrices, by one product of all rows."""
        rows = np.concatenate(
            [
                self.pool.omega[m]
                * self.ratio[self.pool.metric_node[m]]
                * np.sqrt(s * self.factor[m])
                for m, s in zip(which, share, strict=True)
            ]
        )
        product: Floats = rows.T @ rows
        return product


def factor(matrix: Floats, rank: int) -> tuple[Floats, float]:
    """Rows whose product with themselves is the matrix, or the closest of that rank.

    The principal square root if the rank is full; otherwise the eigenvectors of the largest
    eigenvalues, times their roots. What is negative (medians of matrices can be) counts as zero.
    """
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, 0.0)
    roots = np.sqrt(values)
    if rank >= len(matrix):
        return (vectors * roots) @ vectors.T, 0.0
    total = values.sum()
    top = slice(len(values) - rank, None)
    rows = (vectors[:, top] * roots[top]).T[::-1]
    # The sign of an eigenvector is anybody's choice: the largest entry is positive.
    signs = np.sign(rows[np.arange(rank), np.abs(rows).argmax(axis=1)])
    rows = np.ascontiguousarray(rows * np.where(signs == 0, 1.0, signs)[:, None])
    return rows, float(1.0 - values[top].sum() / total) if total > 0 else 0.0
