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


def absorption(depths: Floats) -> Floats:
    """Return the share of light absorbed in each band, one row per row of depths."""
    distances = (WAVELENGTHS - ABSORPTION_CENTRES[:, None]) / ABSORPTION_WIDTHS[:, None]
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
        How much its offset differs from those of other cameras: 1 is ordinary, 0 not at all.
    offset
        Instead of what `spread` would give: what it adds to each band.

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
    ) -> None:
        self.device = device
        self.seed = seed
        self.shares = dict.fromkeys(KINDS, 1.0) if shares is None else dict(shares)
        self.noise = noise
        self.spread = spread
        _check_shares(self.shares)
        entropy = [seed, zlib.crc32(device.encode())]
        build, self._belt, self._noise, self._test = (
            np.random.default_rng(s) for s in np.random.SeedSequence(entropy).spawn(4)
        )
        ordinary: Floats = spread * OFFSET_DEVIATION * smooth(build.normal(size=N_WAVES))
        self.offset = ordinary if offset is None else _curve(offset)
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
        waves = len(ABSORPTION_CENTRES)  # where the columns of smooth curves begin
        normal = self.noise * random.normal(size=(len(codes), waves + N_WAVES + len(BANDS)))
        beans, light, white = np.split(normal, [waves, waves + N_WAVES], axis=1)
        depths = np.array(list(DEPTHS.values()))[codes] * np.exp(BEAN_DEVIATION * beans)
        rows = CONTINUUM - absorption(depths) + LIGHT_DEVIATION * smooth(light) + BAND_NOISE * white
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
        Of the offsets, see `Camera`.

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
        made.append(Camera(device, seed, shares=shares, noise=noise, spread=spread))
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
