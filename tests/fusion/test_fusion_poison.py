"""Numbers that a node may say and that cannot be: no other node may suffer from them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import streamlvq
from streamlvq import Snapshot, fuse
from streamlvq.fusion import Fused
from streamlvq.fusion.sharing import components_by_feature
from streamlvq.models.validation import BOUNDS
from streamlvq.snapshot.container import decode, encode
from support.fusions import arrays_of

FEATURES = [f"f{k}" for k in range(5)]
CLASSES = 4.0 * np.random.default_rng(1).normal(size=(3, 5))


def readings(node: int, count: int, seed: int) -> tuple[Any, list[str]]:
    """Of three classes; the sensors of each node have an offset of their own."""
    offset = np.random.default_rng(100 + node).normal(size=5)
    random = np.random.default_rng(seed)
    y = random.integers(3, size=count)
    return CLASSES[y] + offset + random.normal(size=(count, 5)), [f"c{k}" for k in y]


def learnt(node: int, name: str) -> Any:
    model = getattr(streamlvq, name)()
    model.learn_array(*readings(node, 150, node), features=FEATURES)
    return model


def changed(snapshot: Snapshot, **values: Any) -> Snapshot:
    """The same with other numbers, read as one that came from somebody else."""
    arrays = {name: array.copy() for name, array in arrays_of(snapshot).items()}
    for name, value in values.items():
        arrays[name][...] = value
    return Snapshot.from_bytes(encode(arrays, decode(snapshot.to_bytes())[1]))


def accuracy(model: Any, node: int) -> float:
    X, y = readings(node, 300, 7)
    return float(np.mean(model.predict_array(X, features=FEATURES) == y))


def accuracies(fused: Fused, nodes: list[Snapshot]) -> list[float]:
    """Those of the models that nodes get, as bytes, on readings of their own."""
    read = [Snapshot.from_bytes(fused.snapshot(each.node).to_bytes()) for each in nodes]
    return [accuracy(each.classifier(), node) for node, each in enumerate(read)]


def check(honest: list[Snapshot], hostile: Snapshot, before: list[float]) -> None:
    """All others have models that they can read, and that are as good as `before`, without it."""
    fused = fuse([*honest, hostile])
    assert msgspec.json.encode(fused.report)
    for found, least in zip(accuracies(fused, honest), before, strict=True):
        assert found >= least - 0.02


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["GLVQ", "GMLVQ", "LGRLVQ", "PairwiseLVQ"])
def test_the_largest_numbers_that_a_snapshot_may_have(name: str) -> None:
    honest = [Snapshot.of(learnt(k, name), f"n{k}", readings=False) for k in range(4)]
    hostile = Snapshot.of(learnt(4, name), "hostile", readings=False)
    before, tried = accuracies(fuse(honest), honest), set()
    for array in arrays_of(hostile).keys() & BOUNDS.keys() - {"start"}:
        try:
            poisoned = changed(hostile, **{array: BOUNDS[array][1]})
        except streamlvq.snapshot.SnapshotError:
            continue
        check(honest, poisoned, before)
        tried.add(array)
    assert tried >= {"class_count", "class_weight", "w_moment", "wins", "rate", "w", "class_mean"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        {"class_weight": 5e-324},
        {"variance": 0.0, "peak": 0.0, "inverse": 1e162},
        {"variance": 0.0, "peak": 0.0, "inverse": 1e162, "class_mean": 1e60, "omega": 1e6},
        {"variance": 1e-300, "peak": 0.0, "inverse": 1e150, "mean": 0.0, "w": 1e66},
    ],
)
def test_the_smallest_numbers_that_a_snapshot_may_have(values: dict[str, float]) -> None:
    """Metrics follow scales, from the smallest to how far prototypes and classes reach."""
    honest = [Snapshot.of(learnt(k, "GMLVQ"), f"n{k}", readings=False) for k in range(4)]
    hostile = changed(Snapshot.of(learnt(4, "GMLVQ"), "hostile", readings=False), **values)
    shared = streamlvq.GMLVQ.shared_state(hostile.estimator_state()).arrays
    np.testing.assert_allclose(*(np.linalg.norm(a["omega"]) for a in (shared, arrays_of(hostile))))
    check(honest, hostile, accuracies(fuse(honest), honest))


@pytest.mark.parametrize("variance", [1e6, 1e12, 1e100])
def test_a_class_of_its_own_does_not_hide_lies_about_the_others(variance: float) -> None:
    """If everything scatters beyond measure, nothing is far away and no sensor is off."""
    honest = [Snapshot.of(learnt(k, "GMLVQ"), f"n{k}", readings=False) for k in range(4)]
    model = learnt(4, "GMLVQ")
    random = np.random.default_rng(5)
    model.learn_array(random.normal(size=(30, 5)) + 20.0, ["own"] * 30, features=FEATURES)
    snapshot = Snapshot.of(model, "hostile", readings=False)
    own = snapshot.labels.index("own")
    others = [k for k in range(4) if k != own]
    arrays = {name: array.copy() for name, array in arrays_of(snapshot).items()}
    arrays["class_variance"][own] = variance
    turned = dict(zip(others, others[1:] + others[:1], strict=True)) | {own: own}
    arrays["class_mean"][[turned[k] for k in others]] = arrays["class_mean"][others]
    count = len(snapshot.prototypes)
    arrays["label"][:count] = [turned[k] for k in arrays["label"][:count].tolist()]
    lies = {name: arrays[name] for name in ("class_variance", "class_mean", "label")}
    check(honest, changed(snapshot, **lies), accuracies(fuse(honest), honest))


def test_sensors_that_are_not_comparable_in_one_feature_are_not_corrected_in_it() -> None:
    """Nodes a and b share a class, c and d another; e, which has both, lacks a sensor."""
    typical = {"one": {"x": 100.0, "y": 0.0}, "two": {"x": 5.0, "y": 6.0}}
    known = {"a": "one", "b": "one", "c": "two", "d": "two", "e": ""}
    random = np.random.default_rng(3)
    snapshots = []
    for node, label in known.items():
        model = streamlvq.GLVQ()
        for k in range(100):
            state = label or ("one", "two")[k % 2]
            offset = {"b": 1.0, "d": 1.0}.get(node, 0.0)
            x = {name: value + offset + random.normal() for name, value in typical[state].items()}
            if node == "e":
                del x["x"]
            model.learn_one(x, state)
        snapshots.append(Snapshot.of(model, node, readings=False))
    for drift in ("tree", "least_squares", "scale_shift"):
        fused = fuse(snapshots, drift=drift)  # type: ignore[arg-type]
        shift = {node: told.shift["x"] for node, told in fused.report.nodes.items()}
        assert 0.2 < shift["b"] - shift["a"] < 2.5
        assert 0.2 < shift["d"] - shift["c"] < 2.5
        assert abs(shift["a"] - shift["c"]) < 1.5  # nothing is known of that, so nothing is done
        assert fused.for_node("a").predict_one({"x": 5.0, "y": 6.0}) == "two"


def test_components_of_each_feature() -> None:
    cells = np.ones((3, 2, 2), bool)
    cells[0, 1] = cells[2, 0] = cells[1, :, 1] = False
    assert components_by_feature(cells).T.tolist() == [[0, 0, 0], [0, 1, 2]]
    assert components_by_feature(np.zeros((3, 2, 0), bool)).shape == (3, 0)
