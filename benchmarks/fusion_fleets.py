"""Fleets for the studies of fusion: readings of nodes, training, accuracy."""

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
HARD_READINGS = 150  # of every frequent kind of the hard cameras


@dataclass(frozen=True)
class Node:
    """Training and test readings of one node."""

    name: str
    X: Floats
    y: Labels
    test_X: Floats
    test_y: Labels

    def moved(self, offset: Floats) -> Node:
        """Return the node with an offset removed from all readings."""
        return replace(self, X=self.X - offset, test_X=self.test_X - offset)

    def without(self, *labels: Any) -> Node:
        """Return the node without these classes in training; it is still tested with them."""
        keep = ~np.isin(self.y, labels)
        return replace(self, X=self.X[keep], y=self.y[keep])

    def mapped(self, function: Callable[[Floats], Floats]) -> Node:
        return replace(self, X=function(self.X), test_X=function(self.test_X))


# --- models ---------------------------------------------------------------------------------------


def maker(model: str, **options: Any) -> Make:
    """Return a factory of the thesis's models: one prototype per class, full matrices."""
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
    """Train a model for each node, on its own readings alone."""
    return [trained(make, node.X, node.y, epochs) for node in nodes]


def snapshots(nodes: Sequence[Node], models: Sequence[Any]) -> list[Snapshot]:
    pairs = zip(nodes, models, strict=True)
    return [Snapshot.of(model, node.name, readings=False) for node, model in pairs]


# --- scores ---------------------------------------------------------------------------------------


def accuracy(model: Any, X: Floats, y: Labels) -> float:
    return float(np.mean(model.predict_array(X) == y))


def f1_by_class(truth: Labels, answers: Labels, labels: Iterable[Any]) -> Floats:
    """Return the F1-score of each class."""
    scores = []
    for label in labels:
        both = np.sum((truth == label) & (answers == label))
        scores.append(2.0 * both / (np.sum(truth == label) + np.sum(answers == label)))
    return np.array(scores)


def local_accuracy(nodes: Sequence[Node], models: Sequence[Any]) -> Floats:
    """Return the accuracy of each node's own model on its own test readings."""
    pairs = zip(nodes, models, strict=True)
    return np.array([accuracy(model, node.test_X, node.test_y) for node, model in pairs])


def fused_accuracy(fused: Fused, nodes: Sequence[Node]) -> Floats:
    """Return the accuracy of each node's fused model on its own test readings."""
    found = [accuracy(fused.for_node(node.name), node.test_X, node.test_y) for node in nodes]
    return np.array(found)


# --- the baseline that only lives here ------------------------------------------------------------


def offset_eliminated(nodes: Iterable[Node]) -> list[Node]:
    """Subtract the mean of each node's own training readings, whatever their classes."""
    return [node.moved(node.X.mean(axis=0)) for node in nodes]


def offset_elimination(
    nodes: Sequence[Node], make: Make, weightings: Iterable[str], epochs: int = EPOCHS
) -> dict[str, Floats]:
    """Return the accuracy of each node after offset elimination and uncorrected fusion."""
    moved = offset_eliminated(nodes)
    given = snapshots(moved, learn(moved, make, epochs))
    return {w: fused_accuracy(plain(given, w), moved) for w in weightings}


def plain(given: Sequence[Snapshot], weighting: str = "samples", drift: str = "none") -> Fused:
    """Fuse by the formulas of thesis and paper, without any protection."""
    return fuse(given, weighting=weighting, drift=drift, screen=False, byzantine=None)


# --- fleets ---------------------------------------------------------------------------------------


def split(stream: Stream, count: int, seed: int, test: float = 0.25) -> list[Node]:
    """Deal a set out to nodes at random; all share the test part."""
    X, y = stream.X, np.asarray(stream.y)
    order = np.random.default_rng(seed).permutation(len(y))
    held, rest = np.split(order, [int(test * len(y))])
    return deal(X[rest], y[rest], X[held], y[held], count)


def deal(X: Floats, y: Labels, test_X: Floats, test_y: Labels, count: int) -> list[Node]:
    """Split shuffled training readings into equal parts, one for each node."""
    parts = np.array_split(np.arange(len(y)), count)
    return [Node(f"n{k + 1}", X[part], y[part], test_X, test_y) for k, part in enumerate(parts)]


def class_missing(nodes: Sequence[Node], labels: Sequence[Any]) -> list[Node]:
    """Remove class i from the training readings of node i."""
    return [node.without(labels[k % len(labels)]) for k, node in enumerate(nodes)]


def spectral(
    seed: int,
    imbalance: float = 1.0,
    missing: bool = False,
    each: int = 300,
    test: int = 200,
    hard: bool = False,
) -> list[Node]:
    """Return five cameras with `each` readings of every frequent kind."""
    nodes = []
    for camera in cameras(5, seed, imbalance=imbalance, missing=missing, hard=hard):
        train = camera.take(round(each * sum(camera.shares.values())))
        held = camera.balanced(test)
        nodes.append(
            Node(camera.device, train.rows, np.array(train.kinds), held.rows, np.array(held.kinds))
        )
    return nodes
