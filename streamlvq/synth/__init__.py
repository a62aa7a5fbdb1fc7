"""Simulated machines, to try things out on: no data needed, and the truth is known.

A `Machine` is one device: it changes its state now and then, and its sensors follow with physics,
noise and, if asked, with all that goes wrong in a plant. A `plant` is several of them.

A `Camera` sees the spectra of coffee beans; `cameras` are several that never quite agree.
"""

from __future__ import annotations

from streamlvq.synth.defects import Drift, Fault, Glitches
from streamlvq.synth.machine import ORDINARY, Machine
from streamlvq.synth.physics import FEATURES, UNITS
from streamlvq.synth.plants import interleave, plant
from streamlvq.synth.samples import Samples
from streamlvq.synth.spectra import BANDS, KINDS, Camera, Spectra, cameras, spectrum
from streamlvq.synth.states import STATES, State

__all__ = [
    "BANDS",
    "FEATURES",
    "KINDS",
    "ORDINARY",
    "STATES",
    "UNITS",
    "Camera",
    "Drift",
    "Fault",
    "Glitches",
    "Machine",
    "Samples",
    "Spectra",
    "State",
    "cameras",
    "interleave",
    "plant",
    "spectrum",
]
