"""The simulated machines do what their documentation says."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any

import numpy as np
import pytest

import streamlvq
from streamlvq import synth
from streamlvq.synth import FEATURES, STATES, Drift, Fault, Glitches, Machine


def column(samples: synth.Samples, feature: str) -> np.ndarray[Any, Any]:
    return samples.rows[:, FEATURES.index(feature)]


def of_state(samples: synth.Samples, state: str) -> np.ndarray[Any, Any]:
    return samples.rows[np.array(samples.states) == state]


# --- the same again ------------------------------------------------------------------------------


def test_the_same_arguments_give_the_same_readings() -> None:
    one, two = Machine("a", 3).take(500), Machine("a", 3).take(500)
    np.testing.assert_array_equal(one.rows, two.rows)
    assert one.states == two.states


@pytest.mark.parametrize("chunks", [(500,), (1,) * 500, (7, 0, 300, 93, 100)])
def test_chunks_do_not_matter(chunks: tuple[int, ...]) -> None:
    whole = Machine("a", 3, dropout=0.1, glitches=[Glitches(share=0.2)], tour=10).take(500)
    machine = Machine("a", 3, dropout=0.1, glitches=[Glitches(share=0.2)], tour=10)
    parts = [machine.take(n) for n in chunks]
    assert [len(part) for part in parts] == list(chunks)
    np.testing.assert_array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    np.testing.assert_array_equal(np.concatenate([part.times for part in parts]), whole.times)
    assert [state for part in parts for state in part.states] == whole.states


def test_one_by_one_is_the_same_as_many() -> None:
    whole = Machine("a", 3, interval=0.5, dropout=0.1).take(300)
    for n, (x, state, where) in enumerate(islice(Machine("a", 3, interval=0.5, dropout=0.1), 300)):
        row = [x.get(feature, np.nan) for feature in FEATURES]
        np.testing.assert_array_equal(row, whole.rows[n])
        assert state == whole.states[n]
        assert where == {"device": "a", "t": n * 0.5}


@pytest.mark.parametrize("other", [Machine("b", 3), Machine("a", 4)])
def test_other_names_and_seeds_are_other_machines(other: Machine) -> None:
    one, two = Machine("a", 3).take(500), other.take(500)
    assert one.states != two.states
    assert not np.isclose(one.rows, two.rows, rtol=1e-6).any()


# --- life ----------------------------------------------------------------------------------------


def test_states_last_as_long_as_they_say() -> None:
    samples = Machine(seed=5).take(200_000)
    stays: dict[str, list[int]] = {}
    for state, run in groupby(samples.states):
        stays.setdefault(state, []).append(len(list(run)))
    assert set(stays) == set(synth.ORDINARY)
    for state, lengths in stays.items():
        seconds = STATES[state].seconds
        assert np.mean(lengths) == pytest.approx(seconds, rel=0.1)
        assert np.std(lengths) == pytest.approx(seconds / 2, rel=0.2)
    assert len(stays["running"]) > 1.3 * len(stays["idle"])  # twice the weight


def test_a_tour_visits_every_state_once() -> None:
    samples = Machine(seed=2, tour=30).take(120)
    runs = [(state, len(list(run))) for state, run in groupby(samples.states)]
    assert sorted(state for state, _ in runs) == sorted(synth.ORDINARY)
    assert {length for _, length in runs} == {30}


def test_a_fault_comes_and_goes_on_time() -> None:
    machine = Machine(seed=2, faults=[Fault(state="bearing fault", start=100, end=400)])
    samples = machine.take(1000)
    faulty = np.array(samples.states) == "bearing fault"
    np.testing.assert_array_equal(faulty, (samples.times >= 100) & (samples.times < 400))


def test_a_fault_between_two_readings_begins_with_the_next() -> None:
    machine = Machine(interval=2.0, faults=[Fault(state="bearing fault", start=11, end=15)])
    faulty = np.array(machine.take(20).states) == "bearing fault"
    assert np.flatnonzero(faulty).tolist() == [6, 7]


def test_a_machine_that_knows_one_state_stays_in_it() -> None:
    assert set(Machine(visits=["running"]).take(2000).states) == {"running"}


def test_own_states() -> None:
    states = {**STATES, "washing": synth.MachineState(speed=0.6, load=0.2, seconds=10)}
    samples = Machine(states=states, visits=["idle", "washing"]).take(1000)
    assert set(samples.states) == {"idle", "washing"}
    speed = of_state(samples, "washing")[:, FEATURES.index("speed")]
    assert np.mean(speed) == pytest.approx(0.6 * 1500 * (1 - 0.04 * 0.2 - 0.25 * 0.02), rel=0.02)


# --- physics -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet() -> synth.Samples:
    """A machine without noise that meets everything."""
    return Machine(visits=list(STATES), noise=0, spread=0, seed=4).take(60_000)


def mean(samples: synth.Samples, state: str, feature: str) -> float:
    return float(np.mean(of_state(samples, state)[:, FEATURES.index(feature)]))


@pytest.mark.parametrize("feature", ["current", "pressure", "temperature", "sound"])
def test_load_shows(quiet: synth.Samples, feature: str) -> None:
    idle, running, heavy = (mean(quiet, s, feature) for s in ("idle", "running", "heavy load"))
    assert idle < running < heavy


def test_load_slows_and_makes_voltage_sag(quiet: synth.Samples) -> None:
    for feature in ("speed", "voltage"):
        assert mean(quiet, "heavy load", feature) < mean(quiet, "running", feature)


def test_imbalance_shakes_across_the_shaft_and_not_along_it(quiet: synth.Samples) -> None:
    for feature, factor in (("vibration_x", 1.6), ("vibration_y", 1.55), ("vibration_z", 1.0)):
        found = mean(quiet, "imbalance", feature) / mean(quiet, "running", feature)
        assert found == pytest.approx(factor, rel=0.07)


def test_a_bad_bearing_knocks_heats_and_brakes(quiet: synth.Samples) -> None:
    for feature in ("envelope", "vibration_z", "bearing_temperature", "current"):
        assert mean(quiet, "bearing fault", feature) > 1.2 * mean(quiet, "running", feature)
    assert mean(quiet, "bearing fault", "speed") < 0.8 * mean(quiet, "running", "speed")
    pressed = [mean(quiet, state, "pressure") for state in ("bearing fault", "running")]
    assert pressed[0] == pytest.approx(pressed[1], rel=0.1)  # friction presses nothing


def test_temperatures_lag_behind() -> None:
    faults = [Fault(state="idle", start=0, end=400), Fault(state="heavy load", start=400, end=800)]
    samples = Machine(noise=0, spread=0, faults=faults).take(800)
    warm = column(samples, "temperature")
    assert np.all(np.abs(np.diff(warm)) < 0.05 * np.ptp(warm))  # no jumps
    way = (warm[400 + 40] - warm[399]) / (warm[500] - warm[399])
    assert 0.5 < way < 0.75  # after one time constant
    current = column(samples, "current")
    assert current[400] > 2 * current[399]  # at once


def test_noise_is_as_documented() -> None:
    quiet = Machine(noise=0).take(20_000)
    noisy = Machine(noise=1).take(20_000)
    assert quiet.states == noisy.states
    np.testing.assert_allclose(
        np.std((noisy.rows - quiet.rows) / Machine().scale, axis=0)[[0, 7, 8, 9, 10, 11]],
        [1.5, 0.9, 1.8, 9, 0.5, 1.5],
        rtol=0.03,
    )
    vibration = np.log(column(noisy, "vibration_x") / column(quiet, "vibration_x"))
    assert np.std(vibration) == pytest.approx(0.15, rel=0.1)


# --- sensors -------------------------------------------------------------------------------------


def test_each_machine_has_sensors_of_its_own() -> None:
    plain = Machine("a", spread=0, noise=0).take(1000)
    machine = Machine("a", noise=0)
    assert np.all(machine.offset != 0)
    np.testing.assert_allclose(
        machine.take(1000).rows, machine.offset + machine.scale * plain.rows, rtol=1e-12
    )


def test_offset_and_scale_may_be_given() -> None:
    plain = Machine("a", spread=0).take(100)
    offset, scale = {"pressure": 3.0}, {"pressure": 2.0, "sound": 0.5}
    changed = Machine("a", spread=0, offset=offset, scale=scale).take(100)
    expected = plain.rows.copy()
    expected[:, FEATURES.index("pressure")] *= 2
    expected[:, FEATURES.index("pressure")] += 3
    expected[:, FEATURES.index("sound")] /= 2
    np.testing.assert_allclose(changed.rows, expected)


def test_a_drift_has_its_slope_and_changes_nothing_else() -> None:
    drift = Drift(feature="temperature", slope=0.02, start=100, end=600)
    with_it, without = Machine(drifts=[drift]).take(1000), Machine().take(1000)
    error = column(with_it, "temperature") - column(without, "temperature")
    assert np.all(error[:100] == 0)
    assert np.all(error[600:] == 0)
    slope = np.polyfit(with_it.times[100:600], error[100:600], 1)[0]
    assert slope == pytest.approx(0.02)
    assert error[599] == pytest.approx(0.02 * 499)
    others = [n for n, feature in enumerate(FEATURES) if feature != "temperature"]
    np.testing.assert_array_equal(with_it.rows[:, others], without.rows[:, others])


def test_glitches_hit_their_share_hard_and_nothing_else() -> None:
    glitches = [Glitches(share=0.3, start=1000, end=9000)]
    with_them, without = Machine(glitches=glitches).take(10_000), Machine().take(10_000)
    assert with_them.glitches[1000:9000].mean() == pytest.approx(0.3, abs=0.02)
    assert not with_them.glitches[:1000].any()
    assert not with_them.glitches[9000:].any()
    good = ~with_them.glitches
    np.testing.assert_array_equal(with_them.rows[good], without.rows[good])
    error = np.abs(with_them.rows - without.rows)[with_them.glitches]
    hit = error > 0
    assert hit.any(axis=1).all()  # each in at least one sensor
    assert hit.mean() == pytest.approx(1 / 3, abs=0.02)
    assert np.all((error[:, 0] > 40) == hit[:, 0])  # degrees
    assert (with_them.rows - without.rows).min() < -100 < 100 < error.max()  # up and down


def test_missing_values_are_as_many_as_asked_for() -> None:
    with_them, without = Machine(dropout=0.05).take(10_000), Machine().take(10_000)
    missing = np.isnan(with_them.rows)
    assert missing.mean() == pytest.approx(0.05, abs=0.005)
    np.testing.assert_array_equal(with_them.rows[~missing], without.rows[~missing])
    assert len(next(iter(Machine(dropout=1.0)))[0]) == 0


# --- plants --------------------------------------------------------------------------------------


def test_a_plant_gives_each_machine_what_is_its_own() -> None:
    drift = Drift(feature="sound", slope=1.0)
    one, two, three = synth.plant(
        3,
        seed=2,
        interval=0.1,
        faults={"press-2": [Fault(state="bearing fault", start=0)]},
        drifts={"press-3": [drift]},
        glitches={"press-1": [Glitches(share=1)]},
    )
    assert [machine.device for machine in (one, two, three)] == ["press-1", "press-2", "press-3"]
    assert {machine.interval for machine in (one, two, three)} == {0.1}
    assert set(two.take(100).states) == {"bearing fault"}
    assert three.drifts == (drift,)
    assert one.take(10).glitches.all()


def test_readings_of_a_plant_come_in_the_order_of_time() -> None:
    machines = synth.plant(3, interval=0.5)
    where = [where for _, _, where in islice(synth.interleave(machines), 30)]
    assert [w["t"] for w in where] == sorted(w["t"] for w in where)
    assert where[-1]["t"] == 4.5
    assert [w["device"] for w in where[:3]] == ["press-1", "press-2", "press-3"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Machine(interval=0), "above 0, got 0"),
        (lambda: Machine(visits=[]), "at least one state"),
        (lambda: Machine(visits=["flying"]), "got 'flying'"),
        (lambda: Machine(faults=[Fault(state="flu", start=0)]), "got 'flu'"),
        (lambda: Machine(dropout=1.5), "from 0 to 1, got 1.5"),
        (lambda: Machine(offset={"smell": 1.0}), "got 'smell'"),
        (lambda: Glitches(share=-0.1), "from 0 to 1, got -0.1"),
        (lambda: Drift(feature="smell", slope=1), "got 'smell'"),
        (lambda: Fault(state="idle", start=5, end=5), "0 <= start < end, got 5 and 5"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# --- as hard as documented -----------------------------------------------------------------------


@pytest.mark.parametrize(("model", "least"), [("GLVQ", 0.8), ("GMLVQ", 0.93), ("LGMLVQ", 0.92)])
@pytest.mark.parametrize("seed", [1, 2])
def test_640_readings_teach_most_but_not_all(model: str, least: float, seed: int) -> None:
    readings = synth.interleave(synth.plant(4, seed, tour=40))
    classifier = getattr(streamlvq, model)()
    for x, state, _ in islice(readings, 640):
        classifier.learn_one(x, state)
    answers = [classifier.predict_one(x) == state for x, state, _ in islice(readings, 3000)]
    assert least < np.mean(answers) < 0.99


def watched(seed: int) -> dict[str, list[streamlvq.Decision | bool]]:
    """Decisions of a monitor that learns a tour, and then meets glitches and an unknown fault."""
    machines = synth.plant(
        4,
        seed,
        tour=40,
        faults={"press-2": [Fault(state="bearing fault", start=400)]},
        glitches={"press-1": [Glitches(share=0.5, start=300)]},
    )
    model = streamlvq.GMLVQ(metric_learning_rate=0.001)
    integrator = streamlvq.TimeIntegrator(model, window=5)
    rejector = streamlvq.RelSimRejector(integrator, threshold=0.45)
    found: dict[str, list[Any]] = {"alone": [], "together": [], "glitch": [], "fault": []}
    chunks = [machine.take(600) for machine in machines]
    for k in range(600):
        for machine, chunk in zip(machines, chunks, strict=True):
            x = dict(zip(FEATURES, chunk.rows[k].tolist(), strict=True))
            where = {"device": machine.device, "t": float(chunk.times[k])}
            state = chunk.states[k]
            if k < 160:
                rejector.learn_one(x, state, **where)
                continue
            decision = rejector.decide_one(x, **where)
            rejector.observe_one(x, **where)
            if chunk.glitches[k] or state == "bearing fault":
                found["glitch" if chunk.glitches[k] else "fault"].append(decision)
            elif machine.device != "press-1" or k < 300:
                found["alone"].append(model.predict_one(x) == state)
                found["together"].append(decision.label == state)
    return found


def test_time_helps_and_the_unknown_is_rejected() -> None:
    everything = [watched(seed) for seed in (1, 2, 3)]
    alone, together = (
        np.mean([right for found in everything for right in found[name]])
        for name in ("alone", "together")
    )
    assert 0.9 < alone < together < 0.99
    for name, most in (("glitch", 0.03), ("fault", 0.1)):
        decisions = [decision for found in everything for decision in found[name]]
        assert len(decisions) > 300
        assert np.mean([decision.accepted for decision in decisions]) < most
