"""What the benchmarks' figures rest on: streams, late labels, kept results, ranks and tests.

Their figures are of no use if a label is seen too early, a stream is in another order than it
says, or a rank is counted wrongly.
"""

from __future__ import annotations

import doctest
import math
from collections import Counter
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river.datasets.synth import LEDDrift

import batch_gmlvq
import datasets
import fusion_paper
import fusion_picture
import fusion_thesis
import ranks
import streams
from batch_gmlvq import BatchGMLVQ, cost
from fusion_fleets import f1_by_class, learn, maker, plain, snapshots, spectral
from progressive import CHUNK, Result, evaluate

ROOT = Path(__file__).parent.parent
NO_DATA_NEEDED = [
    "ImageSegments",
    "RandomRBFDrift",
    "Agrawal drift",
    "LED drift",
    "SEA drift",
    "Hyperplane",
    "Waveform",
    "Sine drift",
    "Mixed drift",
    "Phishing",
    "Bananas",
]


# --- streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NO_DATA_NEEDED)
def test_streams_without_files_come_out_equal_every_time(name: str) -> None:
    first, second = datasets.stream(name), datasets.stream(name)
    assert first.name == name
    assert first.digest == second.digest
    assert np.isfinite(first.X).all()
    assert len(set(first.y)) >= 2


@pytest.mark.data
@pytest.mark.parametrize("name", sorted(datasets.STREAMS.keys() - {*NO_DATA_NEEDED, "digits"}))
def test_streams_from_files_are_finite_and_have_names(name: str) -> None:
    data = datasets.stream(name)
    assert data.name == name
    assert np.isfinite(data.X).all()
    assert len(set(data.features)) == data.X.shape[1]
    assert not isinstance(data.y[0], np.generic)  # what a River user passes


def test_streams_of_the_comparison_are_enough_and_known() -> None:
    assert len(datasets.COMPARED) >= streams.MIN_STREAMS
    assert {*datasets.COMPARED, *datasets.IN_TIME_ORDER, *streams.TARGETS} <= {*datasets.STREAMS}


def test_a_digest_changes_with_a_value_a_label_and_the_length() -> None:
    data = datasets.stream("Bananas").head(50)
    value = datasets.from_arrays("Bananas", data.X + np.eye(50, 2), np.array(data.y))
    label = datasets.from_arrays("Bananas", data.X, np.array([not data.y[0], *data.y[1:]]))
    assert len({data.digest, value.digest, label.digest, data.head(49).digest}) == 4


@pytest.mark.data
def test_plants_of_tep_keep_their_order_and_their_faults_are_present() -> None:
    raw = datasets.read_npz("tep/tep.npz")
    data = datasets.stream("tep")
    assert Counter(data.y) == dict.fromkeys(range(22), 800)
    labels = np.array(data.y)
    for fault in range(22):
        rows = np.flatnonzero((raw["fault_file"] == fault) & ~raw["is_train"])
        assert np.array_equal(data.X[labels == fault], raw["X"][rows[160:]])
    runs = [len(list(run)) for _, run in groupby(data.y)]
    assert np.mean(runs) == pytest.approx(22 / 21, abs=0.02)  # as of independent draws


@pytest.mark.data
def test_exposures_of_uma_enose_are_whole_and_in_time_order() -> None:
    raw = datasets.read_npz("uma_enose/uma_enose.npz")
    data = datasets.stream("uma_enose")
    exposures = data.X.reshape(69, 131, 4)
    assert sorted(Counter(data.y).values()) == sorted(
        131 * n for n in Counter(raw["y"].tolist()).values()
    )
    originals = {x[::8].tobytes() for x in raw["X"].astype(np.float64)}
    assert {np.ascontiguousarray(x).tobytes() for x in exposures} == originals


@pytest.mark.data
def test_cycles_of_the_hydraulic_rig_are_described_channel_by_channel() -> None:
    raw = datasets.read_npz("hydraulic_1hz/hydraulic_1hz.npz")
    data = datasets.stream("hydraulic valve")
    cycle, channel = 17, 3
    values = raw["X"][cycle, channel].astype(np.float64)
    found = dict(zip(data.features, data.X[cycle], strict=True))
    sensor = raw["sensors"][channel]
    assert found[f"{sensor} mean"] == pytest.approx(values.mean())
    assert found[f"{sensor} deviation"] == pytest.approx(values.std())
    assert (found[f"{sensor} min"], found[f"{sensor} max"]) == (values.min(), values.max())
    assert set(data.y) == {73, 80, 90, 100}


def test_an_abrupt_change_is_abrupt_and_a_gradual_one_follows_the_sigmoid() -> None:
    def labelled(label: str) -> Any:
        while True:
            yield {}, label

    concepts = [labelled(label) for label in "abc"]
    y = "".join(label for _, label in datasets.drifting(concepts, [(2000, 1), (6000, 800)], 9000))
    assert len(y) == 9000
    assert set(y[:1995]) == {"a"}
    assert set(y[2005:4500]) == {"b"}
    assert set(y[7500:]) == {"c"}
    for start in range(5200, 6800, 200):
        middle = start + 99.5
        expected = 1 / (1 + math.exp(-4 * (middle - 6000) / 800))
        assert y[start : start + 200].count("c") / 200 == pytest.approx(expected, abs=0.12)


def test_ten_percent_of_the_segments_are_inverted() -> None:
    data = datasets.stream("LED drift")
    codes = np.array(LEDDrift._ORIGINAL_INSTANCES)[data.y]
    # A segment is the bit that agrees with it most often; the others are coin tosses.
    agreement = np.array([(segment[:, None] == data.X).mean(axis=0) for segment in codes.T])
    assert len(set(agreement.argmax(axis=1))) == 7
    assert 1 - agreement.max(axis=1).mean() == pytest.approx(0.1, abs=0.004)


# --- test then train --------------------------------------------------------------------------


class Recorder:
    """A classifier that knows only what was said to it, and in what order."""

    log: list[tuple[str, float, Any]]

    def __init__(self) -> None:
        self.log = []

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        self.log.append(("learn", x["x0"], y))

    def predict_proba_one(self, x: dict[Any, float]) -> dict[Any, float]:
        self.log.append(("predict", x["x0"], None))
        last = next((entry[2] for entry in reversed(self.log) if entry[0] == "learn"), None)
        return {} if last is None else {last: 1.0}


def labels(n: int) -> datasets.Stream:
    y = np.random.default_rng(5).integers(3, size=n)
    return datasets.from_arrays("labels", np.arange(n, dtype=float)[:, None], y)


@pytest.mark.parametrize("delay", [0, 1, 50, CHUNK, 2 * CHUNK + 7, 500])
def test_a_label_is_learnt_as_late_as_asked(delay: int) -> None:
    data = labels(350)
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    result = evaluate(factory, data, delay=delay)
    expected: list[tuple[str, float, Any]] = []
    for k in range(350):
        expected.append(("predict", k, None))
        if k >= delay:
            expected.append(("learn", k - delay, data.y[k - delay]))
    assert made[-1].log == expected
    hits = sum(data.y[k] == data.y[k - delay - 1] for k in range(delay + 1, 350))
    assert result.accuracy == hits / 350
    assert (result.n, result.rows, result.finished) == (350, 350, True)


def test_warming_up_leaves_no_trace() -> None:
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    evaluate(factory, labels(100), warm_up=20)
    warm, measured = made
    assert len(warm.log) == 40
    assert len(measured.log) == 200


def test_a_model_that_is_too_slow_is_stopped_after_a_chunk() -> None:
    result = evaluate(Recorder, labels(2 * CHUNK + 50), max_seconds=0)
    assert (result.n, result.finished) == (CHUNK, False)


# --- kept results -----------------------------------------------------------------------------


def test_a_result_is_found_again_for_the_same_samples_only(tmp_path: Path) -> None:
    data = labels(40)
    kept = streams.Results(tmp_path / "results.json")
    now, late = a_result(0.5, rows=40), a_result(0.4, rows=40)
    kept.put(data, "GLVQ", 0, now)
    kept.put(data, "GLVQ", 50, late)
    again = streams.Results(tmp_path / "results.json")
    assert again.get(data, "GLVQ") == now
    assert again.get(data, "GLVQ", 50) == late
    assert again.get(data, "LGMLVQ") is None
    other = datasets.from_arrays("labels", data.X + 1, np.array(data.y))
    assert again.get(other, "GLVQ") is None
    assert again.get(data.head(39), "GLVQ") is None


def test_a_peer_of_another_version_or_cut_short_is_measured_again(tmp_path: Path) -> None:
    data = labels(40)
    kept = streams.Results(tmp_path / "results.json")
    kept.put(data, "GaussianNB", 0, a_result(0.5, rows=40))
    assert kept.get_peer(data, "GaussianNB", 0, math.inf) is not None
    kept.entries["labels|40|GaussianNB"]["version"] = "0.0.1"
    assert kept.get_peer(data, "GaussianNB", 0, math.inf) is None
    kept.put(data, "GaussianNB", 0, a_result(0.5, rows=40, n=20))
    assert kept.get_peer(data, "GaussianNB", 0, math.inf) is None
    assert kept.get_peer(data, "GaussianNB", 0, 60.0) is not None


# --- ranks ------------------------------------------------------------------------------------


def a_result(accuracy: float, us: float = 10.0, rows: int = 1000, n: int | None = None) -> Result:
    return Result(accuracy, 0.5, us, rows if n is None else n, rows)


def scores(*accuracies: float, us: float = 10.0) -> dict[str, Result]:
    return {f"s{i}": a_result(accuracy, us) for i, accuracy in enumerate(accuracies)}


def test_mean_ranks_share_equal_places() -> None:
    models = {"a": scores(0.9, 0.8, 0.7), "b": scores(0.8, 0.8, 0.9), "c": scores(0.7, 0.8, 0.8)}
    found = ranks.mean_ranks(models, *ranks.block(models, least=3))
    assert found == {"a": (1 + 2 + 3) / 3, "b": (2 + 2 + 1) / 3, "c": (3 + 2 + 2) / 3}


def test_ranks_are_over_the_streams_that_all_ranked_models_finished() -> None:
    stopped = scores(0.95, 0.95, 0.95) | {"s1": a_result(0.99, n=10)}
    models = {
        "a": scores(0.9, 0.8, 0.7),
        "b": scores(0.8, 0.9, 0.6),
        "slow": stopped,
        "part": scores(0.99),
    }
    assert ranks.block(models, least=2) == (["a", "b", "slow"], ["s0", "s2"])
    assert ranks.block(models, least=3) == (["a", "b"], ["s0", "s1", "s2"])
    found = ranks.mean_ranks(models, ["a", "b", "slow"], ["s0", "s2"])
    assert found == {"a": 2.0, "b": 3.0, "slow": 1.0}
    assert ranks.mean_accuracy(models["a"], ["s0", "s2"]) == pytest.approx(0.8)
    assert ranks.mean_ranks(models, *ranks.block(models, least=4)) == {}


def test_a_duel_counts_wins_ties_losses_and_the_median_cost() -> None:
    ours = scores(0.9, 0.8004, 0.7, 0.6, us=10)
    theirs = scores(0.8, 0.8, 0.8, 0.5, us=50) | {"s0": a_result(0.8, us=20)}
    it = ranks.duel(ours, theirs | {"only theirs": a_result(0.9)})
    assert (it.wins, it.ties, it.losses, it.streams) == (2, 1, 1, 4)
    assert it.cost == pytest.approx(0.2)
    stopped = theirs | {"s0": a_result(0.8, n=3)}
    assert ranks.duel(ours, stopped).streams == 3


def test_wilcoxon_agrees_with_all_signs_counted() -> None:
    differences = np.array([0.31, -0.02, 0.11, 0.07, -0.05, 0.19, 0.23, 0.013, -0.008])
    order = np.argsort(np.argsort(np.abs(differences))) + 1

    def statistic(signs: Any) -> float:
        return float(min(order[signs > 0].sum(), order[signs < 0].sum()))

    observed = statistic(np.sign(differences))
    every = [statistic(np.array(signs)) for signs in product((-1, 1), repeat=len(differences))]
    p = np.mean([value <= observed for value in every])
    assert ranks.signed_rank_p(differences.tolist()) == pytest.approx(p)
    assert ranks.signed_rank_p([0.0, 0.0]) == 1.0


def test_figures_ask_for_the_best_rank_and_a_part_of_the_strongest_peers_time() -> None:
    ours, strong = scores(*[0.9] * 12, us=20), scores(*[0.8] * 12, us=100)
    models = {"ours": ours, streams.STRONGEST: strong, "GaussianNB": scores(*[0.9] * 12)}
    duels = {name: ranks.duel(ours, models[name]) for name in (streams.STRONGEST, "GaussianNB")}
    figures = streams.rank_figures(
        ranks.mean_ranks(models, *ranks.block(models, 12)), duels, "ours", 12
    )
    met = {figure.name: figure.met for figure in figures}
    assert met == {
        "streams": False,
        "mean rank, limit: the best peer's": True,
        f"wins less losses against {streams.STRONGEST}": True,
        "wins less losses against GaussianNB": False,
        "p against GaussianNB": False,
        f"median cost against {streams.STRONGEST}": True,
    }


# --- fusion -----------------------------------------------------------------------------------


def test_f1_of_each_class() -> None:
    truth, answers = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 2])
    np.testing.assert_allclose(f1_by_class(truth, answers, [2, 0, 1]), [1.0, 2 / 3, 0.5])


def test_published_shifts_are_plain_means_along_a_tree() -> None:
    nodes = spectral(3, 0.2, each=30, test=1, hard=True)[:2]
    given = snapshots(nodes, learn(nodes, maker("GLVQ"), 1))
    report = plain(given, drift=fusion_paper.PUBLISHED).report
    apart = []
    for kind in np.unique(nodes[0].y):
        if all((node.y == kind).any() for node in nodes):
            first, second = (node.X[node.y == kind].mean(axis=0) for node in nodes)
            apart.append(second - first)
    assert len(apart) == 3
    shifts = [np.array(list(report.nodes[node.name].shift.values())) for node in nodes]
    np.testing.assert_allclose(shifts[1] - shifts[0], np.mean(apart, axis=0), atol=1e-9)


def test_cameras_are_tested_with_as_many_of_each_kind_whatever_they_learnt() -> None:
    for node in spectral(1, 0.05, each=40, test=7, hard=True):
        assert set(Counter(node.test_y.tolist()).values()) == {7}
        assert min(Counter(node.y.tolist()).values()) < 10


def test_the_study_of_the_drift_paper_runs_small() -> None:
    tables = list(fusion_paper.paper(seeds=1, model="GLVQ", epochs=1, readings=30))
    text = "\n".join(table.render() for table in tables)
    assert [len(table.rows) for table in tables] == [11, 18, 11, 4]
    assert "seeds 11 to 11" in text
    assert "nan" not in text
    assert text.count("paper ") >= 6


def test_what_was_copied_from_the_thesis_adds_up() -> None:
    for models in fusion_thesis.THESIS.values():
        for published in models.values():
            assert np.mean(published.fused) == pytest.approx(published.averages[1][0], abs=1e-3)
            assert len(published.fused) == len(published.best)
            # The best node of each class is better than any single one, on average.
            assert np.mean(published.best) >= max(published.nodes)


def test_the_cost_of_gmlvq_in_batches_and_its_gradient() -> None:
    draws = np.random.default_rng(1)
    X, codes = draws.normal(size=(40, 4)), draws.integers(0, 3, 40)
    at = draws.normal(size=3 * 4 + 4 * 4)
    w, omega = at[:12].reshape(3, 4), at[12:].reshape(4, 4)
    by_hand = 0.0
    for x, code in zip(X, codes, strict=True):
        distances = [float(np.sum((omega @ (x - place)) ** 2)) for place in w]
        right = distances.pop(code)
        by_hand += (right - min(distances)) / (right + min(distances))
    value, gradient = cost(at, X, codes, 3)
    assert value == pytest.approx(by_hand)
    steps = 1e-6 * np.eye(len(at))
    differences = [
        (cost(at + step, X, codes, 3)[0] - cost(at - step, X, codes, 3)[0]) / 2e-6 for step in steps
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


def test_the_example_of_gmlvq_in_batches() -> None:
    assert doctest.testmod(batch_gmlvq) == doctest.TestResults(failed=0, attempted=3)


def test_gmlvq_in_batches_learns_and_fuses_what_some_nodes_lack() -> None:
    draws = np.random.default_rng(2)
    y = np.repeat(["a", "b", "c"], 60)
    X = draws.normal(size=(180, 3)) + 4.0 * np.eye(3)[np.repeat(range(3), 60)]
    parts = [np.arange(180) % 2 == 0, (np.arange(180) % 2 == 1) & (y != "c")]
    models = [BatchGMLVQ.trained(X[part], y[part]) for part in parts]
    assert models[1].labels.tolist() == ["a", "b"]
    fused = BatchGMLVQ.fused(models)
    np.testing.assert_array_equal(fused.prototypes[2], models[0].prototypes[2])
    np.testing.assert_allclose(
        fused.prototypes[0], (models[0].prototypes[0] + models[1].prototypes[0]) / 2
    )
    assert np.trace(fused.metric) == pytest.approx(1.0)
    assert np.mean(fused.predict_array(X) == y) > 0.95


@pytest.mark.data
@pytest.mark.parametrize("model", ["GMLVQ", "GMLVQ, L-BFGS"])
def test_the_study_of_the_thesis_runs_small(model: str) -> None:
    tables = list(fusion_thesis.thesis(["segment"], (model,), 1, central=True))
    assert [len(table.rows) for table in tables] == [3, 6, 7, 1]
    assert "nan" not in "\n".join(table.render() for table in tables)


@pytest.mark.data
def test_each_node_of_the_thesis_lacks_the_class_that_it_lacks_there() -> None:
    labels = np.array(fusion_thesis.CLASSES["segment"])
    found = fusion_thesis.measure("segment", "GLVQ", 1, 1, False)
    for k, who in enumerate(fusion_thesis.BY_NODE):
        lacking = np.isnan(found.by_class(("one missing", who)))
        assert labels[lacking].tolist() == [labels[k]]
    assert not np.isnan(found.by_class(("one missing", "FED"))).any()


def test_the_picture_of_sharing_is_drawn_from_the_page(tmp_path: Path) -> None:
    rows = fusion_picture.read_table(ROOT / "docs" / "benchmarks.md")
    assert len(rows) == 12
    assert [row.fleet for row in rows[1::2]] == [fusion_picture.MISSING] * 6
    assert all(fusion_picture.MARKS.keys() <= row.values.keys() for row in rows)
    assert all(0.0 < value < 1.0 for row in rows for value in row.values.values())
    pytest.importorskip("matplotlib")
    fusion_picture.draw(rows, tmp_path / "sharing.png")
    assert (tmp_path / "sharing.png").read_bytes().startswith(b"\x89PNG")
