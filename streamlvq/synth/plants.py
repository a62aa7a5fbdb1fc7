"""Several machines together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from streamlvq.synth.machine import Drift, Fault, Glitches, Machine
from streamlvq.synth.samples import Sample


def plant(
    devices: int = 3,
    seed: int = 1,
    *,
    name: str = "press-{}",
    faults: Mapping[str, Sequence[Fault]] | None = None,
    drifts: Mapping[str, Sequence[Drift]] | None = None,
    glitches: Mapping[str, Sequence[Glitches]] | None = None,
    **options: Any,
) -> list[Machine]:
    """Return several machines, named press-1, press-2 and so on.

    Parameters
    ----------
    devices
        Number of machines.
    seed
        Seed of all random numbers.
    name
        Template of their names.
    faults
        Of each machine, by its name.
    drifts
        Of each machine, by its name.
    glitches
        Of each machine, by its name.
    options
        Further arguments of every `Machine`.

    Examples
    --------
    A model learns from 640 readings, in which every machine visits each of its states for a while,
    and is asked about the next 4000:

    >>> from itertools import islice
    >>> import streamlvq
    >>> from streamlvq import synth

    >>> readings = synth.interleave(synth.plant(devices=4, seed=1, tour=40))
    >>> model = streamlvq.LGMLVQ()
    >>> for x, state, where in islice(readings, 640):
    ...     model.learn_one(x, state)
    >>> answers = [model.predict_one(x) == state for x, state, where in islice(readings, 4000)]
    >>> sum(answers) / 4000
    0.94

    """
    names = [name.format(number) for number in range(1, devices + 1)]
    return [
        Machine(
            device,
            seed,
            faults=(faults or {}).get(device, ()),
            drifts=(drifts or {}).get(device, ()),
            glitches=(glitches or {}).get(device, ()),
            **options,
        )
        for device in names
    ]


def interleave(machines: Sequence[Machine]) -> Iterator[Sample]:
    """Yield the readings of all machines in the order of their times, endlessly."""
    return heapq.merge(*machines, key=lambda sample: sample[2]["t"])
