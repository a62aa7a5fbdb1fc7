"""Simulated machines to try things out with: no data needed, and the truth is known.

A `Machine` is one device: it changes its state now and then, and its sensors follow with physics,
noise and, on request, everything that goes wrong in a plant. A `plant` is several of them.
"""

from __future__ import annotations

from streamlvq.synth.machine import (
    BEARING_FAULT,
    FEATURES,
    OFFSET_SPREADS,
    ORDINARY,
    SENSOR_UNITS,
    STATES,
    Drift,
    Fault,
    Glitches,
    Machine,
    MachineState,
)
from streamlvq.synth.plants import interleave, plant
from streamlvq.synth.samples import Sample, Samples

__all__ = [
    "BEARING_FAULT",
    "FEATURES",
    "OFFSET_SPREADS",
    "ORDINARY",
    "SENSOR_UNITS",
    "STATES",
    "Drift",
    "Fault",
    "Glitches",
    "Machine",
    "MachineState",
    "Sample",
    "Samples",
    "interleave",
    "plant",
]
