"""Oracle of clipped gradients of GLVQ and GMLVQ, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = Sequence[float]
Matrix = Sequence[Vector]


def relative_distance(x: Vector, label: int, prototypes: Matrix, omega: Matrix | None) -> float:
    """`(d+ - d-) / (d+ + d-)`, prototype k being of class k; None is the Euclidean distance."""
    distances = [squared(x, w, omega) for w in prototypes]
    right = distances[label]
    wrong = min(each for k, each in enumerate(distances) if k != label)
    return (right - wrong) / (right + wrong)


def squared(x: Vector, w: Vector, omega: Matrix | None) -> float:
    difference = [a - b for a, b in zip(x, w, strict=True)]
    if omega is not None:
        difference = [sum(o * v for o, v in zip(row, difference, strict=True)) for row in omega]
    return sum(v * v for v in difference)


def gradient(
    x: Vector, label: int, prototypes: Matrix, omega: Matrix | None, step: float = 1e-5
) -> tuple[list[list[float]], list[list[float]]]:
    """Central differences of `relative_distance` by prototypes and by omega."""

    def slope(matrix: list[list[float]], i: int, j: int, moves_omega: bool) -> float:
        found = []
        for sign in (1, -1):
            moved = [list(row) for row in matrix]
            moved[i][j] += sign * step
            pair = (prototypes, moved) if moves_omega else (moved, omega)
            found.append(relative_distance(x, label, *pair))
        return (found[0] - found[1]) / (2 * step)

    w = [list(row) for row in prototypes]
    o = [] if omega is None else [list(row) for row in omega]
    return (
        [[slope(w, i, j, False) for j in range(len(w[i]))] for i in range(len(w))],
        [[slope(o, i, j, True) for j in range(len(o[i]))] for i in range(len(o))],
    )


def analytic_gradient(
    x: Vector, label: int, prototypes: Matrix, omega: Matrix | None
) -> tuple[list[list[float]], list[list[float]]]:
    """The same from the formulas (2.13, 2.17 and 2.18 of the thesis, identity for Phi)."""
    d = len(x)
    distances = [squared(x, w, omega) for w in prototypes]
    others = [k for k in range(len(prototypes)) if k != label]
    rival = min(others, key=lambda k: distances[k])
    total = distances[label] + distances[rival]
    slopes = {label: 2 * distances[rival] / total**2, rival: -2 * distances[label] / total**2}
    by_w = [[0.0] * d for _ in prototypes]
    by_omega = [[0.0] * d for _ in omega or []]
    for k, slope in slopes.items():
        v = [a - b for a, b in zip(x, prototypes[k], strict=True)]
        if omega is None:
            by_w[k] = [-2 * slope * each for each in v]
            continue
        image = [sum(o * each for o, each in zip(row, v, strict=True)) for row in omega]
        for j in range(d):
            back = sum(row[j] * e for row, e in zip(omega, image, strict=True))
            by_w[k][j] = -2 * slope * back
        for i, e in enumerate(image):
            for j in range(d):
                by_omega[i][j] += 2 * slope * e * v[j]
    return by_w, by_omega


def clipped(
    by_w: Matrix, by_omega: Matrix, clip: float, grid: float
) -> tuple[list[list[int]], list[list[int]]]:
    """Shorten both together to the norm and round towards zero."""
    norm = math.sqrt(sum(g * g for m in (by_w, by_omega) for row in m for g in row))
    factor = min(1.0, clip / norm) if norm else 0.0
    whole = [[[int(grid * factor * g) for g in row] for row in m] for m in (by_w, by_omega)]
    return whole[0], whole[1]
