"""`hide`: a map of private features from a recorded log, and what can still be guessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import yaml

from streamlvq.config import Config
from streamlvq.errors import StreamLVQError
from streamlvq.events import Readings
from streamlvq.privacy import Leakage, PrivateMap, leakage
from streamlvq.replay.report import explain_empty
from streamlvq.replay.run import LogReader
from streamlvq.replay.statistics import Statistics
from streamlvq.replay.training import arranged, read_events
from streamlvq.text import entry, number
from streamlvq.wrappers.feature_transform import Transform


@dataclass(frozen=True)
class Hidden:
    """A map of private features, and how well they are guessed without and with it.

    Parameters
    ----------
    hiding
        The map.
    before, after
        How well each private feature is guessed from the others as they are, and from what the map
        leaves of them.
    readings
        Number of readings of the log.

    """

    hiding: PrivateMap
    before: Sequence[Leakage]
    after: Sequence[Leakage]
    readings: int

    def summary(self) -> str:
        """Return the result as text."""
        lines = [entry("readings", number(self.readings))]
        lines += [entry("as they are", each.sentence) for each in self.before]
        for each in self.after:
            lines.append(entry("mapped", each.sentence))
            if each.is_guessed:
                lines.append(entry("warning", f"{each.private} is not hidden from {each.guesser}"))
        return "\n".join(lines)

    def section(self) -> str:
        """Return the map as a section of a configuration, in YAML."""
        plain = {"model": {"private": self.hiding.to_dict()}}
        text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
        return text


def hide(
    log: str | Path,
    config: Config,
    private: Sequence[str],
    *,
    format: str | None = None,
    limit: int | None = None,
    progress: bool | None = None,
) -> Hidden:
    """Fit a map of private features to a log, behind the configured `model.transform`.

    Parameters
    ----------
    log
        File to read, which is held in memory.
    config
        Configuration of the monitor; its own map of private features is not used.
    private
        Names of the private features.
    format
        Kind of log; None to detect it.
    limit
        Number of readings to stop after; None for all.
    progress
        Whether to show a progress bar; None to show it in a terminal only.

    """
    config = msgspec.structs.replace(
        config, model=msgspec.structs.replace(config.model, private=None)
    )
    feed, refused = LogReader(log, config, format, limit), Statistics()
    events = read_events(feed, refused, progress)
    readings = [event for event in events if isinstance(event, Readings)]
    if not any(map(len, readings)):
        why = explain_empty(refused.refused, refused.examples, feed.notes, refused.hints)
        raise StreamLVQError(f"{log}: expected readings, got none: {why}")
    names = list(dict.fromkeys(name for one in readings for name in one.features))
    if text := [name for name in private if name not in names and name in feed.left_out]:
        raise StreamLVQError(f"{log}: {text[0]!r} is text: give a column of 0 and 1 for each value")
    rows = np.concatenate([arranged(one, names) for one in readings])
    if config.model.transform is not None:
        changed = [name for name in names if name not in set(private)]
        transform = Transform(config.model.transform, changed)
        bad = transform.refusals(rows, names)
        rows = transform.rows(np.delete(rows, [*bad], axis=0), names)
    try:
        hiding = PrivateMap.fit(rows, private, names)
        before = leakage(rows, private, features=names)
        after = leakage(rows, private, hiding=hiding, features=names)
    except ValueError as error:
        raise StreamLVQError(f"{log}: {error}") from error
    return Hidden(hiding, before, after, len(rows))
