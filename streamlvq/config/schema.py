"""The schema of a configuration: every key, its type, range and default.

`streamlvq.config.words` describes each key, `streamlvq.config.checks` checks them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from streamlvq.registry import AGGREGATORS, CORRECTIONS, FORMATS

# Parameters of models and wrappers that decide how long a reading takes or how much memory is asked
# for. Snapshots hold no more than that either: a state that works can be kept.
MOST = {
    "rehearsal": 10_000,
    "buffer_size": 100_000_000,
    "memory": 1_000_000,
    "window": 100_000,
    "max_devices": 100_000_000,
}
MOST_MODELS = 10_000  # the format of snapshots has room for the names of so many models' arrays

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
TimeUnit = Literal["s", "ms", "us", "ns", "iso"]
Qos = Literal[0, 1]
if TYPE_CHECKING:
    Drift = str
    AggregatorName = str
    FormatName = str
else:  # whatever is registered when this module is imported
    Drift = Literal["auto", *CORRECTIONS]
    AggregatorName = Literal[(*AGGREGATORS,)]
    FormatName = Literal[(*FORMATS,)]


class Section(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Base of the sections of a configuration."""


class Tls(Section, kw_only=True, frozen=True):
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True


class Broker(Section, kw_only=True, frozen=True):
    url: str = "mqtt://localhost:1883"
    client_id: str = "streamlvq"
    protocol: Literal["5", "3.1.1"] = "5"
    username: str | None = None
    password_env: str | None = None
    password_file: str | None = None
    tls: Tls | None = None
    keepalive_seconds: Annotated[int, Meta(ge=1, le=65_535)] = 60
    session_expiry_seconds: Annotated[int, Meta(ge=0, le=4_294_967_295)] = 604_800
    receive_maximum: Annotated[int, Meta(ge=1, le=65_535)] = 1000
    max_payload_bytes: Annotated[int, Meta(ge=1, le=268_435_455)] = 262_144
    connect_timeout_seconds: Annotated[float, Meta(gt=0, le=30)] = 10.0  # the watchdog waits
    reconnect_max_seconds: Seconds = 60.0
    outgoing_limit: Count = 10_000
    fast_receive: bool = True


class Fields(Section, kw_only=True, frozen=True):
    """Where a payload (or the columns of a file) holds label, time and so on; nested by path."""

    format: FormatName = "json"
    columns: list[str] | None = None  # of json_array and float32
    features: list[str] | None = None  # None: every number that is nothing else
    label: str | None = None
    time: str | None = None
    time_unit: TimeUnit = "s"
    sequence: str | None = None
    device: str | None = None  # None: from the topic


class ReadingsSection(Fields, kw_only=True, frozen=True):
    topic: str = "sensors/{device}/readings"
    qos: Qos = 1


class LabelsSection(Section, kw_only=True, frozen=True):
    topic: str
    qos: Qos = 1
    format: Literal["json", "msgpack"] = "json"
    label: str = "label"
    time: str | None = None
    time_unit: TimeUnit = "s"
    sequence: str | None = None
    device: str | None = None
    wait: Count = 10_000  # readings remembered until their label comes


class ModelSection(Section, kw_only=True, frozen=True):
    type: str = "LGMLVQ"
    per: str = "all"  # "all", "device", or a placeholder of the readings' topic
    parameters: dict[str, Any] = {}
    transform: Literal["log", "log1p", "sqrt", "asinh"] | None = None  # what the model sees
    start: str | None = None  # a snapshot to begin with
    limit: Annotated[int, Meta(ge=1, le=MOST_MODELS)] = 1000
    max_features: Count = 4096
    max_classes: Annotated[int, Meta(ge=2, le=1_000_000_000)] = 256


class IntegratorSection(Section, kw_only=True, frozen=True):
    window: Annotated[int, Meta(ge=1, le=MOST["window"])] = 5
    max_gap: Seconds | None = None
    max_devices: Annotated[int, Meta(ge=1, le=MOST["max_devices"])] = 100_000


class RejectorSection(Section, kw_only=True, frozen=True):
    type: Literal["relsim", "probability"] = "relsim"
    threshold: Share | dict[str, Share] | None = None
    target_rate: Share | None = None
    target_accuracy: Share | None = None
    reject_cost: Share | None = None
    memory: Annotated[int, Meta(ge=1, le=MOST["memory"])] = 1000
    per_class: bool = False


class DecisionsSection(Section, kw_only=True, frozen=True):
    topic: str | None = "sensors/{device}/decision"
    qos: Qos = 0
    retain: bool = False
    when: Literal["always", "change", "rejection"] = "always"
    file: str | None = None


class StateSection(Section, kw_only=True, frozen=True):
    folder: str = "state"
    snapshot_seconds: Seconds = 60.0
    keep: Annotated[int, Meta(ge=1, le=100_000)] = 5
    journal: Literal["auto", "always", "never"] = "auto"  # auto: with QoS 1
    sync: bool = True
    duplicates: Count = 65_536  # keys remembered


class StatusSection(Section, kw_only=True, frozen=True):
    topic: str | None = "streamlvq/{client_id}/status"
    dead_letters: str | None = "streamlvq/{client_id}/dead"
    home_assistant: str | None = None  # prefix of discovery topics


class HealthSection(Section, kw_only=True, frozen=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None  # None: no HTTP server; 0: any port
    silence_seconds: Seconds = 300.0
    snapshot_age_seconds: Seconds = 600.0
    max_devices: Annotated[int, Meta(ge=0, le=1_000_000)] = 100  # with metrics of their own


class ShardSection(Section, kw_only=True, frozen=True):
    index: Annotated[int, Meta(ge=0, le=65_534)] = 0
    count: Annotated[int, Meta(ge=1, le=65_535)] = 1


class FleetSection(Section, kw_only=True, frozen=True):
    name: str
    trust: str  # "everyone", or the file of the keys that are trusted
    role: Literal["peer", "hub", "member"] = "peer"
    node: str | None = None  # None: broker.client_id
    hub: str | None = None  # whose models a member takes
    key_file: str | None = None
    serve: Literal["fused", "local", "better"] = "fused"
    topic_prefix: str = "streamlvq"
    publish_seconds: Seconds = 300.0
    publish_after: Count = 200
    publish_pause_seconds: Seconds = 10.0
    min_samples: Count = 20
    fuse_seconds: Seconds = 2.0
    max_age_seconds: Seconds = 604_800.0
    max_snapshot_bytes: Annotated[int, Meta(ge=1024, le=67_108_864)] = 1_048_576
    weighting: Literal["samples", "uniform"] = "samples"
    drift: Drift = "auto"
    aggregator: AggregatorName = "mean"


class LoggingSection(Section, kw_only=True, frozen=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Config(Section, kw_only=True, frozen=True):
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
    fleet: FleetSection | None = None
    logging: LoggingSection = LoggingSection()
