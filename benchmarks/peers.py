"""Peers that our models are compared with: classifiers of River and of CapyMOA, two baselines.

CapyMOA is an extra of the benchmarks: `pip install capymoa`, and Java for the MOA it brings along.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from river import (
    base,
    ensemble,
    forest,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    preprocessing,
    tree,
)

from common import Factory, Features, Label
from datasets import Stream


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


class CapyMOA(base.Classifier):
    """A CapyMOA classifier in River's interface, its header taken from the stream.

    MOA wants to know the classes in advance; ours and River's meet them on the way.
    """

    def __init__(self, name: str, options: dict[str, Any], data: Stream) -> None:
        # The collector with one thread takes the least CPU time, which is what is measured.
        os.environ.setdefault("CAPYMOA_JVM_ARGS", "-Xmx4g -Xss10M -XX:+UseSerialGC")
        from capymoa import classifier
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        features = [f"x{i}" for i in range(data.X.shape[1])]
        self._labels: list[Label] = list(dict.fromkeys(data.y))
        self._codes = {label: code for code, label in enumerate(self._labels)}
        values = [str(code) for code in self._codes.values()]
        self._schema = Schema.from_custom([*features, "class"], "class", {"class": values})
        self._model = getattr(classifier, name)(self._schema, random_seed=1, **options)
        self._reading, self._example = Instance.from_array, LabeledInstance.from_array

    def learn_one(self, x: Features, y: Label) -> None:
        self._model.train(self._example(self._schema, _vector(x), self._codes[y]))

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Label, float]:
        votes = self._model.predict_proba(self._reading(self._schema, _vector(x)))
        return {} if votes is None else dict(zip(self._labels, votes.tolist(), strict=True))


def _vector(x: Features) -> np.ndarray:
    return np.fromiter(x.values(), dtype=np.float64, count=len(x))


def _scaled(model: base.Classifier) -> Any:
    return preprocessing.StandardScaler() | model


def _knn_exact() -> Any:
    # As many neighbours as River's default engine keeps, searched exactly: more accurate and, this
    # small, faster than its approximate search.
    return _scaled(neighbors.KNNClassifier(engine=neighbors.LazySearch(window_size=1000)))


OVR_LR = "OvR LogisticRegression"

RIVER: dict[str, Factory] = {
    OVR_LR: lambda: _scaled(multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
    "SoftmaxRegression": lambda: _scaled(linear_model.SoftmaxRegression()),
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "KNN exact": _knn_exact,
    "ARF": lambda: forest.ARFClassifier(n_models=10, seed=42),
    "AMF": lambda: forest.AMFClassifier(n_estimators=10, seed=42),
    "SRP": lambda: ensemble.SRPClassifier(n_models=10, seed=42),
}

BASELINES: dict[str, Factory] = {
    "NoChange": NoChange,
    "sevq": lambda: _scaled(SEVQ()),
}


def _moa(name: str, scaled: bool = False, **options: Any) -> Callable[[Stream], Factory]:
    def factory(data: Stream) -> Factory:
        model = partial(CapyMOA, name, options, data)
        return (lambda: _scaled(model())) if scaled else model

    return factory


MOA: dict[str, Callable[[Stream], Factory]] = {
    "MOA SRP30": _moa("StreamingRandomPatches", ensemble_size=30),
    "MOA SRP10": _moa("StreamingRandomPatches", ensemble_size=10),
    "MOA ARF30": _moa("AdaptiveRandomForestClassifier", ensemble_size=30),
    "MOA LevBag30": _moa("LeveragingBagging", ensemble_size=30),
    "MOA KNN": _moa("KNN"),  # scales by itself, to the range
    "MOA SAMkNN": _moa("SAMkNN"),
    "MOA SAMkNN scaled": _moa("SAMkNN", scaled=True),
}

PEERS = (*RIVER, *BASELINES, *MOA)
JVM_WARM_UP = 500  # samples, for the just-in-time compiler
PACKAGES = {
    **dict.fromkeys((*RIVER, "NoChange"), "river"),
    **dict.fromkeys(MOA, "capymoa"),
    "sevq": "sevq",
}


def peer(name: str, data: Stream) -> Factory:
    """Return the factory of a peer for this stream."""
    return MOA[name](data) if name in MOA else {**RIVER, **BASELINES}[name]


def installed(name: str) -> str | None:
    """Return the version of the package that a peer comes from, None if it is not there."""
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:
        return None
