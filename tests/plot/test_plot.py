"""Pictures: what is on the axes, for every kind of model and of data."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no window

import msgspec
import numpy as np
import pytest
from matplotlib import colors, dates, pyplot
from matplotlib.collections import LineCollection, PathCollection, QuadMesh
from river import compose, naive_bayes, preprocessing

import streamlvq
from streamlvq import plot
from streamlvq.errors import MissingExtraError, NotLearntYetError
from streamlvq.fusion import Clipping, Edge
from streamlvq.models.base import LVQClassifier
from streamlvq.plot.curves import LARGEST_BIN, SMALLEST_BIN
from streamlvq.plot.prototypes import NAMED_FEATURES
from streamlvq.plot.style import COLOURS, NO_ANSWER, PROTOTYPE_SIZE, READING_SIZE, styles_of
from streamlvq.records import Decision, Integrated
from support.small_fleet import fleet, report_of

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
    return np.concatenate([np.asarray(c.get_offsets()) for c in markers(axes, size)])


def markers(axes: Any, size: int) -> list[Any]:
    scattered = [c for c in axes.collections if isinstance(c, PathCollection)]
    return [c for c in scattered if c.get_sizes()[0] == size]


def facecolour(collection: Any) -> tuple[float, ...]:
    return tuple(collection.get_facecolor()[0][:3])


# --- projection ----------------------------------------------------------------------------------


PUBLIC = {name: getattr(streamlvq, name) for name in streamlvq.__all__}
SINGLE = [n for n, c in PUBLIC.items() if isinstance(c, type) and issubclass(c, LVQClassifier)]


@pytest.mark.parametrize("name", SINGLE)
def test_projection_of_every_model(name: str) -> None:
    model = learnt(name)
    rows, labels = sample()
    axes = plot.projection(model, rows, labels, resolution=30)
    assert legend_of(axes) == list(model.classes)
    assert len(positions(axes, READING_SIZE)) == len(rows)
    assert len(positions(axes, PROTOTYPE_SIZE)) == len(model.prototypes())
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
    points = positions(axes, READING_SIZE)
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
        pictures.append(positions(axes, READING_SIZE))
    np.testing.assert_allclose(pictures[0], pictures[1], atol=1e-6)


def test_ways_to_give_readings_agree() -> None:
    pd = pytest.importorskip("pandas")
    model = learnt()
    rows, labels = sample()
    frame = pd.DataFrame(rows, columns=FEATURES)[FEATURES[::-1]]
    ways = [rows, frame, frame.to_dict("records")]
    shown = [
        positions(plot.projection(model, way, labels, resolution=10), READING_SIZE) for way in ways
    ]
    np.testing.assert_allclose(shown[0], shown[1])
    np.testing.assert_allclose(shown[0], shown[2])


def test_prototypes_alone_and_own_axes() -> None:
    _, mine = pyplot.subplots()
    axes = plot.projection(learnt(), ax=mine, resolution=10)
    assert axes is mine
    assert not markers(axes, READING_SIZE)


def test_missing_values_are_drawn_where_they_are_typical() -> None:
    rows, labels = sample()
    rows[::5, 0] = np.nan
    axes = plot.projection(learnt(), rows, labels, resolution=10)
    assert np.isfinite(positions(axes, READING_SIZE)).all()


def test_labels_the_model_does_not_know_are_grey() -> None:
    rows, labels = sample()
    axes = plot.projection(learnt(), rows, ["new", *labels[1:]], resolution=10)
    grey = colors.to_rgb("0.4")
    found = [c for c in markers(axes, READING_SIZE) if facecolour(c) == grey]
    assert [len(c.get_offsets()) for c in found] == [1]


def test_many_classes_have_different_looks() -> None:
    random = np.random.default_rng(1)
    labels = list(range(26))
    model = streamlvq.GLVQ()
    model.learn_array(random.normal(size=(26, 3)), labels)
    styles = styles_of(model.classes)
    assert len(set(styles.values())) == 26
    assert len(legend_of(plot.projection(model, resolution=10))) == 26


@pytest.mark.parametrize("rank", [1, 2, None])
def test_any_rank(rank: int | None) -> None:
    rows, labels = sample()
    axes = plot.projection(learnt("LGMLVQ", rank=rank), rows, labels, resolution=10)
    assert np.isfinite(positions(axes, READING_SIZE)).all()


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


# --- maps of decisions ---------------------------------------------------------------------------


PAIR = ("b", "c")


def readings(features: tuple[str, ...] = PAIR) -> tuple[list[dict[str, float]], list[str]]:
    rows, labels = sample()
    columns = [FEATURES.index(name) for name in features]
    return [dict(zip(features, row[columns].tolist(), strict=True)) for row in rows], labels


def taught(model: Any, features: tuple[str, ...] = PAIR) -> Any:
    for x, y in zip(*readings(features), strict=True):
        model.learn_one(x, y)
    return model


def rejector(threshold: float = 0.6, name: str = "GLVQ") -> Any:
    model = getattr(streamlvq, name)(max_prototypes_per_class=1)
    return taught(streamlvq.RelSimRejector(model, threshold=threshold))


def test_map_shows_labels_and_reasons() -> None:
    model = rejector()
    X, y = readings()
    axes = plot.decision_map(model, X, y, margin=0.6, resolution=60)
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    across, up = np.linspace(low, high, 60).T
    reasons = set()
    shown = np.asarray(axes.get_images()[0].get_array())
    order = [*model.classifier.classes, "ambiguous", "outlier"]
    for i in range(0, 60, 7):
        for j in range(0, 60, 7):
            decision = model.decide_one({"b": across[j], "c": up[i]})
            wanted = decision.label if decision.accepted else decision.reason
            assert order[shown[i, j]] == wanted
            reasons.add(decision.reason)
    assert reasons == {None, "ambiguous", "outlier"}
    names = [NO_ANSWER[reason][0] for reason in ("ambiguous", "outlier")]
    assert legend_of(axes) == [*model.classifier.classes, *names]
    assert len(positions(axes, READING_SIZE)) == len(X)
    axes.figure.canvas.draw()


def test_map_has_the_prototypes_of_a_model_inside() -> None:
    axes = plot.decision_map(rejector(), *readings(), resolution=10)
    drawn = positions(axes, PROTOTYPE_SIZE)
    wanted = [[p.values["b"], p.values["c"]] for p in rejector().classifier.prototypes()]
    np.testing.assert_allclose(drawn, wanted)
    assert axes.get_title().startswith("RelSimRejector(GLVQ)\n(large: prototypes, small:")
    assert (axes.get_xlabel(), axes.get_ylabel()) == PAIR


def test_map_of_a_model_that_always_answers() -> None:
    model = taught(streamlvq.PairwiseLVQ())
    axes = plot.decision_map(model, *readings(), resolution=30)
    assert legend_of(axes) == list(model.classes)
    points = np.array([list(x.values()) for x in readings()[0]])
    predicted = [model.classes.index(model.predict_one(x)) for x in readings()[0]]
    assert np.mean(background_at(axes, points) == predicted) > 0.95


def test_map_of_a_river_model() -> None:
    model = taught(preprocessing.StandardScaler() | naive_bayes.GaussianNB())
    X, y = readings()
    axes = plot.decision_map(model, X, y, resolution=20)
    assert sorted(legend_of(axes)) == sorted(LABELS)
    assert not markers(axes, PROTOTYPE_SIZE)


@pytest.mark.parametrize("outside", [True, False])
def test_map_of_a_rejector_around_and_at_the_end_of_a_pipeline(outside: bool) -> None:
    scaler, model = preprocessing.StandardScaler(), streamlvq.GLVQ(max_prototypes_per_class=1)
    if outside:
        pipeline = streamlvq.RelSimRejector(scaler | model, threshold=0.6)
    else:
        pipeline = scaler | streamlvq.RelSimRejector(model, threshold=0.6)
    axes = plot.decision_map(taught(pipeline), *readings(), margin=0.6, resolution=30)
    assert legend_of(axes)[3:] == [NO_ANSWER[r][0] for r in ("ambiguous", "outlier")]
    assert "prototypes" not in axes.get_title()


def test_map_calls_the_lack_of_a_label_ambiguous() -> None:
    class Silent(naive_bayes.GaussianNB):  # type: ignore[misc]
        def predict_one(self, x: dict[str, float]) -> None:
            return None

    axes = plot.decision_map(Silent(), *readings(), resolution=5)
    assert legend_of(axes) == [NO_ANSWER["ambiguous"][0]]


def test_map_of_a_model_that_knows_too_little() -> None:
    model = streamlvq.RelSimRejector(streamlvq.GLVQ(), threshold=0.5)
    model.learn_one(readings()[0][0], "low")
    axes = plot.decision_map(model, readings()[0], resolution=5)
    assert legend_of(axes) == ["low", NO_ANSWER["no_model"][0]]


def test_map_of_two_features_among_others() -> None:
    model = taught(streamlvq.GMLVQ(), tuple(FEATURES))
    X, y = readings(tuple(FEATURES))
    points = [[x["b"], x["c"]] for x in X]
    usual = plot.decision_map(model, X, y, features=PAIR, resolution=40)
    np.testing.assert_allclose(sorted(positions(usual, READING_SIZE).tolist()), sorted(points))
    assert "prototypes" not in usual.get_title()
    medians = {name: np.median([x[name] for x in X]) for name in ("a", "d")}
    same = plot.decision_map(model, X, y, features=PAIR, others=medians, resolution=40)
    other = plot.decision_map(model, X, y, features=PAIR, others={"a": 40.0}, resolution=40)
    images = [np.asarray(axes.get_images()[0].get_array()) for axes in (usual, same, other)]
    np.testing.assert_array_equal(images[0], images[1])
    assert (images[0] != images[2]).any()


def test_map_takes_frames_and_arrays() -> None:
    pd = pytest.importorskip("pandas")
    X, y = readings()
    framed = plot.decision_map(rejector(), pd.DataFrame(X), y, resolution=10)
    listed = plot.decision_map(rejector(), X, y, resolution=10)
    np.testing.assert_array_equal(
        framed.get_images()[0].get_array(), listed.get_images()[0].get_array()
    )
    model = streamlvq.GLVQ()
    rows, labels = sample()
    model.learn_array(rows[:, 1:3], labels)
    axes = plot.decision_map(model, rows[:, 1:3], labels, resolution=10)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("0", "1")
    assert len(positions(axes, PROTOTYPE_SIZE)) == len(model.prototypes())


def test_map_leaves_out_what_is_missing() -> None:
    X, y = readings()
    X[0]["b"], X[1]["c"] = None, float("nan")  # type: ignore[assignment]
    axes = plot.decision_map(rejector(), X, y, resolution=10)
    axes.figure.canvas.draw()
    assert np.isfinite([axes.get_xlim(), axes.get_ylim()]).all()


def test_map_hands_keywords_on() -> None:
    inner = streamlvq.TimeIntegrator(streamlvq.GLVQ(), window=50)
    for x, y in zip(*readings(), strict=True):
        inner.learn_one(x, y, device="other")
    for x, y in zip(*readings(), strict=True):
        if y == "high":
            inner.observe_one(x, device="press")
    shares = []
    for device in ("press", "new"):
        axes = plot.decision_map(inner, *readings(), resolution=20, device=device)
        shares.append(np.mean(axes.get_images()[0].get_array() == LABELS.index("high")))
    assert shares[0] == 1.0 > shares[1]


def test_map_in_own_axes_without_labels() -> None:
    _, mine = pyplot.subplots()
    assert plot.decision_map(rejector(), readings()[0], ax=mine, resolution=5) is mine
    assert [facecolour(c) for c in markers(mine, READING_SIZE)] == [colors.to_rgb("0.4")]


def test_impossible_maps() -> None:
    X, y = readings(("a", "b", "c"))
    model = taught(streamlvq.GLVQ(), ("a", "b", "c"))
    with pytest.raises(ValueError, match="two features, got 'a', 'b', 'c'; choose two"):
        plot.decision_map(model, X, y)
    with pytest.raises(ValueError, match=r"two features, got 'a'$"):
        plot.decision_map(model, X, y, features=["a"])
    with pytest.raises(ValueError, match=r"two features, got 'a', 'a'$"):
        plot.decision_map(model, X, y, features=["a", "a"])
    with pytest.raises(ValueError, match=r"some of \['a', 'b', 'c'\], got 'z'"):
        plot.decision_map(model, X, y, features=["a", "z"])
    with pytest.raises(ValueError, match=r"labels as readings \(240\), got 1"):
        plot.decision_map(model, X, ["low"], features=["a", "b"])


def test_a_selected_feature_is_enough() -> None:
    model = compose.Select("b", "c") | streamlvq.GLVQ()
    taught(model, ("a", "b", "c"))
    X, y = readings(("a", "b", "c"))
    assert legend_of(plot.decision_map(model, X, y, features=PAIR, resolution=10)) == [*LABELS]


# --- decisions over time -------------------------------------------------------------------------


def decision(label: str, p: float, reason: str | None = None) -> Decision:
    probabilities = {name: p if name == label else (1 - p) / 2 for name in LABELS}
    return Decision(label, p, reason is None, reason, 0.5, label, "high", None, None, probabilities)


SAID = [
    decision("low", 0.9),
    decision("middle", 0.4, "ambiguous"),
    decision("middle", 0.8),
    decision("high", 0.7, "outlier"),
]
TRUTH = ["low", "low", "high", "high"]


def strips(axes: Any) -> list[list[str]]:
    """The colours of each row of cells, from below."""
    meshes = [c for c in axes.collections if isinstance(c, QuadMesh)]
    return [[colors.to_hex(rgba) for rgba in m.get_array().reshape(-1, 4)] for m in meshes]


def test_decisions_over_time() -> None:
    axes = plot.decisions_over_time([0, 1, 2, 3], SAID, TRUTH)
    blue, orange, green = (colour.lower() for colour in COLOURS[:3])
    grey = colors.to_hex(NO_ANSWER["outlier"][1])
    decided, true = strips(axes)
    assert decided == [blue, "#ffffff", orange, grey]
    assert true == [blue, blue, green, green]
    (crosses,) = axes.get_lines()
    assert list(crosses.get_xdata()) == [2]  # the only one that was accepted and wrong
    names = [NO_ANSWER[reason][0] for reason in ("ambiguous", "outlier")]
    assert legend_of(axes) == [*LABELS, *names, "wrong"]
    assert axes.get_xlim() == (-0.5, 3.5)
    assert [text.get_text() for text in axes.get_yticklabels()][-2:] == ["decision", "truth"]
    axes.figure.canvas.draw()


def areas(axes: Any) -> list[Any]:
    return [patch.get_data() for patch in axes.patches if patch.get_fill()]


def test_probabilities_are_stacked() -> None:
    data = areas(plot.decisions_over_time([0, 1, 2, 3], SAID))
    np.testing.assert_allclose(data[0].values, [one.probabilities["low"] for one in SAID])
    np.testing.assert_allclose(data[2].values, 1.0)
    for below, above in itertools.pairwise(data):
        np.testing.assert_allclose(below.values, above.baseline)


def test_gaps_stay_empty() -> None:
    axes = plot.decisions_over_time([0, 1, 2, 50], SAID, TRUTH)
    (first, *_) = areas(axes)
    np.testing.assert_allclose(first.edges, [-0.5, 0.5, 1.5, 2.5, 49.5, 50.5])
    assert np.isnan(first.values).tolist() == [False, False, False, True, False]
    mesh = next(c for c in axes.collections if isinstance(c, QuadMesh))
    assert mesh.get_array().reshape(-1, 4)[:, 3].tolist() == [1, 1, 1, 0, 1]
    axes.figure.canvas.draw()


def test_time_may_be_a_date() -> None:
    start = datetime(2026, 3, 1)
    times = [start + timedelta(minutes=minute) for minute in range(4)]
    axes = plot.decisions_over_time(times, SAID, TRUTH)
    low, high = axes.get_xlim()
    assert low == pytest.approx(dates.date2num(start - timedelta(seconds=30)))
    assert high == pytest.approx(dates.date2num(times[-1] + timedelta(seconds=30)))
    axes.figure.canvas.draw()
    assert any(":" in text.get_text() for text in axes.get_xticklabels())


def test_everything_that_classifiers_say() -> None:
    p = {"low": 0.2, "middle": 0.7, "high": 0.1}
    said = [{}, p, Integrated("middle", p, 0, None, 1), "high", None]
    axes = plot.decisions_over_time(range(5), said)
    orange, green = (colour.lower() for colour in COLOURS[1:3])
    white, grey = (colors.to_hex(NO_ANSWER[r][1]) for r in ("ambiguous", "no_model"))
    assert strips(axes) == [[grey, orange, orange, green, white]]
    assert np.isnan(areas(axes)[0].values).tolist() == [True, False, False, True, True]


def test_labels_alone_need_no_room_for_probabilities() -> None:
    axes = plot.decisions_over_time([0, 1], ["low", None], ["low", "high"])
    assert areas(axes) == []
    assert axes.get_ylim()[0] > 1
    assert axes.get_ylabel() == ""


def test_one_decision_in_own_axes() -> None:
    _, mine = pyplot.subplots()
    assert plot.decisions_over_time([7.0], SAID[:1], ax=mine) is mine
    assert mine.get_xlim() == (6.5, 7.5)


def test_readings_at_the_same_time() -> None:
    plot.decisions_over_time([1, 1, 1, 1], SAID, TRUTH).figure.canvas.draw()


def test_impossible_times() -> None:
    with pytest.raises(ValueError, match=r"as many decisions as times \(3\), got 4"):
        plot.decisions_over_time([0, 1, 2], SAID)
    with pytest.raises(ValueError, match=r"as many true labels as times \(4\), got 1"):
        plot.decisions_over_time([0, 1, 2, 3], SAID, ["low"])
    with pytest.raises(ValueError, match="times in order"):
        plot.decisions_over_time([0, 2, 1, 3], SAID)
    with pytest.raises(ValueError, match="at least one decision"):
        plot.decisions_over_time([], [])


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
    assert len(axes.get_xticklabels()) <= NAMED_FEATURES


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
    assert [line.get_color() for line in axes.get_lines()] == list(COLOURS[:2])
    assert legend_of(axes) == ["GLVQ", "LGMLVQ"]


def test_reliability_diagram_from_arrays() -> None:
    axes = plot.reliability_diagram(([0.6, 0.9], [0.5, 0.95], [10.0, 40.0]))
    line, diagonal = axes.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), [[0.6, 0.5], [0.9, 0.95]])
    assert diagonal.get_slope() == 1
    (bins,) = axes.collections
    np.testing.assert_array_equal(bins.get_offsets(), line.get_xydata())
    small, large = bins.get_sizes()
    assert SMALLEST_BIN < small < large == LARGEST_BIN
    assert axes.get_legend() is None


def test_reliability_diagrams_share_axes() -> None:
    axes = plot.reliability_diagram(([0.6], [0.5], [1]), label="GLVQ")
    plot.reliability_diagram(([0.7], [0.5], [1]), axes, "LGMLVQ")
    drawn = [line.get_color() for line in axes.get_lines() if line.get_linestyle() == "-"]
    assert drawn == list(COLOURS[:2])
    assert legend_of(axes) == ["GLVQ", "LGMLVQ"]


# --- without matplotlib --------------------------------------------------------------------------


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "accuracy_reject_curve": (([0, 1], [1, 1]),),
    "decisions_over_time": ([0], ["low"]),
    "reliability_diagram": (([0.5], [0.6], [9]),),
}


@pytest.mark.parametrize("name", plot.__all__)
def test_missing_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ARGUMENTS.get(name) or (learnt(), *sample())
    if name in ("relevance_profile", "prototype_profiles"):
        arguments = arguments[:1]
    elif name == "decision_map":
        arguments = (rejector(), *readings())
    elif name == "sharing_graph":
        arguments = (report_of(fleet()),)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamlvq\[plot\]'"):
        getattr(plot, name)(*arguments)


# --- sharing graph -------------------------------------------------------------------------------


def test_sharing_graph_joins_nodes_by_shared_classes() -> None:
    report = report_of(fleet())
    axes = plot.sharing_graph(report)
    (lines,) = (c for c in axes.collections if isinstance(c, LineCollection))
    widths = dict(zip([(e.a, e.b) for e in report.edges], lines.get_linewidths(), strict=True))
    assert len(widths) == 3
    texts = [text.get_text() for text in axes.texts]
    assert [text.split("\n")[0] for text in texts] == list(report.nodes)
    assert texts[2] == "york\noff by 2.3\n+ worn"
    assert "left over" in axes.figure.axes[1].get_ylabel()
    axes.figure.canvas.draw()


def test_sharing_graph_is_thicker_and_redder_where_it_says_so() -> None:
    edges = (Edge("bath", "leeds", ("idle",), 0.1), Edge("bath", "york", ("idle", "worn"), 3.0))
    report = msgspec.structs.replace(report_of(fleet()), edges=edges)
    (lines,) = (c for c in plot.sharing_graph(report).collections if isinstance(c, LineCollection))
    thin, thick = lines.get_linewidths()
    assert thin < thick
    assert lines.get_array().tolist() == [0.1, 3.0]
    assert lines.get_clim() == (0.0, 3.0)


def test_sharing_graph_shows_who_was_left_out_or_clipped() -> None:
    report = report_of(fleet())
    changed = {
        "bath": msgspec.structs.replace(report.nodes["bath"], left_out="it lies"),
        "leeds": msgspec.structs.replace(report.nodes["leeds"], clipped=(Clipping("scale_cut"),)),
    }
    report = msgspec.structs.replace(report, nodes={**report.nodes, **changed})
    axes = plot.sharing_graph(report)
    circles = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert [float(c.get_linewidths()[0]) for c in circles] == [1.3, 3.0, 1.3]
    assert facecolour(circles[0]) == (1.0, 1.0, 1.0)
    assert axes.texts[0].get_text().endswith("left out")


def test_sharing_graph_of_one_node_and_on_given_axes() -> None:
    report = report_of(fleet()[:1])
    axes = pyplot.subplots()[1]
    assert plot.sharing_graph(report, axes) is axes
    assert len(axes.figure.axes) == 1  # without edges there is no scale
    axes.figure.canvas.draw()
