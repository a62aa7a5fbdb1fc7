"""What the figures of the privacy studies rest on: gradients, crossings, radii and tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import naive_clipped
import privacy
import privacy_aggregate
import privacy_attack_paper
import privacy_leakage
import privacy_picture
import privacy_published
from streamlvq.privacy import DPGLVQ
from streamlvq.privacy.accountant import poisson_epsilon


def test_the_study_of_leakage_descends_along_the_gradient() -> None:
    rng = np.random.default_rng(1)
    X, y, w = rng.normal(size=(40, 2)), rng.integers(2, size=40), rng.normal(size=(2, 2))
    moved = privacy_leakage.glvq(X, y, w, np.array([0, 1]), epochs=1, rate=0.5)
    slopes = [
        naive_clipped.gradient(x, int(label), w.tolist(), None)[0]
        for x, label in zip(X.tolist(), y, strict=True)
    ]
    np.testing.assert_allclose(moved, w - 0.5 * np.mean(slopes, axis=0), atol=1e-8)


def test_leaks_show_in_few_logs() -> None:
    tables = list(privacy_leakage.leakage(seeds=12, epochs=100))
    shifts = [float(row[4]) for row in tables[0].rows]
    assert shifts[0] > shifts[1] > shifts[2] > 0
    balanced, more = (row[2] for row in tables[1].rows)
    assert more == "100.0%"
    assert balanced != "100.0%"
    assert tables[2].rows[0][2] == "met"


def test_the_crossing_is_the_reading() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.uniform(size=784), rng.uniform(size=(10, 784))
    update, pair = privacy_attack_paper.sent(x, 4, w)
    assert pair[0] == 4
    assert np.abs(privacy_attack_paper.crossing(update) - x).max() < 1e-10
    assert privacy_attack_paper.ssim(x, x) == pytest.approx(1.0)
    assert privacy_attack_paper.ssim(x, rng.uniform(size=784)) < 0.3


def test_updates_of_the_attack_paper_are_gradients() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.uniform(size=3), rng.uniform(size=(4, 3))
    update, pair = privacy_attack_paper.sent(x, 1, w)

    def cost(prototypes: np.ndarray) -> float:
        mu = naive_clipped.relative_distance(x.tolist(), 1, prototypes.tolist(), None)
        return 1 / (1 + math.exp(-privacy_attack_paper.SLOPE * mu))

    for row, k in enumerate(pair):
        for j in range(3):
            up, down = w.copy(), w.copy()
            up[k, j] += 1e-6
            down[k, j] -= 1e-6
            slope = (cost(up) - cost(down)) / 2e-6
            assert update.gradients[row, j] == pytest.approx(slope, abs=1e-9)


def test_the_search_reaches_a_point_that_explains_the_update() -> None:
    rng = np.random.default_rng(3)
    p, x = rng.uniform(size=20), rng.uniform(size=20)
    u = -0.5 * (x - p)
    guess = rng.uniform(size=20)
    beta = privacy_attack_paper.adam(p, u, guess, 0.1, 20_000)
    np.testing.assert_allclose(beta * (guess - p), u, atol=1e-4)


def test_the_printed_sigma_of_the_paper() -> None:
    """The logarithm outside of the root, through a smaller epsilon for the steps."""
    data = privacy_published.Prepared(
        np.zeros((4, 2)), np.array([0, 1, 0, 1]), {0: (-1.0, 1.0), 1: (-1.0, 1.0)}
    )
    total, share = privacy_published._printed_sigma(1.5)
    assert share * total == pytest.approx(0.2 * 1.5)
    from streamlvq.privacy import Privacy

    promise = Privacy(total, bounds=data.bounds, classes=(0, 1))
    plan = DPGLVQ(promise, initial_share=share, accounting="published").plan
    printed = 2 * 0.01 * math.sqrt(5000) * math.log(1e5) / (0.8 * 1.5)
    assert plan.sigma == pytest.approx(printed)
    assert plan.proved > poisson_epsilon(printed, 1e-5, 0.01, 5000)


def test_smooth_sensitivity_is_smooth() -> None:
    """Noise of equal bins is small, of one that moved hardly larger; it never vanishes."""
    rng = np.random.default_rng(0)
    equal = np.zeros((200, 3, 2))
    moved = equal.copy()
    moved[0] = 1.0
    for bins in (equal, moved):
        drawn = [privacy_aggregate.centre_of_attention(bins, 20.0, rng) for _ in range(200)]
        assert 0 < np.std(drawn) < 0.05


def test_the_guarantee_of_the_published_aggregation() -> None:
    rows = privacy_aggregate.guarantees().rows
    assert [row[1] for row in rows] == ["2.15", "4.02", "8.17"]


PAGE = """
| set, model | 0.5 | 1 | without privacy |
| --- | ---: | ---: | ---: |
| digits, PrivateLVQ | 0.891 | .920 | 0.961 |
| digits, private softmax | 0.813 | 0.880 | |
| letter, PrivateLVQ | 0.656 | 0.712 | .80 |
| letter, private softmax | 0.458 | 0.562 | |

Text.
"""


def test_the_picture_reads_its_table(tmp_path: Path) -> None:
    epsilons, found = privacy_picture.read_table(PAGE)
    assert epsilons == [0.5, 1.0]
    assert found["digits"].models["PrivateLVQ"] == [0.891, 0.92]
    assert found["letter"] == (
        {"PrivateLVQ": [0.656, 0.712], "private softmax": [0.458, 0.562]},
        0.8,
    )
    privacy_picture.draw(epsilons, found, tmp_path / "privacy.png")
    assert (tmp_path / "privacy.png").stat().st_size > 5000
    with pytest.raises(ValueError, match="expected a table that starts with"):
        privacy_picture.read_table("nothing")


def test_small_settings_are_options_of_their_studies() -> None:
    import inspect

    for study, options in privacy.SMALL.items():
        assert options.keys() <= inspect.signature(privacy.STUDIES[study]).parameters.keys()
