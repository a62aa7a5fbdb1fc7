"""Figures of sparse readings: bags of words, in which a feature that is absent is zero.

python benchmarks/absent.py                            # everything
python benchmarks/absent.py --documents 500            # quickly
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from river import dummy, naive_bayes

from common import Table, our_model, progress, show

Sample = tuple[dict[str, int], int]
TOPICS = 4
TOPIC_WORDS = 40  # words that a topic prefers
PREFERENCE = 6.0  # how much more often than others

OURS = [
    "GLVQ", "GLVQ(absent='zero')", "GLVQ(absent='zero', standardize=False)",
    "RSLVQ(absent='zero')", "LGMLVQ(absent='zero', rank=8)", "LVQCommittee(absent='zero')",
]  # fmt: skip


def documents(count: int, vocabulary: int, seed: int) -> Iterator[Sample]:
    """Yield bags of 20 to 60 words: Zipf's law, with words that each topic prefers."""
    random = np.random.default_rng(seed)
    chances = np.tile(1.0 / np.arange(2.0, vocabulary + 2.0), (TOPICS, 1))
    for topic in chances:
        topic[random.choice(vocabulary, TOPIC_WORDS, replace=False)] *= PREFERENCE
    chances /= chances.sum(axis=1, keepdims=True)
    for _ in range(count):
        label = int(random.integers(TOPICS))
        words = random.choice(vocabulary, random.integers(20, 61), p=chances[label])
        found, times = np.unique(words, return_counts=True)
        yield {f"w{w}": n for w, n in zip(found.tolist(), times.tolist(), strict=True)}, label


def progressive(model: Any, stream: list[Sample]) -> tuple[float, float]:
    """Return the accuracy of predictions before learning, and CPU milliseconds per document."""
    right, started = 0, time.process_time()
    for x, y in stream:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(stream), 1000.0 * (time.process_time() - started) / len(stream)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--vocabulary", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # that absent features are taken for missing is the point
    stream = list(documents(options.documents, options.vocabulary, seed=1))
    table = Table(f"{options.documents} bags of words", ["model", "accuracy", "ms per document"])
    peers: dict[str, Any] = {
        "last label again": dummy.NoChangeClassifier(),
        "MultinomialNB": naive_bayes.MultinomialNB(),
    }
    for name in progress([*peers, *OURS], "bags of words"):
        accuracy, cost = progressive(peers.get(name) or our_model(name)(), stream)
        table.add(name, f"{accuracy:.3f}", f"{cost:.2f}")
    show([table])


if __name__ == "__main__":
    main()
