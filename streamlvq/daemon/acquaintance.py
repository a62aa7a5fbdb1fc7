"""A model to begin with, and the first readings that it meets: do they speak of the same things?"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from streamlvq.events import Readings
from streamlvq.snapshot import Snapshot

log = logging.getLogger(__name__)

SOON = 10  # readings after which having nothing in common is worth a warning
ENOUGH = 200  # readings after which a feature that has not come will not come
SHOWN = 8  # features that are named


class Acquaintance:
    """Compares the features of `model.start` with those that come, and says once what is amiss.

    Parameters
    ----------
    name
        The file, for people.
    features
        Those of the model.

    Examples
    --------
    >>> met = Acquaintance("first.slvq", ["temperature", "power"])
    >>> met.judgement(), met.count
    (None, 0)

    """

    def __init__(self, name: str, features: Iterable[object]) -> None:
        self.name = name
        self.features = [str(feature) for feature in features]
        self.count = 0
        self._come: dict[str, None] = {}

    def see(self, readings: Readings) -> bool:
        """Look at readings; True when there is no need to see more."""
        self.count += len(readings)
        self._come.update(dict.fromkeys(readings.features))
        text = self.judgement()
        if text is not None:
            log.warning("%s", text)
        missing = [name for name in self.features if name not in self._come]
        return text is not None or not missing or self.count >= ENOUGH

    def judgement(self) -> str | None:
        """What is amiss by now; None if nothing is, or if it is too early to tell."""
        missing = [name for name in self.features if name not in self._come]
        if self.count >= SOON and self.features and len(missing) == len(self.features):
            return (
                f"the readings have no feature in common with {self.name} (model.start): it knows "
                f"{_some(self.features)}, what comes is {_some(list(self._come))}; are "
                "readings.features or the names in the payload others than it was trained with?"
            )
        if self.count >= ENOUGH and missing:
            return (
                f"{len(missing)} of the {len(self.features)} features of {self.name} (model.start) "
                f"have not come in {self.count} readings: {_some(missing)}"
            )
        return None


def introduction(name: str, snapshot: Snapshot) -> str:
    """What a model is, in a few words."""
    numbers = f"{snapshot.samples} samples, {len(snapshot.features)} features"
    return f"{name} ({snapshot.type_name}, {numbers})"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) or "nothing") + more


__all__ = ["Acquaintance", "introduction"]
