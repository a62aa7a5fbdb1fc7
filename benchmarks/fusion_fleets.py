"""Fleets for the studies of fusion: who has which readings, what they learn, how good they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamlvq
from datasets import Stream
from spectra import cameras
from streamlvq.fusion import Fused, fuse
from streamlvq.snapshot import Snapshot

Floats = NDArray[np.float64]
Labels = NDArray[Any]
Make = Callable[[], Any]
EPOCHS = 20


@dataclass(frozen=True)
class Node:
    """What one node learns from, and what it is tested with."""

    name: str
    X: Floats
    y: Labels
    test_X: Floats
    test_y: Labels

    def moved(self, offset: Floats) -> Node:
        """All readings without an offset."""
        return replace(self, X=self.X - offset, test_X=self.test_X - offset)

    def without(self, *labels: Any) -> Node:
        """It never learns of these classes, but is tested with them."""
        keep = ~np.isin(self.y, labels)
        return replace(self, X=self.X[keep], y=self.y[keep])

    def mapped(self, function: Callable[[Floats], Floats]) -> Node:
        return replace(self, X=function(self.X), test_X=function(self.test_X))


# --- models ---------------------------------------------------------------------------------------


def maker(model: str, **options: Any) -> Make:
    """The thesis's models: one prototype per class, full matrices, several passes."""
    usual: dict[str, Any] = {} if model == "GLVQ" else {"rank": None}
    usual |= {
        "prototypes_per_class": 1,
        "max_prototypes_per_class": 1,
        "learning_rate": 0.1,
        "activation": "sigmoid",
        "slope": 5.0,
        "rehearsal": 0,
    }
    return lambda: getattr(streamlvq, model)(**(usual | options))


def trained(make: Make, X: Floats, y: Labels, epochs: int = EPOCHS) -> Any:
    model = make()
    model.train(X, y, epochs=epochs, progress=False)
    return model


def learn(nodes: Sequence[Node], make: Make, epochs: int = EPOCHS) -> list[Any]:
    """A model for each node, from its own readings alone."""
    return [trained(make, node.X, node.y, epochs) for node in nodes]


def snapshots(nodes: Sequence[Node], models: Sequence[Any]) -> list[Snapshot]:
    pairs = zip(nodes, models, strict=True)
    return [Snapshot.of(model, node.name, readings=False) for node, model in pairs]


# --- scores ---------------------------------------------------------------------------------------


def accuracy(model: Any, X: Floats, y: Labels) -> float:
    return float(np.mean(model.predict_array(X) == y))


def f1(truth: Labels, answers: Labels) -> float:
    """The mean of the F1-scores of all classes."""
    scores = []
    for label in np.unique(truth):
        both = np.sum((truth == label) & (answers == label))
        scores.append(2.0 * both / (np.sum(truth == label) + np.sum(answers == label)))
    return float(np.mean(scores))


def local_accuracy(nodes: Sequence[Node], models: Sequence[Any]) -> Floats:
    """Of each node's own model on its own test readings."""
    pairs = zip(nodes, models, strict=True)
    return np.array([accuracy(model, node.test_X, node.test_y) for node, model in pairs])


def fused_accuracy(fused: Fused, nodes: Sequence[Node]) -> Floats:
    """Of what fusion gives each node, on its own test readings."""
    found = [accuracy(fused.for_node(node.name), node.test_X, node.test_y) for node in nodes]
    return np.array(found)


# --- the baseline that only lives here ------------------------------------------------------------


def offset_eliminated(nodes: Iterable[Node]) -> list[Node]:
    """Every node subtracts the mean of its own training readings, whatever classes these are of."""
    return [node.moved(node.X.mean(axis=0)) for node in nodes]


def offset_elimination(
    nodes: Sequence[Node], make: Make, weightings: Iterable[str], epochs: int = EPOCHS
) -> dict[str, Floats]:
    """Accuracy of each node when means are subtracted before learning, then fused raw."""
    moved = offset_eliminated(nodes)
    given = snapshots(moved, learn(moved, make, epochs))
    return {w: fused_accuracy(plain(given, w), moved) for w in weightings}


def plain(given: Sequence[Snapshot], weighting: str = "samples", drift: str = "none") -> Fused:
    """The formulas of thesis and paper, without any protection."""
    return fuse(given, weighting=weighting, drift=drift, screen=False, byzantine=None)


# --- fleets ---------------------------------------------------------------------------------------


def split(stream: Stream, count: int, seed: int, test: float = 0.25) -> list[Node]:
    """A set dealt out to nodes at random; the test part is the same for all."""
    X, y = stream.X, np.asarray(stream.y)
    order = np.random.default_rng(seed).permutation(len(y))
    held, rest = np.split(order, [int(test * len(y))])
    return deal(X[rest], y[rest], X[held], y[held], count)


def deal(X: Floats, y: Labels, test_X: Floats, test_y: Labels, count: int) -> list[Node]:
    """Shuffled training readings in equal parts."""
    parts = np.array_split(np.arange(len(y)), count)
    return [Node(f"n{k + 1}", X[part], y[part], test_X, test_y) for k, part in enumerate(parts)]


def class_missing(nodes: Sequence[Node], labels: Sequence[Any]) -> list[Node]:
    """Node i never sees class i."""
    return [node.without(labels[k % len(labels)]) for k, node in enumerate(nodes)]


def spectral(
    seed: int, imbalance: float = 1.0, missing: bool = False, each: int = 300, test: int = 200
) -> list[Node]:
    """Five cameras; `each` readings of a kind that a camera has many of."""
    nodes = []
    for camera in cameras(5, seed, imbalance=imbalance, missing=missing):
        train = camera.take(round(each * sum(camera.shares.values())))
        held = camera.balanced(test)
        nodes.append(
            Node(camera.device, train.rows, np.array(train.kinds), held.rows, np.array(held.kinds))
        )
    return nodes
