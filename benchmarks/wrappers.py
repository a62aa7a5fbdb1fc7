"""What a time integrator and a rejector add to a prediction, and what many devices weigh.

python benchmarks/wrappers.py --devices 100_000
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from common import Figure, Table, best_us, cpu_seconds, figure_table, progress, show, streamlvq
from datasets import gaussians
from memory import rss_mib

CALLS = 1000


def model(d: int, classes: int) -> tuple[Any, list[dict[Any, float]]]:
    """LGMLVQ with its defaults, taught, and the readings that taught it."""
    taught, data = streamlvq().LGMLVQ(), list(gaussians(d, classes, 2000).samples())
    for x, y in data:
        taught.learn_one(x, y)
    return taught, [x for x, _ in data]


def calls(predict: Callable[..., Any], x: dict[Any, float], **keywords: Any) -> Callable[[], None]:
    def run() -> None:
        for _ in range(CALLS):
            predict(x, **keywords)

    return run


def added_us(repeats: int) -> dict[str, float]:
    """Microseconds of each wrapped prediction beyond those of the model alone."""
    lvq = streamlvq()
    inner, (x, *_) = model(18, 7)
    integrator = lvq.TimeIntegrator(inner, window=5)
    rejector = lvq.RelSimRejector(integrator, threshold=0.0)
    strict = lvq.RelSimRejector(integrator, threshold=1.0)
    for _ in range(5):
        integrator.observe_one(x, device="a")
    runs = {
        "alone": calls(inner.predict_proba_one, x),
        "TimeIntegrator.predict_proba_one": calls(integrator.predict_proba_one, x, device="a"),
        "RelSimRejector(TimeIntegrator).predict_one": calls(rejector.predict_one, x, device="a"),
        "RelSimRejector(TimeIntegrator).decide_one": calls(rejector.decide_one, x, device="a"),
        "the same, rejected": calls(strict.decide_one, x, device="a"),
    }
    best = best_us(runs, CALLS, repeats)
    alone = best.pop("alone")
    return {name: value - alone for name, value in best.items()}


def devices_mib(count: int) -> tuple[float, float, float]:
    """Resident MiB of that many windows; CPU us per reading with a thousand and with all."""
    inner, readings = model(18, 10)
    integrator = streamlvq().TimeIntegrator(inner, window=5, max_devices=count)
    names = [f"device {k:06}" for k in range(count)]

    def observe(some: list[str], t: float) -> float:
        def run() -> None:
            for k, name in enumerate(some):
                integrator.observe_one(readings[k % len(readings)], device=name, t=t)

        return cpu_seconds(run) / len(some) * 1e6

    few = min(observe(names[:1000], float(t)) for t in range(20))
    before = rss_mib()
    many = [observe(names, float(t)) for t in progress(range(20, 26), "devices")]
    return rss_mib() - before, few, min(many)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--devices", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    added = added_us(args.repeats)
    total = added["RelSimRejector(TimeIntegrator).predict_one"]
    table = Table("Added to LGMLVQ().predict_proba_one, d = 18, 7 classes", ["call", "us"])
    for name, value in added.items():
        table.add(name, f"{value:.2f}")
    mib, few, many = devices_mib(args.devices)
    devices = Table("observe_one with many devices, 10 classes", ["devices", "us"])
    devices.add(1000, f"{few:.1f}")
    devices.add(args.devices, f"{many:.1f}")
    figures = [
        Figure("added to a prediction", total, 3, unit=" us"),
        Figure(f"{args.devices:,} devices", mib, 200e6 / 2**20, unit=" MiB"),
    ]
    show([table, devices, figure_table(figures)], args.markdown)


if __name__ == "__main__":
    main()
