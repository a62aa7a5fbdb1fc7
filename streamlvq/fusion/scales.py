"""The scales of features over all nodes, in common coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamlvq.fusion.drift import Correction
from streamlvq.fusion.pool import Pool
from streamlvq.fusion.rules import median
from streamlvq.fusion.screen import QUORUM, Screened
from streamlvq.fusion.shape import Shape
from streamlvq.fusion.tables import Bools
from streamlvq.state import Floats

if TYPE_CHECKING:
    from streamlvq.fusion.blend import Voices

TIMES_PEAK = 4.0  # a largest deviation beyond this many times the usual one counts only as that
TIMES_SPREAD = 9.0  # a variance as well
TIMES_APART = 4.0  # and so does a mean that is farther away than nodes or readings usually are
RELATIVE_ROUNDING = 1e-20  # see `kernels.scaling`


def fused_scales(
    pool: Pool, correction: Correction, voices: Voices, shape: Shape
) -> dict[str, Floats]:
    """Mean, deviation, largest deviation and weight of every feature over all nodes."""
    gain, shift = correction.gain, correction.shift
    known = (pool.scales["weight"] > 0) & (voices.nodes > 0)[:, None]
    share = np.where(known, voices.nodes[:, None], 0.0)
    place = np.where(known, (pool.scales["mean"] - shift) / gain, np.nan)
    inner = np.where(known, pool.scales["variance"] / gain**2, np.nan)
    peaks = np.where(known, pool.scales["peak"] / gain, np.nan)
    if voices.screened is not None:
        place, inner, peaks = _limited(known, place, inner, peaks, voices, voices.screened)
    middle = np.nan_to_num(voices.rule(place, share))
    within = np.nan_to_num(voices.rule(inner, share))
    between = np.nan_to_num(voices.rule((place - middle) ** 2, share))
    scales = {
        "mean": middle,
        "variance": within + between,
        "peak": np.nan_to_num(peaks).max(axis=0, initial=0.0),
        "weight": np.where(known, pool.scales["weight"], 0.0).sum(axis=0),
    }
    scales["inverse"] = _inverse(scales, shape)
    return scales


def _limited(
    known: Bools, place: Floats, inner: Floats, peaks: Floats, voices: Voices, screened: Screened
) -> tuple[Floats, Floats, Floats]:
    """Where enough nodes know a feature, none of them can say just anything about its scale.

    A node may have readings of any class: its mean may be wherever classes are that enough nodes
    have, and a little farther away.
    """
    alike = known.astype(float)
    middle, usual = median(place, alike), median(inner, alike)
    sure = (voices.cells > 0).sum(axis=0) >= QUORUM
    many = (known.sum(axis=0) >= QUORUM) & (usual > 0) & sure.any()
    classes = voices.centre[sure] - middle
    classes = np.where(np.isfinite(classes), classes, 0.0)
    low, high = classes.min(axis=0, initial=0.0), classes.max(axis=0, initial=0.0)
    reach = TIMES_APART * np.maximum(np.sqrt(usual), median(np.abs(place - middle), alike))
    apart = np.clip(place - middle, low - reach, high + reach)
    widest = np.maximum(TIMES_SPREAD * usual, usual + 0.25 * (high - low) ** 2)
    new = (
        np.where(many, middle + apart, place),
        np.where(many, np.minimum(inner, widest), inner),
        np.where(many, np.minimum(peaks, TIMES_PEAK * median(peaks, alike)), peaks),
    )
    wild = (np.abs(place - middle - apart) > 0) | (inner > new[1]) | (peaks > new[2])
    for i in np.flatnonzero((wild & many).any(axis=1)).tolist():
        screened.note(i, "the scale of a feature far from that of all others was cut")
    return new


def _inverse(scales: dict[str, Floats], shape: Shape) -> Floats:
    """As `kernels.scaling` has it, so that nothing jumps when the fused model learns."""
    if not shape.standardize:
        return np.where(scales["weight"] > 0, 1.0, 0.0)
    squared = np.maximum(scales["variance"], (shape.floor * scales["peak"]) ** 2)
    usable = squared > RELATIVE_ROUNDING * scales["mean"] ** 2
    return np.where(usable, 1.0 / np.sqrt(np.where(usable, squared, 1.0)), 0.0)
