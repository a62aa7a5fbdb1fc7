"""Checks of what a section `privacy` does not allow, each with its reason.

Only releases may reach others, and what decides must not change with single readings. So names are
public lists, thresholds are fixed, and nothing that was measured on readings is published.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamlvq.config.errors import Problem
from streamlvq.config.schema import PRIVATE_MODEL, Config

_ADAPTIVE = ("target_rate", "target_accuracy", "reject_cost")


def model(config: Config) -> Iterator[Problem]:
    """Check that the model is a private one that starts from nothing."""
    section, privacy = config.model, config.privacy
    if privacy is None:
        return
    if section.type != PRIVATE_MODEL:
        yield _wrong(
            "model.type",
            f"expected {PRIVATE_MODEL} with privacy, got {section.type}, which keeps readings",
        )
    if section.per != "all":
        yield _wrong(
            "model.per",
            f"expected all with privacy, got {section.per!r}: one ledger accounts for one model; "
            "run a daemon for each",
        )
    if section.transform is not None:
        yield _wrong(
            "model.transform",
            f"expected none with privacy, got {section.transform!r}: privacy.bounds are in the "
            "units of the sensors",
        )
    if section.private is not None:
        yield _wrong(
            "model.private",
            "expected none with privacy, got a map: privacy.bounds are in the units of the "
            "sensors; leave private features out of readings.features",
        )
    if section.start is not None:
        yield _wrong(
            "model.start",
            f"expected none with privacy, got {section.start!r}: what it was trained on would be "
            "published without protection",
        )


def names(config: Config) -> Iterator[Problem]:
    """Check that features and classes are the public lists."""
    privacy, readings = config.privacy, config.readings
    if privacy is None:
        return
    public = list(privacy.bounds)
    if readings.features is not None:
        key, features = "features", readings.features
    else:
        roles = (readings.label, readings.time, readings.sequence, readings.device)
        key, features = "columns", [n for n in readings.columns or () if n not in roles]
    if not features:
        yield _wrong(
            "readings.features",
            f"expected the features of privacy.bounds ({', '.join(public)}): which fields come "
            "must not decide what is learnt",
        )
    elif surplus := [name for name in features if name not in public]:
        yield _wrong(
            f"readings.{key}",
            f"expected features of privacy.bounds ({', '.join(public)}), got {surplus[0]!r} too: "
            "without bounds it cannot be protected",
        )
    elif missing := [name for name in public if name not in features]:
        yield _wrong(
            "privacy.bounds",
            f"expected features of readings.{key} ({', '.join(features)}), got {missing[0]!r}, "
            "which no reading has",
        )
    if len(privacy.classes) > config.model.max_classes:
        yield _wrong(
            "model.max_classes",
            f"expected at least as many as privacy.classes ({len(privacy.classes)}), "
            f"got {config.model.max_classes}",
        )


def duplicates(config: Config) -> Iterator[Problem]:
    """Check that a reading that comes twice is recognised: released twice, it would cost twice."""
    if config.privacy is None:
        return
    if config.readings.sequence is None and config.readings.time is None:
        yield _wrong(
            "readings.sequence",
            "expected a field with privacy, or readings.time: without either, a reading that is "
            "delivered twice counts as two, and epsilon is for one",
        )


def wrappers(config: Config) -> Iterator[Problem]:
    """Check that thresholds and windows do not adapt to readings."""
    if config.privacy is None:
        return
    integrator, rejector = config.integrator, config.rejector
    if integrator is not None and integrator.window == "adaptive":
        yield _wrong(
            "integrator.window",
            "expected a number of readings with privacy, got adaptive, which learns from labels "
            "what no release says",
        )
    if rejector is None:
        return
    for name in _ADAPTIVE:
        if getattr(rejector, name) is not None:
            yield _wrong(
                f"rejector.{name}",
                "expected a fixed threshold with privacy (rejector.threshold): this one adapts to "
                "single readings",
            )
    if rejector.novelty_rate is not None:
        yield _wrong(
            "rejector.novelty_rate",
            f"expected null with privacy, got {rejector.novelty_rate:g}: how new a reading is "
            "would be measured by stored ones",
        )


def state(config: Config) -> Iterator[Problem]:
    """Check that a crash cannot separate releases from the readings that they were made of."""
    if config.privacy is None:
        return
    section = config.state
    late = config.labels is not None and config.labels.qos == 0
    unsure = section.journal == "auto" and (config.readings.qos == 0 or late)
    if section.journal == "never" or unsure:
        yield _wrong(
            "state.journal",
            f"expected always with privacy, got {section.journal}: after a crash, releases are "
            "taken from the ledger and belong to the readings in the journal",
        )
    if not section.sync:
        yield _wrong(
            "state.sync",
            "expected true with privacy, got false: the journal must not lose readings whose "
            "release the ledger has",
        )


def fleet(config: Config) -> Iterator[Problem]:
    """Check that a node publishes nothing but releases."""
    section = config.fleet
    if config.privacy is None or section is None:
        return
    if section.role == "hub":
        yield Problem(("privacy",), "expected none with fleet.role: hub, which has no readings")
    elif section.serve == "both":
        yield _wrong(
            "fleet.serve",
            "expected fused or local with privacy, got both: the weights of a pool and its losses "
            "are measured on this node's readings, and published",
        )


def _wrong(key: str, message: str) -> Problem:
    return Problem(tuple(key.split(".")), message)
