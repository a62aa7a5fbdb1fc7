"""What a configuration may say: every key, its type, its default.

What each key means is said in `streamlvq.config.words`, what may stand together in
`streamlvq.config.checks`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Section(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of the sections of a configuration."""


class Tls(Section):
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


class Broker(Section):
    url: str = "mqtt://localhost:1883"
    client_id: str = "streamlvq"
    protocol: Literal["5", "3.1.1"] = "5"
    username: str | None = None
    password_env: str | None = None
    password_file: str | None = None
    tls: Tls | None = None
    keepalive_seconds: int = 60
    session_expiry_seconds: int = 604_800
    receive_maximum: int = 1000
    max_payload_bytes: int = 262_144
    connect_timeout_seconds: float = 10.0
    reconnect_max_seconds: float = 60.0
    outgoing_limit: int = 10_000
    fast_receive: bool = True


class Fields(Section):
    """Where in a payload (or in which columns of a file) things are; nested keys by path."""

    format: Literal["json", "json_array", "msgpack", "float32"] = "json"
    columns: list[str] | None = None  # of json_array and float32
    features: list[str] | None = None  # None: every number that is nothing else
    label: str | None = None
    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns", "iso"] = "s"
    sequence: str | None = None
    device: str | None = None  # None: from the topic


class ReadingsSection(Fields):
    topic: str = "sensors/{device}/readings"
    qos: Literal[0, 1] = 1


class LabelsSection(Section):
    topic: str
    qos: Literal[0, 1] = 1
    format: Literal["json", "msgpack"] = "json"
    label: str = "label"
    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns", "iso"] = "s"
    sequence: str | None = None
    device: str | None = None
    wait: int = 10_000  # readings remembered until their label comes


class ModelSection(Section):
    type: str = "LGMLVQ"
    per: str = "all"  # "all", "device", or a placeholder of the readings' topic
    parameters: dict[str, Any] = {}
    limit: int = 1000  # models
    max_features: int = 4096
    max_classes: int = 256


class IntegratorSection(Section):
    window: int = 5
    max_gap: float | None = None
    max_devices: int = 100_000


class RejectorSection(Section):
    type: Literal["relsim", "probability"] = "relsim"
    threshold: float | dict[str, float] | None = None
    target_rate: float | None = None
    target_accuracy: float | None = None
    reject_cost: float | None = None
    memory: int = 1000
    per_class: bool = False


class DecisionsSection(Section):
    topic: str | None = "sensors/{device}/decision"
    qos: Literal[0, 1] = 0
    retain: bool = False
    when: Literal["always", "change", "rejection"] = "always"
    file: str | None = None


class StateSection(Section):
    folder: str = "state"
    snapshot_seconds: float = 60.0
    keep: int = 5
    journal: Literal["auto", "always", "never"] = "auto"  # auto: with QoS 1
    sync: bool = True
    duplicates: int = 65_536  # keys remembered


class StatusSection(Section):
    topic: str | None = "streamlvq/{client_id}/status"
    dead_letters: str | None = "streamlvq/{client_id}/dead"
    home_assistant: str | None = None  # prefix of discovery topics


class HealthSection(Section):
    host: str = "127.0.0.1"
    port: int | None = None  # None: no HTTP server
    silence_seconds: float = 300.0
    snapshot_age_seconds: float = 600.0
    max_devices: int = 100  # with metrics of their own


class ShardSection(Section):
    index: int = 0
    count: int = 1


class LoggingSection(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(Section):
    broker: Broker = Broker()
    readings: ReadingsSection = ReadingsSection()
    labels: LabelsSection | None = None
    model: ModelSection = ModelSection()
    integrator: IntegratorSection | None = None
    rejector: RejectorSection | None = None
    decisions: DecisionsSection = DecisionsSection()
    state: StateSection = StateSection()
    status: StatusSection = StatusSection()
    health: HealthSection = HealthSection()
    shard: ShardSection = ShardSection()
    logging: LoggingSection = LoggingSection()
