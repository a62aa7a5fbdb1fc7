"""Whether a model and its oracle know the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from naive import NaiveLVQ, NaivePairs
from streamlvq.kernels import layout as at
from streamlvq.models.engine import ModelState


def assert_close(actual: Any, expected: Any, what: str) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11, err_msg=what)


def assert_same_state(model: Any, oracle: NaiveLVQ) -> None:
    state = model._engine.state
    _assert_same_statistics(state, oracle)
    assert state.size(at.N_PROTOTYPES) == len(oracle.units)
    if oracle.units:
        _assert_same_prototypes(state, oracle)
    if oracle.metrics():
        _assert_same_metrics(state, oracle)
    if isinstance(oracle, NaivePairs) and oracle.units:
        sigmoids = [sigmoid.numbers() for sigmoid in oracle.sigmoids.values()]
        assert_close(state["platt"][: len(sigmoids)], sigmoids, "sigmoids")


def _assert_same_statistics(state: ModelState, oracle: NaiveLVQ) -> None:
    assert_close(state["inverse"], oracle.inverse, "inverse scales")
    assert_close(state["mean"], [s.mean for s in oracle.scales], "means")
    assert_close(state["variance"], [s.variance for s in oracle.scales], "variances")
    assert_close(state["calibration"], [oracle.temperature, oracle.curvature], "calibration")
    if oracle.keeps_ranges:
        for c, ends in oracle.ranges.items():
            assert_close([state["class_low"][c], state["class_high"][c]], ends, "range of a class")
    for c in range(oracle.known):
        assert state["class_count"][c] == oracle.class_count[c]
        moments = [state["class_mean"][c], state["class_variance"][c]]
        assert_close(moments, oracle.class_moments(c), "class statistics")


def _assert_same_prototypes(state: ModelState, oracle: NaiveLVQ) -> None:
    units = oracle.units
    n = len(units)
    assert state["label"][:n].tolist() == [u.label for u in units]
    assert state["wins"][:n].tolist() == [u.wins for u in units]
    assert_close(state["usefulness"][:n], [u.usefulness for u in units], "usefulness")
    scale = state["inverse"]
    assert_close(state["w"][:n] * scale, [u.w * scale for u in units], "prototypes")
    assert_close(state["w_moment"][:n], [u.squares for u in units], "squared gradients")


def _assert_same_metrics(state: ModelState, oracle: NaiveLVQ) -> None:
    metrics = oracle.metrics()
    n = len(metrics)
    assert_close(state["omega"][:n], [m.omega for m in metrics], "metrics")
    assert_close(state["row_moment"][:n], [m.rows for m in metrics], "squares of rows")
    assert_close(state["column_moment"][:n], [m.columns for m in metrics], "squares of columns")
    assert_close(state["total_moment"][:n], [m.total for m in metrics], "squares of metrics")
