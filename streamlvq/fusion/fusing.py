"""fuse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from streamlvq.fusion.brought import agree, newest, unpack
from streamlvq.fusion.drift import CORRECTIONS
from streamlvq.fusion.errors import FusionError
from streamlvq.fusion.fused import Fused
from streamlvq.fusion.rules import RULES
from streamlvq.fusion.run import Fusion, Wishes
from streamlvq.fusion.screen import QUORUM
from streamlvq.snapshot import Snapshot

WEIGHTINGS = ("samples", "uniform")
DRIFTS = ("auto", *CORRECTIONS)


def fuse(
    snapshots: Iterable[Snapshot],
    *,
    weighting: Literal["samples", "uniform"] = "samples",
    drift: Literal["auto", "none", "tree", "least_squares", "scale_shift"] = "auto",
    rule: Literal["mean", "median", "trimmed_mean", "geometric_median"] = "mean",
    rank: Literal["keep", "full"] | int = "keep",
    screen: bool = True,
    liars: int | Literal["auto"] | None = "auto",
    quorum: int | None = None,
) -> Fused:
    """Make one model out of those of many nodes, for each of them in its sensors' coordinates.

    A pure function of the set of snapshots: their order does not matter, of a node's several
    snapshots only the newest counts, and the same snapshots give the same bits.

    Parameters
    ----------
    snapshots
        Of nodes with models of the same type. They need not have seen the same classes.
    weighting
        How much a node has to say about a class: "samples", as much as it has learnt of it, or
        "uniform", as much as everybody else who has it.
    drift
        How the sensors of nodes differ: "none", not at all; by a shift, along the "tree" of the
        most reliable differences or by "least_squares" over all of them; "scale_shift", by a gain
        and a shift of each feature; or "auto", whatever predicts class means best that it has not
        seen. All of them need classes that nodes share.
    rule
        How values of nodes become one: their "mean", or one that a minority of nodes cannot
        move far: "median", "trimmed_mean", "geometric_median".
    rank
        Of fused metrics: "keep" the largest of any node, "full", or a number.
    screen
        Whether to leave out class means, prototypes and metrics that contradict those of all other
        nodes.
    liars
        The weight of so many nodes is limited: the largest together have at most a third of all
        weight, or their number's share, and none has more than half of that of a class (if others
        have it too). "auto" is one of five nodes, at least one; None believes all counts, and only
        then the fusion of fusions is the fusion of all.
    quorum
        Nodes that must have a class before others are given it; by default one, and three for the
        rules that withstand a minority.

    Examples
    --------

    Two nodes whose sensors differ by an offset; the second has never seen an egg:

    >>> import streamlvq
    >>> from streamlvq import GLVQ, Snapshot, fuse

    >>> first, second = GLVQ(), GLVQ()
    >>> for k in range(20):
    ...     for y, x in {"ham": 1.0, "spam": 4.0, "egg": 7.0}.items():
    ...         first.learn_one({"x": x + k % 5 / 10}, y)
    ...         if y != "egg":
    ...             second.learn_one({"x": x + k % 5 / 10 + 2.0}, y)
    >>> fused = fuse([Snapshot.of(first, "a"), Snapshot.of(second, "b")])
    >>> fused.report.drift
    'least_squares'
    >>> fused.report.nodes["b"].shift["x"] - fused.report.nodes["a"].shift["x"]
    2.0
    >>> fused.report.nodes["b"].gained
    ('egg',)
    >>> fused.for_node("b").predict_one({"x": 9.0}), second.predict_one({"x": 9.0})
    ('egg', 'spam')

    References
    ----------
    - Brinkrolf, J., Hammer, B. (2021). Federated learning vector quantization. ESANN.
    - Vaquet, V., Hinder, F., Brinkrolf, J., Menz, P., Seiffert, U., Hammer, B. (2022). Federated learning vector quantization for dealing with drift between nodes. ESANN.

    """
    _check("weighting", weighting, WEIGHTINGS)
    _check("drift", drift, DRIFTS)
    _check("rule", rule, tuple(RULES))
    _check_number("rank", rank, ("keep", "full"))
    _check_number("liars", liars, ("auto", None), least=0)
    _check_number("quorum", quorum, (None,))
    if quorum is None:
        quorum = 1 if rule == "mean" else QUORUM
    brought = unpack(newest(snapshots))
    agree(brought)
    wishes = Wishes(weighting, drift, RULES[rule], rule, rank, screen, liars, quorum)
    return Fusion(brought, wishes).run()


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise FusionError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")


def _check_number(name: str, value: Any, words: tuple[str | None, ...], least: int = 1) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not whole and not any(value is word or value == word for word in words):
        allowed = ", ".join(map(repr, words))
        raise FusionError(
            f"{name}: expected {allowed} or a whole number of at least {least}, got {value!r}"
        )
