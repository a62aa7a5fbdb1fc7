"""Test-then-train evaluation of one model on one stream."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from common import Classifier, Factory, Label, Sample, progress
from datasets import Stream

CHUNK = 100
CLIP = 1e-15
WARM_UP = 30

Chunk = list[Sample]


@dataclass(frozen=True)
class Result:
    """Scores over the first `n` of `rows` samples (fewer when the time ran out)."""

    accuracy: float
    log_loss: float
    us: float
    n: int
    rows: int

    @property
    def finished(self) -> bool:
        return self.n == self.rows


@dataclass
class Scores:
    """Running scores of predictions made before the label was seen."""

    n: int = 0
    hits: int = 0
    predicted: int = 0
    loss: float = 0.0

    def add(self, proba: dict[Label, float], label: Label) -> None:
        self.n += 1
        # No prediction yet: an error for accuracy, but there is no probability to take the loss of.
        if not proba:
            return
        self.predicted += 1
        self.hits += max(proba, key=proba.__getitem__) == label
        self.loss -= math.log(probability(proba, label))


def probability(proba: dict[Label, float], label: Label) -> float:
    """Normalize and clip the probability of the true label."""
    total = sum(proba.values())
    p = proba.get(label, 0.0) / total if total > 0 else 0.0
    # `not >=` also catches NaN
    return CLIP if not p >= CLIP else min(p, 1.0)


def evaluate(
    factory: Factory,
    stream: Stream,
    max_seconds: float = math.inf,
    delay: int = 0,
    warm_up: int = WARM_UP,
) -> Result:
    """Predict, score and learn every sample; stop when the model has used `max_seconds` of CPU.

    With a delay, the label of sample k - `delay` is learnt after sample k was predicted.
    Compiling and importing is done by a throw-away model, outside the measured time.
    """
    test_then_train(factory(), list(islice(stream.samples(), warm_up)), deque())
    model, scores, seconds = factory(), Scores(), 0.0
    unlabelled: deque[Sample] = deque()
    for chunk in progress(chunks(stream), stream.name, math.ceil(len(stream) / CHUNK)):
        probas, spent = test_then_train(model, chunk, unlabelled, delay)
        for proba, (_, label) in zip(probas, chunk, strict=True):
            scores.add(proba, label)
        seconds += spent
        if seconds > max_seconds:
            break
    return Result(
        accuracy=scores.hits / scores.n,
        log_loss=scores.loss / max(scores.predicted, 1),
        us=seconds / scores.n * 1e6,
        n=scores.n,
        rows=len(stream),
    )


def test_then_train(
    model: Classifier, chunk: Chunk, unlabelled: deque[Sample], delay: int = 0
) -> tuple[list[dict[Label, float]], float]:
    """Return the probabilities of a chunk, each before learning its label, and CPU seconds.

    Samples wait in `unlabelled` for their labels, at most `delay` of them after the call.
    The clock is read once a chunk: reading it costs as much as a fast model's whole step.
    """
    probas = []
    start = time.process_time()
    for sample in chunk:
        probas.append(model.predict_proba_one(sample[0]))
        unlabelled.append(sample)
        if len(unlabelled) > delay:
            model.learn_one(*unlabelled.popleft())
    return probas, time.process_time() - start


def chunks(stream: Stream) -> Iterator[Chunk]:
    samples = stream.samples()
    while chunk := list(islice(samples, CHUNK)):
        yield chunk
