"""Sums of clipped GLVQ gradients on a grid, see `streamlvq.privacy.published`.

Each reading's gradient is shortened to a given norm and rounded towards zero to the grid, so that
the sum over readings is exact and the change by one reading is no longer than that norm.
"""

from __future__ import annotations

from math import sqrt

from streamlvq.kernels.compile import kernel

SAFETY = 1.0 - 2.0**-30  # rounding errors of the norm are far smaller
LARGEST = 1e150  # whose square is a number


@kernel(
    "void(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], float64[:, ::1], float64, "
    "float64, int64[:, ::1], int64[:, ::1], float64[::1])"
)
def clipped_sums(X, y, rows, prototypes, omega, clip, grid, prototype_sums, omega_sums, scratch):
    """Add up the gradients of `mu` for some rows, in units of `1 / grid`.

    Prototype k is of class k. An `omega` without rows is the Euclidean distance. `scratch` holds
    the images of the prototypes and of one reading, and two differences: `classes * m + m + 2 * m +
    2 * d` numbers for m rows of omega.
    """
    classes, d = prototypes.shape
    m = omega.shape[0]
    images = scratch[: classes * m].reshape((classes, m))
    image = scratch[classes * m : classes * m + m]
    rest = scratch[classes * m + m :]
    near, far = rest[:m], rest[m : 2 * m]  # differences in the space of the metric
    pull, push = rest[2 * m : 2 * m + d], rest[2 * m + d : 2 * m + 2 * d]  # gradients
    for k in range(classes):
        for i in range(m):
            total = 0.0
            for j in range(d):
                total += omega[i, j] * prototypes[k, j]
            images[k, i] = total
    prototype_sums[:] = 0
    omega_sums[:] = 0
    for row in rows:
        x = X[row]
        for i in range(m):
            total = 0.0
            for j in range(d):
                total += omega[i, j] * x[j]
            image[i] = total
        right, wrong, other = 0.0, 1e300, -1
        for k in range(classes):
            distance = 0.0
            if m == 0:
                for j in range(d):
                    distance += (x[j] - prototypes[k, j]) ** 2
            else:
                for i in range(m):
                    distance += (image[i] - images[k, i]) ** 2
            if k == y[row]:
                right = distance
            elif distance < wrong:
                wrong, other = distance, k
        both = right + wrong
        if other < 0 or not 0.0 < both < LARGEST:
            continue
        mine = y[row]
        slope_right = 4.0 * wrong / both**2  # twice the slope of mu
        slope_wrong = -4.0 * right / both**2
        for j in range(d):
            pull[j] = 0.0
            push[j] = 0.0
        if m == 0:
            for j in range(d):
                pull[j] = -slope_right * (x[j] - prototypes[mine, j])
                push[j] = -slope_wrong * (x[j] - prototypes[other, j])
        for i in range(m):
            near[i] = slope_right * (image[i] - images[mine, i])
            far[i] = slope_wrong * (image[i] - images[other, i])
            for j in range(d):
                pull[j] -= near[i] * omega[i, j]
                push[j] -= far[i] * omega[i, j]
        square = 0.0
        for j in range(d):
            square += pull[j] ** 2 + push[j] ** 2
        for i in range(m):
            for j in range(d):
                square += (
                    near[i] * (x[j] - prototypes[mine, j]) + far[i] * (x[j] - prototypes[other, j])
                ) ** 2
        if not 0.0 < square < LARGEST:
            continue
        scale = grid * min(1.0, SAFETY * clip / sqrt(square))
        for j in range(d):
            prototype_sums[mine, j] += int(scale * pull[j])
            prototype_sums[other, j] += int(scale * push[j])
        for i in range(m):
            for j in range(d):
                omega_sums[i, j] += int(
                    scale
                    * (
                        near[i] * (x[j] - prototypes[mine, j])
                        + far[i] * (x[j] - prototypes[other, j])
                    )
                )
