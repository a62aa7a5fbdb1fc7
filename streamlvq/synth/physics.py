"""From what a machine does to what its sensors say: everyday mechanics, simplified."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNITS = {
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
FEATURES = tuple(UNITS)

AMBIENT = 24.0  # °C
NOMINAL_SPEED = 1500.0  # turns per minute, without load
LAGS = np.array([40.0, 30.0, 60.0])  # seconds until temperatures have gone 63 % of their way
# What a sensor's noise is (its deviation), and how much two sensors of a kind differ.
ADDED_NOISE = np.array([1.5, 1.2, 1.0, 0, 0, 0, 0, 0.9, 1.8, 9, 0.5, 1.5])
RELATIVE_NOISE = np.array([0, 0, 0, 0.15, 0.15, 0.15, 0.18, 0, 0, 0, 0, 0])
OFFSETS = np.array([1, 0.8, 0.8, 0.04, 0.04, 0.03, 0.02, 0.2, 1, 2, 0.1, 0.6])
SPIKES = np.array([60, 50, 50, 12, 12, 8, 5, 25, 60, 900, 10, 35.0])  # typical size of a glitch
SCALES = np.array([0.01, 0.01, 0.01, 0.04, 0.04, 0.04, 0.04, 0.02, 0.002, 0.002, 0.02, 0.01])


def settled_temperatures(point: Floats) -> Floats:
    """Where the temperatures of motor, bearing and oil go if the working point stays as it is."""
    speed, load, imbalance, damage = point.tolist()
    motor = 6 * speed + 24 * load**2 + 10 * load
    bearing = 7 * speed + 5 * load + 1.5 * imbalance + 18 * damage
    return AMBIENT + np.array([motor, bearing, 4 * speed + 14 * load])


def warming(start: Floats, goal: Floats, seconds: Floats) -> Floats:
    """Temperatures after so many seconds (a row for each) on the way from `start` to `goal`."""
    way: Floats = (start - goal) * np.exp(-seconds[:, None] / LAGS)
    return goal + way


def at_once(point: Floats) -> Floats:
    """What all sensors but the thermometers say: they follow within a reading."""
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


def with_noise(values: Floats, noise: float, normal: Floats) -> Floats:
    """Rows of values as sensors with this much noise report them (1: as in `ADDED_NOISE`)."""
    return values * np.exp(noise * RELATIVE_NOISE * normal) + noise * ADDED_NOISE * normal
