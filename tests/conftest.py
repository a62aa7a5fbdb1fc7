"""Markers, and a fixture that runs a test once for every model."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter

import pytest

from support.samples import MODELS

# Files of few tests that take long. A worker takes one file after another: the other one would
# wait for it at the end.
LONG_FILES = {
    "test_bounds.py",
    "test_packaging.py",
    "test_daemon_kill.py",
    "test_demo_acts.py",
    "test_tour.py",
    "test_examples.py",
    "test_readme.py",
    "test_benchmarks.py",
}


def pytest_configure(config: pytest.Config) -> None:
    # A shell that runs the tests in the background has them, and all they start, ignore Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Hundreds of processes start in these tests: none is to compile again what another one has.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    config.addinivalue_line("markers", "data: needs the data sets in the folder STREAMLVQ_DATA")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name not in LONG_FILES, -tests[item.path]))
    if os.environ.get("STREAMLVQ_DATA"):
        return
    skip = pytest.mark.skip(reason="set STREAMLVQ_DATA to the folder that holds the data sets")
    for item in items:
        if "data" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    # What is there now stays. River's checks of memory, and others, collect garbage, which would
    # each time traverse all tests and modules, for most of a second.
    gc.collect()
    gc.freeze()


@pytest.fixture(params=MODELS, ids=str)
def name(request: pytest.FixtureRequest) -> str:
    """The name of every model in turn."""
    return str(request.param)


@pytest.fixture(params=[name for name in MODELS if MODELS[name].has_relsim], ids=str)
def with_relsim(request: pytest.FixtureRequest) -> str:
    """The name of every model that has one RelSim, in turn."""
    return str(request.param)
