"""`Privacy`: what is protected, how well, and what is public."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

from streamlvq.arrays import Label
from streamlvq.errors import ParameterError

UNITS = ("reading", "segment")
UNPROTECTED = {
    "device": "a device sends for ever, and what it sends adds up without end",
    "node": "a node sends for ever, and what it sends adds up without end",
    "user": "a user's readings come at any time and in any number",
    "person": "a person's readings come at any time and in any number",
    "batch": "a batch belongs to nobody; name the longest segment of readings that belong together",
}
MAX_BATCH = 2**16  # sums of integers stay exact in floats
MAX_EPSILON, MAX_DELTA = 64.0, 0.1
MAX_HALF_LIFE = 10_000.0
LEAST_RANGE, LARGEST_BOUND = 1e-50, 1e50


@dataclass(frozen=True)
class Privacy:
    """A promise: what is protected, how well, and what everybody may know.

    The promise holds for the whole stream, not for each release: whoever sees everything that was
    ever released learns of one unit at most what (epsilon, delta) allows.

    Parameters
    ----------
    epsilon
        How much more likely any outcome may become by one unit, as a logarithm. 1 is usual.
    delta
        Probability that the promise fails; far below one in the number of readings.
    unit
        `"reading"`, or `"segment"`: up to `segment` labelled readings that follow each other.
    bounds
        Lowest and highest value of each feature. Public: from a data sheet, never from the
        readings. Other values are moved to the nearest bound.
    classes
        All classes. Public; readings of others are refused.
    half_life
        Number of batches after which a reading counts half. None never forgets, and then `horizon`
        says how many batches there may be.
    batch
        Labelled readings in a batch, each of which is one release.
    warmup
        Labelled readings before the first model, which are one release together. A horizon limits
        them to half of what it allows.
    scale_batch
        Labelled readings before those: they give the scale of each feature, in one release.
    segment
        Longest number of labelled readings in a segment.
    horizon
        Number of batches after which learning ends. None: as good as never (2**24).

    Examples
    --------

    >>> from streamlvq.privacy import Privacy

    >>> bounds = {"rms": (0, 2), "temperature": (0, 120)}
    >>> privacy = Privacy(1.0, bounds=bounds, classes=["ok", "worn"])
    >>> privacy.epsilon, privacy.delta, privacy.unit, privacy.features
    (1.0, 1e-05, 'reading', ('rms', 'temperature'))
    >>> Privacy(1.0, unit="device", bounds=bounds, classes=["ok", "worn"])
    Traceback (most recent call last):
    ...
    streamlvq.errors.ParameterError: Privacy(unit=...): expected one of reading, segment, got
    'device': a device sends for ever, and what it sends adds up without end

    """

    epsilon: float
    delta: float = 1e-5
    unit: str = "reading"
    bounds: Mapping[Hashable, tuple[float, float]] = field(kw_only=True)
    classes: Sequence[Label] = field(kw_only=True)
    half_life: float | None = 50.0
    batch: int = 256
    warmup: int = 4096
    scale_batch: int = 512
    segment: int | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        self._check_budget()
        self._check_unit()
        object.__setattr__(self, "bounds", MappingProxyType(_checked_bounds(self.bounds)))
        object.__setattr__(self, "classes", _checked_classes(self.classes))
        for name, least in (("batch", 1), ("warmup", 1), ("scale_batch", 2)):
            self._check_whole(name, least, MAX_BATCH)
        if self.horizon is not None:
            self._check_whole("horizon", 1, 2**24)
        if self.half_life is None:
            if self.horizon is None:
                raise _refusal(
                    "horizon", "expected a number of batches where half_life is None, got None"
                )
        elif not (_is_number(self.half_life) and 0.1 <= self.half_life <= MAX_HALF_LIFE):
            raise _refusal(
                "half_life",
                f"expected 0.1 to {MAX_HALF_LIFE:g} batches or None, got {self.half_life!r}",
            )

    def _check_budget(self) -> None:
        for name, most in (("epsilon", MAX_EPSILON), ("delta", MAX_DELTA)):
            value = getattr(self, name)
            if not (_is_number(value) and 0.0 < value <= most):
                raise _refusal(name, f"expected a number above 0 and up to {most:g}, got {value!r}")

    def _check_unit(self) -> None:
        if self.unit not in UNITS:
            reason = UNPROTECTED.get(self.unit, "") if isinstance(self.unit, str) else ""
            why = f": {reason}" if reason else ""
            raise _refusal("unit", f"expected one of {', '.join(UNITS)}, got {self.unit!r}{why}")
        if self.unit == "segment":
            self._check_whole("segment", 1, MAX_BATCH)
        elif self.segment is not None:
            raise _refusal(
                "segment", f"expected None where the unit is a reading, got {self.segment!r}"
            )

    def _check_whole(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise _refusal(name, f"expected a whole number from {least} to {most}, got {value!r}")

    @property
    def features(self) -> tuple[Hashable, ...]:
        """Features, in the order of their bounds."""
        return tuple(self.bounds)

    @property
    def forget(self) -> float:
        """Share of a batch that counts one batch later."""
        return 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)

    @property
    def longest(self) -> int:
        """Largest number of labelled readings that belong to one unit."""
        return 1 if self.segment is None else self.segment

    def as_mapping(self) -> dict[str, Any]:
        """Return the fields as plain lists, numbers and text, without those left at their defaults.

        Examples
        --------
        >>> Privacy(2.0, bounds={"rms": (0, 2)}, classes=["ok", "worn"]).as_mapping()
        {'epsilon': 2.0, 'bounds': {'rms': [0.0, 2.0]}, 'classes': ['ok', 'worn']}

        """
        plain: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "bounds":
                plain["bounds"] = {name: list(pair) for name, pair in self.bounds.items()}
            elif each.name == "classes":
                plain["classes"] = list(self.classes)
            elif value != each.default:
                plain[each.name] = value
        return plain

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Build from plain values, such as a section of a YAML file.

        Examples
        --------
        >>> text = "{epsilon: 1, bounds: {rms: [0, 2]}, classes: [ok, worn], half_life: 20}"
        >>> import yaml
        >>> Privacy.from_mapping(yaml.safe_load(text)).half_life
        20

        """
        known = {each.name for each in fields(cls)}
        if not isinstance(mapping, Mapping) or not known >= set(mapping):
            unknown = sorted(map(str, set(mapping) - known)) if mapping else mapping
            raise _refusal(None, f"expected {', '.join(sorted(known))}, got {unknown!r}")
        for each in fields(cls):
            if each.default is MISSING and each.name not in mapping:
                raise _refusal(each.name, "expected a value, got none")
        return cls(**mapping)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "bounds": dict(self.bounds)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, MappingProxyType(value) if name == "bounds" else value)

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, self.unit, self.features, self.classes))


def _refusal(parameter: str | None, message: str) -> ParameterError:
    return ParameterError("Privacy", parameter, message)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _checked_bounds(bounds: Any) -> dict[Hashable, tuple[float, float]]:
    if not isinstance(bounds, Mapping) or not bounds:
        raise _refusal(
            "bounds",
            "expected the lowest and highest value of each feature, such as {'rms': (0, 2)} "
            f"(public, not from the readings), got {bounds!r}",
        )
    checked = {}
    for name, pair in bounds.items():
        good = isinstance(pair, Iterable) and not isinstance(pair, str)
        values = list(pair) if good else []
        if len(values) != 2 or not all(map(_is_number, values)) or not values[0] < values[1]:
            raise _refusal(
                "bounds", f"expected (low, high) with low < high for {name!r}, got {pair!r}"
            )
        if max(map(abs, values)) > LARGEST_BOUND:
            raise _refusal(
                "bounds", f"expected numbers up to {LARGEST_BOUND:g} for {name!r}, got {pair!r}"
            )
        if values[1] - values[0] < LEAST_RANGE:
            raise _refusal(
                "bounds",
                f"expected bounds at least {LEAST_RANGE:g} apart for {name!r}, got {pair!r}",
            )
        checked[name] = (float(values[0]), float(values[1]))
    return checked


def _checked_classes(classes: Any) -> tuple[Label, ...]:
    good = isinstance(classes, Iterable) and not isinstance(classes, str)
    labels = tuple(classes) if good else ()
    if len(labels) < 2 or len(set(labels)) < len(labels) or None in labels:
        raise _refusal(
            "classes",
            "expected at least two different labels (public, not from the readings), got "
            f"{classes!r}",
        )
    return labels
