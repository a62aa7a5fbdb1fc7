"""`WindowForest`: randomised trees that are regrown on recent samples, one after the other."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from streamlvq.arrays import Array
from streamlvq.errors import ParameterError, SnapshotError
from streamlvq.estimator import StateLimits, check_between
from streamlvq.kernels import kernels
from streamlvq.kernels import layout as at
from streamlvq.models.base import CompiledClassifier
from streamlvq.models.parameters import (
    ABSENT_VALUES,
    MAX_SAMPLE_WEIGHT,
    check_choice,
    check_range,
    documented,
)
from streamlvq.models.tables import (
    CLASSES,
    FEATURES,
    EngineTable,
    TableEngine,
    check_fit,
    check_numbers,
    check_tables,
    check_total,
    refuse_without_readings,
    room_for,
)

MAX_TREES, MAX_LEAVES_LIMIT = 1000, 2**15
MAX_WINDOW = 2**24
TREES, NODES, LEAVES, COLUMNS, WINDOW = "trees", "nodes", "leaves", "columns", "window"


class ForestSizes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Counters of a forest that do not follow from its parameters and arrays."""

    samples: int
    oldest: int  # tree that is regrown next
    countdown: int  # samples until then
    random: int


class ForestEngine(TableEngine):
    """Window and trees of a `WindowForest`."""

    module = "forest"
    tables: ClassVar[Mapping[str, EngineTable]] = {
        "window_x": EngineTable((FEATURES, WINDOW), np.float64, np.nan),
        "window_y": EngineTable((WINDOW,), np.int64),
        "window_w": EngineTable((WINDOW,), np.float64),
        "nodes": EngineTable((TREES, NODES, COLUMNS), np.int32),
        "cuts": EngineTable((TREES, NODES), np.float64),
        "counts": EngineTable((TREES, LEAVES, CLASSES), np.float64),
        "class_count": EngineTable((CLASSES,), np.float64),
    }

    def count_as_zero(self, first: int) -> None:
        """Let the features from column `first` on, just added, have been 0 in all samples so far."""
        stored = min(self.samples, self.sizes[WINDOW])
        self.arrays["window_x"][first:, :stored] = 0.0

    def add_features(self, count: int) -> None:
        """Add columns for new features, and look at more of them for each cut."""
        super().add_features(count)
        self.set_tries()

    def set_tries(self) -> None:
        """Look at the root of the number of features for each cut."""
        self.ints[kernels("forest").TRIES] = max(1, round(math.sqrt(self.sizes[FEATURES])))

    def tree_sizes(self) -> list[int]:
        """Return the number of nodes of each tree: the root and two for every node with children."""
        first_child = self.arrays["nodes"][:, :, kernels("forest").FIRST_CHILD]
        sizes = []
        for tree in range(int(self.ints[kernels("forest").TREES_GROWN])):
            size, node = 1, 0
            while node < size:
                size += 2 if first_child[tree, node] else 0
                node += 1
            sizes.append(size)
        return sizes


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class WindowForest(CompiledClassifier[ForestEngine]):
    """Forest of randomised trees on a window: rules that are always recent.

    The oldest tree is regrown every few samples, on a bootstrap of the last n, with another n each
    time; its leaves go on counting what comes afterwards. Each cut is the best of a few random ones
    through a few random features. Probabilities are the mean of the leaves' frequencies, with an
    exponent that is fitted on each sample before it is learnt. A missing value goes the way that was
    better when the cut was made.

    Borders that are rules ("hotter than 80 and slower than 5") are what trees learn and prototypes
    do not: choose it for such data, or as a member of `LVQCommittee`. It keeps its last samples, and
    its cuts lie midway between two readings: its state cannot be shared `readings=False`.

    Parameters
    ----------
    {parameters}

    Examples
    --------

    >>> from river import datasets, evaluate, metrics
    >>> import streamlvq

    >>> model = streamlvq.WindowForest()
    >>> score = evaluate.progressive_val_score(datasets.ImageSegments(), model, metrics.Accuracy())
    >>> score.get()
    0.95

    """

    _sizes = ForestSizes
    shareable = False

    trees: int = 30
    longest_window: int = 2000
    shortest_window: int = 100
    regrow_every: int = 25
    max_depth: int = 30
    max_leaves: int = 256
    min_leaf: int = 1
    absent: str = "missing"
    seed: int | None = 1

    def _check(self) -> None:
        """Raise `ParameterError` for parameters out of range."""
        owner = type(self).__name__
        check_range(owner, "trees", self.trees, 1, MAX_TREES, whole=True)
        check_range(owner, "longest_window", self.longest_window, 1, MAX_WINDOW, whole=True)
        check_range(owner, "shortest_window", self.shortest_window, 1, whole=True)
        if self.shortest_window > self.longest_window:
            raise ParameterError(
                owner,
                "shortest_window",
                f"expected at most longest_window ({self.longest_window}), "
                f"got {self.shortest_window}",
            )
        check_range(owner, "regrow_every", self.regrow_every, 1, whole=True)
        check_range(owner, "max_depth", self.max_depth, 0, whole=True)
        check_range(owner, "max_leaves", self.max_leaves, 1, MAX_LEAVES_LIMIT, whole=True)
        check_range(owner, "min_leaf", self.min_leaf, 1, whole=True)
        check_choice(owner, "absent", self.absent, tuple(ABSENT_VALUES))
        if self.seed is not None:
            check_range(owner, "seed", self.seed, 0, whole=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"shortest_window", "regrow_every", "max_depth", "min_leaf"}

    def _apply_parameters(self) -> None:
        if self._engine is not None:
            self._set_limits(self._engine)

    def _set_limits(self, engine: ForestEngine) -> None:
        at_forest = kernels("forest")
        engine.ints[at_forest.SHORTEST] = self.shortest_window
        engine.ints[at_forest.REGROW_EVERY] = self.regrow_every
        engine.ints[at_forest.MAX_DEPTH] = self.max_depth
        engine.ints[at_forest.MIN_LEAF] = self.min_leaf
        engine.set_tries()

    def _all_sizes(self, features: int, classes: int) -> dict[str, int]:
        return {
            FEATURES: features,
            CLASSES: room_for(classes),
            TREES: self.trees,
            LEAVES: self.max_leaves,
            NODES: 2 * self.max_leaves - 1,
            COLUMNS: kernels("forest").NODE_COLUMNS,
            WINDOW: self.longest_window,
        }

    def _new_engine(self, features: int, classes: int = 0) -> ForestEngine:
        at_forest = kernels("forest")
        floats = np.zeros(at_forest.FOREST_NUMBERS)
        engine = ForestEngine(
            self._all_sizes(features, classes), floats, np.zeros(at_forest.FOREST_HEADER, np.int64)
        )
        engine.weigh(1.0)
        seed = secrets.randbits(31) if self.seed is None else self.seed
        engine.ints[at.RANDOM] = 1 + seed % at_forest.LAST_RANDOM
        self._set_limits(engine)
        return engine

    def summary(self) -> str:
        """Return in a few words what has been learnt.

        Examples
        --------

        >>> import streamlvq

        >>> model = streamlvq.WindowForest()
        >>> for k in range(100):
        ...     model.learn_one({"heat": float(k % 50)}, "hot" if k % 50 > 30 else "ok")
        >>> model.summary()
        '30 trees with 3.6 leaves on average, grown on up to 100 samples'

        """
        if self._engine is None:
            return "no trees yet"
        leaves = [(size + 1) // 2 for size in self._engine.tree_sizes()]
        mean = sum(leaves) / max(1, len(leaves))
        window = min(self.samples, self.longest_window)
        return f"{len(leaves)} trees with {mean:.1f} leaves on average, grown on up to {window} samples"

    # --- state -----------------------------------------------------------------------------------

    def _save_engine(
        self, engine: ForestEngine, readings: bool, limits: StateLimits
    ) -> tuple[dict[str, Array], ForestSizes]:
        if not readings:
            raise refuse_without_readings(
                type(self).__name__, "its window and its cuts are readings"
            )
        at_forest, known = kernels("forest"), engine.known
        stored = min(engine.samples, self.longest_window)
        tree_sizes = engine.tree_sizes()
        trees = range(len(tree_sizes))
        sizes = ForestSizes(
            samples=engine.samples,
            oldest=int(engine.ints[at_forest.OLDEST]),
            countdown=int(engine.ints[at_forest.COUNTDOWN]),
            random=int(engine.ints[at.RANDOM]),
        )
        tables = engine.arrays
        none = [np.empty((0, known))]
        arrays = {
            "fit": engine.floats[: at_forest.FIT_NUMBERS],
            "window_x": tables["window_x"][:, :stored],
            "window_y": tables["window_y"][:stored],
            "window_w": tables["window_w"][:stored],
            "tree_sizes": np.array(tree_sizes, np.int64),
            "nodes": np.concatenate(
                [np.empty((0, at_forest.NODE_COLUMNS), np.int64)]
                + [tables["nodes"][t, : tree_sizes[t]] for t in trees]
            ),
            "cuts": np.concatenate(
                [np.empty(0)] + [tables["cuts"][t, : tree_sizes[t]] for t in trees]
            ),
            "class_count": tables["class_count"][:known],
            "counts": np.concatenate(
                none + [tables["counts"][t, : (tree_sizes[t] + 1) // 2, :known] for t in trees]
            ),
        }
        kept = {name: array.copy() for name, array in arrays.items() if array.size}
        self._check_engine(sizes, kept, limits)
        return kept, sizes

    def _check_engine(
        self, sizes: ForestSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> None:
        features, known = len(self.features), len(self.classes)
        at_forest = kernels("forest")
        check_between("samples", sizes.samples, known, 2**53)
        check_between("oldest", sizes.oldest, 0, self.trees - 1)
        check_between("countdown", sizes.countdown, min(1, sizes.samples), 2**62)
        check_between("random", sizes.random, 1, at_forest.LAST_RANDOM)
        all_sizes = self._all_sizes(features, known)
        shapes = (ForestEngine.shape_of(name, all_sizes) for name in ForestEngine.tables)
        check_total(sum(map(math.prod, shapes)), limits)
        stored = min(sizes.samples, self.longest_window)
        tree_sizes = arrays.get("tree_sizes", np.empty(0, np.int64))
        self._check_tree_sizes(tree_sizes, sizes)
        total, leaves = int(tree_sizes.sum()), int((tree_sizes + 1).sum()) // 2
        check_tables(
            arrays,
            {
                "fit": ((at_forest.FIT_NUMBERS,), np.float64),
                "window_x": ((features, stored), np.float64),
                "window_y": ((stored,), np.int64),
                "window_w": ((stored,), np.float64),
                "tree_sizes": (tree_sizes.shape, np.int64),
                "nodes": ((total, at_forest.NODE_COLUMNS), np.int64),
                "cuts": ((total,), np.float64),
                "counts": ((leaves, known), np.float64),
                "class_count": ((known,), np.float64),
            },
        )
        check_fit(arrays["fit"])
        value = at.LARGEST_VALUE
        check_numbers(arrays, "window_x", -value, value, gaps=True)
        check_numbers(arrays, "window_y", 0, known - 1)
        check_numbers(arrays, "window_w", 5e-324, MAX_SAMPLE_WEIGHT)
        check_numbers(arrays, "cuts", -value, value)
        check_numbers(arrays, "counts", 0.0, 1e100)
        check_numbers(arrays, "class_count", 1.0, sizes.samples)
        start = 0
        for size in tree_sizes.tolist():
            self._check_tree(arrays["nodes"][start : start + size], features)
            start += size

    def _check_tree_sizes(self, tree_sizes: Array, sizes: ForestSizes) -> None:
        good = tree_sizes.ndim == 1 and tree_sizes.dtype == np.int64
        # Trees are regrown in turn: until all exist, the next one is new.
        good = good and (len(tree_sizes) == self.trees or len(tree_sizes) == sizes.oldest)
        good = good and bool(
            np.all((tree_sizes >= 1) & (tree_sizes <= 2 * self.max_leaves - 1) & (tree_sizes % 2))
        )
        if not good:
            raise SnapshotError(
                f"tree_sizes: expected odd numbers below {2 * self.max_leaves} for {self.trees} trees "
                f"(or {sizes.oldest} so far), got {tree_sizes.tolist()[:20]}"
            )

    @staticmethod
    def _check_tree(nodes: Array, features: int) -> None:
        """Raise unless children are numbered in the order of their parents, and leaves in theirs."""
        at_forest = kernels("forest")
        first_child = nodes[:, at_forest.FIRST_CHILD]
        inside = first_child != 0
        parents = np.flatnonzero(inside)
        expected = np.zeros_like(nodes)
        expected[parents, at_forest.FIRST_CHILD] = 1 + 2 * np.arange(len(parents))
        expected[~inside, at_forest.LEAF] = np.arange(len(nodes) - len(parents))
        for column in (at_forest.FEATURE, at_forest.GAP_SIDE):
            expected[parents, column] = nodes[parents, column]
        good = np.array_equal(nodes, expected) and len(nodes) == 1 + 2 * len(parents)
        good = good and bool(np.all(parents < first_child[parents]))
        good = good and bool(np.isin(nodes[:, at_forest.GAP_SIDE], (0, 1)).all())
        feature = nodes[parents, at_forest.FEATURE]
        if not good or not np.all((feature >= 0) & (feature < features)):
            raise SnapshotError("nodes: expected a tree, children after their parents; got others")

    def _restore_engine(
        self, sizes: ForestSizes, arrays: Mapping[str, Array], limits: StateLimits
    ) -> ForestEngine:
        self._check_engine(sizes, arrays, limits)
        at_forest, known = kernels("forest"), len(self.classes)
        engine = self._new_engine(len(self.features), known)
        engine.floats[: at_forest.FIT_NUMBERS] = arrays["fit"]
        tree_sizes = arrays["tree_sizes"].tolist() if "tree_sizes" in arrays else []
        for which, value in {
            at.N_CLASSES: known,
            at.SAMPLES: sizes.samples,
            at.RANDOM: sizes.random,
            at_forest.OLDEST: sizes.oldest,
            at_forest.COUNTDOWN: sizes.countdown,
            at_forest.TREES_GROWN: len(tree_sizes),
        }.items():
            engine.ints[which] = value
        stored = min(sizes.samples, self.longest_window)
        tables = engine.arrays
        if "window_x" in arrays:
            tables["window_x"][:, :stored] = arrays["window_x"]
        if stored:
            tables["window_y"][:stored] = arrays["window_y"]
            tables["window_w"][:stored] = arrays["window_w"]
        if known:
            tables["class_count"][:known] = arrays["class_count"]
        node = leaf = 0
        for tree, size in enumerate(tree_sizes):
            leaves = (size + 1) // 2
            tables["nodes"][tree, :size] = arrays["nodes"][node : node + size]
            tables["cuts"][tree, :size] = arrays["cuts"][node : node + size]
            tables["counts"][tree, :leaves, :known] = arrays["counts"][leaf : leaf + leaves]
            node, leaf = node + size, leaf + leaves
        engine.classes_changed()
        return engine
