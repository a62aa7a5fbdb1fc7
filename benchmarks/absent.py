"""Figures of sparse readings: bags of words, in which a feature that is absent is zero.

python benchmarks/absent.py                            # everything, about ten minutes
python benchmarks/absent.py --documents 1000           # quickly
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from river import dummy, naive_bayes

from common import Table, our_model, progress, show

Document = dict[str, int]
Sample = tuple[Document, int]
TOPIC_WORDS = 40  # words that a topic prefers
PREFERENCE = 6.0  # how much more often than others


def documents(count: int, topics: int, vocabulary: int, seed: int) -> Iterator[Sample]:
    """Yield bags of 20 to 60 words: Zipf's law, with words that each topic prefers."""
    random = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(2.0, vocabulary + 2.0)
    chances = np.tile(frequency, (topics, 1))
    for topic in chances:
        topic[random.choice(vocabulary, TOPIC_WORDS, replace=False)] *= PREFERENCE
    chances /= chances.sum(axis=1, keepdims=True)
    for _ in range(count):
        topic = int(random.integers(topics))
        words = random.choice(vocabulary, random.integers(20, 61), p=chances[topic])
        found, times = np.unique(words, return_counts=True)
        yield {f"w{w}": n for w, n in zip(found.tolist(), times.tolist(), strict=True)}, topic


def progressive(model: Any, stream: list[Sample]) -> tuple[float, float]:
    """Return the accuracy of predictions before learning, and milliseconds per document."""
    right, started = 0, time.perf_counter()
    for x, y in stream:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(stream), 1000.0 * (time.perf_counter() - started) / len(stream)


def models(absent: str) -> dict[str, Callable[[], Any]]:
    """Return the models by a name that says their parameters."""
    few = {"absent": absent, "rank": 8}
    return {
        "GLVQ": lambda: our_model("GLVQ")(absent=absent),
        "GLVQ(standardize=False)": lambda: our_model("GLVQ")(absent=absent, standardize=False),
        "GRLVQ": lambda: our_model("GRLVQ")(absent=absent),
        "GMLVQ(rank=8)": lambda: our_model("GMLVQ")(**few),
        "LGMLVQ(rank=8)": lambda: our_model("LGMLVQ")(**few),
        "LVQCommittee": lambda: our_model("LVQCommittee")(
            absent=absent, learner=our_model("LGMLVQ")(rank=8)
        ),
    }
