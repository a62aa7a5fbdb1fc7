"""Recent certainties of a rejector, kept sorted, and the thresholds computed from them.

`memory` has four rows: certainties in order of arrival and whether each decision was right (1 or
0), then the same two sorted by certainty. It is a ring buffer: reading `seen` replaces the oldest.
"""

from __future__ import annotations

from math import inf

from streamlvq.kernels.compile import helper, kernel

CAME, CAME_RIGHT, SORTED, SORTED_RIGHT = 0, 1, 2, 3


@helper
def take_out(memory, stored, certainty, right):
    """Remove one of the sorted certainties."""
    gap = 0
    while memory[SORTED, gap] != certainty or memory[SORTED_RIGHT, gap] != right:
        gap += 1
    for k in range(gap, stored - 1):
        memory[SORTED, k] = memory[SORTED, k + 1]
        memory[SORTED_RIGHT, k] = memory[SORTED_RIGHT, k + 1]


@kernel("void(float64[:, ::1], int64, float64, float64)")
def remember(memory, seen, certainty, right):
    """Add a certainty (not NaN); drop the oldest one if the buffer is full."""
    room = memory.shape[1]
    place, stored = seen % room, seen
    if seen >= room:
        take_out(memory, room, memory[CAME, place], memory[CAME_RIGHT, place])
        stored = room - 1
    memory[CAME, place] = certainty
    memory[CAME_RIGHT, place] = right
    k = stored
    while k > 0 and memory[SORTED, k - 1] > certainty:
        memory[SORTED, k] = memory[SORTED, k - 1]
        memory[SORTED_RIGHT, k] = memory[SORTED_RIGHT, k - 1]
        k -= 1
    memory[SORTED, k] = certainty
    memory[SORTED_RIGHT, k] = right


@helper
def separates(memory, k):
    """Return whether a threshold can separate the sorted certainties from k on from the rest."""
    return k == 0 or memory[SORTED, k - 1] < memory[SORTED, k]


@helper
def first_above(memory, stored, certainty, equal):
    """Return how many sorted certainties are below a value, or (if `equal`) not above it."""
    low, high = 0, stored
    while low < high:
        middle = (low + high) // 2
        value = memory[SORTED, middle]
        if value < certainty or (equal and value == certainty):
            low = middle + 1
        else:
            high = middle
    return low


@kernel("float64(float64[:, ::1], int64, float64)")
def rate_threshold(memory, stored, share):
    """Return the threshold that rejects this share; 0 while that is less than one reading.

    Readings of equal certainty are all rejected or all kept, whichever is closer to the share.
    """
    wanted = share * stored
    rejected = int(wanted + 1e-9)  # 0.29 * 100 is a little less than 29
    if rejected == 0:
        return 0.0  # also accepts certainties below all those seen
    if rejected >= stored:
        return inf
    certainty = memory[SORTED, rejected]
    fewer = first_above(memory, stored, certainty, False)
    more = first_above(memory, stored, certainty, True)
    if more - fewer == 1 or wanted - fewer <= more - wanted:
        return certainty
    return memory[SORTED, more] if more < stored else inf


@kernel("float64(float64[:, ::1], int64, float64)")
def accurate_threshold(memory, stored, target):
    """Return the lowest threshold that reaches the accuracy; infinite if there is none."""
    threshold, right = inf, 0.0
    for k in range(stored - 1, -1, -1):
        right += memory[SORTED_RIGHT, k]
        if separates(memory, k) and right / (stored - k) >= target:
            threshold = memory[SORTED, k]
    return threshold


@kernel("float64(float64[:, ::1], int64, float64)")
def cheapest_threshold(memory, stored, cost):
    """Return the lowest threshold that minimises errors + cost * rejections."""
    threshold, least, errors = inf, cost * stored, 0.0
    for k in range(stored - 1, -1, -1):
        errors += 1.0 - memory[SORTED_RIGHT, k]
        total = errors + cost * k
        if separates(memory, k) and total <= least:
            threshold, least = memory[SORTED, k], total
    return threshold
