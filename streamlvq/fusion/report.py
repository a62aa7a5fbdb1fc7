"""What a fusion says about itself."""

from __future__ import annotations

import msgspec


class Edge(msgspec.Struct, frozen=True):
    """Two nodes that share classes.

    Attributes
    ----------
    a, b
        Their names.
    shared
        The classes that both have.
    residual
        How far apart the means of these classes are after the correction, in deviations within
        the class.
    """

    a: str
    b: str
    shared: tuple[str, ...]
    residual: float


class NodeReport(msgspec.Struct, frozen=True):
    """What became of one node.

    Attributes
    ----------
    node
        Its name.
    samples, counts
        Labelled readings that it says it has learnt, in all and of each class.
    component
        Its place in `FusionReport.components`.
    shift, gain
        How its sensors differ: x = gain * common + shift, in the units of its sensors.
    drift
        The size of that, in deviations within the classes.
    residual
        How far its class means are from those of the others after the correction, in deviations.
    weights
        Its share of each class, from 0 to 1.
    gained
        Classes that it had never seen.
    clipped
        What of it was changed or did not count, in sentences.
    left_out
        Why all of it was left out; None if it was not.
    """

    node: str
    samples: int
    counts: dict[str, int]
    component: int
    shift: dict[str, float]
    gain: dict[str, float]
    drift: float
    residual: float
    weights: dict[str, float]
    gained: tuple[str, ...]
    clipped: tuple[str, ...]
    left_out: str | None


class FusionReport(msgspec.Struct, frozen=True):
    """What was done to whom, and whether it makes sense.

    Attributes
    ----------
    nodes
        A `NodeReport` for each, by name.
    components
        Nodes that shared classes connect; nothing is known of the shift between components.
    edges
        Pairs of nodes that share classes; of many nodes only those of the spanning tree.
    labels, features
        All that any node knows.
    weighting, rule, drift
        How they were fused; `drift` is the correction that was used.
    why
        Why this one, in a sentence.
    trials
        The error of each correction that was tried, in deviations within the class: how well it
        predicts a class mean from other classes and nodes.
    raw_residual, cycle_residual
        How far class means are apart between nodes before and after the correction, in deviations
        within the class. After a shift, it is what is left around the cycles of the sharing graph;
        None if there is no cycle.
    rank_loss
        The share of the metrics that was lost because their rank is limited.
    unprotected
        Classes that too few nodes have to tell a lie from the truth.
    warnings
        What somebody should know, in sentences.
    """

    nodes: dict[str, NodeReport]
    components: tuple[tuple[str, ...], ...]
    edges: tuple[Edge, ...]
    labels: tuple[str, ...]
    features: tuple[str, ...]
    weighting: str
    rule: str
    drift: str
    why: str
    trials: dict[str, float]
    raw_residual: float
    cycle_residual: float | None
    rank_loss: float
    unprotected: tuple[str, ...]
    warnings: tuple[str, ...]
