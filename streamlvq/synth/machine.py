"""Machine."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from streamlvq.synth.defects import Drift, Fault, Glitches, check_share, spikes, spoilt
from streamlvq.synth.physics import (
    AMBIENT,
    FEATURES,
    OFFSETS,
    SCALES,
    Floats,
    at_once,
    settled_temperatures,
    warming,
    with_noise,
)
from streamlvq.synth.samples import Sample, Samples, joined
from streamlvq.synth.states import STATES, State

ORDINARY = ("idle", "running", "heavy load", "imbalance")


class Machine:
    """A simulated machine with twelve sensors.

    It stays in a state for a while (gamma distributed, mean and weight as in `STATES`), then goes
    on to another one: a semi-Markov chain. Every stay has a load, speed and wear of its own, and
    the sensors follow: vibration grows with the square of the speed, current and pressure with the
    load, temperatures lag behind by a minute or two. Sensors have noise, and those of one machine
    differ a little from those of another.

    The same arguments give the same readings, however they are cut into chunks. What is wrong with
    the sensors (drifts, glitches, dropouts) has random numbers of its own: switching it on changes
    nothing else.

    Parameters
    ----------
    device
        Its name; machines with different names differ.
    seed
        Of all its random numbers.
    visits
        The states it visits by itself, at least one of `states`.
    states
        All that it can be in.
    tour
        When it is switched on, it first visits each of its states for this many seconds, in an
        order of its own, so that there is soon something to learn from each; 0 for no tour.
    interval
        Seconds from one reading to the next.
    noise
        Of the sensors: 1 is ordinary, 0 none.
    spread
        How much its sensors differ from those of other machines: 1 is ordinary, 0 not at all.
    offset
        Instead of what `spread` would give: what each sensor adds, by the name of the feature.
    scale
        Likewise what each sensor multiplies with (before it adds).
    faults
        When it is in a state that it would not visit by itself, or not then.
    drifts
        Sensors that go wrong slowly.
    glitches
        Times of readings that are nonsense.
    dropout
        The share of values that are missing.

    Examples
    --------
    >>> from streamlvq.synth import Fault, Machine

    >>> machine = Machine("press-2", seed=1, faults=[Fault(state="bearing fault", start=600)])
    >>> x, state, where = next(iter(machine))
    >>> state, where
    ('imbalance', {'device': 'press-2', 't': 0.0})
    >>> x["speed"], x["current"], x["vibration_x"]
    (1459.8, 13.1, 2.3)

    Many at a time:

    >>> samples = machine.take(1000)
    >>> samples.rows.shape, samples.times[-1].item()
    ((1000, 12), 1000.0)
    >>> {state: samples.states.count(state) for state in dict.fromkeys(samples.states)}
    {'imbalance': 276, 'heavy load': 116, 'running': 134, 'idle': 73, 'bearing fault': 401}

    """

    def __init__(
        self,
        device: str = "press-1",
        seed: int = 1,
        *,
        visits: Sequence[str] = ORDINARY,
        states: Mapping[str, State] = STATES,
        tour: float = 0.0,
        interval: float = 1.0,
        noise: float = 1.0,
        spread: float = 1.0,
        offset: Mapping[str, float] | None = None,
        scale: Mapping[str, float] | None = None,
        faults: Sequence[Fault] = (),
        drifts: Sequence[Drift] = (),
        glitches: Sequence[Glitches] = (),
        dropout: float = 0.0,
    ) -> None:
        self.device = device
        self.seed = seed
        self.visits = tuple(visits)
        self.states = dict(states)
        self.tour = tour
        self.interval = interval
        self.noise = noise
        self.spread = spread
        self.faults = tuple(sorted(faults, key=lambda fault: fault.start))
        self.drifts = tuple(drifts)
        self.glitches = tuple(glitches)
        self.dropout = dropout
        self._check()
        entropy = [seed, zlib.crc32(device.encode())]
        build, self._life, self._noise, self._defects = (
            np.random.default_rng(s) for s in np.random.SeedSequence(entropy).spawn(4)
        )
        self.offset = _sensors(spread * OFFSETS * build.normal(size=len(FEATURES)), offset)
        self.scale = _sensors(1 + spread * SCALES * build.normal(size=len(FEATURES)), scale)
        self._state = ""
        self._to_visit = self._life.permutation(self.visits).tolist() if tour else []
        self._temperatures: Floats = np.full(3, AMBIENT + 10)
        self._made = 0  # readings
        self._rest: Samples | None = None  # of a stay that was not asked for whole

    def _check(self) -> None:
        if not self.interval > 0:
            raise ValueError(
                f"Machine(interval=...): expected seconds above 0, got {self.interval!r}"
            )
        if not self.visits:
            raise ValueError("Machine(visits=...): expected at least one state, got none")
        check_share("Machine(dropout=...)", self.dropout)
        for name in (*self.visits, *(fault.state for fault in self.faults)):
            if name not in self.states:
                raise ValueError(
                    f"Machine: expected a state among {', '.join(self.states)}, got {name!r}"
                )

    # --- readings --------------------------------------------------------------------------------

    def take(self, n: int) -> Samples:
        """The next `n` readings."""
        parts: list[Samples] = []
        missing = n
        while missing > 0 or not parts:
            part = self._rest or self._stay()
            self._rest = part.part(missing, len(part)) if len(part) > missing else None
            parts.append(part.part(0, missing))
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else joined(parts)

    def __iter__(self) -> Iterator[Sample]:
        """Readings one by one, for ever, as River's streams give them: missing values left out."""
        while True:
            samples = self.take(1)
            values = zip(FEATURES, samples.rows[0].tolist(), strict=True)
            reading = {name: value for name, value in values if value == value}
            where = {"device": self.device, "t": float(samples.times[0])}
            yield reading, samples.states[0], where

    # --- life ------------------------------------------------------------------------------------

    def _stay(self) -> Samples:
        """All readings of the next stay in a state."""
        start = self._made * self.interval
        name, until = self._next_state(start)
        count = max(1, int(np.ceil(round((until - start) / self.interval, 9))))
        times = np.arange(self._made, self._made + count + 1, dtype=np.float64) * self.interval
        point = self.states[name].working_point(self._life)
        temperatures = warming(self._temperatures, settled_temperatures(point), times - times[0])
        rows = np.empty((count, len(FEATURES)))
        rows[:, :3] = temperatures[:-1]
        rows[:, 3:] = at_once(point)
        self._temperatures = temperatures[-1]
        self._state = name
        self._made += count
        return self._measured(rows, [name] * count, times[:-1])

    def _next_state(self, now: float) -> tuple[str, float]:
        """What the machine does now, and until when."""
        fault = next((f for f in self.faults if f.start <= now < f.end), None)
        if fault is not None:
            return fault.state, min(fault.end, now + self.states[fault.state].stay(self._life))
        starts = [f.start for f in self.faults if f.start > now]
        if self._to_visit:
            return self._to_visit.pop(), min([now + self.tour, *starts])
        others = [name for name in self.visits if name != self._state] or list(self.visits)
        weights = np.array([self.states[name].weight for name in others])
        name = others[int(self._life.choice(len(others), p=weights / weights.sum()))]
        return name, min([now + self.states[name].stay(self._life), *starts])

    # --- sensors ---------------------------------------------------------------------------------

    def _measured(self, rows: Floats, states: list[str], times: Floats) -> Samples:
        """What sensors say about the true values `rows`."""
        rows = with_noise(rows, self.noise, self._noise.normal(size=rows.shape))
        rows = self.offset + self.scale * rows
        for drift in self.drifts:
            rows[:, FEATURES.index(drift.feature)] += drift.error(times)
        chance = self._defects.random((len(rows), 2 * len(FEATURES) + 1))
        bad = spoilt(times, self.glitches, chance[:, 0])
        rows[bad] += spikes(chance[bad, 1 : len(FEATURES) + 1])
        rows[chance[:, len(FEATURES) + 1 :] < self.dropout] = np.nan
        return Samples(rows, states, times, bad)


def _sensors(ordinary: Floats, given: Mapping[str, float] | None) -> Floats:
    """A number for each sensor: as it is made, or as it is given."""
    for feature, value in (given or {}).items():
        if feature not in FEATURES:
            raise ValueError(f"Machine: expected one of {', '.join(FEATURES)}, got {feature!r}")
        ordinary[FEATURES.index(feature)] = value
    return ordinary
