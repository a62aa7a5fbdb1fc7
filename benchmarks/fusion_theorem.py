"""Theorem 1 of the drift paper: shifts follow exactly from shared classes, along any tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import streamlvq
from common import Figure, Table, figure_table, progress, verdict
from fusion_fleets import Floats
from streamlvq.fusion import fuse
from streamlvq.snapshot import Snapshot

SIZES = (2, 3, 5, 10, 20, 50)
FEATURES = 8
CLASSES = 12
EXACT = 1e-9
TREES = 300  # spanning trees tried on one graph
Edge = tuple[int, int]


# --- fleets ---------------------------------------------------------------------------------------


def sharing(n: int, random: np.random.Generator) -> list[list[int]]:
    """Draw two or three of twelve classes for each node: a sparse, connected graph."""
    while True:
        held = [
            sorted(random.choice(CLASSES, random.integers(2, 4), replace=False)) for _ in range(n)
        ]
        if len(reached(edges_of(held), n)) == n:
            return [[int(k) for k in classes] for classes in held]


def edges_of(held: list[list[int]]) -> list[Edge]:
    pairs = ((i, j) for j in range(len(held)) for i in range(j))
    return [(i, j) for i, j in pairs if set(held[i]) & set(held[j])]


def reached(edges: list[Edge], n: int) -> set[int]:
    """Return the nodes that are connected with the first one."""
    found, size = {0}, 0
    while len(found) > size:
        size = len(found)
        found |= {b for a, b in edges if a in found} | {a for a, b in edges if b in found}
    return found


def exact_nodes(held: list[list[int]], shifts: Floats, random: np.random.Generator) -> list[Floats]:
    """Return nodes with the same readings of each class, repeated and shifted."""
    clouds = random.normal(size=(CLASSES, 1, FEATURES)) * 3 + random.normal(
        size=(CLASSES, 4, FEATURES)
    )
    copies = random.integers(1, 6, size=(len(held), CLASSES))  # so that other trees are best
    return [
        [np.tile(clouds[k], (copies[i, k], 1)) + shifts[i] for k in classes]
        for i, classes in enumerate(held)
    ]


def noisy_nodes(
    held: list[list[int]],
    shifts: Floats,
    centres: Floats,
    sizes: Floats,
    random: np.random.Generator,
) -> list[list[Floats]]:
    return [
        [centres[k] + shifts[i] + random.normal(size=(int(sizes[i, k]), FEATURES)) for k in classes]
        for i, classes in enumerate(held)
    ]


def snapshots(held: list[list[int]], readings: list[list[Floats]]) -> list[Snapshot]:
    found = []
    for i, (classes, clouds) in enumerate(zip(held, readings, strict=True)):
        model = streamlvq.GLVQ(max_prototypes_per_class=1, rehearsal=0)
        labels = np.repeat(classes, [len(cloud) for cloud in clouds])
        model.learn_array(np.concatenate(clouds), labels)
        found.append(Snapshot.of(model, f"n{i:02}", readings=False))
    return found


def told(given: list[Snapshot], drift: str) -> Floats:
    """Return the reported shifts, one row per node in the order of names."""
    report = fuse(given, drift=drift, screen=False, byzantine=None).report
    return np.array([list(report.nodes[s.node].shift.values()) for s in given])


def error(found: Floats, truth: Floats) -> float:
    """Return the root mean square error, up to one common shift that cannot be known."""
    apart = (found - found.mean(axis=0)) - (truth - truth.mean(axis=0))
    return float(np.sqrt(np.mean(apart**2)))


# --- trees ----------------------------------------------------------------------------------------


def random_tree(edges: list[Edge], n: int, random: np.random.Generator) -> list[Edge]:
    """Return a random spanning tree: edges in random order, without cycles."""
    part = list(range(n))
    tree = []
    for e in random.permutation(len(edges)):
        a, b = edges[e]
        if part[a] != part[b]:
            tree.append((a, b))
            part = [part[a] if p == part[b] else p for p in part]
    return tree


def along(
    tree: list[Edge], root: int, held: list[list[int]], means: list[dict[int, Floats]]
) -> Floats:
    """Compute shifts along a tree by equation 3 of the paper."""
    shift = {root: np.zeros(FEATURES)}
    while len(shift) < len(held):
        for a, b in tree:
            for parent, child in ((a, b), (b, a)):
                if parent in shift and child not in shift:
                    shared = set(held[parent]) & set(held[child])
                    apart = [means[child][k] - means[parent][k] for k in shared]
                    shift[child] = shift[parent] + np.mean(apart, axis=0)
    return np.array([shift[i] for i in range(len(held))])


def means_of(held: list[list[int]], readings: list[list[Floats]]) -> list[dict[int, Floats]]:
    return [
        {k: cloud.mean(axis=0) for k, cloud in zip(classes, clouds, strict=True)}
        for classes, clouds in zip(held, readings, strict=True)
    ]


# --- studies --------------------------------------------------------------------------------------


def exact(draws: int) -> Iterator[Table]:
    """Return the largest error over random sharing graphs, shifts and counts."""
    columns = ["nodes", "fuse: tree", "fuse: least squares", "any tree, any root", "verdict"]
    table = Table(f"Without noise: largest error of a shift, {draws} fleets each", columns)
    for n in progress(SIZES, "theorem", len(SIZES)):
        worst = np.zeros(3)
        for draw in range(draws):
            random = np.random.default_rng([n, draw])
            held, shifts = sharing(n, random), 5 * random.normal(size=(n, FEATURES))
            readings = exact_nodes(held, shifts, random)
            given, means = snapshots(held, readings), means_of(held, readings)
            tree = random_tree(edges_of(held), n, random)
            roots = [along(tree, root, held, means) for root in range(n)]
            errors = (
                error(told(given, "tree"), shifts),
                error(told(given, "least_squares"), shifts),
                max(error(found, shifts) for found in roots),
            )
            worst = np.maximum(worst, errors)
        table.add(n, *(f"{value:.1e}" for value in worst), verdict(bool(worst.max() <= EXACT)))
    yield table


def noisy(n: int, draws: int) -> Iterator[Table]:
    """Return the mean errors of every tree and of least squares on one graph, over many draws."""
    random = np.random.default_rng(n)
    held = sharing(n, random)
    shifts, centres = random.normal(size=(n, FEATURES)), 3 * random.normal(size=(CLASSES, FEATURES))
    sizes = random.integers(4, 60, size=(n, CLASSES))
    trees = [random_tree(edges_of(held), n, random) for _ in range(TREES)]
    rows, forest = [], []
    for _ in progress(range(draws), f"{n} nodes with noise", draws):
        readings = noisy_nodes(held, shifts, centres, sizes, random)
        given, means = snapshots(held, readings), means_of(held, readings)
        rows.append([error(told(given, drift), shifts) for drift in ("tree", "least_squares")])
        forest.append([error(along(tree, 0, held, means), shifts) for tree in trees])
    tree, squares = np.mean(rows, axis=0)
    every = np.mean(forest, axis=0)
    table = Table(f"With noise: {n} nodes, {draws} draws", ["shifts from", "mean error"])
    table.add("least squares over all edges", f"{squares:.4f}")
    table.add("the most reliable tree", f"{tree:.4f}")
    table.add(f"the best of {TREES} random trees", f"{every.min():.4f}")
    table.add("an average tree", f"{every.mean():.4f}")
    yield table
    best = min(tree, every.min())
    yield figure_table([Figure(f"{n} nodes: least squares over best tree", squares / best, 1.0)])


def theorem(draws: int = 20) -> Iterator[Table]:
    yield from exact(draws)
    for n in (5, 10, 20):
        yield from noisy(n, 2 * draws)
