"""Configurations: what they may say, read from YAML and checked."""

from __future__ import annotations

from streamlvq.config.schema import (
    Broker,
    Config,
    DecisionsSection,
    Fields,
    HealthSection,
    IntegratorSection,
    LabelsSection,
    LoggingSection,
    ModelSection,
    ReadingsSection,
    RejectorSection,
    ShardSection,
    StateSection,
    StatusSection,
    Tls,
)

__all__ = [
    "Broker",
    "Config",
    "DecisionsSection",
    "Fields",
    "HealthSection",
    "IntegratorSection",
    "LabelsSection",
    "LoggingSection",
    "ModelSection",
    "ReadingsSection",
    "RejectorSection",
    "ShardSection",
    "StateSection",
    "StatusSection",
    "Tls",
]
