"""Sensors whose offset drifts, and the effect of `half_life`.

Four sensors watch a machine in three states. Each sensor's offset follows a slow swing of its own,
wider than the distance between two states. A model that forgets keeps up with it; one that never
forgets is confused by readings that meant something else in the past.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import streamlvq

STATES = ("idle", "running", "overheated")
SENSORS = ("temperature", "vibration", "current", "pressure")  # degrees, mm/s, A, bar
TYPICAL = np.array([[40, 1.0, 2.0, 5.0], [55, 4.0, 9.0, 6.0], [75, 5.0, 10.0, 6.3]])
NOISE = np.array([5, 0.8, 1.8, 0.4])

SETTINGS: tuple[dict[str, int], ...] = (
    {},
    {"half_life": 1000},
    {"half_life": 300},
    {"half_life": 100},
)


def drifting(samples: int, swing: float, seed: int) -> Iterator[tuple[dict[str, float], str]]:
    """Simulate noisy readings with swinging offsets, at a different speed for each sensor."""
    random = np.random.default_rng(seed)
    speed = 2 * np.pi / random.uniform(1000, 2000, len(SENSORS))
    for step in range(samples):
        state = int(random.integers(len(STATES)))
        offset = swing * NOISE * np.sin(speed * step)
        reading = TYPICAL[state] + offset + NOISE * random.normal(size=len(SENSORS))
        yield dict(zip(SENSORS, reading.tolist(), strict=True)), STATES[state]


def accuracies(model: streamlvq.GLVQ, samples: int, swing: float, seed: int) -> list[float]:
    """Return the accuracy in each quarter of the stream, predicting before learning."""
    right = []
    for x, y in drifting(samples, swing, seed):
        right.append(model.predict_one(x) == y)
        model.learn_one(x, y)
    return [float(np.mean(part)) for part in np.array_split(right, 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--swing", type=float, default=8.0, help="of the offsets; 0 for no drift")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.samples} readings of {len(SENSORS)} sensors with drifting offsets\n")
    print(f"{'model':<21}  accuracy in each quarter    all")
    for settings in SETTINGS:
        model = streamlvq.GLVQ(**settings)
        quarters = accuracies(model, given.samples, given.swing, given.seed)
        name = "GLVQ(" + ", ".join(f"{key}={value}" for key, value in settings.items()) + ")"
        cells = "".join(f"{quarter:7.3f}" for quarter in quarters)
        print(f"{name:<21}{cells} {np.mean(quarters):7.3f}")


if __name__ == "__main__":
    main()
