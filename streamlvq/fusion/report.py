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
        What of it was changed or did not count, in sentences. It happens to honest nodes as well.
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
    """What was done to whom, and whether it makes sense; `print` shows it as a table.

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
        What somebody should look into, in sentences.
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

    def text(self) -> str:
        """A table of the nodes, the correction and why, notes and warnings.

        Examples
        --------

        >>> from streamlvq import GLVQ, Snapshot, fuse

        >>> models = {"a": GLVQ(), "b": GLVQ()}
        >>> for k in range(20):
        ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
        ...         models["a"].learn_one({"x": x + k % 5 / 10}, y)
        ...         if y != "egg":
        ...             models["b"].learn_one({"x": x + k % 5 / 10 + 2.0}, y)
        >>> fused = fuse([Snapshot.of(model, node) for node, model in models.items()])
        >>> print(fused.report)
        node  samples  classes  gained  off by  left over  weight  remarks
        a          60        3       -    7.07       0.00  66.7 %        -
        b          40        2     egg    7.07       0.00  33.3 %        -
        (off by, left over: in deviations within the classes; weight: share over all classes)
        <BLANKLINE>
        correction   least_squares: it predicts a class mean from the other classes and nodes to ...
        tried        none ..., least_squares 0.00, scale_shift 0.00
        note         too few nodes to tell a mistake from the truth about egg, ham, spam

        """
        from streamlvq.fusion.text import report_text  # noqa: PLC0415

        return report_text(self)

    def __str__(self) -> str:
        return self.text()
