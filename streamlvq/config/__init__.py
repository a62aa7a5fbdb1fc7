"""Configurations: their schema, read from YAML and checked."""

from __future__ import annotations

from streamlvq.config.build import build_classifier
from streamlvq.config.check_broker import Address, broker_address, broker_password
from streamlvq.config.documents import describe, minimal_sample, sample
from streamlvq.config.errors import ConfigError, Problem
from streamlvq.config.load import check, load, loads
from streamlvq.config.schema import (
    AdmissionSection,
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
    PrivacySection,
    ReadingsSection,
    RejectorSection,
    ShardSection,
    StateSection,
    StatusSection,
    Tls,
)
from streamlvq.config.topics import FleetTopics

__all__ = [
    "Address",
    "AdmissionSection",
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
    "PrivacySection",
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
