"""A new correction or aggregator is one class and one line in a registry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from streamlvq.arrays import Floats
from streamlvq.fusion import FusionError, fuse
from streamlvq.fusion.aggregators import Mean, Median, get_aggregator
from streamlvq.fusion.class_tables import Alignment, ClassTables
from streamlvq.fusion.corrections import LeastSquaresShift, NoCorrection, get_correction
from streamlvq.registry import AGGREGATORS, CORRECTIONS
from streamlvq.report.fusion_page import fusion_html
from support.small_fleet import fleet


class HalfShift(LeastSquaresShift):
    """Half of the shifts that least squares finds."""

    corrects = "half shifts"
    automatic = False

    def estimate(self, tables: ClassTables) -> Alignment:
        whole = super().estimate(tables)
        return Alignment(whole.gain, whole.shift / 2)


class LoudestNode(Mean):
    """The value of the node with the largest weight."""

    linear = False

    def combine(self, values: Floats, weights: Floats) -> Floats:
        weights = np.where(np.isfinite(values), weights, -1.0)
        loudest = np.argmax(weights, axis=0)[None]
        return np.take_along_axis(values, loudest, axis=0)[0]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    CORRECTIONS.register("half_shift", HalfShift, "half of a shift")
    AGGREGATORS.register("loudest", LoudestNode, "the node with the largest weight")
    yield
    CORRECTIONS.remove("half_shift")
    AGGREGATORS.remove("loudest")


def test_a_new_correction() -> None:
    half = fuse(fleet(), drift="half_shift", screen=False).report
    whole = fuse(fleet(), drift="least_squares", screen=False).report
    for name, node in half.nodes.items():
        for feature, shift in node.shift.items():
            assert 2 * shift == pytest.approx(whole.nodes[name].shift[feature])
    assert half.drift == "half_shift"
    assert any("half shifts of sensors do not explain" in text for text in half.warnings)
    page = fusion_html(half)
    assert "half shifts" in page and "half of a shift" in page


def test_only_what_says_so_is_tried_by_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(fuse(fleet()).report.trials) == {"none", "least_squares", "scale_shift"}
    monkeypatch.setattr(HalfShift, "automatic", True)
    assert list(fuse(fleet()).report.trials)[-1] == "half_shift"


def test_a_new_aggregator() -> None:
    fused = fuse(fleet(), aggregator="loudest")
    assert fused.report.aggregator == "loudest"
    assert set(fused.snapshot("york").labels) == {"idle", "running", "worn"}  # it is not robust
    for node in fused.nodes:
        assert np.isfinite(fused.for_node(node).metric()).all()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(FusionError, match=r"drift: expected one of auto, .*half_shift"):
        fuse(fleet(), drift="whole_shift")
    with pytest.raises(FusionError, match=r"aggregator: expected one of mean, .*loudest, got"):
        fuse(fleet(), aggregator="silent")


def test_what_parts_say_of_themselves() -> None:
    assert {name for name in AGGREGATORS if not get_aggregator(name).robust} == {"mean", "loudest"}
    assert {name for name in AGGREGATORS if get_aggregator(name).linear} == {"mean"}
    assert 0.0 < Median.trimmed <= 0.5
    assert {name for name in CORRECTIONS if get_correction(name).one_frame} == {"none"}
    assert {name for name in CORRECTIONS if get_correction(name).needs_scales} == {"scale_shift"}
    assert NoCorrection.corrects == "nothing"
