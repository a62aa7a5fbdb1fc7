"""Events of a monitor: readings and late labels in, decisions out, many at a time.

Readings are stored in columns, because handling each one as an object would cost more than deciding
on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Label, Rows, as_rows

Hint = Literal["numeric_time"]  # likely cause: times are numbers, but `time_unit` is iso
# Which decides: the one that learns here, the fleet's, or the former pooled with several of those.
Model = Literal["local", "fused", "pool"]

UNNAMED_DEVICE = "device"  # for readings that name no device
NO_KEY = 0  # for a reading that cannot be a duplicate
MAX_SHOWN_CHARACTERS = 256  # of the name of a field that was left out
ALL_DEVICES = ""  # the group of every device, unless `model.per` separates them


class DedupWindow(IntEnum):
    """Number of recent readings among which an equal key means the same reading."""

    NONE = 0  # no sequence number or time: a sensor at rest may repeat a payload
    RECENT = 100  # one of the two: not repeated, except after a reset of counter or clock
    ALL = 2**62  # both of the two, or the broker flags it as redelivered


@dataclass(slots=True)
class Readings:
    """Consecutive readings with the same features; all lists are as long as `rows`.

    Parameters
    ----------
    features
        Distinct names of the columns of `rows`.
    rows
        A row for each reading: finite numbers of at most 1e60, NaN where a value is missing.
    devices
        Device that each comes from.
    groups
        Name of the model that each belongs to; "" for the shared one.
    labels
        Class of each; None where it is not known (yet).
    times
        Time of each in seconds since 1970; None where it is not known.
    sequences
        Sequence number assigned by the device; None where there is none.
    keys
        Signed 64-bit key of each, to recognise duplicates; NO_KEY if there can be none, as in a
        file.
    dedup_windows
        Number of recent readings to compare each key with, as `DedupWindow`.
    sources
        Index of the message that each came from, in the decoded batch.

    """

    features: tuple[str, ...]
    rows: Rows
    devices: list[str]
    groups: list[str]
    labels: list[Label | None]
    times: list[float | None]
    sequences: list[int | None]
    keys: list[int]
    dedup_windows: list[int]
    sources: list[int]

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Raise ValueError if columns do not fit each other: kernels trust them.

        A monitor asks again, because columns may have been replaced.
        """
        self.rows = as_rows(self.rows)
        count = len(self.devices)
        if self.rows.shape != (count, len(self.features)):
            raise ValueError(
                f"rows: expected {count} rows of {len(self.features)} features, got an "
                f"array of shape {self.rows.shape}"
            )
        lengths = tuple(map(len, _columns_of(self)))
        if lengths.count(count) < len(lengths):
            counts = dict(zip(_COLUMNS, lengths, strict=True))
            raise ValueError(f"expected {count} entries in each column, got {counts}")

    @classmethod
    def of(
        cls,
        features: Sequence[str],
        rows: npt.ArrayLike,
        *,
        devices: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        labels: Sequence[Label | None] | None = None,
        times: Sequence[float | None] | None = None,
        sequences: Sequence[int | None] | None = None,
        keys: Sequence[int] | None = None,
        dedup_windows: Sequence[int] | None = None,
        sources: Sequence[int] | None = None,
    ) -> Readings:
        """Return readings with the given columns and defaults for the others.

        By default all readings come from one device, share one model, have no label, time or
        sequence number, and are never duplicates.

        Parameters
        ----------
        features, rows
            As in `Readings`; `rows` may be nested lists.
        devices, groups, labels, times, sequences, keys, dedup_windows, sources
            As in `Readings`, a value for each row; None for the default.

        Examples
        --------
        >>> from streamlvq.events import Readings
        >>> rows = [[20.5, 3.0], [21.0, 2.5]]
        >>> readings = Readings.of(["heat", "noise"], rows, labels=["ok", None])
        >>> readings.rows.shape, readings.labels, readings.devices, readings.times
        ((2, 2), ['ok', None], ['device', 'device'], [None, None])
        >>> Readings.of(["heat", "noise"], rows, times=[0.5])
        Traceback (most recent call last):
        ...
        ValueError: times: expected 2 values, one for each row, got 1

        """
        table = as_rows(rows)
        if table.ndim != 2 or table.shape[1] != len(features):
            raise ValueError(
                f"rows: expected a column for each of {len(features)} features, got an array of "
                f"shape {table.shape}"
            )
        count = len(table)

        def column(name: str, values: Sequence[Any] | None, default: Any) -> list[Any]:
            if values is None:
                return [default] * count
            if len(values) != count:
                raise ValueError(
                    f"{name}: expected {count} values, one for each row, got {len(values)}"
                )
            return list(values)

        return cls(
            features=tuple(features),
            rows=table,
            devices=column("devices", devices, UNNAMED_DEVICE),
            groups=column("groups", groups, ALL_DEVICES),
            labels=column("labels", labels, None),
            times=column("times", times, None),
            sequences=column("sequences", sequences, None),
            keys=column("keys", keys, NO_KEY),
            dedup_windows=column("dedup_windows", dedup_windows, DedupWindow.NONE),
            sources=column("sources", range(count) if sources is None else sources, 0),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, which: slice | list[int]) -> Readings:
        """Return the readings at these positions, in this order."""
        columns = {name: _select(getattr(self, name), which) for name in _COLUMNS}
        return Readings(features=self.features, rows=self.rows[which], **columns)


_COLUMNS = tuple(each.name for each in fields(Readings) if each.name not in {"features", "rows"})
_columns_of = attrgetter(*_COLUMNS)


def _select(column: list[Any], which: slice | list[int]) -> list[Any]:
    return column[which] if isinstance(which, slice) else [column[k] for k in which]


class LateLabel(NamedTuple):
    """Label that arrives separately, after its reading.

    It refers to the reading by `sequence` or, if that is None, by `t`.
    """

    device: str
    group: str
    label: Label
    t: float | None
    sequence: int | None
    source: int = 0  # as in `Readings`
    key: int = NO_KEY  # as in `Readings`
    dedup_window: DedupWindow = DedupWindow.NONE


class Refused(NamedTuple):
    """Message or reading that could not be used, and why."""

    source: int  # index of the message in the decoded batch
    reason: str  # one of REFUSAL_REASONS, to count by
    text: str  # what was expected and what was found
    about: str | None = None  # what was expected, without values: tells apart equal reasons
    hint: Hint | None = None  # what is probably wrong with the configuration


def internal_error(source: int, error: Exception) -> Refused:
    """Return the refusal of a message that triggered an internal error."""
    text = f"internal error, please report it: {type(error).__name__}: {error}"
    return Refused(source, "failure", text, type(error).__name__)


REFUSAL_REASONS = (
    "topic",  # no template matches
    "payload",  # not valid in the configured format, or too large
    "field",  # a field is missing or of the wrong type
    "value",  # infinite or absurdly large
    "device",  # no usable name
    "label",  # late label without a matching reading
    "model",  # more models, features or classes than allowed
    "failure",  # internal error
)

DROP_REASONS = (  # why a field of a reading that was used is not among its features
    "text",  # text that is no number
    "type",  # a type without a number, such as MessagePack's bytes
    "key",  # a name that is no text, in MessagePack
    "probation",  # a new feature that has not come often enough yet
)


@dataclass(slots=True)
class DroppedFields:
    """Fields of readings that were left out of their features.

    `counts` are by reason (`DROP_REASONS`), `examples` the reasons and values that came first, by
    name.

    Examples
    --------
    >>> from streamlvq.events import DroppedFields
    >>> dropped = DroppedFields()
    >>> dropped.add("text", "firmware", "'1.2.3'")
    >>> dropped.add("text", "firmware", "'1.2.4'")
    >>> dropped.counts, dropped.examples
    ({'text': 2}, {'firmware': ('text', "'1.2.3'")})

    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, reason: str, name: str, value: str, times: int = 1) -> None:
        """Count a field that was left out; `value` is a text about its value."""
        self.counts[reason] = self.counts.get(reason, 0) + times
        self.examples.setdefault(name[:MAX_SHOWN_CHARACTERS], (reason, value))

    def update(self, other: DroppedFields) -> None:
        """Add what is in another record."""
        for reason, times in other.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + times
        self.examples = {**other.examples, **self.examples}


Event = Readings | LateLabel


class DecisionRecord(msgspec.Struct, kw_only=True, omit_defaults=False):
    """Decision as it is published and written to files."""

    device: str
    label: Label | None  # also if not accepted; None if nothing has been learnt yet
    accepted: bool
    reason: str | None  # why not: ambiguous, outlier, no_feature, no_model
    outlier_by: str | None  # what says that it is an outlier: novelty, ball
    certainty: float
    threshold: float | None  # None if nothing is certain enough yet
    novelty: float | None  # None where it was not measured
    probabilities: dict[str, float]
    t: float | None
    sequence: int | None
    model: Model
    version: int  # local: labelled samples learnt so far; else n for the n-th model received
    duplicate: bool = False  # a repeated reading, which was not learnt again


@dataclass(slots=True)
class Decisions:
    """Decisions on consecutive readings, in columns.

    `true_labels` are the labels that came with the readings; None where there was none.
    """

    classes: tuple[Label, ...]
    devices: list[str]
    groups: list[str]
    times: list[float | None]
    sequences: list[int | None]
    true_labels: list[Label | None]
    codes: npt.NDArray[np.int64]  # index of the label in `classes`; -1 if nothing has been learnt
    certainties: npt.NDArray[np.float64]
    thresholds: npt.NDArray[np.float64]
    accepted: npt.NDArray[np.bool_]
    reasons: list[str | None]
    novelties: npt.NDArray[np.float64]  # NaN where it was not measured
    outliers_by: list[str | None]  # what says that it is an outlier: novelty, ball
    probabilities: Rows  # a column for each of `classes`; NaN for a class still unknown
    models: list[Model]
    versions: npt.NDArray[np.int64]  # see `DecisionRecord`
    duplicates: list[bool]
    sources: list[int]

    def __len__(self) -> int:
        return len(self.devices)

    def select(self, rows: list[int]) -> Decisions:
        """Return the decisions at these positions, in this order."""
        columns = {}
        for each in fields(self):
            column = getattr(self, each.name)
            if each.name != "classes":
                column = column[rows] if isinstance(column, np.ndarray) else _select(column, rows)
            columns[each.name] = column
        return Decisions(**columns)

    def without_duplicates(self) -> Decisions:
        """Return the decisions on readings that came for the first time."""
        if True not in self.duplicates:
            return self
        return self.select([k for k, again in enumerate(self.duplicates) if not again])

    def labels(self) -> list[Label | None]:
        """Return the label of each decision, accepted or not."""
        return [self.classes[c] if c >= 0 else None for c in self.codes.tolist()]

    def records(self) -> list[DecisionRecord]:
        """Return each decision as a record."""
        names = [label_text(label) for label in self.classes]
        columns = zip(
            self.devices,
            self.labels(),
            self.accepted.tolist(),
            self.reasons,
            self.outliers_by,
            self.certainties.tolist(),
            self.thresholds.tolist(),
            self.novelties.tolist(),
            self.probabilities.tolist(),
            self.times,
            self.sequences,
            self.models,
            self.versions.tolist(),
            self.duplicates,
            strict=True,
        )
        return [
            DecisionRecord(
                device=device,
                label=label,
                accepted=accepted,
                reason=reason,
                outlier_by=outlier_by,
                certainty=certainty,
                threshold=threshold if math.isfinite(threshold) else None,
                novelty=None if math.isnan(novelty) else novelty,
                probabilities={n: p for n, p in zip(names, row, strict=True) if p == p},
                t=t,
                sequence=sequence,
                model=model,
                version=version,
                duplicate=duplicate,
            )
            for (
                device,
                label,
                accepted,
                reason,
                outlier_by,
                certainty,
                threshold,
                novelty,
                row,
                t,
                sequence,
                model,
                version,
                duplicate,
            ) in columns
        ]


def label_text(label: Label) -> str:
    """Return a label as text, for JSON keys and topics."""
    return label if isinstance(label, str) else str(label)
