"""Rehearsal buffer: recent samples that are learnt again."""

from __future__ import annotations

from streamlvq.kernels import layout as at
from streamlvq.kernels.births import copy
from streamlvq.kernels.compile import helper
from streamlvq.kernels.scaling import observe, observe_class
from streamlvq.kernels.views import row, vector

REPLAY_AFTER = 10  # samples in the buffer before rehearsal starts
MODULUS, MULTIPLIER = 2147483647, 48271  # Park-Miller generator, exact in 64-bit integers


@helper
def random_unit(ints):
    ints[at.RANDOM] = (ints[at.RANDOM] * MULTIPLIER) % MODULUS
    return ints[at.RANDOM] / MODULUS


@helper
def pick_rehearsed(floats, ints):
    """Return a stored sample: of two draws that favour recent ones, the one with larger margin."""
    stored = min(ints[at.STORED], ints[at.REACH])
    margin = vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])
    chosen = -1
    for _ in range(2):
        age = int(float(stored) ** (random_unit(ints) ** 0.5)) - 1
        age = min(stored - 1, max(0, age))
        position = (ints[at.STORED] - 1 - age) % ints[at.BUFFER]
        if chosen < 0 or margin[position] > margin[chosen]:
            chosen = position
    return chosen


@helper
def set_margin(floats, ints, position, near, other):
    """Set the margin of a stored sample: -1 is clearly right, 1 clearly wrong."""
    total = near + other
    margin = (near - other) / total if total > 0.0 else 0.0
    vector(floats, ints, at.BUFFER_MARGIN, ints[at.BUFFER])[position] = margin


@helper
def store(floats, ints, x, c):
    position = ints[at.STORED] % ints[at.BUFFER]
    copy(x, row(floats, ints, at.BUFFER_X, position, ints[at.FEATURES]))
    vector(ints, ints, at.BUFFER_Y, ints[at.BUFFER])[position] = c
    set_margin(floats, ints, position, 1.0, 0.0)
    vector(ints, ints, at.BUFFER_RIGHT, ints[at.BUFFER])[position] = -1
    vector(ints, ints, at.BUFFER_WRONG, ints[at.BUFFER])[position] = -1
    ints[at.STORED] += 1


@helper
def remember(floats, ints, x, c):
    """Update scales, class statistics and the rehearsal buffer."""
    ints[at.SAMPLES] += 1
    if ints[at.PASSIVE] == 0:
        observe(floats, ints, x)
        observe_class(floats, ints, x, c)
    if ints[at.BUFFER] > 0:
        store(floats, ints, x, c)


@helper
def rounds_of_learning(ints):
    """Return the number of samples to learn: the new one and the rehearsed ones."""
    return 1 + (ints[at.REHEARSAL] if ints[at.STORED] >= REPLAY_AFTER else 0)
