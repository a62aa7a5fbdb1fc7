"""When a model should reject a reading: RelSim, probabilities and time, each in a plot.

Two sensors watch a machine in three states. Three readings are put to two models: one that is
clear, one between two states, and one from a sensor that has come loose. Then the machine runs for
three hours, and its readings are judged one by one, with those before them, and with those around
them. Last, curves from which to choose a threshold, for River's ImageSegments. Pictures need
matplotlib: `pip install ".[plot]"`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from river import datasets

import streamlvq
from streamlvq import metrics, plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window

STATES = ("idle", "running", "worn")
SENSORS = ("temperature", "vibration")  # degrees, mm/s
TYPICAL = np.array([[40, 1.0], [55, 4.0], [72, 2.6]])
NOISE = np.array([7, 1.0])
ASKED = {  # readings to decide on, and where to write their names: so many points away
    "clear": ({"temperature": 37.0, "vibration": 0.2}, (-45, -45)),
    "between two states": ({"temperature": 64.0, "vibration": 3.2}, (75, 50)),
    "sensor come loose": ({"temperature": 12.0, "vibration": 8.0}, (20, -50)),
}
LEARNT, SHOWN = 3000, 120  # minutes
WINDOW = 5
Sample = tuple[dict[str, float], str, dict[str, Any]]


def machine(minutes: int, lasts: float, seed: int) -> Iterator[Sample]:
    """Simulate one reading per minute with state, device and time; `lasts` is in minutes."""
    random = np.random.default_rng(seed)
    state = 0
    for minute in range(minutes):
        reading = TYPICAL[state] + NOISE * random.normal(size=len(SENSORS))
        when = {"device": "press", "t": float(minute)}
        yield dict(zip(SENSORS, reading.tolist(), strict=True)), STATES[state], when
        if random.random() < 1 / lasts:
            state = (state + int(random.integers(1, len(STATES)))) % len(STATES)


# --- a reading by itself -------------------------------------------------------------------------


def decision_map(model: Any, samples: list[Sample]) -> Axes:
    """Train a rejector, ask it about three readings, and draw its decisions."""
    for x, y, _ in samples:
        model.learn_one(x, y)
    X, y, _ = map(list, zip(*samples, strict=True))
    axes = plot.decision_map(model, X, y, margin=0.5)
    axes.set(xlabel="temperature in degrees", ylabel="vibration in mm/s")
    print(f"\n{type(model).__name__}, threshold {model.threshold}")
    for name, (x, offset) in ASKED.items():
        decision = model.decide_one(x)
        answer = decision.label if decision.accepted else f"no answer, {decision.reason}"
        print(f"  {name:<20} certainty {decision.certainty:.2f}: {answer}")
        point_at(axes, tuple(x.values()), offset, f"{name}:\n{decision.certainty:.2f}, {answer}")
    return axes


def point_at(axes: Axes, at: tuple[float, ...], offset: tuple[int, int], text: str) -> None:
    axes.plot(*at, marker="*", markersize=14, color="black", markeredgecolor="white")
    axes.annotate(
        text,
        at,
        offset,
        textcoords="offset points",
        ha="center",
        va="center",
        arrowprops={"arrowstyle": "-", "shrinkB": 5},
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "0.3"},
    )


# --- readings over time --------------------------------------------------------------------------


def over_time(title: str, axes: Axes, **settings: Any) -> None:
    """Decide on readings with a kind of window, and draw the last of them."""
    integrator = streamlvq.TimeIntegrator(streamlvq.PairwiseLVQ(), **settings)
    model = streamlvq.ProbabilityRejector(integrator, threshold=0.9, novelty_rate=None)
    samples = list(machine(LEARNT + SHOWN, 40, 48))  # a seed that shows all states
    decisions = []
    for x, y, when in samples:
        decisions.append(model.decide_one(x, **when))
        model.learn_one(x, y, **when)
    del decisions[: integrator.delay]  # a late decision is about an earlier reading
    answered = samples[: len(decisions)]
    report(title, decisions, [y for _, y, _ in answered])
    minutes = [when["t"] - LEARNT for _, _, when in answered]
    truth = [y for _, y, _ in answered]
    plot.decisions_over_time(minutes[LEARNT:], decisions[LEARNT:], truth[LEARNT:], axes)
    axes.set_title(title)


def report(title: str, decisions: list[streamlvq.Decision], truth: list[str]) -> None:
    rejected, kept = metrics.RejectRate(), metrics.CoveredAccuracy()
    right = 0
    for decision, y in zip(decisions, truth, strict=True):
        rejected.update(y, decision)
        kept.update(y, decision)
        right += decision.label == y
    parts = f"accuracy {right / len(truth):.3f}, rejected {rejected.get():.3f}"
    print(f"  {title:<57} {parts}, accuracy of the rest {kept.get():.3f}")


def three_windows() -> Figure:
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(3, 1, figsize=(10, 7.5), sharex=True, layout="constrained")
    print(f"\n{LEARNT + SHOWN} minutes, no answer below a probability of 0.9")
    half = WINDOW // 2
    over_time("Each reading by itself", rows[0], window=1)
    over_time(f"Each with the {WINDOW - 1} readings before it", rows[1], window=WINDOW)
    late = f"Each with {half} before and {half} after it: known {half} minutes later"
    over_time(late, rows[2], window=WINDOW, centered=True)
    for axes in rows[:2]:
        axes.set_xlabel("")
    for axes in rows[1:]:
        axes.get_legend().remove()
    rows[2].set_xlabel("time in minutes")
    return figure


# --- curves --------------------------------------------------------------------------------------


def curves() -> Figure:
    """Draw accuracy against rejections, and accuracy against probability."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    segments = list(datasets.ImageSegments())
    overlapping = [(x, y) for x, y, _ in machine(4000, 60, 1)]
    print("\nRejected for an accuracy of 0.99 (image patches), calibration error (machine)")
    for name in ("LGMLVQ", "PairwiseLVQ", "RSLVQ"):
        curve, _ = judged(getattr(streamlvq, name)(), segments)
        _, calibration = judged(getattr(streamlvq, name)(), overlapping)
        print(f"  {name:<12} {curve.reject_rate_for(0.99):.3f} {calibration.get():.3f}")
        curve.plot(left, name)
        calibration.plot(right, name)
    left.axhline(0.99, color="0.3", linestyle="--", linewidth=1)
    left.annotate("0.99", (0.5, 0.99), (-4, 4), textcoords="offset points", ha="right")
    left.set(xlim=(0, 0.5), title="Image patches: what accuracy costs")
    right.set_title("Machine: is a probability what it says?")
    return figure


def judged(
    model: Any, samples: list[tuple[dict[str, float], str]]
) -> tuple[metrics.AccuracyRejectCurve, metrics.ExpectedCalibrationError]:
    """Predict every reading before learning it, after a warm-up of 300."""
    curve, calibration = metrics.AccuracyRejectCurve(), metrics.ExpectedCalibrationError(bins=10)
    for place, (x, y) in enumerate(samples):
        if place >= 300:
            probabilities = model.predict_proba_one(x)
            curve.update(y, probabilities)
            calibration.update(y, probabilities)
        model.learn_one(x, y)
    return curve, calibration


# --- all of it -----------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "out", help="for pictures")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    samples = list(machine(600, 1, 2))
    one_each = streamlvq.GMLVQ(max_prototypes_per_class=1)  # a simple picture
    by_relsim = streamlvq.RelSimRejector(one_each, threshold=0.5)
    by_probability = streamlvq.ProbabilityRejector(
        streamlvq.PairwiseLVQ(), threshold=0.9, novelty_rate=None
    )
    print("Three readings, two ways to be certain")
    for name, figure in {
        "relsim": decision_map(by_relsim, samples).figure,
        "probability": decision_map(by_probability, samples).figure,
        "time": three_windows(),
        "curves": curves(),
    }.items():
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
        print(f"Saved {path}")


if __name__ == "__main__":
    main()
