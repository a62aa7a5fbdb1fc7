"""A monitor whose models see the logarithms of readings."""

from __future__ import annotations

import numpy as np
import pytest

import streamlvq
from streamlvq.events import Readings
from streamlvq.monitor import Monitor, OtherModelError
from streamlvq.snapshot import Snapshot
from support.serving import MODES, config, fingerprint, late, other, stream
from support.streams import say


def positive(whole: Readings) -> Readings:
    whole.rows = np.exp(whole.rows / 3.0)
    return whole


LOG = "{type: GLVQ, transform: log}"


def logs_of(whole: Readings) -> Readings:
    whole = positive(whole)
    whole.rows = np.log(whole.rows)
    return whole


@pytest.mark.parametrize("mode", MODES)
def test_a_transform_is_applied_before_everything_else(mode: str) -> None:
    """A monitor with it, and one without that is shown logarithms."""
    transformed, plain = Monitor(config(mode, model=LOG)), Monitor(config(mode))
    for k in range(3):
        assert say(transformed, positive(stream(100, seed=k)), 1) == say(
            plain, logs_of(stream(100, seed=k)), 2
        )
        whole = positive(stream(100, seed=k))
        inside = logs_of(stream(100, seed=k))
        for i in [i for i, y in enumerate(whole.labels) if y is None][:5]:
            for each, rows in ((transformed, whole), (plain, inside)):
                assert each.step(late(rows, i, "class 1")).learnt == 1
        model = other(seed=k)
        transformed.serve("", streamlvq.FeatureTransform(model, "log"))
        plain.serve("", other(seed=k))
        transformed = Monitor.restore(transformed.config, transformed.checkpoint())
    assert transformed.serving_score("") == plain.serving_score("")
    ours, theirs = transformed.local(""), plain.local("")
    assert fingerprint(ours.classifier) == fingerprint(theirs)
    assert fingerprint(transformed.models()[""].classifier) == fingerprint(plain.models()[""])


def test_models_and_snapshots_show_the_transform() -> None:
    monitor = Monitor(config(model=LOG))
    say(monitor, positive(stream(60)))
    monitor.serve("", streamlvq.FeatureTransform(other(), "log"))
    for classifier in (monitor.models()[""], monitor.local(""), monitor.serving("")):
        assert Snapshot.of(classifier, node="n").transform == ("log", None)
    prototype = monitor.local("").prototypes()[0]
    assert min(prototype.values.values()) > 0.0  # as the sensors would read it
    monitor.compile()


def test_readings_outside_the_domain_are_refused_and_the_rest_is_kept() -> None:
    monitor, clean = Monitor(config(model=LOG)), Monitor(config(model=LOG))
    whole = positive(stream(80))
    say(clean, whole.select([k for k in range(80) if k not in (30, 50, 51)]))
    whole.rows[30, 2], whole.rows[50, 0], whole.rows[51, 4] = 0.0, -3.0, np.inf
    outcome = monitor.step(whole)
    assert [(r.source, r.reason) for r in outcome.refused] == [(k, "value") for k in (30, 50, 51)]
    assert outcome.refused[0].text.startswith("feature 'sensor 2': expected a number above 0")
    assert monitor.checkpoint() == clean.checkpoint()


def test_a_state_of_another_transform_is_refused() -> None:
    monitor = Monitor(config(model=LOG))
    say(monitor, positive(stream(60)))
    data = monitor.checkpoint()
    for model in ("{type: GLVQ}", "{type: GLVQ, transform: sqrt}"):
        with pytest.raises(OtherModelError, match=r"model\.transform"):
            Monitor.restore(config(model=model), data)
    start = Snapshot.of(monitor.models()[""], node="n")
    with pytest.raises(OtherModelError, match=r"model\.start.*model\.transform"):
        Monitor(config(), start)
    begun = Monitor(config(model=LOG), start)
    assert fingerprint(begun.local(""))[1].keys() == fingerprint(monitor.local(""))[1].keys()
    with pytest.raises(ValueError, match=r"transform \('log', None\).*got None"):
        begun.serve("", other())
    with pytest.raises(OtherModelError, match="transform"):
        begun.set_classifier("", other())
    faster = config(model="{type: GLVQ, transform: log, parameters: {learning_rate: 0.1}}")
    assert Monitor.restore(faster, data).local("").classifier.learning_rate == 0.1


@pytest.mark.parametrize("changes", [{"integrator": "gaps"}, {"rejector": "rate"}], ids=str)
def test_the_transform_stays_around_other_wrappers(changes: dict[str, str]) -> None:
    monitor = Monitor(config(model=LOG))
    monitor.serve("", streamlvq.FeatureTransform(other(), "log"))
    say(monitor, positive(stream(60)))
    changed = Monitor.restore(config(model=LOG, **changes), monitor.checkpoint())
    say(changed, positive(stream(20, seed=1)))
    for classifier in (changed.models()[""], changed._groups[""].served.pipeline.classifier):
        assert type(classifier) is streamlvq.FeatureTransform
