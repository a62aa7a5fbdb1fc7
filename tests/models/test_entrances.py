"""Kernels trust their arguments: what may reach them is checked where it comes in."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import registry
from streamlvq.config import loads
from streamlvq.events import Readings
from streamlvq.monitor import Monitor
from support.samples import blobs, frozen, readings, taught

# Four threads learn and ask as fast as they can, with new classes and features among the readings.
THREADS = """
import random, sys, threading, time
import streamlvq
from streamlvq import *

sys.setswitchinterval(1e-5)
model, failures, end = {make}, [], time.monotonic() + 1.5

def work(seed):
    rng = random.Random(seed)
    while time.monotonic() < end and not failures:
        y = rng.randrange(6)
        width = rng.randrange(4, 10) if rng.random() < 0.02 else 4
        x = {{f"sensor {{i}}": rng.gauss(y, 1) for i in range(width)}}
        try:
            if rng.random() < 0.5:
                model.learn_one(x, f"class {{y}}")
            else:
                p = model.predict_proba_one(x)
                assert not p or abs(sum(p.values()) - 1.0) < 1e-6, p
                assert model.predict_one(x) in (None, *(f"class {{c}}" for c in range(6)))
        except Exception as error:
            failures.append(repr(error))

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failures)
"""
CHAINS = [
    "TimeIntegrator(GLVQ(), window=3)",
    "RelSimRejector(TimeIntegrator(LGMLVQ(), window=3), target_rate=0.1)",
    "FeatureTransform(ProbabilityRejector(LVQCommittee(), threshold=0.5), 'asinh')",
]


@pytest.mark.parametrize("make", [*(f"{name}()" for name in registry.MODELS), *CHAINS])
def test_threads_take_turns(make: str) -> None:
    """In a process of its own: what goes wrong here corrupts memory."""
    code = THREADS.format(make=make)
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.parametrize("shape", [(3, 4), (3, 6), (2, 5), (15,)])
def test_readings_have_a_column_for_each_feature(shape: tuple[int, ...]) -> None:
    whole = Readings.of([f"sensor {i}" for i in range(5)], np.zeros((3, 5)))
    columns = {name: getattr(whole, name) for name in whole.__dataclass_fields__}
    with pytest.raises(ValueError, match="rows: expected 3 rows of 5 features, got an array of"):
        Readings(**{**columns, "rows": np.zeros(shape)})


COLUMNS = ["devices", "groups", "labels", "times", "sequences", "keys", "dedup_windows", "sources"]


def of_three_states(count: int) -> Readings:
    X, y = blobs(count, 5)
    return Readings.of([f"sensor {i}" for i in range(5)], X, labels=[f"state {c}" for c in y])


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_of_readings_are_equally_long(column: str) -> None:
    """Also those that were replaced since: the kernel would read beyond their end."""
    monitor, stream = Monitor(loads("model: {type: GLVQ}\n")), of_three_states(60)
    monitor.step(stream)
    before = frozen(monitor.local(""))
    late = of_three_states(60)
    setattr(late, column, getattr(late, column)[:7])
    with pytest.raises(ValueError, match=r"expected .*60"):
        monitor.step(late)
    assert frozen(monitor.local("")) == before


@pytest.mark.parametrize("columns", [2, 7])
def test_a_monitor_looks_at_rows_that_were_replaced(columns: int) -> None:
    monitor, stream = Monitor(loads("model: {type: GLVQ}\n")), of_three_states(60)
    monitor.step(stream)
    stream.rows = np.zeros((60, columns))
    with pytest.raises(ValueError, match="rows: expected 60 rows of 5 features, got an array of"):
        monitor.step(stream)


def test_rows_of_any_layout() -> None:
    """Single precision, Fortran order, read-only and masked ones are as good as others."""
    X = of_three_states(60).rows.astype(np.float32)
    read_only = X.astype(np.float64)
    read_only.flags.writeable = False
    masked = np.ma.array(np.where(X > 2, 9e9, X), mask=X > 2)
    plain = np.where(X > 2, np.nan, X).astype(np.float64)
    expected = {False: X.astype(np.float64), True: plain}
    tables: list[Any] = [X, np.asfortranarray(X), read_only, masked]
    for rows in tables:
        monitor, other = (Monitor(loads("model: {type: GLVQ}\n")) for _ in range(2))
        monitor.step(replace(of_three_states(60), rows=rows))
        other.step(replace(of_three_states(60), rows=expected[rows is masked]))
        assert frozen(monitor.local("")) == frozen(other.local(""))


def test_masked_weights_are_refused() -> None:
    X, y = blobs(4, 2)
    with pytest.raises(ValueError, match="expected weights w above 0"):
        streamlvq.GLVQ().learn_array(X, y, w=np.ma.array(np.ones(4), mask=np.arange(4) == 1))


def test_masked_values_are_missing() -> None:
    X, y = blobs(60, 4)
    mask = np.random.default_rng(0).random(X.shape) < 0.2
    masked, missing = streamlvq.GMLVQ(), streamlvq.GMLVQ()
    masked.learn_array(np.ma.array(np.where(mask, 1e9, X), mask=mask), y)
    missing.learn_array(np.where(mask, np.nan, X), y)
    assert frozen(masked) == frozen(missing)


@pytest.mark.parametrize("value", [10**400, 2**64, -1, "1", None, float("nan"), float("inf"), []])
@pytest.mark.parametrize("name", ["learning_rate", "rehearsal", "max_prototypes_per_class"])
def test_a_refused_change_leaves_everything_as_it_was(name: str, value: Any) -> None:
    if (name, value) == ("learning_rate", 2**64):
        value = float(2**64) * 1e300  # as a float it would fit
    X, y = blobs(60, 4)
    model = taught(streamlvq.LGMLVQ(), X, y.tolist())
    before, parameter = frozen(model), getattr(model, name)
    with pytest.raises(ValueError, match=f"{name}=...\\): expected a"):
        model.mutate({name: value})
    assert getattr(model, name) == parameter
    assert frozen(model) == before


@pytest.mark.parametrize("name", ["half_life", "seed", "strange"])
def test_of_several_changes_all_are_made_or_none(name: str) -> None:
    X, y = blobs(60, 4)
    model = taught(streamlvq.LGMLVQ(), X, y.tolist())
    before = frozen(model)
    with pytest.raises(ValueError, match=name):
        model.mutate({"learning_rate": 0.5, "rehearsal": 3, name: -1})
    assert (model.learning_rate, model.rehearsal) == (0.02, 8)
    assert frozen(model) == before
    model.mutate({"learning_rate": 0.5, "rehearsal": 3})
    assert (model.learning_rate, model.rehearsal) == (0.5, 3)
    rejector = streamlvq.RelSimRejector(model, target_rate=0.1)
    with pytest.raises(ValueError, match="memory"):
        rejector.mutate({"target_rate": 0.2, "memory": 5})
    assert rejector.target_rate == 0.1


@pytest.mark.parametrize("value", [10**400, 2.0, -1, "1", float("nan")])
def test_a_refused_target_leaves_everything_as_it_was(value: Any) -> None:
    rejector = streamlvq.RelSimRejector(streamlvq.GLVQ(), target_rate=0.1)
    with pytest.raises(ValueError, match="target_rate"):
        rejector.target_rate = value
    assert (rejector.target_rate, rejector.threshold_for("a")) == (0.1, 0.0)


def test_a_pickle_of_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = blobs(30, 3)
    model = taught(streamlvq.GLVQ(), X, y.tolist())
    data = pickle.dumps(model)
    assert pickle.loads(data).predict_proba_one(readings(X)[0]) == model.predict_proba_one(
        readings(X)[0]
    )
    monkeypatch.setattr("streamlvq.models.engine.LAYOUT", ("another",))
    with pytest.raises(ValueError, match="expected a model pickled by this version of streamlvq"):
        pickle.loads(data)


def test_copies_have_locks_of_their_own() -> None:
    model = streamlvq.LVQCommittee()
    model.learn_one({"a": 1.0}, "x")
    twin = copy.deepcopy(model)
    model._lock.acquire()
    twin.learn_one({"a": 2.0}, "y")  # would wait for ever in another thread; here it must not fail
    assert twin._lock is not model._lock
    model._lock.release()
