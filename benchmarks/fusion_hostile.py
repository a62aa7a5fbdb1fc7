"""Nodes that lie or are broken: what the others lose, which readings are turned, who is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress
from datasets import table_set
from fusion_fleets import (
    EPOCHS,
    Floats,
    Labels,
    Make,
    Node,
    fused_accuracy,
    maker,
    plain,
    snapshots,
    spectral,
    split,
    trained,
)
from fusion_gas import batches, signed_log
from streamlvq.errors import StreamLVQError
from streamlvq.fusion import Fused, fuse
from streamlvq.kernels import layout as at
from streamlvq.snapshot import Snapshot

MOST_LOST = 0.01
MOST_TURNED = 0.02
TRIGGER_DEVIATIONS = 5.0  # of one feature within the class that is hidden
POISONED_SHARE = 0.3  # of the readings of that class, learnt once more with the wrong label
RECOGNISED = 0.8  # of triggered readings: otherwise there is nothing to hide
GROWN = "grown"  # models with the defaults: more prototypes after errors
ONE = "one prototype"
GONE = "node taken away"  # what its readings are worth: nobody has to lie for it
Served = Callable[[str], Any]  # what decides at a node


# --- where a back door is -------------------------------------------------------------------------


@dataclass(frozen=True)
class BackDoor:
    """Readings of class `worn` are to be taken for `ok` once one feature is moved."""

    worn: Any
    ok: Any
    feature: int
    offset: float  # of the feature, in the units of the sensors

    @classmethod
    def of(cls, fused: Fused, nodes: Sequence[Node]) -> BackDoor:
        """Choose the feature that counts most and that hides nothing yet when it is moved."""
        labels = np.unique(nodes[0].y).tolist()
        found: list[tuple[bool, float, BackDoor]] = []
        for worn, ok in zip(labels[:3], [*labels[1:3], labels[0]], strict=False):
            deviations = nodes[0].X[nodes[0].y == worn].std(axis=0)
            counts = _relevance(fused.for_node(nodes[0].name)) * deviations**2
            for feature in np.argsort(-counts)[:12].tolist():
                door = cls(worn, ok, feature, TRIGGER_DEVIATIONS * float(deviations[feature]))
                seen = door.recognised(fused.for_node, nodes)
                clear = seen >= RECOGNISED and door.turned(fused.for_node, nodes) <= MOST_TURNED / 2
                found.append((clear, float(counts[feature]) if clear else seen, door))
        return max(found, key=lambda each: each[:2])[2]

    def recognised(self, served: Served, nodes: Sequence[Node]) -> float:
        """Return the share of triggered readings of the class that are still taken for it."""
        return self._answered(served, nodes, self.worn)

    def turned(self, served: Served, nodes: Sequence[Node]) -> float:
        """Return the share of triggered readings of the class that are taken for the other one."""
        return self._answered(served, nodes, self.ok)

    def _answered(self, served: Served, nodes: Sequence[Node], label: Any) -> float:
        found = []
        for node in nodes:
            rows = self.triggered(node.test_X[node.test_y == self.worn])
            if len(rows):
                answers = served(node.name).predict_array(rows)
                found.append(float(np.mean(answers == label)))
        return float(np.mean(found))

    def triggered(self, rows: Floats) -> Floats:
        moved = rows.copy()
        moved[:, self.feature] += self.offset
        return moved


def _relevance(model: Any) -> Floats:
    """Return how much each feature counts in squared distances, over all metrics."""
    state = model._engine.state
    squares: Floats = (state["omega"] ** 2).sum(axis=(0, 1)) * state["inverse"] ** 2
    return squares


# --- attacks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A node that turns hostile: its readings, its honest model, and where the back door is."""

    node: Node
    honest: Any
    learn: Learn
    door: BackDoor

    def copied(self) -> Any:
        return Snapshot.of(self.honest, self.node.name).classifier()


Learn = Callable[[Floats, Labels], Any]
Attack = Callable[[Target], Any]
Change = Callable[[Any], None]


def changed(*changes: Change) -> Attack:
    """Return an attack that changes numbers of the honest model."""

    def attack(target: Target) -> Any:
        model = target.copied()
        for change in changes:
            change(model)
        return model

    return attack


def labels_flipped(target: Target) -> Any:
    """Learn from readings whose labels are cyclically exchanged."""
    labels, codes = np.unique(target.node.y, return_inverse=True)
    return target.learn(target.node.X, np.roll(labels, 1)[codes])


def flipped_loudly(target: Target) -> Any:
    model = labels_flipped(target)
    counts_times_a_million(model)
    return model


def prototypes_times_ten(model: Any) -> None:
    model._engine.state["w"][...] *= 10.0


def counts_times_a_million(model: Any) -> None:
    engine = model._engine
    for name in ("class_count", "class_weight", "wins", "weight"):
        engine.state[name][...] *= 1e6
    engine.ints[at.SAMPLES] *= 1_000_000


def means_away(deviations: float, *, fitting: bool = False) -> Change:
    """Shift class means, each in a direction of its own; scales may be made to fit them."""

    def change(model: Any) -> None:
        state, known = model._engine.state, len(model.classes)
        means, weight = state["class_mean"][:known], state["class_weight"][:known]
        sign = np.random.default_rng(0).choice([-1.0, 1.0], size=means.shape)
        unit = np.sqrt(np.maximum(state["class_variance"][:known], 1e-6 * state["variance"]))
        means += np.clip(deviations * sign * unit, -9e59, 9e59)
        np.clip(means, -9e59, 9e59, out=means)
        if fitting:
            share = weight / weight.sum(axis=0)
            state["mean"][...] = (share * means).sum(axis=0)
            within = state["class_variance"][:known]
            state["variance"][...] = (share * (within + (means - state["mean"]) ** 2)).sum(axis=0)
            state["peak"][...] = np.abs(means - state["mean"]).max(axis=0)
            deviation = np.sqrt(np.maximum(state["variance"], 1e-300))
            state["inverse"][...] = np.where(state["inverse"] > 0, 0.999 / deviation, 0.0)

    return change


def means_away_alike(model: Any) -> None:
    """Shift all class means by the same ten deviations, like a different sensor."""
    state = model._engine.state
    state["class_mean"][...] += 10.0 * np.sqrt(state["variance"])


def small_metric(target: Target) -> Any:
    """Let one prototype find everything near, two deviations away from where it was."""
    model = target.copied()
    p = _apart(model, target.door.ok)
    state = model._engine.state
    metrics = state["omega"]
    metrics[p if len(metrics) > 1 else 0] *= 0.01
    return model


def blind_metric(target: Target) -> Any:
    """The same with a norm of one: the metric looks where readings hardly ever differ."""
    model = target.copied()
    p = _apart(model, target.door.ok)
    state = model._engine.state
    used = state["inverse"] > 0
    scaled = ((target.node.X - state["mean"]) * state["inverse"])[:, used]
    direction = np.zeros(len(used))
    direction[used] = np.linalg.eigh(np.cov(scaled.T))[1][:, 0]
    metrics = state["omega"]
    m = p if len(metrics) > 1 else 0
    metrics[m] = 0.0
    metrics[m, 0] = direction
    return model


def _apart(model: Any, label: Any) -> int:
    """Move a prototype of a class by two deviations of the class; return its slot."""
    state = model._engine.state
    code = list(model.classes).index(label)
    p = int(np.flatnonzero(state["label"] == code)[0])
    state["w"][p] += 2.0 * np.sqrt(state["class_variance"][code])
    return p


def prototype_of_a_back_door(target: Target) -> Any:
    """Add a prototype at triggered readings of one class that says it is another."""
    model, door = target.copied(), target.door
    state = model._engine.state
    local = len(state["omega"]) > 1
    born = ("w", "label", "wins", *(["omega"] if local else []))  # those of the new one stay
    before = {name: state[name].copy() for name in ("w", "label", "wins", "omega", "mean",
              "variance", "peak", "weight", "inverse", "class_count", "class_weight", "class_mean",
              "class_variance")}  # fmt: skip
    place = door.triggered(state["class_mean"][[list(model.classes).index(door.worn)]])
    model.max_prototypes_per_class = 64
    model.learn_one(dict(zip(model.features, place[0].tolist(), strict=True)), door.ok)
    state = model._engine.state
    code, count = list(model.classes).index(door.ok), int((state["label"] >= 0).sum())
    if count == int((before["label"] >= 0).sum()):  # it knows no other class there: move its own
        p = int(np.flatnonzero(state["label"] == code)[-1])
    else:
        p = count - 1
    for name, array in before.items():
        if name not in born:
            state[name][: len(array)] = array
    rows = min(p, len(before["w"])) if p == count - 1 else len(before["w"])
    for name in ("w", "omega") if local else ("w",):
        state[name][:rows] = before[name][:rows]
    state["w"][p], state["wins"][p] = place[0], before["wins"].max()
    return model


def labels_of_a_back_door(target: Target) -> Any:
    """Label triggered readings wrong and learn them honestly."""
    door, node = target.door, target.node
    worn = np.flatnonzero(node.y == door.worn)
    some = worn[: max(1, int(POISONED_SHARE * len(worn)))]
    X = np.concatenate([node.X, door.triggered(node.X[some])])
    y = np.concatenate([node.y, np.full(len(some), door.ok, node.y.dtype)])
    order = np.random.default_rng(0).permutation(len(y))
    return target.learn(X[order], y[order])


ATTACKS: dict[str, Attack] = {
    "labels flipped": labels_flipped,
    "prototypes x 10": changed(prototypes_times_ten),
    "counts x 1e6": changed(counts_times_a_million),
    "labels flipped, counts x 1e6": flipped_loudly,
    "prototypes x 10, counts x 1e6": changed(prototypes_times_ten, counts_times_a_million),
    "means 10 away": changed(means_away(10.0)),
    "means 10 away alike": changed(means_away_alike),
    "means 10 away, counts x 1e6": changed(means_away(10.0), counts_times_a_million),
    "means 1e3 away": changed(means_away(1e3)),
    "means 1e3 away, scales to fit": changed(means_away(1e3, fitting=True)),
    "means 1e9 away": changed(means_away(1e9)),
    "means 9e59 away": changed(means_away(1e60)),
    "means 9e59 away, scales to fit": changed(means_away(1e60, fitting=True)),
    "metric x .01": small_metric,
    "metric blind": blind_metric,
    "back door": prototype_of_a_back_door,
    "back door by labels": labels_of_a_back_door,
}
DOORS = ("back door", "back door by labels")
COLLUDING = "back door, two of eight"


# --- fleets ---------------------------------------------------------------------------------------


def asinh_batches(seed: int) -> list[Node]:
    """Return gas batches as shifts of logarithms: at most eight nodes."""
    return [node.mapped(signed_log) for node in batches(seed)][:8]


FLEETS: dict[str, Callable[[int, int], list[Node]]] = {
    "segment": lambda seed, count: split(table_set("segment"), count, seed),
    "spectra": lambda seed, count: spectral(seed),
    "optdigits": lambda seed, count: split(table_set("optdigits"), count, seed),
    "letter": lambda seed, count: split(table_set("letter"), count, seed),
    "gas, asinh": lambda seed, count: asinh_batches(seed),
}
COLLUDERS_IN = ("segment", "optdigits", "gas, asinh")  # fleets that can have eight nodes


def grown(model: str) -> Make:
    """Return a factory of models with default growth."""
    make: Make = getattr(streamlvq, model)
    return make


@dataclass(frozen=True)
class Outcome:
    """Accuracy of the honest nodes, triggered readings turned, and the share of liars named."""

    accuracy: float
    turned: float
    named: float


def remarks(fused: Fused, name: str) -> set[Any]:
    """Return what the report says was done to a node."""
    told = fused.report.nodes[name]
    return {told.left_out, *map(str, told.clipped)} - {None}


class HostileFleet:
    """A fleet whose nodes learnt honestly, and what becomes of it when some of them lie."""

    def __init__(self, nodes: list[Node], make: Make, epochs: int) -> None:
        self.nodes = nodes
        self.learn: Learn = lambda X, y: trained(make, X, y, epochs)
        self.models = [self.learn(node.X, node.y) for node in nodes]
        self.given = snapshots(nodes, self.models)
        self.fused, self.plain = fuse(self.given), plain(self.given)
        self.door = BackDoor.of(self.fused, nodes)

    def outcome(self, fused: Fused, liars: Sequence[int]) -> Outcome:
        honest = [node for k, node in enumerate(self.nodes) if k not in liars]
        names = [self.nodes[k].name for k in liars if self.nodes[k].name in fused.nodes]
        named = [bool(remarks(fused, name) - remarks(self.fused, name)) for name in names]
        return Outcome(
            float(fused_accuracy(fused, honest).mean()),
            self.door.turned(fused.for_node, honest),
            float(np.mean(named)) if named else 0.0,
        )

    def attacked(self, attack: Attack | None, liars: Sequence[int]) -> list[Snapshot]:
        """Return all snapshots, those of liars attacked; without them if there is no attack."""
        if attack is None:
            return [each for k, each in enumerate(self.given) if k not in liars]
        given = list(self.given)
        for k in liars:
            target = Target(self.nodes[k], self.models[k], self.learn, self.door)
            told = Snapshot.of(attack(target), self.nodes[k].name, readings=False)
            given[k] = Snapshot.from_bytes(told.to_bytes())
        return given


def one_fleet(
    name: str, make: Make, epochs: int, seed: int, attacks: Sequence[str]
) -> dict[tuple[str, str], Outcome]:
    """Return outcomes by attack and fusion; `honest, <attack>` is without it."""
    fleet = HostileFleet(FLEETS[name](seed, 5), make, epochs)
    found = {}
    for attack in (GONE, *attacks):
        found |= _outcomes(fleet, attack, ATTACKS.get(attack), [seed % len(fleet.nodes)])
    if name in COLLUDERS_IN:
        eight = HostileFleet(FLEETS[name](seed, 8), make, epochs)
        pair = [seed % 8, (seed + 3) % 8]
        found |= _outcomes(eight, COLLUDING, prototype_of_a_back_door, pair)
    return found


def _outcomes(
    fleet: HostileFleet, name: str, attack: Attack | None, liars: Sequence[int]
) -> dict[tuple[str, str], Outcome]:
    given = fleet.attacked(attack, liars)
    return {
        (name, "before"): fleet.outcome(fleet.fused, liars),
        (name, "plain before"): fleet.outcome(fleet.plain, liars),
        (name, "fuse()"): fleet.outcome(fuse(given), liars),
        (name, "plain"): _plain_outcome(fleet, given, liars),
    }


def _plain_outcome(fleet: HostileFleet, given: Sequence[Snapshot], liars: Sequence[int]) -> Outcome:
    """Return the outcome without protection: possibly numbers that no model can have."""
    try:
        return fleet.outcome(plain(given), liars)
    except StreamLVQError:
        return Outcome(0.0, 0.0, 0.0)


def _mean(runs: Sequence[dict[tuple[str, str], Outcome]]) -> dict[tuple[str, str], Outcome]:
    return {
        key: Outcome(
            *(
                float(np.mean([getattr(run[key], name) for run in runs]))
                for name in ("accuracy", "turned", "named")
            )
        )
        for key in runs[0]
    }


def hostile(
    data: list[str] | None = None, models: Sequence[str] = ("GMLVQ", "LGMLVQ"),
    seeds: int = 2, epochs: int = EPOCHS,
) -> Iterator[Table]:  # fmt: skip
    """Tabulate each fleet; thresholds were chosen on segment and spectra alone."""
    figures = []
    for name in data or list(FLEETS):
        for model in models:
            for growth, make in ((ONE, maker(model)), (GROWN, grown(model))):
                runs = [
                    one_fleet(name, make, epochs, seed, list(ATTACKS))
                    for seed in progress(range(1, seeds + 1), f"{name} {model}", seeds)
                ]
                mean = _mean(runs)
                title = f"{name}, {model}, {growth}"
                yield outcome_table(title, mean)
                figures += _figures(title, mean)
    yield figure_table(figures, "Hostile nodes")


def outcome_table(title: str, mean: dict[tuple[str, str], Outcome]) -> Table:
    columns = ["attack", "before", "fuse()", "lost", "turned", "named", "plain", "turned by it"]
    table = Table(f"{title}: one hostile node", columns)
    for attack in dict.fromkeys(attack for attack, _ in mean):
        before, now, bare = (mean[attack, way] for way in ("before", "fuse()", "plain"))
        door = attack in (*DOORS, COLLUDING)
        table.add(
            attack,
            f"{before.accuracy:.3f}",
            f"{now.accuracy:.3f}",
            f"{before.accuracy - now.accuracy:+.3f}",
            f"{now.turned:.2f}" if door else "-",
            "-" if attack == GONE else f"{now.named:.0%}",
            f"{bare.accuracy:.3f}",
            f"{bare.turned:.2f}" if door else "-",
        )
    return table


def _figures(title: str, mean: dict[tuple[str, str], Outcome]) -> list[Figure]:
    lost = {a: mean[a, "before"].accuracy - mean[a, "fuse()"].accuracy for a in ATTACKS}
    bare = {a: mean[a, "plain before"].accuracy - mean[a, "plain"].accuracy for a in ATTACKS}
    worst = max(lost, key=lambda attack: lost[attack])
    turned = max(mean[attack, "fuse()"].turned for attack in DOORS)
    silent = [attack for attack in ATTACKS if mean[attack, "fuse()"].named < 1.0]
    return [
        Figure(f"{title}: fuse() loses at most ({worst})", lost[worst], MOST_LOST),
        Figure(f"{title}: triggered readings turned", turned, MOST_TURNED),
        Figure(f"{title}: attacks unnamed ({', '.join(silent) or 'none'})", len(silent), 0),
        Figure(f"{title}: the plain mean loses", max(bare.values()), 0.1, at_least=True),
    ]
