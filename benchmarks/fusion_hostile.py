"""One of five nodes lies or is broken: what the others lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from common import Figure, Table, figure_table, progress
from datasets import table_set
from fusion_fleets import (
    EPOCHS,
    Make,
    Node,
    fused_accuracy,
    learn,
    maker,
    plain,
    snapshots,
    spectral,
    split,
    trained,
)
from streamlvq.fusion import Fused, fuse
from streamlvq.kernels import layout as at
from streamlvq.snapshot import Snapshot

MOST_LOST = 0.02
Attack = Callable[[Any], None]


# --- attacks --------------------------------------------------------------------------------------


def flipped(node: Node, make: Make, epochs: int) -> Any:
    """Learn from readings whose labels are cyclically exchanged."""
    labels, codes = np.unique(node.y, return_inverse=True)
    return trained(make, node.X, np.roll(labels, 1)[codes], epochs)


def prototypes_times_ten(model: Any) -> None:
    model._engine.state["w"][...] *= 10.0


def counts_times_a_million(model: Any) -> None:
    engine = model._engine
    for name in ("class_count", "class_weight", "wins", "weight"):
        engine.state[name][...] *= 1e6
    engine.ints[at.SAMPLES] *= 1_000_000


def means_shifted(model: Any) -> None:
    """Shift class means by ten deviations, each in a direction of its own."""
    state = model._engine.state
    sign = np.random.default_rng(0).choice([-1.0, 1.0], size=state["class_mean"].shape)
    state["class_mean"][...] += 10.0 * sign * np.sqrt(state["class_variance"])


def all_means_shifted(model: Any) -> None:
    """Shift all class means by the same ten deviations, like a different sensor."""
    state = model._engine.state
    state["class_mean"][...] += 10.0 * np.sqrt(state["variance"])


ATTACKS: dict[str, tuple[bool, tuple[Attack, ...]]] = {
    "labels flipped": (True, ()),
    "prototypes x 10": (False, (prototypes_times_ten,)),
    "counts x 1e6": (False, (counts_times_a_million,)),
    "labels flipped, counts x 1e6": (True, (counts_times_a_million,)),
    "prototypes x 10, counts x 1e6": (False, (prototypes_times_ten, counts_times_a_million)),
    "means shifted": (False, (means_shifted,)),
    "means shifted alike": (False, (all_means_shifted,)),
    "means shifted, counts x 1e6": (False, (means_shifted, counts_times_a_million)),
    "everything": (True, (prototypes_times_ten, counts_times_a_million, means_shifted)),
}
FUSIONS: dict[str, Callable[[list[Snapshot]], Fused]] = {
    "fuse()": fuse,
    "plain": plain,
    "plain, least squares": lambda given: plain(given, drift="least_squares"),
    "median": lambda given: fuse(given, aggregator="median"),
    "trimmed_mean": lambda given: fuse(given, aggregator="trimmed_mean"),
    "geometric_median": lambda given: fuse(given, aggregator="geometric_median"),
}


def lie(node: Node, honest: Any, attack: str, make: Make, epochs: int) -> Snapshot:
    """Return the snapshot of a hostile node after a round trip through bytes."""
    flip, changes = ATTACKS[attack]
    if flip:
        model = flipped(node, make, epochs)
    else:
        model = Snapshot.of(honest, node.name, readings=False).classifier()
    for change in changes:
        change(model)
    return Snapshot.from_bytes(Snapshot.of(model, node.name, readings=False).to_bytes())


# --- fleets ---------------------------------------------------------------------------------------

FLEETS: dict[str, Callable[[int], list[Node]]] = {
    "segment": lambda seed: split(table_set("segment"), 5, seed),
    "optdigits": lambda seed: split(table_set("optdigits"), 5, seed),
    "spectra": spectral,
}


def one_fleet(
    nodes: Sequence[Node], model: str, epochs: int, hostile: int
) -> dict[tuple[str, str], float]:
    """Return the accuracy of the four honest nodes by attack and fusion method."""
    make = maker(model)
    models = learn(nodes, make, epochs)
    good = snapshots(nodes, models)
    honest = [node for k, node in enumerate(nodes) if k != hostile]
    found = {}
    for attack in ("none", *ATTACKS):
        given = list(good)
        if attack != "none":
            given[hostile] = lie(nodes[hostile], models[hostile], attack, make, epochs)
        for name, way in FUSIONS.items():
            found[attack, name] = float(fused_accuracy(way(given), honest).mean())
    return found


def hostile(
    data: list[str] | None = None, models: Sequence[str] = ("GMLVQ", "LGMLVQ"),
    seeds: int = 2, epochs: int = EPOCHS,
) -> Iterator[Table]:  # fmt: skip
    figures = []
    for name in data or list(FLEETS):
        for model in models:
            runs = [
                one_fleet(FLEETS[name](seed), model, epochs, hostile=seed % 5)
                for seed in progress(range(1, seeds + 1), f"{name} {model}", seeds)
            ]
            mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            table = Table(f"{name}, {model}, one of five hostile", ["attack", *FUSIONS])
            for attack in ("none", *ATTACKS):
                table.add(attack, *(f"{mean[attack, way]:.3f}" for way in FUSIONS))
            yield table
            worst = min(ATTACKS, key=lambda attack: mean[attack, "fuse()"])
            lost = mean["none", "fuse()"] - mean[worst, "fuse()"]
            collapse = mean["none", "plain"] - min(mean[attack, "plain"] for attack in ATTACKS)
            figures.append(
                Figure(f"{name}, {model}: fuse() loses at most ({worst})", lost, MOST_LOST)
            )
            figures.append(
                Figure(f"{name}, {model}: the plain mean loses", collapse, 0.1, at_least=True)
            )
    yield figure_table(figures, "One of five hostile")
