"""The memory of a model: sections do not overlap, survive growth and pickling."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from streamlvq.kernels import layout as at
from streamlvq.models.engine import ARRAY_SECTIONS, FIXED_SIZES, ModelState

SIZES = {
    at.N_FEATURES: 3,
    at.METRIC_RANK: 2,
    at.METRICS: 4,
    at.PROTOTYPE_CAPACITY: 4,
    at.CLASS_CAPACITY: 5,
    at.BUFFER: 6,
    at.PAIRS: 2,
}
NAMES = (*FIXED_SIZES, *ARRAY_SECTIONS)


def make(sizes: dict[int, int] | None = None) -> ModelState:
    header = np.zeros(at.SECTION_STARTS, np.int64)
    for which, value in (sizes or SIZES).items():
        header[which] = value
    return ModelState(header)


def is_float(name: str) -> bool:
    number = FIXED_SIZES[name][0] if name in FIXED_SIZES else ARRAY_SECTIONS[name].number
    return number < at.FLOAT_SECTIONS


def test_every_section_of_the_layout_has_a_name() -> None:
    numbers = [number for number, _ in FIXED_SIZES.values()] + [
        s.number for s in ARRAY_SECTIONS.values()
    ]
    assert sorted(numbers) == list(range(at.ALL_SECTIONS))


def test_sections_fill_the_memory_without_overlap() -> None:
    state = make()
    for k, name in enumerate(NAMES):
        state[name][...] = k + 1
    for k, name in enumerate(NAMES):
        assert np.all(state[name] == k + 1), name
    floats = sum(state[n].size for n in NAMES if is_float(n))
    ints = sum(state[n].size for n in NAMES if not is_float(n))
    assert floats == state.floats.size
    assert at.HEADER_SIZE + ints == state.ints.size
    for which, value in SIZES.items():
        assert state.size(which) == value, "a section overlaps the header"


def test_sections_are_views() -> None:
    state = make()
    state["w"][2, 1] = 7.0
    assert 7.0 in state.floats
    assert state["w"].shape == (4, 3)
    assert state["omega"].shape == (4, 2, 3)
    assert state["label"].dtype == np.int64


def test_new_memory_has_starting_values() -> None:
    state = make()
    assert np.isnan(state["w"]).all()
    assert np.isnan(state["buffer_x"]).all()
    assert (state["label"] == -1).all()
    assert (state["omega"] == 0).all()


@pytest.mark.parametrize(
    "growth",
    [
        {at.PROTOTYPE_CAPACITY: 8, at.METRICS: 8},
        {at.CLASS_CAPACITY: 9},
        {at.N_FEATURES: 5, at.METRIC_RANK: 3},
        {at.N_FEATURES: 4},
        {at.CLASS_CAPACITY: 9, at.PAIRS: 36, at.PROTOTYPE_CAPACITY: 72, at.METRICS: 36},
    ],
    ids=["slots", "classes", "features and rank", "features", "pairs"],
)
def test_growth_keeps_everything(growth: dict[int, int]) -> None:
    state = make()
    for k, name in enumerate(NAMES):
        section = state[name]
        section[...] = (100 * k + np.arange(section.size)).reshape(section.shape)
    larger = state.resized(growth)
    for name in NAMES:
        old, new = state[name], larger[name]
        inside = tuple(slice(0, n) for n in old.shape)
        np.testing.assert_array_equal(new[inside], old)
        rest = np.ones(new.shape, bool)
        rest[inside] = False
        if name in ARRAY_SECTIONS:
            np.testing.assert_array_equal(new[rest], ARRAY_SECTIONS[name].start)
    for which, value in growth.items():
        assert larger.size(which) == value
    assert not np.shares_memory(larger.floats, state.floats)


def test_work_is_large_enough() -> None:
    state = make()
    assert state.work.size == at.work_size(3, 5, 2, 4, 2)
    assert np.shares_memory(state.work, np.frombuffer(state.buffer))


def test_pickling_keeps_memory_but_not_scratch() -> None:
    state = make()
    state.floats[:] = np.arange(state.floats.size)
    state.work[:] = 5.0
    twin = pickle.loads(pickle.dumps(state))
    assert twin.floats.tobytes() == state.floats.tobytes()
    assert twin.ints.tobytes() == state.ints.tobytes()
    assert twin.work.size == state.work.size
    assert (twin.work == 0).all()


def test_euclidean_models_need_no_room_for_metrics() -> None:
    state = make({**SIZES, at.METRIC_RANK: 0, at.METRICS: 0})
    assert state["omega"].size == 0
    assert state["start"].size == 0
