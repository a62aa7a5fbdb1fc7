"""Peers that our models are compared with: River's classifiers and two baselines."""

from __future__ import annotations

from typing import Any

import numpy as np
from river import (
    base,
    forest,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    preprocessing,
    tree,
)

from common import Factory, Features, Label


class NoChange(base.Classifier):
    """Classifier that repeats the last label: the first baseline on data in time order."""

    def __init__(self) -> None:
        self._last: Label = None

    def learn_one(self, x: Features, y: Label) -> None:
        self._last = y

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Label, float]:
        return {} if self._last is None else {self._last: 1.0}


class SEVQ(base.Classifier):
    """The `sevq` package in River's interface: a new prototype on every error, without bound."""

    def __init__(self) -> None:
        from sevq.algorithm import SEVQ as Model

        self._model = Model()
        # sevq answers with integers only
        self._codes: dict[Label, int] = {}
        self._labels: list[Label] = []

    def learn_one(self, x: Features, y: Label) -> None:
        if y not in self._codes:
            self._codes[y] = len(self._labels)
            self._labels.append(y)
        self._model.partial_fit(_vector(x), self._codes[y])

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Label, float]:
        code = int(self._model.predict(_vector(x))[0])
        return {} if code < 0 else {self._labels[code]: 1.0}


def _vector(x: Features) -> np.ndarray:
    return np.fromiter(x.values(), dtype=np.float64, count=len(x))


def _scaled(model: base.Classifier) -> Any:
    return preprocessing.StandardScaler() | model


def _knn_swinn() -> Any:
    # River's default engine, with a seed: the default one answers differently in every run.
    engine = neighbors.SWINN(seed=42)
    return _scaled(neighbors.KNNClassifier(engine=engine))


def _knn_exact() -> Any:
    # As many neighbours as SWINN keeps, searched exactly: more accurate and, this small, faster.
    return _scaled(neighbors.KNNClassifier(engine=neighbors.LazySearch(window_size=1000)))


OVR_LR = "OvR LogisticRegression"

RIVER: dict[str, Factory] = {
    OVR_LR: lambda: _scaled(multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
    "SoftmaxRegression": lambda: _scaled(linear_model.SoftmaxRegression()),
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "KNN exact": _knn_exact,
    "KNN SWINN": _knn_swinn,
    "ARF": lambda: forest.ARFClassifier(n_models=10, seed=42),
    "AMF": lambda: forest.AMFClassifier(n_estimators=10, seed=42),
}

BASELINES: dict[str, Factory] = {
    "NoChange": NoChange,
    "sevq": lambda: _scaled(SEVQ()),
}

PEERS: dict[str, Factory] = {**RIVER, **BASELINES}
