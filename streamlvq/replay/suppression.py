"""Replay reports without small cells, and without what would give them back.

A count of fewer readings than a threshold is hidden. What is still printed might give it back (a
total less the cells beside it), so more cells are hidden until no hidden number follows from those
printed. This is no differential privacy: what is printed is exact, and bounds of hidden numbers
follow from it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from streamlvq.arrays import Bools, Floats, Ints
from streamlvq.errors import StreamLVQError
from streamlvq.replay.report import (
    ClassRow,
    Confusion,
    Course,
    Curve,
    DeviceRow,
    Report,
)
from streamlvq.replay.statistics import share

MAX_SUPPRESSED_CLASSES = 40  # a larger matrix is left out
CELLS_PER_THRESHOLD = 10  # a cell of time has at least this many times the threshold
SOLUTION_TOLERANCE = 1e-7

Key = Hashable


# --- which numbers must be hidden -----------------------------------------------------------------


@dataclass
class CountTable:
    """Counts that are sums over common atoms, all of them at least 0.

    Parameters
    ----------
    atoms
        Numbers of readings that add up to all counts.
    sums
        The counts that may be printed: the atoms of each.
    fixed
        Counts that are printed elsewhere: they cannot be hidden.
    secret
        Counts that are never printed, but would be known from others.
    cost
        What to hide first, by count: the lowest, then the smallest.
    links
        Pairs of atoms that have the same sum.
    covers
        What to hide first for a secret that is small: the count that would tell it.
    groups
        Counts that a total may be left of: what those that are hidden add up to must not follow
        either if it is small.

    """

    atoms: Sequence[int]
    sums: Mapping[Key, Sequence[int]]
    fixed: Mapping[Key, Sequence[int]] = field(default_factory=dict)
    secret: Mapping[Key, Sequence[int]] = field(default_factory=dict)
    cost: Callable[[Key], int] = lambda key: 0
    links: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    covers: Mapping[Key, Key] = field(default_factory=dict)
    groups: Sequence[Sequence[Key]] = ()

    def hidden(self, threshold: int) -> set[Key]:
        """Return the counts to hide so that none below the threshold is printed or follows."""
        values = {
            key: sum(self.atoms[k] for k in parts)
            for key, parts in {**self.sums, **self.fixed, **self.secret}.items()
        }
        hidden = {key for key in self.sums if values[key] < threshold}
        small = {key for key in self.secret if values[key] < threshold}
        hidden |= {self.covers[key] for key in small if key in self.covers}
        while (exposed := self._exposed(hidden, hidden | small, threshold)) is not None:
            choices = self._choices(exposed, hidden)
            if not choices:
                return set(self.sums)
            hidden.add(min(choices, key=lambda key: (self.cost(key), values[key], str(key))))
        return hidden

    def _choices(self, exposed: Sequence[int], hidden: set[Key]) -> list[Key]:
        """Return printed counts that may give a sum of atoms away, together with others."""
        parts = set(exposed)
        for link in self.links:
            if any(parts.intersection(side) for side in link):
                parts.update(*link)
        printed = [key for key in self.sums if key not in hidden]
        every = {**{key: self.sums[key] for key in printed}, **self.fixed}
        around = set().union(
            *(set(own) for own in every.values() if parts.intersection(own)), parts
        )
        return [key for key in printed if around.intersection(self.sums[key])] or printed

    def _exposed(self, hidden: set[Key], guarded: set[Key], threshold: int) -> Sequence[int] | None:
        """Return the atoms of a guarded count that follows from those printed; None if none does.

        So do the hidden counts of a group, if they are few in all.
        """
        if not guarded:
            return None
        every = {**self.sums, **self.secret}
        keys = sorted(guarded.union(*self.groups), key=str)
        is_open = self._open_counts(hidden)
        opened = dict(zip(keys, is_open([every[key] for key in keys]), strict=True))
        for key in keys:
            if key in guarded and not opened[key]:
                return every[key]
        rests = [[k for key in group if opened[key] for k in every[key]] for group in self.groups]
        few = [rest for rest in rests if rest and sum(self.atoms[k] for k in rest) < threshold]
        return next(
            (rest for rest, opened in zip(few, is_open(few), strict=True) if not opened), None
        )

    def _open_counts(self, hidden: set[Key]) -> Callable[[Sequence[Sequence[int]]], Bools]:
        """Return a function that tells which sums of atoms do not follow from what is printed.

        What is printed leaves a count open if it can change while all atoms stay at least 0: those
        above 0 may go either way, others only up.
        """
        printed = [parts for key, parts in self.sums.items() if key not in hidden]
        printed += self.fixed.values()
        known = {parts[0] for parts in printed if len(parts) == 1}
        free = [k for k in range(len(self.atoms)) if k not in known]
        first, second = zip(*self.links, strict=True) if self.links else ((), ())
        linked = self._matrix(first, free) - self._matrix(second, free)
        lines = np.concatenate([self._matrix(printed, free), linked])
        moves = np.array([self.atoms[k] > 0 for k in free], bool)
        basis, inverse = _row_space(lines[:, moves])
        # An atom of 0 may go up by 1 if those above 0 can make up for it.
        rises, answers = lines[:, ~moves], -inverse @ lines[:, ~moves]
        left = (
            np.abs(rises + lines[:, moves] @ answers).max(axis=0, initial=0.0) <= SOLUTION_TOLERANCE
        )

        def is_open(sums: Sequence[Sequence[int]]) -> Bools:
            counts = self._matrix(sums, free)
            inside = counts[:, moves]
            outside = np.abs(inside - inside @ basis.T @ basis).max(axis=1, initial=0.0)
            change = np.abs((counts[:, ~moves] + inside @ answers)[:, left])
            found: Bools = (outside > SOLUTION_TOLERANCE) | (change > SOLUTION_TOLERANCE).any(
                axis=1
            )
            return found

        return is_open

    @staticmethod
    def _matrix(counts: Sequence[Sequence[int]], free: Sequence[int]) -> Floats:
        place = {k: j for j, k in enumerate(free)}
        matrix: Floats = np.zeros((len(counts), len(free)))
        for i, parts in enumerate(counts):
            matrix[i, [place[k] for k in parts if k in place]] = 1.0
        return matrix


def _row_space(matrix: Floats) -> tuple[Floats, Floats]:
    """Return an orthonormal basis of the rows, and the pseudo-inverse."""
    if 0 in matrix.shape:
        return np.zeros((0, matrix.shape[1])), np.zeros(matrix.shape[::-1])
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    real: Bools = sizes > SOLUTION_TOLERANCE * max(float(sizes.max(initial=0.0)), 1.0)
    basis: Floats = right[real]
    return basis, (basis.T / sizes[real]) @ left[:, real].T


# --- reports --------------------------------------------------------------------------------------


def suppress(report: Report, threshold: int) -> Report:
    """Return a report in which no count of fewer readings is printed or follows from others.

    Accuracies and rates are left out with their counts. Left out altogether are decisions of single
    devices over time, the reliability diagram, certainties of single readings, texts of refused
    rows, and the counts of late, learnt and repeated readings.

    Parameters
    ----------
    report
        A report of everything.
    threshold
        Readings that a count must have, such as 10.

    Examples
    --------

    >>> from streamlvq.replay.suppression import CountTable
    >>> pumps = {"p1": [0], "p2": [1], "p3": [2]}
    >>> table = CountTable(atoms=[500, 40, 3], sums=pumps, fixed={"all": [0, 1, 2]})

    The third would follow from the total, so another one is hidden too:

    >>> sorted(table.hidden(10))
    ['p2', 'p3']

    """
    if report.suppressed is not None:
        raise StreamLVQError(f"expected a whole report, got one without {report.suppressed}")
    if threshold < 2:
        raise StreamLVQError(f"expected a threshold of at least 2 readings, got {threshold}")
    if report.readings < threshold:
        raise StreamLVQError(
            f"expected at least {threshold} readings for a report without smaller cells, got fewer"
        )
    totals = _totals(report, threshold)
    reasons = _reasons(report, totals, threshold)
    confusion, classes = _labels(report, totals, reasons, threshold)
    return replace(
        report,
        suppressed=threshold,
        labelled=totals.labelled,
        late_labels=None,
        learnt=None,
        duplicates=None,
        accuracy=report.accuracy if totals.right is not None else None,
        accuracy_of_accepted=None,
        reject_rate=report.reject_rate if totals.rejected is not None else None,
        reasons=reasons,
        outliers_by={},
        classes=classes,
        confusion=confusion,
        curve=_curve(report, totals, threshold),
        calibration=None,
        devices=_devices(report, totals, threshold),
        refused={name: count for name, count in report.refused.items() if count >= threshold},
        refused_examples=[],
        hints={},
        course=_course(report, totals, threshold),
        tracks=[],
        notes=[
            f"cells with fewer than {threshold} readings are hidden, and others that would give "
            "them back; this is no differential privacy"
        ],
    )


@dataclass(frozen=True)
class _Totals:
    """Totals that are printed: None if they, or what is left without them, are too small.

    That no reading is without a label is no secret.
    """

    labelled: int | None
    right: int | None
    rejected: int | None
    unanswered: int  # of the rejected ones, with a label; 0 if those are not printed


def _totals(report: Report, threshold: int) -> _Totals:
    labelled = report.labelled or 0
    right = round((report.accuracy or 0.0) * labelled)
    rejected = round((report.reject_rate or 0.0) * report.readings)
    is_small = labelled < threshold or 0 < report.readings - labelled < threshold
    hides_rejected = min(rejected, report.readings - rejected) < threshold
    unanswered = 0 if hides_rejected else _unanswered(report)
    answered_wrong = labelled - right - unanswered
    hides_right = is_small or min(right, answered_wrong) < threshold
    return _Totals(
        labelled=None if is_small else labelled,
        right=None if hides_right else right,
        rejected=None if hides_rejected else rejected,
        unanswered=unanswered,
    )


def _unanswered(report: Report) -> int:
    """Return how many readings with a label were given none."""
    return sum(row[-1] or 0 for row in report.confusion.counts)


def _reasons(report: Report, totals: _Totals, threshold: int) -> dict[str, int]:
    if totals.rejected is None:
        return {}
    names = list(report.reasons)
    sums: dict[Key, list[int]] = {name: [k] for k, name in enumerate(names)}
    table = CountTable(
        [*report.reasons.values()], sums, {"all": [*range(len(names))]}, groups=[names]
    )
    hidden = table.hidden(threshold)
    return {name: count for name, count in report.reasons.items() if name not in hidden}


# --- classes --------------------------------------------------------------------------------------


def _labels(
    report: Report, totals: _Totals, reasons: Mapping[str, int], threshold: int
) -> tuple[Confusion, list[ClassRow]]:
    labels = report.confusion.labels
    counts = np.array(report.confusion.counts, np.int64).reshape(len(labels), len(labels) + 1)
    count, width = counts.shape
    cells = np.arange(counts.size).reshape(counts.shape)
    table = CountTable(
        counts.ravel().tolist(),
        {("row", r): cells[r].tolist() for r in range(count)},
        {"all": cells.ravel().tolist()},
        cost=_class_cost,
        groups=[[("row", r) for r in range(count)]],
    )
    if totals.right is not None and count <= MAX_SUPPRESSED_CLASSES:
        table = _matrix_table(table, counts, cells, totals.right)
        if totals.rejected is not None:
            table = _with_reasons(table, report, cells[:, -1].tolist(), reasons)
    shown = set() if totals.labelled is None else {*table.sums} - table.hidden(threshold)

    def cell(r: int, c: int) -> int | None:
        return int(counts[r, c]) if ("cell", r, c) in shown else None

    rows: list[ClassRow] = []
    for r, row in enumerate(report.classes):
        readings = row.readings if ("row", r) in shown else None
        decided = row.decided if ("column", r) in shown else None
        right_ones = cell(r, r)
        others = [(cell(r, c) or 0, c) for c in range(count) if c != r]
        most, other = max(others, default=(0, 0))
        rows.append(
            ClassRow(
                label=row.label,
                readings=readings,
                decided=decided,
                recall=_ratio(right_ones, readings),
                precision=_ratio(right_ones, decided),
                accepted=None,
                recall_of_accepted=None,
                taken_for=labels[other] if most else None,
            )
        )
    return (
        Confusion(
            labels=labels,
            counts=[[cell(r, c) for c in range(width)] for r in range(count)],
            accepted=[[None] * width for _ in range(count)],
        ),
        rows,
    )


def _matrix_table(rows: CountTable, counts: Ints, cells: Ints, right: int) -> CountTable:
    """Return the table with the cells, the columns and the mistakes of each class."""
    count, width = counts.shape
    classes = range(count)
    every: list[Key] = [("cell", r, c) for r in classes for c in range(width)]
    diagonal: list[Key] = [("cell", k, k) for k in classes]
    sums: dict[Key, Sequence[int]] = {
        **rows.sums,
        **{("column", c): cells[:, c].tolist() for c in classes},
        **{("cell", r, c): [int(cells[r, c])] for r in classes for c in range(width)},
    }
    fixed = {**rows.fixed}
    # readings of classes beyond the last that is told apart are never right
    if int(np.trace(counts[:, :count])) == right:
        fixed["right"] = np.diag(cells[:, :count]).tolist()
    secret: dict[Key, Sequence[int]] = {"nothing": cells[:, -1].tolist()}
    covers: dict[Key, Key] = {}
    for k in classes:
        secret["missed", k] = [j for j in cells[k].tolist() if j != cells[k, k]]
        secret["mistaken", k] = [j for j in cells[:, k].tolist() if j != cells[k, k]]
        covers["missed", k], covers["mistaken", k] = ("cell", k, k), ("column", k)
    groups: list[list[Key]] = [
        [("row", r) for r in classes],
        [*(("column", c) for c in classes), "nothing"],
        [("missed", r) for r in classes],
        [*(("mistaken", c) for c in classes), "nothing"],
        [("mistaken", c) for c in classes],
        diagonal,
        every,
        [key for key in every if key not in diagonal],
    ]
    for r in classes:
        groups.append([("cell", r, c) for c in range(width)])
        groups.append([("cell", r, c) for c in range(width) if c != r])
    for c in range(width):
        groups.append([("cell", r, c) for r in classes])
        groups.append([("cell", r, c) for r in classes if r != c])
    return CountTable(rows.atoms, sums, fixed, secret, rows.cost, (), covers, groups)


def _with_reasons(
    table: CountTable, report: Report, nothing: list[int], reasons: Mapping[str, int]
) -> CountTable:
    """Return the table with what the printed reasons of rejections tell of readings without answer.

    All of these were rejected because no two classes were known; so were others that had no label,
    or an answer while there was only one class.
    """
    atoms, fixed, secret = [*table.atoms], {**table.fixed}, {**table.secret}
    unanswered = _unanswered(report)
    others = {name: n for name, n in report.reasons.items() if name not in reasons}
    rejected = reasons.get("no_model", others.pop("no_model", 0))
    if not others and unanswered == rejected == 0:
        # That all readings had an answer is known, and no secret.
        sums = {key: own for key, own in table.sums.items() if not {*own} <= {*nothing}}
        del secret["nothing"]
        groups = [[key for key in each if key in sums or key in secret] for each in table.groups]
        return dataclasses.replace(table, sums=sums, fixed={**fixed, "no model": nothing},
                             secret=secret, groups=groups)  # fmt: skip
    own = [*nothing]
    if rejected > unanswered:
        own.append(len(atoms))
        atoms.append(rejected - unanswered)
        secret["no label, or one class"] = own[-1:]
    if "no_model" not in reasons:
        secret["no model"] = [*own]
        for name, count in others.items():
            own.append(len(atoms))
            atoms.append(count)
            secret["reason", name] = own[-1:]
    fixed["no model"] = own
    return dataclasses.replace(table, atoms=atoms, fixed=fixed, secret=secret)


def _class_cost(key: Key) -> int:
    """Return what is worth least: decided counts, mistakes, right ones, then counts of labels."""
    match key:
        case ("column", _):
            return 0
        case ("cell", r, c):
            return 2 if r == c else 1
    return 3


def _ratio(part: int | None, whole: int | None) -> float | None:
    return None if part is None or whole is None else share(part, whole)


# --- devices and time -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Row:
    """Counts of a device, or of a span of time."""

    readings: int
    rejected: int
    labelled: int
    right: int


def _shown_rows(
    rows: Sequence[_Row], totals: _Totals, threshold: int, readings_are_known: bool
) -> set[Key]:
    """Return which counts of rows may be printed, as name and row."""
    table = _rows_table(rows, totals)
    if readings_are_known:
        known = {key: parts for key, parts in table.sums.items() if _row_cost(key)}
        table.fixed = {**table.fixed, **known}
        table.sums = {key: parts for key, parts in table.sums.items() if key not in known}
        table.groups = [each for each in table.groups if not known.keys() & {*each}]
        return {*known, *table.sums} - table.hidden(threshold)
    return {*table.sums} - table.hidden(threshold)


def _rows_table(rows: Sequence[_Row], totals: _Totals) -> CountTable:
    """Return the counts of rows: what was rejected and what not; right, wrong and unlabelled.

    The readings of a row are divided in two ways, which add up to the same number. If just those
    without an answer were rejected, and all have labels, the rejected ones are some of the wrong.
    """
    are_wrong = (
        totals.right is not None
        and totals.rejected == totals.unanswered
        and all(row.labelled == row.readings for row in rows)
        and all(row.rejected <= row.labelled - row.right for row in rows)
    )
    atoms: list[int] = []
    sums: dict[Key, list[int]] = {}
    fixed: dict[Key, list[int]] = {"all": []}
    secret: dict[Key, list[int]] = {}
    links: list[tuple[list[int], list[int]]] = []
    some_unlabelled = any(row.labelled < row.readings for row in rows)

    def place(*counts: int) -> list[int]:
        atoms.extend(counts)
        return [*range(len(atoms) - len(counts), len(atoms))]

    for k, row in enumerate(rows):
        if are_wrong:
            own = place(row.rejected, row.labelled - row.right - row.rejected, row.right)
            sums |= {("readings", k): own, ("labelled", k): own}
            sums |= {("rejected", k): own[:1], ("right", k): own[2:]}
            secret |= {("accepted", k): own[1:], ("wrong", k): own[:2], ("answered", k): own[1:2]}
            for name, parts in (("all", own), ("rejected", own[:1]), ("right", own[2:])):
                fixed.setdefault(name, []).extend(parts)
            continue
        if totals.rejected is None:
            own = place(row.readings)
        else:
            own = place(row.rejected, row.readings - row.rejected)
            sums["rejected", k], secret["accepted", k] = own[:1], own[1:]
            fixed.setdefault("rejected", []).extend(own[:1])
        sums["readings", k] = own
        fixed["all"].extend(own)
        if totals.labelled is None:
            continue
        wrong = row.labelled - row.right
        parts = place(row.right, wrong, row.readings - row.labelled)
        sums["labelled", k] = parts[:2]
        if some_unlabelled:
            secret["unlabelled", k] = parts[2:]
        fixed.setdefault("labelled", []).extend(parts[:2])
        if totals.right is not None:
            sums["right", k], secret["wrong", k] = parts[:1], parts[1:2]
            fixed.setdefault("right", []).extend(parts[:1])
        links.append((own, parts))
    names = (
        "readings",
        "rejected",
        "accepted",
        "labelled",
        "right",
        "wrong",
        "unlabelled",
        "answered",
    )
    groups: list[list[Key]] = [
        [(name, k) for k in range(len(rows))]
        for name in names
        if (name, 0) in sums or (name, 0) in secret
    ]
    return CountTable(atoms, sums, fixed, secret, _row_cost, links, groups=groups)


def _row_cost(key: Key) -> int:
    return int(isinstance(key, tuple) and key[0] == "readings")


def _devices(report: Report, totals: _Totals, threshold: int) -> list[DeviceRow]:
    rows = [
        _Row(
            row.readings or 0,
            row.rejected or 0,
            row.labelled or 0,
            round((row.accuracy or 0.0) * (row.labelled or 0)),
        )
        for row in report.devices
    ]
    shown = _shown_rows(rows, totals, threshold, readings_are_known=False)

    def count(name: str, k: int) -> int | None:
        value: int = getattr(rows[k], name)
        return value if (name, k) in shown else None

    return [
        DeviceRow(
            device=row.device,
            readings=count("readings", k),
            rejected=count("rejected", k),
            labelled=count("labelled", k),
            accuracy=_ratio(count("right", k), count("labelled", k)),
            accuracy_of_accepted=None,
        )
        for k, row in enumerate(report.devices)
    ]


def _course(report: Report, totals: _Totals, threshold: int) -> Course:
    """Return the course in longer cells."""
    course = report.course
    starts = _joined(course.readings, CELLS_PER_THRESHOLD * threshold)
    spans = [slice(a, b) for a, b in zip(starts, [*starts[1:], None], strict=True)]
    rows = [
        _Row(*(sum(n or 0 for n in each[span]) for each in columns))
        for span in spans
        for columns in [(course.readings, course.rejected, course.labelled, course.right)]
    ]
    shown = _shown_rows(rows, totals, threshold, readings_are_known=True)

    def column(name: str) -> list[int | None]:
        return [getattr(row, name) if (name, k) in shown else None for k, row in enumerate(rows)]

    return Course(
        stride=max((row.readings for row in rows), default=course.stride),
        first=[course.first[span][0] for span in spans],
        last=[course.last[span][-1] for span in spans],
        readings=[row.readings for row in rows],
        rejected=column("rejected"),
        labelled=column("labelled"),
        right=column("right"),
    )


def _joined(readings: Sequence[int], least: int) -> list[int]:
    """Return where cells of at least so many readings begin; the last has the rest as well."""
    starts, gathered = [0] if readings else [], 0
    for k, count in enumerate(readings):
        if gathered >= least and sum(readings[k:]) >= least:
            starts.append(k)
            gathered = 0
        gathered += count
    return starts


# --- certainty ------------------------------------------------------------------------------------


def _curve(report: Report, totals: _Totals, threshold: int) -> Curve | None:
    """Return the curve at points between which enough right and enough wrong readings are rejected.

    So are there beyond the last one. Its thresholds, certainties of single readings, are left out.
    """
    curve, labelled = report.curve, totals.labelled
    if curve is None or labelled is None or totals.right is None:
        return None
    kept = [round((1.0 - rate) * labelled) for rate in curve.reject_rates]
    right = [round(a * n) for a, n in zip(curve.accuracies, kept, strict=True)]
    chosen = [0]
    for k in range(1, len(kept)):
        last = chosen[-1]
        parts = (right[last] - right[k], kept[last] - kept[k] - (right[last] - right[k]))
        rest = (right[k], kept[k] - right[k])
        if min(*parts, *rest) >= threshold:
            chosen.append(k)
    if kept[0] != labelled or len(chosen) < 2:
        return None
    rates = [curve.reject_rates[k] for k in chosen]
    accuracies = [curve.accuracies[k] for k in chosen]
    area = float(np.trapezoid(accuracies, rates)) + accuracies[-1] * (1.0 - rates[-1])
    return Curve(
        area=area, reject_rates=rates, accuracies=accuracies, thresholds=[None] * len(rates)
    )
