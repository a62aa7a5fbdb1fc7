"""Sums of clipped GLVQ gradients on a grid, see `streamlvq.privacy.published`.

Each reading's gradient is shortened to a given norm and rounded towards zero to the grid, so that
the change by one reading is no longer than that norm. Sums of whole numbers below 2**53 are exact
in any order.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from streamlvq.kernels.compile import kernel

SAFETY = 1.0 - 1e-9  # norms stay below their limit in spite of rounding
LARGEST = 1e150  # whose square is a number


@kernel(
    "void(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64, "
    "float64, float64[:, ::1], float64[:, ::1], float64[::1])"
)
def clipped_sums(X, y, rows, prototypes, omega, clip, grid, prototype_sums, omega_sums, scratch):
    """Add up the gradients of `mu` for some rows, in units of `1 / grid`: whole numbers.

    Prototype k is of class k. An `omega` without rows is the Euclidean distance. `scratch` holds
    `(classes + 3) m + 4 d` numbers for m rows of omega.
    """
    classes, d = prototypes.shape
    m = omega.shape[0]
    images = scratch[: classes * m].reshape((classes, m))  # of prototypes by omega
    rest = scratch[classes * m :]
    image, near, far = rest[:m], rest[m : 2 * m], rest[2 * m : 3 * m]
    rest = rest[3 * m :]
    to_right, to_wrong = rest[:d], rest[d : 2 * d]  # from the prototypes to the reading
    pull, push = rest[2 * d : 3 * d], rest[3 * d : 4 * d]  # gradients of the prototypes
    for k in range(classes):
        for i in range(m):
            total = 0.0
            for j in range(d):
                total += omega[i, j] * prototypes[k, j]
            images[k, i] = total
    prototype_sums[:] = 0.0
    omega_sums[:] = 0.0
    for row in rows:
        for i in range(m):
            total = 0.0
            for j in range(d):
                total += omega[i, j] * X[row, j]
            image[i] = total
        mine, other = y[row], -1
        right, wrong = 0.0, 1e300
        for k in range(classes):
            distance = 0.0
            if m == 0:
                for j in range(d):
                    distance += (X[row, j] - prototypes[k, j]) ** 2
            for i in range(m):
                distance += (image[i] - images[k, i]) ** 2
            if k == mine:
                right = distance
            elif distance < wrong:
                wrong, other = distance, k
        both = right + wrong
        if other < 0 or not 0.0 < both < LARGEST:
            continue
        slope_right = 4.0 * wrong / both**2  # twice the slope of mu
        slope_wrong = -4.0 * right / both**2
        for j in range(d):
            to_right[j] = X[row, j] - prototypes[mine, j]
            to_wrong[j] = X[row, j] - prototypes[other, j]
            pull[j] = -slope_right * to_right[j] if m == 0 else 0.0
            push[j] = -slope_wrong * to_wrong[j] if m == 0 else 0.0
        square = 0.0
        for i in range(m):
            near[i] = slope_right * (image[i] - images[mine, i])
            far[i] = slope_wrong * (image[i] - images[other, i])
            for j in range(d):
                pull[j] -= near[i] * omega[i, j]
                push[j] -= far[i] * omega[i, j]
                square += (near[i] * to_right[j] + far[i] * to_wrong[j]) ** 2
        for j in range(d):
            square += pull[j] ** 2 + push[j] ** 2
        if not 0.0 < square < LARGEST:
            continue
        scale = grid * min(1.0, SAFETY * clip / sqrt(square))
        for j in range(d):
            prototype_sums[mine, j] += np.trunc(scale * pull[j])
            prototype_sums[other, j] += np.trunc(scale * push[j])
        for i in range(m):
            a, b = scale * near[i], scale * far[i]
            for j in range(d):
                omega_sums[i, j] += np.trunc(a * to_right[j] + b * to_wrong[j])
