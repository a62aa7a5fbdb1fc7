"""Several passes over a recorded training set."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamlvq
from streamlvq.kernels import layout as at
from support.samples import MODELS, blobs, frozen, image_segments, knowledge, readings


def halves(n: int = 1200) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Readings and labels to learn from, then those to test on."""
    samples = image_segments(n)
    train, test = samples[::2], samples[1::2]
    return [x for x, _ in train], [y for _, y in train], [x for x, _ in test], [y for _, y in test]


def accuracy(model: Any, X: list[Any], y: list[Any]) -> float:
    return float(np.mean([model.predict_one(x) == label for x, label in zip(X, y, strict=True)]))


def log_loss(model: Any, X: list[Any], y: list[Any]) -> float:
    p = [model.predict_proba_one(x)[label] for x, label in zip(X, y, strict=True)]
    return float(-np.mean(np.log(np.maximum(p, 1e-15))))


def test_frames_dictionaries_and_arrays_give_the_same_model(name: str) -> None:
    X, y = blobs(120, 4, 3, seed=40, missing=0.1)
    rows = readings(X)
    columns = list(rows[0])
    models = [MODELS[name]() for _ in range(4)]
    models[0].train(pd.DataFrame(rows), pd.Series(y), epochs=3)
    models[1].train(rows, y.tolist(), epochs=3)
    models[2].train(X, y, epochs=3, features=columns)
    models[3].train(X[:, ::-1], y, epochs=3, features=columns[::-1])
    assert len({knowledge(m) for m in models}) == 1


def test_passes_improve_on_one_pass(name: str) -> None:
    X, y, X_test, y_test = halves()
    once, often = MODELS[name](rehearsal=0), MODELS[name](rehearsal=0)
    for x, label in zip(X, y, strict=True):
        once.learn_one(x, label)
    often.train(X, y, epochs=20)
    assert accuracy(often, X_test, y_test) > accuracy(once, X_test, y_test) - 0.01
    assert accuracy(often, X_test, y_test) > 0.86


def test_probabilities_are_calibrated_on_held_out_data(name: str) -> None:
    """Better than the class frequencies by far, and not overconfident."""
    X, y, X_test, y_test = halves()
    model = MODELS[name]()
    model.train(X, y, epochs=15)
    assert log_loss(model, X_test, y_test) < 0.25 * math.log(7) + 0.1
    confidence = [max(model.predict_proba_one(x).values()) for x in X_test]
    assert np.mean(confidence) == pytest.approx(accuracy(model, X_test, y_test), abs=0.08)


def test_training_is_reproducible_and_seeded() -> None:
    X, y = blobs(100, 4, 3, seed=41)
    a, b, c, d = (streamlvq.GMLVQ() for _ in range(4))
    a.train(X, y, epochs=2)
    b.train(X, y, epochs=2)
    c.train(X, y, epochs=2, seed=2)
    d.train(X, y, epochs=2, seed=None)
    assert knowledge(a) == knowledge(b)
    assert len({m._engine.state["w"].tobytes() for m in (a, c, d)}) == 3


def test_scales_and_class_statistics_are_those_of_the_training_set(name: str) -> None:
    X, y = blobs(100, 4, 3, seed=42)
    model = MODELS[name]()
    model.train(X, y, epochs=4)
    state = model._engine.state
    np.testing.assert_allclose(state["mean"], X.mean(axis=0))
    np.testing.assert_allclose(state["variance"], X.var(axis=0))
    for c in range(3):
        assert state["class_count"][c] == (y == c).sum()
        np.testing.assert_allclose(state["class_mean"][c], X[y == c].mean(axis=0))
        np.testing.assert_allclose(state["class_variance"][c], X[y == c].var(axis=0))
    assert state.size(at.PASSIVE) == 0
    assert state.size(at.REHEARSAL) == model.rehearsal > 0


def test_learning_goes_on_after_training(name: str) -> None:
    X, y = blobs(120, 4, 3, seed=43)
    model = MODELS[name]()
    model.train(readings(X), y, epochs=2)
    before = model.prototypes()
    for x, c in zip(readings(X + X.std(axis=0)), y.tolist(), strict=True):
        model.learn_one(x, c)
    assert model.prototypes() != before
    assert model._engine.state["class_count"].sum() == 240


def test_training_goes_on_after_learning(name: str) -> None:
    """Classes and features that the stream did not have are welcome."""
    X, y = blobs(120, 4, 3, seed=44)
    model = MODELS[name]()
    model.learn_one({"f00": 1.0, "f01": 2.0}, "early")
    model.train(readings(X), y, epochs=2)
    assert set(model.classes) == {"early", 0, 1, 2}
    assert set(model.features) == {"f00", "f01", "f02", "f03"}
    assert {p.label for p in model.prototypes()} == {"early", 0, 1, 2}


def test_a_class_with_a_single_sample() -> None:
    X, y = blobs(120, 3, 2, seed=0)
    labels = ["rare", *y[1:].tolist()]
    temperatures = []
    for seed in range(40):  # in some of them the rare sample is among those kept back
        model = streamlvq.GLVQ()
        model.train(X, labels, epochs=3, seed=seed)
        assert "rare" in {p.label for p in model.prototypes()}
        temperatures.append(model._engine.state["calibration"][at.TEMPERATURE])
    assert min(temperatures) > 0.1


def test_few_samples() -> None:
    model = streamlvq.LGMLVQ()
    model.train([{"a": 0.0}, {"a": 1.0}], ["low", "high"], epochs=2)
    assert model.predict_one({"a": 0.1}) == "low"


def test_one_epoch() -> None:
    X, y = blobs(100, 3, 2, seed=45)
    model = streamlvq.GLVQ()
    model.train(X, y, epochs=1)
    assert model.classes == (0, 1)


@pytest.mark.parametrize("progress", [True, False, None])
def test_progress_bar(progress: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, when asked for; nobody is watching a test."""
    X, y = blobs(60, 3, 2, seed=46)
    streamlvq.GLVQ().train(X, y, epochs=2, progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert ("training" in err) == bool(progress)


def test_progress_bar_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = blobs(60, 3, 2, seed=46)
    quiet, watched = streamlvq.GLVQ(), streamlvq.GLVQ()
    quiet.train(X, y, epochs=2, progress=False)
    watched.train(X, y, epochs=2, progress=True)
    assert knowledge(quiet) == knowledge(watched)


@pytest.mark.parametrize("epochs", [0, -1, 1.5, "many"])
def test_epochs_are_checked(epochs: Any) -> None:
    model = streamlvq.GLVQ()
    before = frozen(model)
    with pytest.raises(ValueError, match="epochs"):
        model.train(np.zeros((2, 2)), [0, 1], epochs=epochs)
    assert frozen(model) == before


def test_labels_are_counted() -> None:
    with pytest.raises(ValueError, match=r"as many labels as rows \(3\), got 2"):
        streamlvq.GLVQ().train(np.zeros((3, 2)), [0, 1])


@pytest.mark.parametrize(
    "empty", [[], np.empty((0, 2)), pd.DataFrame({"a": []})], ids=["list", "array", "frame"]
)
def test_nothing_to_train_on(empty: Any) -> None:
    with pytest.raises(ValueError):
        streamlvq.GLVQ().train(empty, [])


def test_failed_training_leaves_the_switches_as_they_were() -> None:
    X, y = blobs(60, 3, 2, seed=47)
    model = streamlvq.GLVQ()
    model.train(X, y, epochs=2)
    before = frozen(model)
    X[3, 1] = np.inf
    with pytest.raises(
        ValueError, match=r"feature 1 of row 3: expected a finite number .* got inf"
    ):
        model.train(X, y, epochs=2)
    assert frozen(model) == before


@pytest.mark.data
def test_optical_digits() -> None:
    """The thesis reaches .978 in cross-validation with one prototype for each class."""
    with np.load(Path(os.environ["STREAMLVQ_DATA"]) / "optdigits" / "optdigits.npz") as archive:
        X, y = archive["X"].astype(float), archive["y"]
    test = np.arange(len(X)) % 5 == 0
    model = streamlvq.LGMLVQ()
    model.train(X[~test], y[~test], epochs=10)
    assert np.mean(model.predict_array(X[test]) == y[test]) > 0.97
