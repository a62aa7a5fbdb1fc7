"""One model out of those of many nodes, in common coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from streamlvq.fusion import metric
from streamlvq.fusion.drift import Correction
from streamlvq.fusion.matching import matched
from streamlvq.fusion.pool import OF_PROTOTYPES, Pool
from streamlvq.fusion.rules import Rule, mean
from streamlvq.fusion.scales import fused_scales
from streamlvq.fusion.screen import QUORUM, Screened
from streamlvq.fusion.shape import Shape
from streamlvq.fusion.tables import Bools
from streamlvq.kernels import layout as at
from streamlvq.state import Floats, Ints

LOOSE = 3.0  # times as far from its class as prototypes usually are: it is drawn back
WILD = 9.0  # it is left out
NEAR = 3.0  # deviations from the class mean: no prototype is called wild for less


@dataclass(frozen=True)
class Voices:
    """Who has how much to say, after everything was weighed."""

    cells: Floats  # nodes x classes
    nodes: Floats  # of each node, for what is not about a class
    rule: Rule
    spread: Floats  # classes x features
    centre: Floats  # classes x features
    relevance: Floats  # of features
    screened: Screened | None  # where to note what was clipped; None: nothing is
    capped: Callable[[Floats], Floats]  # weights as far as they are believed


@dataclass(frozen=True)
class Blended:
    """Prototypes and metrics in common coordinates; metrics in units of `scales["inverse"]`."""

    label: Ints
    against: Ints
    w: Floats
    moment: Floats
    numbers: dict[str, Floats]
    metrics: list[metric.Fused]
    scales: dict[str, Floats]
    calibration: Floats
    platt: Floats


def blend(pool: Pool, correction: Correction, voices: Voices, shape: Shape) -> Blended:
    """Fuse prototypes class by class, and metrics with them.

    Parameters
    ----------
    pool, correction, voices
        What all nodes have, how their sensors differ, and how much each has to say.
    shape
        What kind of model it is.

    """
    scales = fused_scales(pool, correction, voices, shape)
    w = (pool.w - correction.shift[pool.node]) / correction.gain[pool.node]
    weights = _weights(pool, voices)
    if voices.screened is not None:
        w, weights = _tame(pool, w, weights, voices)
    lambdas = metric.Lambdas(pool, correction, scales["inverse"], shape.kind, voices)
    groups = _groups(pool, w, weights, voices)
    for group in groups:  # pairs of classes, and prototypes that were matched
        weights[group] = voices.capped(weights[group])
    fused = [_fuse_group(pool, w, weights, group, voices) for group in groups]
    size = len(groups), w.shape[1]
    paired = bool((pool.against >= 0).any())
    if not pool.omega:
        metrics = []
    elif paired:
        metrics = [lambdas.fused(pool.metric[g], weights[g], shape.rank) for g in groups[::2]]
    elif shape.local:
        metrics = [lambdas.fused(pool.metric[g], weights[g], shape.rank) for g in groups]
    else:
        own = np.arange(len(pool.omega))
        metrics = [lambdas.fused(own, voices.nodes[pool.metric_node], shape.rank)]
    return Blended(
        label=np.array([pool.label[g[0]] for g in groups], np.int64),
        against=np.array([pool.against[g[0]] for g in groups], np.int64),
        w=np.array([each[0] for each in fused]).reshape(size),
        moment=np.array([each[1] for each in fused]).reshape(size),
        numbers={
            name: np.array([each[2][name] for each in fused], float) for name in OF_PROTOTYPES
        },
        metrics=metrics,
        scales=scales,
        calibration=_calibration(pool, voices),
        platt=np.array([mean(pool.platt[g], weights[g][:, None]) for g in groups]).reshape(
            len(groups), at.PLATT_COUNT
        ),
    )


def _weights(pool: Pool, voices: Voices) -> Floats:
    """Of every prototype: its share of what its node has to say about its class (or pair)."""
    cells = voices.cells[pool.node, pool.label]
    paired = pool.against >= 0
    if paired.any():
        other = voices.cells[pool.node, np.maximum(pool.against, 0)]
        return np.where(paired, np.minimum(cells, other), cells)
    wins = pool.numbers["wins"] + 1.0
    key = pool.node * (pool.label.max(initial=0) + 1) + pool.label
    total = np.bincount(key, wins, minlength=int(key.max(initial=0)) + 1)[key]
    shares: Floats = cells * wins / total
    return shares


def _groups(pool: Pool, w: Floats, weights: Floats, voices: Voices) -> list[Ints]:
    groups: list[Ints] = []
    counted = (weights > 0) & np.isfinite(w).any(axis=1)
    for label, against in _kinds(pool, counted):
        rows = np.flatnonzero(counted & (pool.label == label) & (pool.against == against))
        found = matched(w[rows], pool.node[rows], weights[rows], voices.spread[label])
        groups += [rows[group] for group in found]
    return groups


def _kinds(pool: Pool, counted: Bools) -> list[tuple[int, int]]:
    """Classes, or both sides of every pair one after the other, in the order of a model's pairs."""
    found = set(zip(pool.label[counted].tolist(), pool.against[counted].tolist(), strict=True))
    return sorted(found, key=lambda kind: (max(kind), min(kind), kind[0]))


def _fuse_group(
    pool: Pool, w: Floats, weights: Floats, group: Ints, voices: Voices
) -> tuple[Floats, Floats, dict[str, float]]:
    unit = np.sqrt(voices.spread[pool.label[group[0]]])
    share = weights[group][:, None]
    place = voices.rule(w[group] / unit, share) * unit
    moment = mean(pool.moment[group], share)
    totals = {name: float(pool.numbers[name][group].sum()) for name in OF_PROTOTYPES}
    totals["rate"] = float(mean(pool.numbers["rate"][group], weights[group]))
    return place, moment, totals


def _tame(pool: Pool, w: Floats, weights: Floats, voices: Voices) -> tuple[Floats, Floats]:
    """Draw prototypes back to where those of others are, and leave out what is wild."""
    w, weights = w.copy(), weights.copy()
    apart = w - voices.centre[pool.label]
    known = np.isfinite(apart)
    worth = np.where(known, voices.relevance, 0.0)
    squares = (worth * np.where(known, apart, 0.0) ** 2 / voices.spread[pool.label]).sum(axis=1)
    total = worth.sum(axis=1)
    far = np.sqrt(squares / np.where(total > 0, total, 1.0))
    assert voices.screened is not None
    for label in np.unique(pool.label):
        rows = np.flatnonzero((pool.label == label) & (weights > 0))
        if len(np.unique(pool.node[rows])) < QUORUM:
            continue
        usual = np.median(_means_by(pool.node[rows], far[rows]))
        loose, wild = (max(NEAR, times * usual) for times in (LOOSE, WILD))
        for p in rows[far[rows] > loose].tolist():
            node = int(pool.node[p])
            if far[p] > wild:
                weights[p] = 0.0
                voices.screened.note(node, "a prototype far from all others was left out")
            else:
                w[p] = voices.centre[label] + (loose / far[p]) * apart[p]
                voices.screened.note(node, "a prototype far from the others was drawn back")
    return w, weights


def _means_by(node: Ints, values: Floats) -> Floats:
    """The mean of each node's values: who has many prototypes has one voice all the same."""
    _, place, count = np.unique(node, return_inverse=True, return_counts=True)
    means: Floats = np.bincount(place, values) / count
    return means


def _calibration(pool: Pool, voices: Voices) -> Floats:
    share = voices.nodes * (pool.samples > 0)
    if not share.any():
        return np.array([1.0, 0.0])
    logs = np.log(np.maximum(pool.calibration, 1e-300))
    temperature = float(np.exp(voices.rule(logs[:, :1], share[:, None])[0]))
    return np.array([temperature, float(mean(pool.calibration[:, 1], share))])
