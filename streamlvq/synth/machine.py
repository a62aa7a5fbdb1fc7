"""A simulated machine: its states, the physics behind its sensors, and what goes wrong with it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats
from streamlvq.synth.samples import Sample, Samples, concatenate

SENSOR_UNITS = {
    "temperature": "°C",  # of the motor's winding
    "bearing_temperature": "°C",
    "oil_temperature": "°C",
    "vibration_x": "mm/s",  # rms; x and y across the shaft, z along it
    "vibration_y": "mm/s",
    "vibration_z": "mm/s",
    "envelope": "g",  # high-frequency impacts, as a bearing gives when its balls roll over a pit
    "current": "A",
    "voltage": "V",
    "speed": "1/min",
    "pressure": "bar",
    "sound": "dB",
}
FEATURES = tuple(SENSOR_UNITS)

AMBIENT_TEMPERATURE = 24.0  # °C
NOMINAL_SPEED = 1500.0  # turns per minute, without load
LAG_SECONDS = np.array([40.0, 30.0, 60.0])  # seconds until temperatures have gone 63 % of their way
# What a sensor's noise is (its deviation), and how much two sensors of a kind differ.
ADDED_NOISE = np.array([1.5, 1.2, 1.0, 0, 0, 0, 0, 0.9, 1.8, 9, 0.5, 1.5])
RELATIVE_NOISE = np.array([0, 0, 0, 0.15, 0.15, 0.15, 0.18, 0, 0, 0, 0, 0])
OFFSET_SPREADS = np.array([1, 0.8, 0.8, 0.04, 0.04, 0.03, 0.02, 0.2, 1, 2, 0.1, 0.6])
SPIKE_SIZES = np.array([60, 50, 50, 12, 12, 8, 5, 25, 60, 900, 10, 35.0])  # of a typical glitch
SCALE_SPREADS = np.array([0.01, 0.01, 0.01, 0.04, 0.04, 0.04, 0.04, 0.02, 0.002, 0.002, 0.02, 0.01])
STAY_SHAPE = 4.0  # of the gamma distribution of stays: the deviation is half the mean
WORKING_POINT_SPREADS = np.array([0.005, 0.06, 0.12, 0.12])  # relative, from one stay to the next
BEARING_FAULT = "bearing fault"
ORDINARY = ("idle", "running", "heavy load", "imbalance")  # states that need no repair


# --- states ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MachineState:
    """Working point of a machine, and how long it stays there.

    The first four are means; each stay in a state has a working point of its own around them.

    Parameters
    ----------
    speed
        Share of the nominal speed of rotation.
    load
        Share of the greatest load.
    imbalance
        Extra vibration at nominal speed, in mm/s: something sits off centre.
    damage
        Of the bearing: 0 for a sound one, 1 for one that should be replaced soon.
    seconds
        How long a stay lasts on average.
    weight
        How likely it is to come next, relative to the other states.

    """

    speed: float
    load: float
    imbalance: float = 0.15
    damage: float = 0.02
    seconds: float = 60.0
    weight: float = 1.0

    def stay(self, random: np.random.Generator) -> float:
        """Draw the length of a stay, in seconds."""
        return float(random.gamma(STAY_SHAPE, self.seconds / STAY_SHAPE))

    def working_point(self, random: np.random.Generator) -> Floats:
        """Draw speed, load, imbalance and damage of a stay: within a few percent of the means."""
        means = np.array([self.speed, self.load, self.imbalance, self.damage])
        return means * np.exp(WORKING_POINT_SPREADS * random.normal(size=4))


STATES = {
    "idle": MachineState(speed=0.4, load=0.06, seconds=100),
    "running": MachineState(speed=1.0, load=0.45, seconds=180, weight=2),
    "heavy load": MachineState(speed=1.0, load=0.75, seconds=120),
    "imbalance": MachineState(speed=1.0, load=0.5, imbalance=2.0, seconds=120),
    BEARING_FAULT: MachineState(speed=1.0, load=0.5, damage=1.0, seconds=120),
}


# --- physics --------------------------------------------------------------------------------------


def settled_temperatures(point: Floats) -> Floats:
    """Return the temperatures of motor, bearing and oil after long at this working point."""
    speed, load, imbalance, damage = point.tolist()
    motor = 6 * speed + 24 * load**2 + 10 * load
    bearing = 7 * speed + 5 * load + 1.5 * imbalance + 18 * damage
    return AMBIENT_TEMPERATURE + np.array([motor, bearing, 4 * speed + 14 * load])


def temperatures_after(start: Floats, goal: Floats, seconds: Floats) -> Floats:
    """Return temperatures on the way from `start` to `goal`, a row for each of `seconds`."""
    way: Floats = (start - goal) * np.exp(-seconds[:, None] / LAG_SECONDS)
    return goal + way


def immediate_values(point: Floats) -> Floats:
    """Return the values of all sensors but the thermometers: they follow within a reading."""
    speed, load, imbalance, damage = point.tolist()
    speed *= 1 - 0.04 * load - 0.25 * damage  # slip, and friction that brakes
    turning = speed**2  # centrifugal forces grow with the square
    own = 0.3 + turning * (1.1 + 0.4 * load)
    across = np.hypot(own, imbalance * turning)
    down = np.hypot(0.9 * own, 0.85 * imbalance * turning)
    along = 0.25 + turning * (0.5 + 0.2 * load + 2.0 * damage)
    envelope = 0.15 + speed * (0.35 + 0.3 * load + 3.0 * damage)
    torque = load + 0.35 * damage  # friction costs current, but presses nothing
    sound = 58 + 14 * speed + 5 * load + 5 * damage + 1.2 * imbalance
    electric = [3 + 2 * speed + 14 * torque, 400 - 5 * torque, NOMINAL_SPEED * speed]
    return np.array([across, down, along, envelope, *electric, 2 + 5 * load, sound])


def add_noise(values: Floats, noise: float, normal: Floats) -> Floats:
    """Add as much noise as the sensors have (1: ordinary, as in `ADDED_NOISE`)."""
    return values * np.exp(noise * RELATIVE_NOISE * normal) + noise * ADDED_NOISE * normal


# --- defects --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Period:
    """Span of time from `start` until just before `end`, in seconds."""

    start: float = 0.0
    end: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(
                f"{type(self).__name__}(start=..., end=...): expected 0 <= start < end, "
                f"got {self.start!r} and {self.end!r}"
            )

    def holds(self, times: Floats) -> npt.NDArray[np.bool_]:
        return (times >= self.start) & (times < self.end)


@dataclass(frozen=True, kw_only=True)
class Fault(Period):
    """Period in which the machine stays in one state, whatever it did before.

    Parameters
    ----------
    start
        When it begins, in seconds.
    end
        When it is repaired.
    state
        A name among the machine's states; it need not be one that it visits by itself.

    """

    state: str


@dataclass(frozen=True, kw_only=True)
class Drift(Period):
    """Sensor whose error grows by `slope` every second, until it is replaced at the end.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.synth import Drift

    >>> Drift(feature="sound", slope=0.1, start=60).error(np.array([50.0, 60.0, 90.0]))
    array([0., 0., 3.])

    """

    feature: str
    slope: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature not in FEATURES:
            raise ValueError(
                f"Drift(feature=...): expected one of {', '.join(FEATURES)}, got {self.feature!r}"
            )

    def error(self, times: Floats) -> Floats:
        """Return the error of the sensor at these times."""
        return np.where(self.holds(times), self.slope * (times - self.start), 0.0)


@dataclass(frozen=True, kw_only=True)
class Glitches(Period):
    """Period in which a share of the readings has spikes in some sensors, as from a loose plug."""

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("Glitches(share=...)", self.share)


def check_share(what: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"{what}: expected a number from 0 to 1, got {share!r}")


def is_glitch(times: Floats, glitches: Iterable[Glitches], chance: Floats) -> npt.NDArray[np.bool_]:
    """Return which readings are glitches; `chance` has a uniform number for each."""
    share = np.zeros(len(times))
    for glitch in glitches:
        np.maximum(share, np.where(glitch.holds(times), glitch.share, 0.0), out=share)
    return chance < share


def glitch_spikes(chance: Floats) -> Floats:
    """Return spikes up and down in about a third of the sensors, at least in one.

    `chance` has a uniform number for each value.
    """
    hit = chance <= np.maximum(1 / 3, chance.min(axis=1, keepdims=True))
    size = SPIKE_SIZES * (0.7 + 1.8 * (chance % (1 / 6)) * 2)
    return np.where(hit, np.where(chance % (1 / 3) < 1 / 6, size, -size), 0.0)


# --- the machine ----------------------------------------------------------------------------------


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
        Seed of all its random numbers.
    visits
        States it enters by itself, at least one of `states`.
    states
        All states it can be in.
    tour
        When it is switched on, it first visits each of its states for this many seconds, in an
        order of its own, so that there is soon something to learn from each; 0 for no tour.
    interval
        Seconds from one reading to the next.
    noise
        Noise of the sensors: 1 is ordinary, 0 none.
    spread
        How much its sensors differ from those of other machines: 1 is ordinary, 0 not at all.
    offset
        Offsets of sensors by feature, instead of those that `spread` would give.
    scale
        Gains of sensors by feature, applied before the offsets.
    faults
        Periods in states that it would not enter by itself, or not then.
    drifts
        Sensors whose error grows slowly.
    glitches
        Periods in which some readings are nonsense.
    dropout
        Share of values that are missing.

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
        states: Mapping[str, MachineState] = STATES,
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
        self.offset = _sensors(spread * OFFSET_SPREADS * build.normal(size=len(FEATURES)), offset)
        self.scale = _sensors(1 + spread * SCALE_SPREADS * build.normal(size=len(FEATURES)), scale)
        self._state = ""
        self._to_visit = self._life.permutation(self.visits).tolist() if tour else []
        self._temperatures: Floats = np.full(3, AMBIENT_TEMPERATURE + 10)
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
        """Return the next `n` readings."""
        parts: list[Samples] = []
        missing = n
        while missing > 0 or not parts:
            part = self._rest or self._stay()
            self._rest = part.part(missing, len(part)) if len(part) > missing else None
            parts.append(part.part(0, missing))
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else concatenate(parts)

    def __iter__(self) -> Iterator[Sample]:
        """Yield readings endlessly, as River's streams do: missing values are left out."""
        while True:
            samples = self.take(1)
            values = zip(FEATURES, samples.rows[0].tolist(), strict=True)
            reading = {name: value for name, value in values if value == value}
            where = {"device": self.device, "t": float(samples.times[0])}
            yield reading, samples.states[0], where

    # --- life ------------------------------------------------------------------------------------

    def _stay(self) -> Samples:
        """Return all readings of the next stay in a state."""
        start = self._made * self.interval
        name, until = self._next_state(start)
        count = max(1, int(np.ceil(round((until - start) / self.interval, 9))))
        times = np.arange(self._made, self._made + count + 1, dtype=np.float64) * self.interval
        point = self.states[name].working_point(self._life)
        goal = settled_temperatures(point)
        temperatures = temperatures_after(self._temperatures, goal, times - times[0])
        rows = np.empty((count, len(FEATURES)))
        rows[:, :3] = temperatures[:-1]
        rows[:, 3:] = immediate_values(point)
        self._temperatures = temperatures[-1]
        self._state = name
        self._made += count
        return self._measured(rows, [name] * count, times[:-1])

    def _next_state(self, now: float) -> tuple[str, float]:
        """Return the state that the machine enters now, and when it leaves it."""
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
        """Return what the sensors measure of the true values `rows`."""
        rows = add_noise(rows, self.noise, self._noise.normal(size=rows.shape))
        rows = self.offset + self.scale * rows
        for drift in self.drifts:
            rows[:, FEATURES.index(drift.feature)] += drift.error(times)
        chance = self._defects.random((len(rows), 2 * len(FEATURES) + 1))
        bad = is_glitch(times, self.glitches, chance[:, 0])
        rows[bad] += glitch_spikes(chance[bad, 1 : len(FEATURES) + 1])
        rows[chance[:, len(FEATURES) + 1 :] < self.dropout] = np.nan
        return Samples(rows, states, times, bad)


def _sensors(ordinary: Floats, given: Mapping[str, float] | None) -> Floats:
    """Replace the numbers of those sensors for which one is given."""
    for feature, value in (given or {}).items():
        if feature not in FEATURES:
            raise ValueError(f"Machine: expected one of {', '.join(FEATURES)}, got {feature!r}")
        ordinary[FEATURES.index(feature)] = value
    return ordinary
