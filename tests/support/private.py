"""Private nodes for tests: small batches, so that a few hundred readings make some releases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from streamlvq.connect import Message

CLASSES = ("ok", "hot", "worn")
FEATURES = ("x0", "x1", "x2")
PRIVACY: dict[str, Any] = {
    "epsilon": 4.0,
    "bounds": {name: [-6.0, 6.0] for name in FEATURES},
    "classes": list(CLASSES),
    "scale_batch": 60,
    "warmup": 300,
    "batch": 40,
}
SECTIONS: dict[str, Any] = {
    "model": {"type": "PrivateLVQ"},
    "privacy": PRIVACY,
    "integrator": None,
    "rejector": {
        "type": "probability",
        "target_rate": None,
        "threshold": 0.4,
        "novelty_rate": None,
    },
}
FIRST_MODEL = 360  # labelled readings


def readings_of(
    count: int, *, first: int = 0, topic: str = "plant/{device}/readings", shift: float = 0.0
) -> list[Message]:
    """Labelled readings of three classes, numbered and timed."""
    messages = []
    for n in range(first, first + count):
        rng = np.random.default_rng([7, n])
        y = int(rng.integers(3))
        x = rng.normal(0.0, 0.7, 3) + 2.5 * np.eye(3)[y] + shift
        payload: dict[str, Any] = {
            name: round(float(v), 4) for name, v in zip(FEATURES, x, strict=True)
        }
        payload |= {"t": 1.7e9 + n / 10, "n": n, "y": CLASSES[y]}
        data = json.dumps(payload).encode()
        messages.append(Message(topic.format(device=f"d{n % 3}"), data, 1.7e9))
    return messages
