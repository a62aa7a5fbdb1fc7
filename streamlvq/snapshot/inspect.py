"""Snapshots as text: a summary, prototypes as a table, relevances as bars."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from streamlvq.models.base import CompiledClassifier, LVQClassifier
from streamlvq.records import Prototype
from streamlvq.snapshot.snapshot import Snapshot
from streamlvq.text import COLUMN_GAP, aligned, display_width

BAR_COLUMNS = 30  # of the longest bar
SHOWN_NAME_CHARACTERS = 24
MAX_LISTED_FEATURES = 4  # of a transform
FUSED_NODE = "fused"  # node name that `streamlvq.fusion` gives to common models


def inspect_text(
    snapshot: Snapshot, *, features: int = 12, width: int | None = None, owner: str | None = None
) -> str:
    """Describe a snapshot as text for a terminal.

    Parameters
    ----------
    snapshot
        The snapshot.
    features
        How many features to show, the most relevant ones.
    width
        Columns of the terminal. A table that is wider shows fewer features; None: any width.
    owner
        Whose model it is, such as a device; None: the node that the snapshot names.

    Examples
    --------

    >>> import streamlvq
    >>> from streamlvq.snapshot import Snapshot, inspect_text

    >>> model = streamlvq.GRLVQ()
    >>> for k in range(40):
    ...     x = {"heat": 20.0 + k % 2 * 60 + k % 5, "noise": float(k % 7)}
    ...     model.learn_one(x, "on" if k % 2 else "off")
    >>> print(inspect_text(Snapshot.of(model, node="boiler")))
    GRLVQ of node boiler
    40 samples, 2 features, 2 classes; with the readings that are rehearsed
    <BLANKLINE>
    class  samples
    off         20
    on          20
    <BLANKLINE>
    prototype  count  age   heat   noise
    off            6   40  21.56  0.1497
    on            20   39  82.12   1.579
    off           14   38   22.2   2.447
    <BLANKLINE>
    relevance
    heat   0.999  ██████████████████████████████
    noise  0.001

    """
    blocks = [_header(snapshot, owner), _classes(snapshot)]
    for name, model in snapshot.members.items():
        if name:
            weight = snapshot.weights[name]
            blocks.append([f"{name}: {type(model).__name__}, weight {weight:.2f}"])
        blocks += _model_blocks(snapshot, model, max(1, features), width)
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _header(snapshot: Snapshot, owner: str | None) -> list[str]:
    lines = [f"{snapshot.type_name} of {owner or f'node {snapshot.node}'}"]
    if snapshot.created is not None:
        lines[0] += f", {snapshot.created.isoformat(' ', 'seconds')}"
    sizes = (
        f"{snapshot.samples} samples, {len(snapshot.features)} features, "
        f"{len(snapshot.labels)} classes"
    )
    kept = "with the readings that are rehearsed" if snapshot.has_readings else "without readings"
    return [
        *lines,
        f"{sizes}; {kept}",
        *_fused(snapshot),
        *_transform(snapshot),
        *_private(snapshot),
    ]


def _fused(snapshot: Snapshot) -> list[str]:
    if snapshot.node != FUSED_NODE:
        return []
    return [
        "fused from several nodes, in coordinates between theirs, which fit no sensor exactly;",
        "`streamlvq fuse --each` or `--for` makes models for the sensors of nodes",
    ]


def _transform(snapshot: Snapshot) -> list[str]:
    if snapshot.transform is None:
        return []
    name, features = snapshot.transform
    of = "all features" if features is None else _listed(features)
    return [f"learnt from {name} of {of}; prototypes are shown in the units of the sensors"]


def _private(snapshot: Snapshot) -> list[str]:
    if not snapshot.private:
        return []
    return [
        f"private: {_listed(snapshot.private)}; removed, and so is what the other features tell of",
        "them linearly: prototypes are those of somebody with the mean private values",
    ]


def _listed(features: Sequence[Hashable]) -> str:
    shown = ", ".join(map(_name, features[:MAX_LISTED_FEATURES]))
    more = len(features) - MAX_LISTED_FEATURES
    return f"{shown} and {more} more features" if more > 0 else shown


def _classes(snapshot: Snapshot) -> list[str]:
    counts = snapshot.counts
    if not counts:
        return []
    return aligned([["class", "samples"], *([_name(k), str(n)] for k, n in counts.items())])


def _model_blocks(
    snapshot: Snapshot, model: CompiledClassifier[Any], features: int, width: int | None
) -> list[list[str]]:
    if not model.classes:
        return [["nothing learnt yet"]]
    if not isinstance(model, LVQClassifier):
        return [[model.summary()]]
    relevances = model.relevances()
    ranked = sorted(relevances, key=lambda name: -relevances[name])
    left_out = len(ranked) - features
    prototypes = [
        replace(each, values=snapshot.in_sensor_units(each.values)) for each in model.prototypes()
    ]
    blocks = [
        _prototypes(prototypes, ranked[:features], width),
        _bars(relevances, ranked[:features], width),
    ]
    if left_out > 0:
        rest = sum(relevances[name] for name in ranked[features:])
        blocks[-1].append(f"and {left_out} more features, together {rest:.3f}")
    return blocks


def _prototypes(
    prototypes: Sequence[Prototype], features: list[Hashable], width: int | None
) -> list[str]:
    """Return a table with one row per prototype and as many features as fit."""
    if not prototypes:
        return []
    paired = any(prototype.against is not None for prototype in prototypes)
    fixed = ["prototype", *(["against"] if paired else []), "count", "age"]
    rows = [[*fixed, *map(_name, features)]]
    for each in prototypes:
        against = [_name(each.against)] if paired else []
        values = [_number(each.values[name]) for name in features]
        rows.append([_name(each.label), *against, str(each.count), str(each.age), *values])
    return aligned(_fitting(rows, len(fixed), width), left=2 if paired else 1)


def _bars(
    relevances: dict[Hashable, float], features: list[Hashable], width: int | None
) -> list[str]:
    longest = max(relevances.values(), default=0.0)
    rows = [[_name(name), f"{relevances[name]:.3f}"] for name in features]
    lines = aligned(rows)
    room = (
        BAR_COLUMNS
        if width is None
        else max(1, min(BAR_COLUMNS, width - max(map(display_width, lines)) - len(COLUMN_GAP)))
    )
    bars = [_bar(relevances[name] / longest if longest > 0 else 0.0, room) for name in features]
    return [
        "relevance",
        *(f"{t}{COLUMN_GAP}{bar}".rstrip() for t, bar in zip(lines, bars, strict=True)),
    ]


def _bar(share: float, room: int) -> str:
    """Return a bar, drawn in eighths of a character."""
    eighths = round(share * room * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _fitting(rows: list[list[str]], least: int, width: int | None) -> list[list[str]]:
    """Return the leading columns that fit into the width, at least `least` of them."""
    if width is None:
        return rows
    used, count = 0, 0
    for column in zip(*rows, strict=True):
        used += max(map(display_width, column)) + (len(COLUMN_GAP) if count else 0)
        if used > width and count >= least:
            break
        count += 1
    return [row[:count] for row in rows]


def _name(name: Hashable) -> str:
    """Return a name on one line: shortened, unprintable characters replaced."""
    text = name if isinstance(name, str) else str(name)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= SHOWN_NAME_CHARACTERS else text[: SHOWN_NAME_CHARACTERS - 1] + "…"


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.4g}"
