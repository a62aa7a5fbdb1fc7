"""Pictures: what is on the axes, for every kind of model and of data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no window

import numpy as np
import pytest
from matplotlib import colors, pyplot

import streamlvq
from streamlvq import plot
from streamlvq.errors import MissingExtraError, NotLearntYetError
from streamlvq.models.base import LVQClassifier

FEATURES = ["a", "b", "c", "d"]
LABELS = ("low", "middle", "high")


def sample(count: int = 240) -> tuple[np.ndarray, list[str]]:
    """Three classes along `b` (in large units) and `c`; the other two features are noise."""
    random = np.random.default_rng(3)
    classes = np.arange(count) % 3
    rows = random.normal(size=(count, 4))
    rows[:, 1] = 1000 * (rows[:, 1] + 4 * classes)
    rows[:, 2] -= 3 * (classes == 1)
    return rows, [LABELS[c] for c in classes]


def learnt(name: str = "GMLVQ", **parameters: Any) -> Any:
    model = getattr(streamlvq, name)(**parameters)
    rows, labels = sample()
    model.learn_array(rows, labels, features=FEATURES)
    return model


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


def legend_of(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def positions(axes: Any, size: int) -> np.ndarray:
    """Where the markers of a size are."""
    chosen = [c for c in axes.collections if c.get_sizes()[0] == size]
    return np.concatenate([np.asarray(c.get_offsets()) for c in chosen])


# --- projection ----------------------------------------------------------------------------------


SINGLE = [n for n in streamlvq.__all__ if issubclass(getattr(streamlvq, n), LVQClassifier)]


@pytest.mark.parametrize("name", SINGLE)
def test_projection_of_every_model(name: str) -> None:
    model = learnt(name)
    rows, labels = sample()
    axes = plot.projection(model, rows, labels, resolution=30)
    assert legend_of(axes) == list(model.classes)
    assert len(positions(axes, plot.READING_SIZE)) == len(rows)
    assert len(positions(axes, plot.PROTOTYPE_SIZE)) == len(model.prototypes())
    axes.figure.canvas.draw()


def test_axis_names_the_feature_that_separates() -> None:
    rows, labels = sample()
    axes = plot.projection(learnt("GRLVQ"), rows, labels, resolution=20)
    assert axes.get_xlabel().startswith("+1.00 b\n")
    assert "of the metric" in axes.get_xlabel()


def test_models_without_a_metric_use_principal_components() -> None:
    rows, labels = sample()
    axes = plot.projection(learnt("GLVQ"), rows, labels, resolution=20)
    assert "of the variance" in axes.get_xlabel()
    assert " b" in axes.get_xlabel() + axes.get_ylabel()


def background_at(axes: Any, points: np.ndarray) -> np.ndarray:
    (image,) = axes.get_images()
    left, right, bottom, top = image.get_extent()
    pixels = np.asarray(image.get_array())
    size = np.array(pixels.shape[::-1])
    spot = (points - [left, bottom]) / [right - left, top - bottom] * size
    column, row = np.clip(spot.astype(int), 0, size - 1).T
    return pixels[row, column]


@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGMLVQ"])
def test_background_agrees_with_predictions(name: str) -> None:
    model = learnt(name)
    rows, labels = sample()
    axes = plot.projection(model, rows, resolution=120)
    points = positions(axes, plot.READING_SIZE)
    predicted = [model.classes.index(label) for label in model.predict_array(rows)]
    assert np.mean(background_at(axes, points) == predicted) > 0.9
    assert np.mean(predicted == np.array([model.classes.index(y) for y in labels])) > 0.9


def test_units_change_nothing() -> None:
    rows, labels = sample()
    factors = np.array([1e-3, 1e3, 1.0, 10.0])
    pictures = []
    for scale in (np.ones(4), factors):
        model = streamlvq.GMLVQ()
        model.learn_array(rows * scale, labels, features=FEATURES)
        axes = plot.projection(model, rows * scale, labels, resolution=10)
        pictures.append(positions(axes, plot.READING_SIZE))
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-6)


def test_ways_to_give_readings_agree() -> None:
    pd = pytest.importorskip("pandas")
    model = learnt()
    rows, labels = sample()
    frame = pd.DataFrame(rows, columns=FEATURES)[FEATURES[::-1]]
    ways = [rows, frame, frame.to_dict("records")]
    shown = [
        positions(plot.projection(model, way, labels, resolution=10), plot.READING_SIZE)
        for way in ways
    ]
    np.testing.assert_allclose(shown[0], shown[1])
    np.testing.assert_allclose(shown[0], shown[2])


def test_prototypes_alone_and_own_axes() -> None:
    _, mine = pyplot.subplots()
    axes = plot.projection(learnt(), ax=mine, resolution=10)
    assert axes is mine
    assert not any(c.get_sizes()[0] == plot.READING_SIZE for c in axes.collections)


def test_missing_values_are_drawn_where_they_are_typical() -> None:
    rows, labels = sample()
    rows[::5, 0] = np.nan
    axes = plot.projection(learnt(), rows, labels, resolution=10)
    assert np.isfinite(positions(axes, plot.READING_SIZE)).all()


def test_labels_the_model_does_not_know_are_grey() -> None:
    rows, labels = sample()
    axes = plot.projection(learnt(), rows, ["new", *labels[1:]], resolution=10)
    grey = colors.to_rgb("0.4")
    small = [c for c in axes.collections if c.get_sizes()[0] == plot.READING_SIZE]
    found = [c for c in small if tuple(c.get_facecolor()[0][:3]) == grey]
    assert [len(c.get_offsets()) for c in found] == [1]


def test_many_classes_have_different_looks() -> None:
    random = np.random.default_rng(1)
    labels = list(range(26))
    model = streamlvq.GLVQ()
    model.learn_array(random.normal(size=(26, 3)), labels)
    styles = plot._styles(model.classes)
    assert len(set(styles.values())) == 26
    assert len(legend_of(plot.projection(model, resolution=10))) == 26


@pytest.mark.parametrize("rank", [1, 2, None])
def test_any_rank(rank: int | None) -> None:
    rows, labels = sample()
    axes = plot.projection(learnt("LGMLVQ", rank=rank), rows, labels, resolution=10)
    assert np.isfinite(positions(axes, plot.READING_SIZE)).all()


def test_impossible_projections() -> None:
    rows, labels = sample()
    with pytest.raises(NotLearntYetError):
        plot.projection(streamlvq.GLVQ())
    unpaired = streamlvq.PairwiseLVQ()
    unpaired.learn_array(rows, ["only"] * len(rows))
    with pytest.raises(NotLearntYetError, match="from two classes on"):
        plot.projection(unpaired, rows)
    with pytest.raises(ValueError, match=r"labels as readings \(240\), got 239"):
        plot.projection(learnt(), rows, labels[1:])
    with pytest.raises(ValueError, match="expected 4 columns, got 3"):
        plot.projection(learnt(), rows[:, 1:])
    single = streamlvq.GLVQ()
    single.learn_array(rows[:, :1], labels)
    with pytest.raises(ValueError, match="at least 2 features, got 1"):
        plot.projection(single)


# --- profiles ------------------------------------------------------------------------------------


def test_relevance_profile_ranks() -> None:
    model = learnt("GRLVQ")
    axes = plot.relevance_profile(model, top=3)
    names = [text.get_text() for text in axes.get_yticklabels()]
    widths = [bar.get_width() for bar in axes.patches]
    relevances = model.relevances()
    assert names == sorted(relevances, key=relevances.get, reverse=True)[:3]
    assert widths == sorted(relevances.values(), reverse=True)[:3]
    assert names[0] == "b"


def test_relevance_profile_of_a_class() -> None:
    model = learnt("LGRLVQ")
    axes = plot.relevance_profile(model, "high")
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == sorted(model.relevances("high").values(), reverse=True)
    assert "high" in axes.get_title()


def test_relevance_profile_refuses_to_show_nothing() -> None:
    with pytest.raises(ValueError, match="at least 1 feature, got top=0"):
        plot.relevance_profile(learnt(), top=0)


def test_prototype_profiles_in_raw_units() -> None:
    model = learnt()
    axes = plot.prototype_profiles(model)
    drawn = [list(line.get_ydata()) for line in axes.get_lines()]
    assert drawn == [list(prototype.values.values()) for prototype in model.prototypes()]
    assert [text.get_text() for text in axes.get_xticklabels()] == FEATURES
    assert legend_of(axes) == list(model.classes)


def test_scaled_profiles_bring_units_together() -> None:
    axes = plot.prototype_profiles(learnt(), scaled=True)
    drawn = np.array([line.get_ydata() for line in axes.get_lines()])
    assert np.abs(drawn).max() < 10
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=1e-9)


def test_profiles_of_many_features_name_some() -> None:
    random = np.random.default_rng(1)
    model = streamlvq.GLVQ()
    model.learn_array(random.normal(size=(30, 100)), ["x", "y"] * 15)
    axes = plot.prototype_profiles(model)
    assert len(axes.get_xticklabels()) <= plot.NAMED_FEATURES


def test_profiles_of_features_that_a_prototype_has_never_seen() -> None:
    model = streamlvq.GLVQ()
    model.learn_one({"a": 1.0}, "x")
    model.learn_one({"a": 2.0, "b": 5.0}, "y")
    drawn = np.array([line.get_ydata() for line in plot.prototype_profiles(model).get_lines()])
    assert np.isfinite(drawn).all()


# --- metrics -------------------------------------------------------------------------------------


def test_accuracy_reject_curve_from_arrays() -> None:
    axes = plot.accuracy_reject_curve(([0.0, 0.5, 1.0], [0.8, 0.9, 1.0]), label="GLVQ")
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[0, 0.8], [0.5, 0.9], [1, 1]])
    assert legend_of(axes) == ["GLVQ"]
    assert axes.get_xlabel() == "reject rate"


def test_the_last_samples_kept_do_not_squeeze_the_curve() -> None:
    axes = plot.accuracy_reject_curve(([0.0, 0.5, 0.99, 1.0], [0.9, 0.95, 0.0, 1.0]))
    assert 0.8 < axes.get_ylim()[0] < 0.9
    plot.accuracy_reject_curve(([0.0, 1.0], [0.6, 1.0]), axes)
    assert 0.5 < axes.get_ylim()[0] < 0.6


def test_curves_that_share_axes_have_different_colours() -> None:
    axes = plot.accuracy_reject_curve(([0, 1], [0.8, 1]), label="GLVQ")
    assert plot.accuracy_reject_curve(([0, 1], [0.9, 1]), axes, "LGMLVQ") is axes
    assert [line.get_color() for line in axes.get_lines()] == list(plot.COLOURS[:2])
    assert legend_of(axes) == ["GLVQ", "LGMLVQ"]


def test_reliability_diagram_from_arrays() -> None:
    axes = plot.reliability_diagram(([0.6, 0.9], [0.5, 0.95], [10.0, 40.0]))
    line, diagonal = axes.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[0.6, 0.5], [0.9, 0.95]])
    assert diagonal.get_slope() == 1
    (bins,) = axes.collections
    np.testing.assert_array_equal(bins.get_offsets(), line.get_xydata())
    small, large = bins.get_sizes()
    assert plot.SMALLEST_BIN < small < large == plot.LARGEST_BIN
    assert axes.get_legend() is None


def test_reliability_diagrams_share_axes() -> None:
    axes = plot.reliability_diagram(([0.6], [0.5], [1]), label="GLVQ")
    plot.reliability_diagram(([0.7], [0.5], [1]), axes, "LGMLVQ")
    drawn = [line.get_color() for line in axes.get_lines() if line.get_linestyle() == "-"]
    assert drawn == list(plot.COLOURS[:2])
    assert legend_of(axes) == ["GLVQ", "LGMLVQ"]


# --- without matplotlib --------------------------------------------------------------------------


TABLES = {"accuracy_reject_curve": ([0, 1], [1, 1]), "reliability_diagram": ([0.5], [0.6], [9])}


@pytest.mark.parametrize("name", plot.__all__)
def test_missing_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = TABLES.get(name) or learnt()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamlvq\[plot\]'"):
        getattr(plot, name)(subject)
