"""Hyperspectral cameras that look at beans: 50 bands, three kinds, and no two cameras agree."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamlvq.synth import Sample

Floats = npt.NDArray[np.float64]

WAVELENGTHS = np.linspace(950.0, 2500.0, 50)  # nm
BANDS = tuple(f"{wavelength:.0f} nm" for wavelength in WAVELENGTHS)
CONTINUUM = np.linspace(0.72, 0.56, len(BANDS))  # the share of light that comes back unabsorbed

# What beans absorb: where (nm), how broadly, and how much of the light in each kind of bean.
ABSORPTION_CENTRES = np.array([1210.0, 1450.0, 1725.0, 1940.0, 2100.0, 2310.0])
ABSORPTION_WIDTHS = np.array([55.0, 75.0, 50.0, 80.0, 90.0, 60.0])
DEPTHS = {  # oil, water, oil, water, starch and protein, oil
    "arabica": np.array([0.070, 0.115, 0.094, 0.190, 0.095, 0.136]),
    "robusta": np.array([0.035, 0.115, 0.051, 0.190, 0.131, 0.088]),
    "immature": np.array([0.052, 0.143, 0.065, 0.242, 0.138, 0.102]),
}
KINDS = tuple(DEPTHS)
# Deviations of what is ordinary. Depths and deviations are not measured ones: they were chosen so
# that a camera's own model is right about 98 times in 100 and offsets matter as soon as some kinds
# are rare.
BEAN_DEVIATION = 0.10  # relative: what one bean absorbs and what the next one does
LIGHT_DEVIATION = 0.02  # beans nearer to the lamp or farther away: a smooth curve per reading
BAND_NOISE = 0.006  # noise of each band for itself
OFFSET_DEVIATION = 0.06  # what a camera adds to everything it sees: a smooth curve that stays
N_WAVES = 4  # cosines that a smooth curve consists of
WATER = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0])  # which of them a moist bean absorbs more of
# Of which kinds a camera has few, or none: the five of a fleet, then again from the first. As in
# Vaquet et al. (2022), Federated learning vector quantization for dealing with drift between nodes;
# only what the fifth camera never sees is ours.
RARE_KINDS = (
    ("immature",),
    ("arabica",),
    ("arabica", "immature"),
    ("robusta", "immature"),
    ("arabica", "robusta"),
)
MISSING_KINDS = (("arabica",), ("robusta",), ("immature",), ("immature",), ("arabica",))


@dataclass(frozen=True)
class Conditions:
    """How much beans, light and cameras differ: deviations of what is ordinary.

    Parameters
    ----------
    depths
        What each kind of bean absorbs.
    bean, moisture
        How much more one bean absorbs than the next: of each substance for itself, and of water in
        both of its bands. Relative.
    light, noise
        Errors of each reading: a smooth curve, and each band for itself.
    offset, gain, nanometres
        How cameras differ: a smooth curve that they add, one that they multiply by (relative), and
        by how much they misjudge wavelengths.

    """

    depths: Mapping[str, Floats]
    bean: float
    moisture: float
    light: float
    noise: float
    offset: float
    gain: float
    nanometres: float


EASY = Conditions(
    DEPTHS, BEAN_DEVIATION, 0.0, LIGHT_DEVIATION, BAND_NOISE, OFFSET_DEVIATION, 0.0, 0.0
)
# Not measured either: chosen so that methods of fusion come off as in the paper named above
# (`fusion_paper.py`). What is immature is nearly arabica, beans differ by as much as kinds do and
# dried unequally, and light hides what is left, so that kinds overlap and only a metric that has
# seen many of two kinds can tell them apart. Cameras differ by less than readings do, but not only
# by an offset: each was calibrated with a white and a line of its own.
HARD = Conditions(
    depths={**DEPTHS, "immature": 0.5 * (DEPTHS["arabica"] + DEPTHS["immature"])},
    bean=0.14,
    moisture=0.2,
    light=0.065,
    noise=0.006,
    offset=0.04,
    gain=0.02,
    nanometres=2.0,
)


def absorption(depths: Floats, moved: float = 0.0) -> Floats:
    """Return the share of light absorbed in each band, one row per row of depths.

    `moved` is by how many nanometres a camera sees everything at longer waves.
    """
    centres = ABSORPTION_CENTRES + moved
    distances = (WAVELENGTHS - centres[:, None]) / ABSORPTION_WIDTHS[:, None]
    shapes = np.exp(-0.5 * distances**2)
    return mixed(depths, shapes)


def spectrum(kind: str) -> Floats:
    """Return the spectrum of an average bean, without noise and offset."""
    return CONTINUUM - absorption(DEPTHS[kind])


def smooth(normal: Floats) -> Floats:
    """Return smooth curves over the bands with a deviation of about 1."""
    place = (WAVELENGTHS - WAVELENGTHS[0]) / np.ptp(WAVELENGTHS)
    order = np.arange(N_WAVES)
    sizes = np.sqrt(2.0) / (1.0 + order)  # the slower a wave, the larger
    sizes /= np.sqrt(np.sum(1.0 / (1.0 + order) ** 2))
    return mixed(normal * sizes, np.cos(np.pi * order[:, None] * place))


def mixed(amounts: Floats, curves: Floats) -> Floats:
    """`amounts @ curves`, but one reading alone gets the same bits as among many."""
    total = np.zeros((*amounts.shape[:-1], curves.shape[1]))
    for k, curve in enumerate(curves):
        total += amounts[..., k, None] * curve
    return total


@dataclass(frozen=True)
class Spectra:
    """Readings of a camera, in columns.

    Parameters
    ----------
    rows
        A row for each reading: the share of light that comes back, a column for each of `BANDS`.
    kinds
        What the camera really saw.

    """

    rows: Floats
    kinds: list[str]

    def __len__(self) -> int:
        return len(self.kinds)


class Camera:
    """Simulated hyperspectral camera over a belt with coffee beans of three kinds.

    A bean reflects less light where its oil, water, starch and protein absorb it. How much there
    is of them differs between the kinds (`DEPTHS`), and by a tenth from bean to bean. Each reading
    also has a smooth error, because beans lie nearer to the lamp or farther away, and white noise.
    What matters for fleets: every camera adds an `offset` of its own, a smooth curve over the
    bands that stays as it is. It is larger than the differences between the kinds.

    That is the easy variety. In the hard one (`HARD`) kinds overlap, and cameras also differ by a
    gain, a smooth curve, and by what they take for a wavelength, so that no offset tells all.

    The same arguments give the same readings, however they are cut into chunks.

    Parameters
    ----------
    device
        Its name; cameras with different names differ.
    seed
        Of all its random numbers.
    shares
        How often each kind of bean comes by, relative to the others; kinds that are not in it
        never do. All equally often by default.
    noise
        1 is ordinary; 0 none, then all beans of a kind look the same.
    spread
        How much it differs from other cameras: 1 is ordinary, 0 not at all.
    offset
        Instead of what `spread` would give: what it adds to each band.
    hard
        Whether beans and cameras differ as in `HARD`, not as in `EASY`.

    Examples
    --------
    >>> from spectra import Camera

    >>> camera = Camera("camera-2", seed=1, shares={"arabica": 1, "robusta": 0.05})
    >>> x, kind, where = next(iter(camera))
    >>> kind, where
    ('arabica', {'device': 'camera-2', 't': 0.0})
    >>> [round(x[band], 3) for band in ("950 nm", "1456 nm", "2500 nm")]
    [0.705, 0.501, 0.6]

    Many at a time, and as many of each kind to test with:

    >>> spectra = camera.take(1000)
    >>> spectra.rows.shape, spectra.kinds.count("robusta")
    ((1000, 50), 35)
    >>> sorted(camera.balanced(2).kinds)
    ['arabica', 'arabica', 'immature', 'immature', 'robusta', 'robusta']

    """

    def __init__(
        self,
        device: str = "camera-1",
        seed: int = 1,
        *,
        shares: Mapping[str, float] | None = None,
        noise: float = 1.0,
        spread: float = 1.0,
        offset: Sequence[float] | Floats | None = None,
        hard: bool = False,
    ) -> None:
        self.device = device
        self.seed = seed
        self.shares = dict.fromkeys(KINDS, 1.0) if shares is None else dict(shares)
        self.noise = noise
        self.spread = spread
        self.conditions = HARD if hard else EASY
        _check_shares(self.shares)
        entropy = [seed, zlib.crc32(device.encode())]
        build, self._belt, self._noise, self._test = (
            np.random.default_rng(s) for s in np.random.SeedSequence(entropy).spawn(4)
        )
        usual = self.conditions
        ordinary: Floats = spread * usual.offset * smooth(build.normal(size=N_WAVES))
        self.offset = ordinary if offset is None else _curve(offset)
        self.gain: Floats = np.exp(spread * usual.gain * smooth(build.normal(size=N_WAVES)))
        self.moved = spread * usual.nanometres * float(build.normal())
        self._made = 0  # readings

    def take(self, n: int) -> Spectra:
        """Return the next `n` readings."""
        weights = np.array([self.shares.get(kind, 0.0) for kind in KINDS])
        limits = np.cumsum(weights / weights.sum())[:-1]
        codes = np.searchsorted(limits, self._belt.random(n), side="right")
        self._made += n
        return self._seen(codes, self._noise)

    def balanced(self, each: int) -> Spectra:
        """Return further readings with `each` of every kind, for tests.

        They have random numbers of their own: asking for them changes nothing else.
        """
        return self._seen(np.tile(np.arange(len(KINDS)), each), self._test)

    def __iter__(self) -> Iterator[Sample]:
        """Yield readings one by one for ever, one each second, like River's streams."""
        while True:
            where = {"device": self.device, "t": float(self._made)}
            spectra = self.take(1)
            reading = dict(zip(BANDS, spectra.rows[0].tolist(), strict=True))
            yield reading, spectra.kinds[0], where

    def _seen(self, codes: npt.NDArray[np.intp], random: np.random.Generator) -> Spectra:
        usual, waves = self.conditions, len(ABSORPTION_CENTRES)  # columns of smooth curves follow
        width = waves + N_WAVES + len(BANDS) + (usual.moisture > 0)
        normal = self.noise * random.normal(size=(len(codes), width))
        ends = np.cumsum([waves, N_WAVES, len(BANDS)])
        beans, light, white, moisture = np.split(normal, ends, axis=1)
        amounts = usual.bean * beans
        if usual.moisture > 0:
            amounts += usual.moisture * moisture * WATER
        depths = np.array(list(usual.depths.values()))[codes] * np.exp(amounts)
        scene = CONTINUUM - absorption(depths, self.moved) + usual.light * smooth(light)
        rows = scene * self.gain + usual.noise * white
        return Spectra(rows + self.offset, [KINDS[code] for code in codes.tolist()])


def cameras(
    count: int = 5,
    seed: int = 1,
    *,
    name: str = "camera-{}",
    imbalance: float = 1.0,
    missing: bool = False,
    noise: float = 1.0,
    spread: float = 1.0,
    hard: bool = False,
) -> list[Camera]:
    """Return several cameras, named camera-1, camera-2 and so on, that see different beans.

    Parameters
    ----------
    count
        How many.
    seed
        Of all random numbers.
    name
        What they are called.
    imbalance
        How often a camera sees its one or two rare kinds (`RARE_KINDS`), relative to the others.
    missing
        Whether each camera never sees one of the kinds (`MISSING_KINDS`).
    noise
        Of all readings, see `Camera`.
    spread
        Of the differences between cameras, see `Camera`.
    hard
        Whether kinds overlap and cameras differ by more than an offset, see `Camera`.

    Examples
    --------
    A model that learnt from one camera errs far more often at another, although both see the same
    beans:

    >>> import streamlvq
    >>> from spectra import BANDS, cameras

    >>> here, there = cameras(2, seed=1)
    >>> spectra = here.take(600)
    >>> model = streamlvq.LGMLVQ()
    >>> model.learn_array(spectra.rows, spectra.kinds, BANDS)
    >>> for camera in (here, there):
    ...     test = camera.balanced(100)
    ...     print(f"{(model.predict_array(test.rows) == test.kinds).mean():.2f}")
    0.97
    0.87

    """
    few = [() if missing else kinds for kinds in RARE_KINDS]
    none = [kinds if missing else () for kinds in MISSING_KINDS]
    made = []
    for number in range(count):
        shares = dict.fromkeys(KINDS, 1.0)
        shares.update(dict.fromkeys(few[number % len(few)], imbalance))
        for kind in none[number % len(none)]:
            del shares[kind]
        device = name.format(number + 1)
        made.append(Camera(device, seed, shares=shares, noise=noise, spread=spread, hard=hard))
    return made


def _check_shares(shares: Mapping[str, float]) -> None:
    for kind, share in shares.items():
        if kind not in KINDS:
            raise ValueError(f"Camera(shares=...): expected {', '.join(KINDS)}, got {kind!r}")
        if not 0 <= share < np.inf:
            raise ValueError(f"Camera(shares=...): expected numbers of at least 0, got {share!r}")
    if not sum(shares.values()) > 0:
        raise ValueError(f"Camera(shares=...): expected some beans to come by, got {shares!r}")


def _curve(offset: Sequence[float] | Floats) -> Floats:
    curve = np.array(offset, dtype=np.float64)
    if curve.shape != (len(BANDS),) or not np.isfinite(curve).all():
        raise ValueError(
            f"Camera(offset=...): expected {len(BANDS)} finite numbers, one for each band, "
            f"got {offset!r}"
        )
    return curve
