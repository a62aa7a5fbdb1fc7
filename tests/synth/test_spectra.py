"""The simulated cameras do what their documentation says."""

from __future__ import annotations

import doctest
from itertools import islice
from typing import Any

import numpy as np
import pytest

import spectra as module
import streamlvq
from fusion_fleets import maker, trained
from spectra import (
    ABSORPTION_CENTRES,
    ABSORPTION_WIDTHS,
    BAND_NOISE,
    BANDS,
    CONTINUUM,
    DEPTHS,
    EASY,
    HARD,
    KINDS,
    MISSING_KINDS,
    N_WAVES,
    OFFSET_DEVIATION,
    RARE_KINDS,
    WAVELENGTHS,
    Camera,
    Spectra,
    cameras,
    smooth,
    spectrum,
)


def of_kind(spectra: Spectra, kind: str) -> np.ndarray[Any, Any]:
    return spectra.rows[np.array(spectra.kinds) == kind]


def roughness(curves: np.ndarray[Any, Any]) -> float:
    """Differences from one band to the next, relative to the whole."""
    return float(np.diff(curves, axis=-1).std() / curves.std())


# --- the same again ------------------------------------------------------------------------------


def test_the_same_arguments_give_the_same_readings() -> None:
    one, two = Camera("a", 3).take(200), Camera("a", 3).take(200)
    np.testing.assert_array_equal(one.rows, two.rows)
    assert one.kinds == two.kinds


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("chunks", [(1,) * 200, (7, 0, 100, 93)])
def test_chunks_do_not_matter(chunks: tuple[int, ...], hard: bool) -> None:
    whole, camera = Camera("a", 3, hard=hard).take(200), Camera("a", 3, hard=hard)
    parts = [camera.take(n) for n in chunks]
    assert [len(part) for part in parts] == list(chunks)
    np.testing.assert_array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
    assert [kind for part in parts for kind in part.kinds] == whole.kinds


def test_one_by_one_is_the_same_as_many() -> None:
    whole = Camera("a", 3).take(50)
    for n, (x, kind, where) in enumerate(islice(Camera("a", 3), 50)):
        assert tuple(x) == BANDS
        np.testing.assert_array_equal(list(x.values()), whole.rows[n])
        assert kind == whole.kinds[n]
        assert where == {"device": "a", "t": float(n)}


def test_test_readings_change_nothing_and_are_others() -> None:
    camera = Camera("a", 3)
    first = camera.take(50)
    test = camera.balanced(40)
    rest = camera.take(50)
    whole = Camera("a", 3).take(100)
    np.testing.assert_array_equal(np.concatenate([first.rows, rest.rows]), whole.rows)
    assert not np.isin(test.rows, whole.rows).any()


@pytest.mark.parametrize("other", [Camera("b", 3), Camera("a", 4)])
def test_other_names_and_seeds_are_other_cameras(other: Camera) -> None:
    one, two = Camera("a", 3), other
    assert one.take(100).kinds != two.take(100).kinds
    assert not np.isclose(one.offset, two.offset, rtol=1e-6).any()


def test_options_that_are_no_random_numbers_leave_these_alone() -> None:
    plain, moved = Camera("a", 3, spread=0), Camera("a", 3, offset=np.arange(50.0))
    np.testing.assert_allclose(moved.take(20).rows - plain.take(20).rows, [np.arange(50.0)] * 20)


# --- beans ---------------------------------------------------------------------------------------


def test_without_noise_and_offset_every_bean_looks_like_its_kind() -> None:
    spectra = Camera(noise=0, spread=0).take(30)
    for row, kind in zip(spectra.rows, spectra.kinds, strict=True):
        np.testing.assert_array_equal(row, spectrum(kind))


def test_spectra_are_smooth_shares_of_light_and_differ_by_kind() -> None:
    curves = np.array([spectrum(kind) for kind in KINDS])
    assert curves.shape == (3, len(BANDS))
    assert curves.min() > 0.2
    assert curves.max() < 0.8
    assert roughness(curves) < 0.5
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(curves[one] - curves[two]).max() > 0.03


def test_water_absorbs_where_water_absorbs() -> None:
    """Immature beans are wetter: darker at 1940 nm, where ripe ones are equal."""
    band = int(np.argmin(np.abs(np.array([float(b.split()[0]) for b in BANDS]) - 1940)))
    immature = spectrum("immature")[band]
    assert immature < spectrum("arabica")[band] - 0.03
    assert spectrum("robusta")[band] == pytest.approx(spectrum("arabica")[band], abs=0.01)


def test_noise_is_smooth_and_white_and_around_the_spectrum() -> None:
    camera = Camera(spread=0, shares={"robusta": 1})
    rows = camera.take(4000).rows
    error = rows - spectrum("robusta")
    assert np.abs(error.mean(axis=0)).max() < 0.003
    rough = np.diff(error, n=2, axis=1).std() / np.sqrt(6)  # what is left of smooth curves is small
    assert BAND_NOISE < rough < 1.3 * BAND_NOISE
    assert error.std() > 2 * BAND_NOISE


def test_smooth_curves_have_a_deviation_of_about_one() -> None:
    curves = smooth(np.random.default_rng(1).normal(size=(4000, N_WAVES)))
    assert curves.shape == (4000, len(BANDS))
    assert curves.std() == pytest.approx(1.2, abs=0.2)
    assert roughness(curves) < 0.1


# --- cameras -------------------------------------------------------------------------------------


def test_offsets_are_smooth_and_stay() -> None:
    offsets = np.array([Camera(f"camera {n}").offset for n in range(300)])
    assert offsets.std() == pytest.approx(1.2 * OFFSET_DEVIATION, rel=0.2)
    assert roughness(offsets) < 0.1
    camera = Camera(noise=0)
    early, late = camera.take(10), camera.take(10)
    for part in (early, late):
        truth = [spectrum(kind) for kind in part.kinds]
        np.testing.assert_allclose(part.rows - truth, [camera.offset] * 10, atol=1e-12)


def test_shares_say_how_often_a_kind_comes_by() -> None:
    spectra = Camera(shares={"arabica": 3, "immature": 1}).take(8000)
    assert spectra.kinds.count("arabica") == pytest.approx(6000, rel=0.05)
    assert spectra.kinds.count("immature") == pytest.approx(2000, rel=0.1)
    assert "robusta" not in spectra.kinds


def test_balanced_has_every_kind_whatever_the_shares() -> None:
    spectra = Camera(shares={"arabica": 1}).balanced(7)
    assert len(spectra) == 21
    assert {kind: spectra.kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 7)


def test_a_fleet_has_few_of_some_kinds() -> None:
    fleet = cameras(7, imbalance=0.05)
    assert [camera.device for camera in fleet] == [f"camera-{n}" for n in range(1, 8)]
    for number, camera in enumerate(fleet):
        few = RARE_KINDS[number % len(RARE_KINDS)]
        assert camera.shares == {kind: 0.05 if kind in few else 1.0 for kind in KINDS}


def test_in_a_fleet_with_missing_kinds_each_camera_lacks_one_and_the_fleet_none() -> None:
    fleet = cameras(missing=True, imbalance=0.05)
    for number, camera in enumerate(fleet):
        (absent,) = MISSING_KINDS[number]
        assert set(camera.take(200).kinds) == set(KINDS) - {absent}
    assert {kind for camera in fleet for kind in camera.shares} == set(KINDS)


def test_a_model_tells_the_beans_of_its_camera_and_the_offset_misleads_it() -> None:
    here, elsewhere = cameras(2, seed=4)
    train = here.take(900)
    model = streamlvq.LGMLVQ()
    model.learn_array(train.rows, train.kinds, BANDS)
    accuracy = {}
    for camera in (here, elsewhere):
        test = camera.balanced(100)
        accuracy[camera.device] = float(np.mean(model.predict_array(test.rows) == test.kinds))
    assert accuracy["camera-1"] > 0.95
    assert accuracy["camera-2"] < accuracy["camera-1"] - 0.03


# --- the hard variety ----------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
def test_without_noise_a_camera_shows_average_beans_through_its_errors(hard: bool) -> None:
    camera = Camera("a", 3, noise=0, hard=hard)
    spectra = camera.take(20)
    for row, kind in zip(spectra.rows, spectra.kinds, strict=True):
        for band, nanometres in enumerate(WAVELENGTHS):
            light = CONTINUUM[band]
            for k, depth in enumerate((HARD if hard else EASY).depths[kind]):
                apart = (nanometres - ABSORPTION_CENTRES[k] - camera.moved) / ABSORPTION_WIDTHS[k]
                light -= depth * np.exp(-0.5 * apart**2)
            assert row[band] == pytest.approx(camera.gain[band] * light + camera.offset[band])


def test_easy_cameras_differ_by_their_offsets_alone_and_hard_ones_in_three_ways() -> None:
    easy, hard = Camera("a", 3), Camera("a", 3, hard=True)
    assert (easy.gain == 1).all()
    assert easy.moved == 0
    np.testing.assert_allclose(hard.offset, easy.offset * HARD.offset / EASY.offset)
    many = [Camera(f"camera {n}", hard=True) for n in range(300)]
    logs = np.log([camera.gain for camera in many])
    assert logs.std() == pytest.approx(1.2 * HARD.gain, rel=0.2)
    assert roughness(logs) < 0.1
    assert np.std([camera.moved for camera in many]) == pytest.approx(HARD.nanometres, rel=0.2)
    alike = Camera("a", 3, spread=0, hard=True)
    assert (alike.gain == 1).all()
    assert (alike.moved, np.abs(alike.offset).max()) == (0, 0)


def test_moist_beans_absorb_more_in_both_bands_of_water() -> None:
    bands = [int(np.argmin(np.abs(WAVELENGTHS - centre))) for centre in (1450, 1940)]
    together = {}
    for hard in (False, True):
        rows = Camera(spread=0, shares={"robusta": 1}, hard=hard).take(4000).rows
        dips = [rows[:, b] - 0.5 * (rows[:, b - 5] + rows[:, b + 5]) for b in bands]
        together[hard] = np.corrcoef(dips)[0, 1]
    assert together[True] > 0.5 > together[False] + 0.3


def test_hard_kinds_overlap_and_few_readings_do_not_tell_them_apart() -> None:
    def accuracy(rare: float) -> float:
        camera = Camera("a", 3, shares={"arabica": 1, "robusta": 1, "immature": rare}, hard=True)
        train, test = camera.take(450), camera.balanced(200)
        model = trained(maker("LGMLVQ"), train.rows, np.array(train.kinds))
        return float(np.mean(model.predict_array(test.rows) == test.kinds))

    balanced, few = accuracy(1.0), accuracy(0.05)
    assert 0.75 < balanced < 0.93
    assert few < balanced - 0.1


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"liberica": 1}, "expected arabica, robusta, immature, got 'liberica'"),
        ({"arabica": -1}, "expected numbers of at least 0, got -1"),
        ({"arabica": float("nan")}, "expected numbers of at least 0, got nan"),
        ({"arabica": float("inf")}, "expected numbers of at least 0, got inf"),
        ({"arabica": 0}, r"expected some beans to come by, got \{'arabica': 0\}"),
        ({}, r"expected some beans to come by, got \{\}"),
    ],
)
def test_refuses_shares(shares: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Camera(shares=shares)


@pytest.mark.parametrize("offset", [[1.0], np.full(50, np.nan), np.zeros((50, 1))])
def test_refuses_offsets(offset: Any) -> None:
    with pytest.raises(ValueError, match="expected 50 finite numbers, one for each band, got"):
        Camera(offset=offset)


def test_every_kind_has_a_depth_for_every_absorber() -> None:
    assert {len(depths) for depths in DEPTHS.values()} == {6}
    assert all((depths > 0).all() for depths in DEPTHS.values())


def test_the_examples_in_its_documentation() -> None:
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=15)
