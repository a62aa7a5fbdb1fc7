"""Configurations: their schema, read from YAML and checked."""

from __future__ import annotations

from streamlvq.config.build import build_classifier
from streamlvq.config.check_broker import Address, broker_address, broker_password
from streamlvq.config.checks import check
from streamlvq.config.documents import describe, minimal_sample, sample
from streamlvq.config.errors import ConfigError, Problem
from streamlvq.config.fleet_topics import FleetTopics
from streamlvq.config.load import load, loads
from streamlvq.config.schema import (
    Broker,
    Config,
    DecisionsSection,
    Fields,
    FleetSection,
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
    "Address",
    "Broker",
    "Config",
    "ConfigError",
    "DecisionsSection",
    "Fields",
    "FleetSection",
    "FleetTopics",
    "HealthSection",
    "IntegratorSection",
    "LabelsSection",
    "LoggingSection",
    "ModelSection",
    "Problem",
    "ReadingsSection",
    "RejectorSection",
    "ShardSection",
    "StateSection",
    "StatusSection",
    "Tls",
    "broker_address",
    "broker_password",
    "build_classifier",
    "check",
    "describe",
    "load",
    "loads",
    "minimal_sample",
    "sample",
]
