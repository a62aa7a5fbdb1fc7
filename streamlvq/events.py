"""What flows through a monitor: readings and late labels in, decisions out, many at a time.

Readings travel in columns, because looking at each by itself would cost more than deciding on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Label, Rows

Hint = Literal["iso_time"]  # a likely cause: times are texts, but `time_unit` says numbers
Model = Literal["local", "fused"]  # who decides: the model that learns here, or the fleet's

UNNAMED_DEVICE = "device"  # the device of readings that name none
NO_KEY = 0  # of a reading that cannot come twice


class DedupWindow(IntEnum):
    """Among how many of the last readings an equal key means an equal reading."""

    NONE = 0  # no number and no time: a sensor at rest may well say the same thing again
    RECENT = 100  # nobody should say a number or a time twice, but counters and clocks start over
    ALL = 2**62  # the broker says that it delivers it again, or it has both a number and a time


@dataclass(slots=True)
class Readings:
    """Consecutive readings with the same features; all lists are as long as `rows`.

    Parameters
    ----------
    features
        The names of the columns of `rows`, distinct.
    rows
        A row for each reading: finite numbers of ordinary size, NaN where one is missing.
    devices
        Where each comes from.
    groups
        The name of the model that each belongs to; "" for the one that all share.
    labels
        The class of each, None where it is not known (yet).
    times
        When each was taken, in seconds since 1970; None where nobody says.
    sequences
        The number that the device gave it; None where it gave none.
    keys
        64 bits (signed) that tell a reading from all others, to recognise one that comes twice;
        NO_KEY: it cannot come twice, as in a file.
    dedup_windows
        For how long an equal key means an equal reading, as `DedupWindow`.
    sources
        The index of the message that each came from, in the batch that was decoded.

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
        """Make readings from the columns that are known, with defaults for the others.

        By default all readings come from one device, share one model, have neither label, time nor
        sequence number and cannot come twice.

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
        table = np.asarray(rows, dtype=np.float64)
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
            groups=column("groups", groups, ""),
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
        """Some of them, in this order."""
        columns = {name: _select(getattr(self, name), which) for name in _COLUMNS}
        return Readings(features=self.features, rows=self.rows[which], **columns)


_COLUMNS = tuple(field.name for field in fields(Readings) if field.name not in {"features", "rows"})


def _select(column: list[Any], which: slice | list[int]) -> list[Any]:
    return column[which] if isinstance(which, slice) else [column[k] for k in which]


class LateLabel(NamedTuple):
    """A label that comes by itself, for a reading of before.

    It names the reading by `sequence` or, if that is None, by `t`.
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
    """A message nothing can be learnt from."""

    source: int  # its index in the batch that was decoded
    reason: str  # one of REFUSAL_REASONS, to count by
    text: str  # what was expected and what came
    about: str = ""  # what was expected, without values: tells problems with one reason apart
    hint: Hint | None = None  # what is probably wrong with the configuration


def internal_error(source: int, error: Exception) -> Refused:
    """A message that brought out a defect of ours."""
    text = f"a defect of streamlvq, please report it: {type(error).__name__}: {error}"
    return Refused(source, "failure", text, type(error).__name__)


REFUSAL_REASONS = (
    "topic",  # no template matches
    "payload",  # not what the format says, or too large
    "field",  # a field is missing or of the wrong type
    "value",  # a number that is none: infinite, or absurdly large
    "device",  # no usable name
    "label",  # late, and no reading is known that it belongs to
    "model",  # more models, features or classes than allowed
    "failure",  # a defect of ours: the text says which
)

Event = Readings | LateLabel


class DecisionRecord(msgspec.Struct, kw_only=True, omit_defaults=False):
    """One decision as it is published and written to files."""

    device: str
    label: Label | None  # also when it is not accepted; None if nothing was learnt yet
    accepted: bool
    reason: str | None  # why not: ambiguous, outlier, no_model
    certainty: float
    threshold: float | None  # None: nothing is certain enough yet
    probabilities: dict[str, float]
    t: float | None
    sequence: int | None
    model: Model
    version: int  # local: labelled samples learnt by then; fused: n for the n-th one that came
    duplicate: bool = False  # the reading came before; it was not learnt again


@dataclass(slots=True)
class Decisions:
    """The decisions on consecutive readings, in columns; `truths` are labels that came along."""

    classes: tuple[Label, ...]
    devices: list[str]
    groups: list[str]
    times: list[float | None]
    sequences: list[int | None]
    truths: list[Label | None]
    codes: npt.NDArray[np.int64]  # of the label in `classes`; -1 if nothing was learnt yet
    certainties: npt.NDArray[np.float64]
    thresholds: npt.NDArray[np.float64]
    accepted: npt.NDArray[np.bool_]
    reasons: list[str | None]
    probabilities: Rows  # a column for each of `classes`; NaN for one that was unknown then
    models: list[Model]
    versions: npt.NDArray[np.int64]  # see `DecisionRecord`
    duplicates: list[bool]
    sources: list[int]

    def __len__(self) -> int:
        return len(self.devices)

    def labels(self) -> list[Label | None]:
        """The label of each decision, accepted or not."""
        return [self.classes[c] if c >= 0 else None for c in self.codes.tolist()]

    def records(self) -> list[DecisionRecord]:
        """Each decision by itself."""
        names = [label_text(label) for label in self.classes]
        columns = zip(
            self.devices,
            self.labels(),
            self.accepted.tolist(),
            self.reasons,
            self.certainties.tolist(),
            self.thresholds.tolist(),
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
                certainty=certainty,
                threshold=threshold if math.isfinite(threshold) else None,
                probabilities={n: p for n, p in zip(names, row, strict=True) if p == p},
                t=t,
                sequence=sequence,
                model=model,
                version=version,
                duplicate=again,
            )
            for (
                device,
                label,
                accepted,
                reason,
                certainty,
                threshold,
                row,
                t,
                sequence,
                model,
                version,
                again,
            ) in columns
        ]


def label_text(label: Label) -> str:
    """A label as a key of JSON and of topics."""
    return label if isinstance(label, str) else str(label)
