"""Attacks on what one learning step changes: lines through the reading, and metrics of rank one.

A prototype moves along x - w, and its metric Omega changes by a multiple of Omega (x - w) (x - w)'.
Each gives the direction from a known prototype to the reading; two directions from two prototypes
give the reading. Adaptive steps bend directions, but the mean squares that bend them are known if
they are published. Two lines that meet in three dimensions or more do not do so by chance: an
outsider knows whether the reading is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from streamlvq.arrays import Floats, Label, Rows
from streamlvq.audit.attack import Attack, Case
from streamlvq.audit.findings import (
    AuditVerdict,
    Finding,
    Reconstruction,
    best_first,
    not_applicable,
)
from streamlvq.audit.publications import PrototypeChange, Step
from streamlvq.estimator import estimator_class
from streamlvq.kernels import layout as at
from streamlvq.models.base import LVQClassifier
from streamlvq.text import number, plural

MEETING_TOLERANCE = 1e-6  # of lines, relative to the distance to where they meet
RANK_TOLERANCE = 1e-6  # of the second singular value of a change of rank one, relative to the first
MIN_FEATURES = 3  # in fewer dimensions any two lines meet
MAX_LINES = 12  # prototypes that moved furthest; each pair of them is tried
FACTOR_REFINEMENTS = 4  # of the factor that a metric was normalised with
MOMENT_FLOOR = 1e-12  # in the denominators of adaptive steps
UPDATE_ADVICE = (
    "publish after many readings, not after each (fleet.min_new_per_class, fleet.publish_after), "
    "without mean squares of gradients, or under differential privacy"
)


@dataclass(frozen=True)
class Line:
    """Line through a prototype, in feature scales: the reading is somewhere on it."""

    change: PrototypeChange
    start: Floats
    direction: Floats


@dataclass(frozen=True)
class Met:
    """A reading where lines met."""

    reading: Floats  # in the units of the model
    changes: tuple[PrototypeChange, ...]


# --- lines of prototypes --------------------------------------------------------------------------


def prototype_lines(step: Step) -> list[Line]:
    """Return the lines along which prototypes moved; none where a low-rank metric hides them."""
    model = _prototype_model(step)
    if model is None or model.metric_kind() == at.MATRIX:
        return []
    scales = step.inverse_scales()
    found = []
    for change in step.prototype_changes()[:MAX_LINES]:
        pull = _pull(step, change, model)
        if pull is None:
            continue
        if model.metric_kind() == at.DIAGONAL:
            omega = step.old("omega")
            metric = omega[change.index if model.has_local_metrics() else 0].reshape(-1)
            pull = np.divide(pull, metric**2, out=np.zeros_like(pull), where=metric != 0.0)
        found.append(_line(change, scales, pull))
    return found


def _prototype_model(step: Step) -> type[LVQClassifier] | None:
    kind = estimator_class(step.after.type)
    return kind if issubclass(kind, LVQClassifier) else None


def _line(change: PrototypeChange, scales: Floats, direction: Floats) -> Line:
    length = float(np.linalg.norm(direction))
    return Line(change, change.before * scales, direction / (length or 1.0))


def _pull(step: Step, change: PrototypeChange, model: type[LVQClassifier]) -> Floats | None:
    """Return the gradient that moved a prototype, up to a factor; None if nothing tells."""
    moved = (change.after - change.before) * step.inverse_scales()
    if step.parameters.get("step") != "adagrad":  # LVQ1 and its relatives have no such choice
        return moved
    new, old = step.after.arrays.get("w_moment"), step.old("w_moment")
    if new is None or old is None or not new.any():
        return None
    decay = float(step.parameters.get("step_decay", 1.0)) * step.forget
    squares = new[change.index] - decay * old[change.index]
    pull: Floats = np.sign(moved) * np.sqrt(np.maximum(squares, 0.0))
    return pull


# --- lines of metrics -----------------------------------------------------------------------------


def metric_lines(step: Step) -> list[Line]:
    """Return the lines that changes of rank one of local metrics show."""
    model = _prototype_model(step)
    if model is None or model.metric_kind() != at.MATRIX or not model.has_local_metrics():
        return []
    scales, found = step.inverse_scales(), []
    for change in step.prototype_changes()[:MAX_LINES]:
        both = _unbent_metrics(step, change.index)
        direction = (
            None
            if both is None
            else rank_one_direction(*both, np.asarray(step.old("omega")[change.index]))
        )
        if direction is not None:
            found.append(_line(change, scales, direction))
    return found


def _unbent_metrics(step: Step, which: int) -> tuple[Rows, Rows] | None:
    """Return a metric before and after, their rows and columns scaled as the gradient was.

    None if it did not change, or adaptive steps have bent it and nothing tells how.
    """
    before, after = step.old("omega"), step.after.arrays.get("omega")
    if before is None or after is None or which >= min(len(before), len(after)):
        return None
    old, new = np.asarray(before[which]), np.asarray(after[which])
    if np.array_equal(old, new):
        return None
    if step.parameters.get("step") == "adagrad":
        rows, columns = (step.after.arrays.get(name) for name in ("row_moment", "column_moment"))
        if rows is None or columns is None or not columns[which].any():
            return None
        bend = np.outer(np.sqrt(rows[which]) + MOMENT_FLOOR, np.sqrt(columns[which]) + MOMENT_FLOOR)
        old, new = old * bend, new * bend
    return old, new


def rank_one_direction(before: Rows, after: Rows, metric: Rows | None = None) -> Floats | None:
    """Return d if `after` is `before` minus a multiple of p d', times an unknown factor.

    None if the change has another rank, or p is not `metric` d. A single row always has rank one
    and says nothing. `metric` is `before` unless adaptive steps have bent the change.

    Examples
    --------
    >>> import numpy as np
    >>> from streamlvq.audit.updates import rank_one_direction
    >>> metric, d = np.eye(3, 5) / 3**0.5, np.array([3.0, 4.0, 0.0, 0.0, 12.0])
    >>> after = metric - 0.01 * np.outer(metric @ d, d)
    >>> print(np.abs(rank_one_direction(metric, after / np.linalg.norm(after)) * 13).round(9))
    [ 3.  4.  0.  0. 12.]

    """
    if len(before) < 2:
        return None
    metric = before if metric is None else metric
    for factor in _factors(before, after):
        change, _, right = _closest_to_rank(before, after, factor, 1)
        values = np.linalg.svd(change, compute_uv=False)
        if values[0] == 0.0 or values[1] > RANK_TOLERANCE * values[0]:
            continue
        direction = right[0]
        moved = change @ direction
        pointed = metric @ direction
        lengths = float(np.linalg.norm(moved) * np.linalg.norm(pointed))
        if lengths > 0.0 and abs(float(moved @ pointed)) >= (1.0 - 1e-6) * lengths:
            return np.asarray(direction, np.float64)
    return None


def _factors(before: Rows, after: Rows) -> list[float]:
    """Return the factors that the new metric may have been divided by, the likeliest first.

    before after^+ is factor x identity plus the change of low rank: an eigenvalue is the factor,
    a repeated one if there are enough rows.
    """
    values = np.linalg.eigvals(before @ np.linalg.pinv(after))
    real = np.sort(values.real[np.abs(values.imag) < 1e-6])
    if not len(real):
        return []
    apart = [float(np.sort(np.abs(real - value))[min(1, len(real) - 1)]) for value in real]
    return [float(real[k]) for k in np.argsort(apart)]


def _closest_to_rank(
    before: Rows, after: Rows, factor: float, rank: int
) -> tuple[Rows, Rows, Rows]:
    """Return factor x after - before with its singular vectors, the factor refined.

    Outside of the leading singular vectors nothing is left if the factor is right.
    """
    change = factor * after - before
    left, _, right = np.linalg.svd(change, full_matrices=False)
    for _ in range(FACTOR_REFINEMENTS):
        p, q = left[:, :rank], right[:rank]
        old, new = (_outside(each, p, q) for each in (before, after))
        size = float((new * new).sum())
        if size < 1e-30:
            break
        factor = float((old * new).sum()) / size
        change = factor * after - before
        left, _, right = np.linalg.svd(change, full_matrices=False)
    return change, left, right


def _outside(matrix: Rows, left: Rows, right: Rows) -> Rows:
    rest = matrix - left @ (left.T @ matrix)
    outside: Rows = rest - (rest @ right.T) @ right
    return outside


# --- where lines meet -----------------------------------------------------------------------------


def meetings(step: Step, lines: Sequence[Line]) -> list[Met]:
    """Return where lines of two prototypes meet, each place once."""
    scales = step.inverse_scales()
    usable = scales > 0.0
    if usable.sum() < MIN_FEATURES:
        return []
    found: list[tuple[Floats, list[PrototypeChange]]] = []
    for a, b in combinations(lines, 2):
        place = _meeting(a, b, usable)
        if place is None:
            continue
        for other, changes in found:
            if np.allclose(other, place, rtol=1e-5, atol=1e-6):
                changes += [each for each in (a.change, b.change) if each not in changes]
                break
        else:
            found.append((place, [a.change, b.change]))
    still = np.where(usable, scales, 1.0)
    return [
        Met(np.where(usable, place / still, changes[0].before), tuple(changes))
        for place, changes in found
    ]


def _meeting(a: Line, b: Line, usable: np.ndarray) -> Floats | None:
    """Return the point that two lines share; None if they miss each other, or are parallel."""
    ways = np.stack([a.direction[usable], -b.direction[usable]], axis=1)
    gap = (b.start - a.start)[usable]
    if np.linalg.matrix_rank(ways, tol=1e-6) < 2:
        return None
    along = np.linalg.lstsq(ways, gap, rcond=None)[0]
    missed = float(np.linalg.norm(ways @ along - gap))
    if missed > MEETING_TOLERANCE * float(np.abs(along).max()):
        return None
    place: Floats = 0.5 * (a.start + along[0] * a.direction + b.start + along[1] * b.direction)
    return place


# --- a metric that all prototypes share -----------------------------------------------------------


def shared_metric_reading(step: Step) -> Met | None:
    """Return the reading that changed a shared matrix and two prototypes; None if nothing fits.

    The change has rank two and acts in the plane of both differences; the prototypes' steps, seen
    through the metric, tell where in it the reading is.
    """
    model = _prototype_model(step)
    if model is None or model.metric_kind() != at.MATRIX or model.has_local_metrics():
        return None
    moved = step.prototype_changes()
    both = _unbent_metrics(step, 0)
    scales = step.inverse_scales()
    omega = step.old("omega")
    if both is None or len(moved) != 2 or (scales > 0.0).sum() <= MIN_FEATURES or len(omega[0]) < 3:
        return None
    pulls = [_pull(step, change, model) for change in moved]
    if pulls[0] is None or pulls[1] is None:
        return None
    apart = (moved[1].before - moved[0].before) * scales
    for factor in _factors(*both):
        change, _, right = _closest_to_rank(*both, factor, 2)
        values = np.linalg.svd(change, compute_uv=False)
        if values[0] == 0.0 or values[2] > RANK_TOLERANCE * values[0]:
            continue
        plane = right[:2].T
        place = _in_plane(change, omega[0], plane, (pulls[0], pulls[1]), apart)
        if place is not None:
            still = np.where(scales > 0.0, scales, 1.0)
            reading = moved[0].before + np.where(scales > 0.0, plane @ place / still, 0.0)
            return Met(reading, tuple(moved))
    return None


def _in_plane(
    change: Rows, omega: Rows, plane: Rows, pulls: tuple[Floats, Floats], apart: Floats
) -> Floats | None:
    """Return the difference to the first prototype in coordinates of the plane; None if no fit.

    The difference u to the first prototype, and v = u - apart to the second, are along known ways.
    The change, seen through the metric, must be a u u' + b v v'.
    """
    inside = plane.T @ apart
    if np.linalg.norm(apart - plane @ inside) > 1e-5 * np.linalg.norm(apart):
        return None
    seen = omega.T @ omega @ plane
    ways = []
    for pull in pulls:
        known = pull != 0.0
        ways.append(np.linalg.lstsq(seen[known], pull[known], rcond=None)[0])
    matrix = np.stack([ways[0], -ways[1]], axis=1)
    if np.linalg.cond(matrix) > 1e8:
        return None
    along = np.linalg.solve(matrix, inside)
    u = along[0] * ways[0]
    v = u - inside
    middle = np.linalg.lstsq(omega @ plane, change @ plane, rcond=None)[0]
    upper = np.array([[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]])
    parts = np.stack([upper @ np.outer(each, each).ravel() for each in (u, v)], axis=1)
    wanted = upper @ middle.ravel()
    left = wanted - parts @ np.linalg.lstsq(parts, wanted, rcond=None)[0]
    if np.linalg.norm(left) > 1e-4 * np.linalg.norm(wanted):
        return None
    return np.asarray(u, np.float64)


# --- the attacks ----------------------------------------------------------------------------------


class _UpdateAttack(Attack):
    """Base of attacks that recover the reading of a learning step."""

    needs = ""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._found: list[Reconstruction] = []
        self._steps = self._usable = self._exact = self._readings = 0

    def see(self, step: Step) -> None:
        if step.before is None or not step.prototype_changes():
            return
        self._steps += 1
        self._readings += max(0, step.after.samples - step.before.samples)
        usable, met = self._recover(step)
        self._usable += usable
        for one in met:
            label = attracted_label(one, step)
            found = step.reconstruction(label, one.reading, self.case.truth)
            self._exact += found.is_exact
            self._found = list(best_first([*self._found, found]))

    def _recover(self, step: Step) -> tuple[bool, list[Met]]:
        """Return whether there was something to try, and the readings."""
        raise NotImplementedError

    def finding(self) -> Finding:
        if not self._steps:
            return not_applicable("needs two publications of a node between which prototypes moved")
        if not self._usable:
            return not_applicable(self.needs)
        measure = (
            f"{plural(self._exact, 'reading')} exactly, rehearsed ones included, in "
            f"{plural(self._steps, 'publication')} with {number(self._readings)} new ones"
        )
        figures = {"exact": self._exact, "readings": self._readings, "steps": self._steps}
        assumes = "a publication before and after the reading, and no rehearsed readings between"
        verdict = AuditVerdict.EXACT if self._exact else AuditVerdict.NOTHING
        advice = UPDATE_ADVICE if self._exact else ""
        return Finding(verdict, measure, assumes, advice, tuple(self._found), figures)


class GradientLines(_UpdateAttack):
    """Two prototypes that one reading moved: their lines meet in it.

    Metrics of matrices bend the lines, see `MetricChange`.
    """

    needs = (
        "needs two prototypes that moved along known lines, in at least 3 features; matrix "
        "metrics, and adaptive steps without published mean squares, hide them"
    )

    def _recover(self, step: Step) -> tuple[bool, list[Met]]:
        lines = prototype_lines(step)
        enough = len(lines) > 1 and (step.inverse_scales() > 0.0).sum() >= MIN_FEATURES
        return enough, meetings(step, lines) if enough else []


class MetricChange(_UpdateAttack):
    """The change of a matrix metric by one reading has rank one along its difference.

    Two local metrics give two lines that meet in the reading. A shared one changes by rank two;
    with the two prototypes that moved, that gives the reading as well.
    """

    needs = (
        "needs a matrix metric of at least 2 rows (3 if shared) that changed, and no hidden mean "
        "squares of adaptive steps"
    )

    def _recover(self, step: Step) -> tuple[bool, list[Met]]:
        model = _prototype_model(step)
        if model is None or model.metric_kind() != at.MATRIX or _unbent(step, model) is False:
            return False, []
        if model.has_local_metrics():
            return True, meetings(step, metric_lines(step))
        met = shared_metric_reading(step)
        return True, [] if met is None else [met]


def _unbent(step: Step, model: type[LVQClassifier]) -> bool:
    which = [each.index for each in step.prototype_changes()] if model.has_local_metrics() else [0]
    rows = (each for k in which if (each := _unbent_metrics(step, k)) is not None)
    return any(len(before) >= (2 if model.has_local_metrics() else 3) for before, _ in rows)


# --- what the signs tell --------------------------------------------------------------------------


def signs(met: Met, step: Step) -> Iterator[tuple[Label, int]]:
    """Yield the class of each prototype that moved, and 1 if towards the reading, else -1."""
    scales = step.inverse_scales()
    for change in met.changes:
        along = (change.after - change.before) * (met.reading - change.before) * scales**2
        yield change.label, 1 if float(along.sum()) > 0.0 else -1


def attracted_label(met: Met, step: Step) -> Label | None:
    """Return the class of the prototypes that moved towards a reading; None unless it is one."""
    labels = {label for label, sign in signs(met, step) if sign > 0}
    return labels.pop() if len(labels) == 1 else None


class SignOfBeta(Attack):
    """Whether prototypes were attracted or repelled tells class and learning rule.

    Attack paper (5) and 2.2: once a reading is reconstructed, the sign of each prototype's step
    says whether it has the reading's class.
    """

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._schemes: Counter[str] = Counter()
        self._told = self._right = self._judged = 0
        self._shown: list[Reconstruction] = []

    def see(self, step: Step) -> None:
        if step.before is None:
            return
        shared = shared_metric_reading(step)
        met = meetings(step, [*prototype_lines(step), *metric_lines(step)])
        for one in [*met, *([] if shared is None else [shared])]:
            moved = Counter(sign for _, sign in signs(one, step))
            self._schemes[_scheme(moved[1], moved[-1])] += 1
            label = attracted_label(one, step)
            if label is None:
                continue
            self._told += 1
            found = step.reconstruction(label, one.reading, self.case.truth)
            if found.error is not None:
                self._judged += 1
                self._right += found.is_exact
            self._shown = list(best_first([*self._shown, found]))

    def finding(self) -> Finding:
        if not self._schemes:
            return not_applicable("needs a reading that another attack reconstructs from its step")
        rule, _ = self._schemes.most_common(1)[0]
        measure = f"class of {plural(self._told, 'reading')}; rule: {rule}"
        if self._judged:
            measure += f"; {number(self._right)} of {number(self._judged)} classes right"
        succeeded = self._told > 0 and (not self._judged or self._right > 0)
        figures = {"told": self._told, "judged": self._judged, "right": self._right}
        verdict = AuditVerdict.EXACT if succeeded else AuditVerdict.NOTHING
        advice = UPDATE_ADVICE if succeeded else ""
        assumes = "a reading that its step gives away"
        return Finding(verdict, measure, assumes, advice, tuple(self._shown), figures)


def _scheme(attracted: int, repelled: int) -> str:
    if attracted == repelled == 1:
        return "one prototype attracted, one repelled (as in GLVQ)"
    if repelled == 0:
        return "prototypes attracted only (as in LVQ1 on a hit)"
    return f"{attracted} attracted, {repelled} repelled (as in RSLVQ)"
