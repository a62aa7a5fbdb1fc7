"""Schema of the configuration: sections, types, ranges, defaults and descriptions of keys.

`streamlvq.config.load` checks what types cannot express.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from streamlvq.registry import AGGREGATORS, CORRECTIONS, FORMATS, MODELS

# --- descriptions of sections and keys -----------------------------------------------------------


class Description(NamedTuple):
    """Meaning of a key, and an example value."""

    meaning: str
    example: Any


_PATHS = "Relative to the working directory of the daemon."

SECTION_DESCRIPTIONS = {
    "broker": ("The MQTT broker: its address, and how to log in."),
    "broker.tls": "How the connection is encrypted; only for URLs that begin with mqtts://.",
    "readings": (
        "The sensor readings: which topics they arrive on, and what their payloads contain."
    ),
    "labels": (
        "Labels that arrive on their own, later than their readings; sequence or time says "
        "which reading a label is for. Leave this section out if there are none."
    ),
    "model": "The model that learns and decides.",
    "privacy": (
        "Learn under differential privacy: everything that other nodes get is made of noisy "
        "releases, with a guarantee. Needs model.type: PrivateLVQ "
        "and lists of features and classes that are public. Leave this section out for none."
    ),
    "admission": (
        "When a model learns features and classes that are new to it. Whoever may publish can "
        "invent some, and each makes a model slower and larger for ever, so they are on probation "
        "until they have come often enough. Until then a reading is decided on and learnt without "
        "its new features; one with a new class is decided on, and learnt when the class is "
        "admitted. Features that readings.features or readings.columns name are admitted at once."
    ),
    "integrator": (
        "Decide on the latest readings of a device together. Leave this section out to decide "
        "on each reading alone."
    ),
    "rejector": (
        "Reject decisions that the model is not certain of: set exactly one of threshold, "
        "target_rate, target_accuracy and reject_cost. Leave this section out to accept every "
        "decision."
    ),
    "decisions": ("Where decisions go."),
    "state": (
        "What is kept on disk, so that nothing is lost when the daemon or the machine stops."
    ),
    "status": ("What the daemon reports about itself through the broker."),
    "health": (
        "What the daemon reports about itself over HTTP: /healthz, and /metrics for Prometheus."
    ),
    "shard": "One of several daemons that share the devices of one topic tree.",
    "fleet": (
        "Several nodes that share what they have learnt, not their readings: each publishes its "
        "model and decides with what all of them know. Leave this section out to work alone."
    ),
    "logging": ("What the daemon logs to standard error."),
}

FORMER_VALUES = {"fleet.serve": {"better": "both"}}  # by key: what to write instead
KEY_DESCRIPTIONS = {
    # --- broker ----------------------------------------------------------------------------------
    "broker.url": Description(
        "Address of the broker: mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS. The port may be "
        "left out (1883, 8883). Must not contain a user name or password.",
        "mqtts://broker.example:8883",
    ),
    "broker.client_id": Description(
        "The client identifier, under which the broker keeps our session. It must stay the same "
        "across restarts, and no other client may use it.",
        "monitor-hall-3",
    ),
    "broker.protocol": Description("MQTT version: 5 or 3.1.1. NATS supports only 3.1.1.", "3.1.1"),
    "broker.username": Description("User name, if the broker requires one.", "monitor"),
    "broker.password_env": Description(
        "The environment variable that holds the password. Never put the password itself here.",
        "MQTT_PASSWORD",
    ),
    "broker.password_file": Description(
        f"The file that holds the password, instead of password_env. {_PATHS}",
        "/etc/streamlvq/password",
    ),
    "broker.tls.ca_file": Description(
        "Certificates of the authorities to trust (PEM), instead of those of the system.",
        "/etc/streamlvq/ca.pem",
    ),
    "broker.tls.cert_file": Description(
        "Client certificate (PEM), if the broker requires one.", "/etc/streamlvq/client.pem"
    ),
    "broker.tls.key_file": Description(
        "Private key of the client certificate (PEM), unless it is in the same file.",
        "/etc/streamlvq/client.key",
    ),
    "broker.tls.verify": Description(
        "Whether to check the broker's certificate and host name. Turn this off only for "
        "experiments.",
        True,
    ),
    "broker.keepalive_seconds": Description(
        "Seconds without traffic after which a ping checks that the connection is alive.", 60
    ),
    "broker.session_expiry_seconds": Description(
        "Seconds that the broker keeps our session, and messages that arrive for it, while we "
        "are disconnected. MQTT 5 only; with 3.1.1 the broker's configuration decides.",
        604_800,
    ),
    "broker.receive_maximum": Description(
        "Unacknowledged QoS 1 messages that the broker may send at a time. MQTT 5 only; with "
        "3.1.1 the broker's configuration decides.",
        1000,
    ),
    "broker.max_payload_bytes": Description(
        "Largest payload that is accepted, in bytes; larger ones are refused. A broker that "
        "speaks MQTT 5 is told, and does not deliver messages that are much larger.",
        262_144,
    ),
    "broker.connect_timeout_seconds": Description(
        "Seconds to wait for the broker to answer before trying again.", 10.0
    ),
    "broker.reconnect_max_seconds": Description(
        "Longest pause between attempts to reconnect, in seconds. Pauses start short and grow "
        "up to this; the attempts never end.",
        60.0,
    ),
    "broker.outgoing_limit": Description(
        "Maximum number of QoS 1 messages that wait for the broker's acknowledgement.", 10_000
    ),
    "broker.fast_receive": Description(
        "Whether to read many messages from the network at once. Turn this off to receive with "
        "plain paho-mqtt, at several times the CPU cost.",
        True,
    ),
    # --- readings --------------------------------------------------------------------------------
    "readings.topic": Description(
        "The topics to subscribe to. A name in braces matches one level, '+' matches one level "
        "without naming it, '#' at the end matches all further levels. {device} is the device "
        "that a reading comes from; all named levels together identify it: leeds/press-4.",
        "plant/{site}/{device}/readings",
    ),
    "readings.qos": Description(
        "1: no reading is lost, some may arrive twice (duplicates are recognised). 0: cheaper, "
        "but readings that arrive while the daemon is down are lost.",
        1,
    ),
    "readings.format": Description(
        f"Format of the payloads: {FORMATS.described()}.",
        "json",
    ),
    "readings.columns": Description(
        "Names of the values in json_array, float32 and msgpack arrays, in order.",
        ["rms", "peak", "label"],
    ),
    "readings.features": Description(
        "The fields that the model sees. A dot leads into an object: vibration.rms; quote a key "
        "that contains a dot itself. Default: every number that is not the label, time, "
        'sequence or device. true is 1, false is 0, and text such as "21.1" is a number.',
        ["vibration.rms", "temperature"],
    ),
    "readings.label": Description(
        "The field that holds the label, in readings that have one. Such readings are learnt at "
        "once.",
        "state",
    ),
    "readings.time": Description(
        "The field that holds the time at which the reading was taken. Default: the time at "
        "which it was received.",
        "t",
    ),
    "readings.time_unit": Description(
        "Unit of the time: s, ms, us or ns since 1970, or iso for text such as "
        "2025-03-01T12:00:00Z only. Such text is read with the other units, too.",
        "ms",
    ),
    "readings.sequence": Description(
        "The field that holds the sequence number given by the device. It distinguishes a "
        "reading that was delivered twice from a new one with the same values. float32 counts "
        "exactly only up to 16777216.",
        "seq",
    ),
    "readings.device": Description(
        "The field that names the device. Default: {device} in the topic.", "machine.id"
    ),
    # --- labels ----------------------------------------------------------------------------------
    "labels.topic": Description(
        "The topics to subscribe to for labels, with the placeholders of readings.topic in any "
        "order. They must not overlap with readings.topic.",
        "sensors/{device}/labels",
    ),
    "labels.qos": Description("As for readings.qos: with 1, no label is lost.", 1),
    "labels.format": Description("Format of the payloads: json or msgpack.", "json"),
    "labels.label": Description("The field that holds the label.", "state"),
    "labels.time": Description(
        "The field that holds the time of the reading that the label is for, exactly as the "
        "reading gave it. Use either this or labels.sequence.",
        "t",
    ),
    "labels.time_unit": Description("Unit of the time, as for readings.time_unit.", "ms"),
    "labels.sequence": Description(
        "The field that holds the sequence number of the reading that the label is for. Use "
        "either this or labels.time; this is more reliable.",
        "seq",
    ),
    "labels.device": Description(
        "The field that names the device. Default: {device} in the topic.", "machine.id"
    ),
    "labels.wait": Description(
        "Maximum number of unlabelled readings, of all devices together, that are remembered "
        "until their label arrives.",
        10_000,
    ),
    # --- model -----------------------------------------------------------------------------------
    "model.type": Description(
        "The model: LGMLVQ is the most accurate single one, LVQCommittee also follows change, "
        f"GLVQ is the fastest. One of {', '.join(MODELS)}; or PrivateLVQ with a section privacy.",
        "GMLVQ",
    ),
    "model.per": Description(
        "all: one model that all devices share. device: one model per device. Or a placeholder "
        "of readings.topic, such as site: one model for each of its values.",
        "site",
    ),
    "model.parameters": Description(
        "Parameters of the model, named as in its Python class.",
        {"rank": 8, "half_life": 20_000},
    ),
    "model.transform": Description(
        "A function applied to every feature before the model sees it. log: for numbers above 0 "
        "and sensors that differ by a gain, which logarithms turn into a shift. log1p: log(1 + "
        "x), for counts. sqrt: for numbers from 0 up. asinh: like log, for numbers of either "
        "sign. Readings with numbers that the function is not defined for are refused. Default: "
        "none.",
        "log",
    ),
    "model.start": Description(
        "The snapshot that every model starts from, such as one written by `streamlvq train`. "
        f"Default: models start empty. What is in state.folder takes precedence. {_PATHS}",
        "first.slvq",
    ),
    "model.limit": Description(
        "Maximum number of models; readings that would need another one are refused.", 1000
    ),
    "model.max_features": Description(
        "Maximum number of features of a model; readings that would add more are refused.", 4096
    ),
    "model.max_classes": Description(
        "Maximum number of classes of a model; labels that would add more are refused.", 256
    ),
    # --- privacy ---------------------------------------------------------------------------------
    "privacy.epsilon": Description(
        "How much more likely any outcome may become by one unit, as a logarithm, however long the "
        "stream is. 1 is usual, 4 is weak; there is no default.",
        1.0,
    ),
    "privacy.delta": Description(
        "Probability that the guarantee fails; far below one in the number of readings.", 1e-5
    ),
    "privacy.unit": Description(
        "What is protected: each reading, or each segment of labelled readings that follow each "
        "other, such as those of one person.",
        "segment",
    ),
    "privacy.segment": Description("Longest number of labelled readings in a segment.", 20),
    "privacy.bounds": Description(
        "Lowest and highest value of each feature, which are those of readings.features. Public: "
        "from a data sheet, never from the readings. Other values are moved to the nearest bound.",
        {"rms": [0.0, 2.0], "temperature": [0.0, 120.0]},
    ),
    "privacy.classes": Description(
        "All classes. Public; readings with other labels are refused.", ["ok", "worn"]
    ),
    "privacy.metric": Description(
        "shared: one metric for all classes. local: one for each, which pays from epsilon 4 or "
        "40000 readings on.",
        "local",
    ),
    "privacy.half_life": Description(
        "Number of batches after which a reading counts half. null: nothing is forgotten; then "
        "horizon says how many batches there may be.",
        50.0,
    ),
    "privacy.batch": Description("Labelled readings in a batch; each batch is one release.", 256),
    "privacy.warmup": Description(
        "Labelled readings before the first model, which are one release together.", 4096
    ),
    "privacy.scale_batch": Description(
        "Labelled readings before those, which give the scale of each feature in one release.", 512
    ),
    "privacy.horizon": Description(
        "Number of batches after which learning ends. Default: never.", 1000
    ),
    # --- admission -------------------------------------------------------------------------------
    "admission.after": Description(
        "Labelled readings of a model in which a new feature (with two different values) or class "
        "must have come before it is learnt. 1: learn everything at once.",
        5,
    ),
    "admission.feature_window": Description(
        "Number of latest labelled readings of the model in which a new feature must have come so "
        "often; one that does not come again among them is forgotten.",
        200,
    ),
    "admission.class_window": Description(
        "The same for a new class, which may be rare: one that comes more rarely than after times "
        "in so many labelled readings is never learnt.",
        5000,
    ),
    "admission.commissioning": Description(
        "Number of labelled readings at the start of a model that may add features and classes at "
        "once. 0: none.",
        200,
    ),
    # --- integrator ------------------------------------------------------------------------------
    "integrator.window": Description(
        "adaptive: a filter that learns from labels how much the past is worth; before the first "
        "label it counts for nothing. Or the number of readings that are combined, the current one "
        "included.",
        "adaptive",
    ),
    "integrator.max_gap": Description(
        "Seconds between two readings of a device after which its window starts afresh. "
        "Default: windows never expire.",
        30.0,
    ),
    "integrator.max_devices": Description(
        "Maximum number of devices with a window; beyond that, the device that has been silent "
        "longest is forgotten.",
        100_000,
    ),
    # --- rejector --------------------------------------------------------------------------------
    "rejector.type": Description(
        "relsim: certainty is how much closer a reading is to one class than to the next. "
        "probability: certainty is the probability of the class, for models without RelSim "
        "(PairwiseLVQ, WindowForest, BinnedNaiveBayes).",
        "probability",
    ),
    "rejector.threshold": Description(
        "The lowest certainty that is accepted, from 0 to 1, or one for each label; labels "
        "without one use the highest.",
        {"running": 0.1, "bearing_fault": 0.4},
    ),
    "rejector.target_rate": Description(
        "Instead of a threshold: the share of readings to reject, from 0 to 1.", 0.05
    ),
    "rejector.target_accuracy": Description(
        "Instead of a threshold: reject as few readings as are needed for the rest to be this "
        "accurate, from 0 to 1. Everything is rejected until there are labels to measure it.",
        0.99,
    ),
    "rejector.reject_cost": Description(
        "Instead of a threshold: the cost of a rejection relative to an error, from 0 to 1.", 0.2
    ),
    "rejector.memory": Description(
        "Number of past readings that an adaptive threshold is based on.", 1000
    ),
    "rejector.per_class": Description(
        "Whether to adapt a separate threshold for each predicted label.", True
    ),
    "rejector.novelty_rate": Description(
        "The share of readings of known classes that may be taken for outliers, readings unlike "
        "everything learnt. null: do not measure how new readings are.",
        0.01,
    ),
    # --- decisions -------------------------------------------------------------------------------
    "decisions.topic": Description(
        "The topic to publish decisions to, with placeholders as in readings.topic. null: do "
        "not publish. Characters that a topic cannot contain are escaped as in a URL: a space "
        "becomes %20.",
        "plant/{site}/{device}/decision",
    ),
    "decisions.qos": Description(
        "0: cheap, but decisions are lost while the broker is unreachable. 1: they are sent again.",
        0,
    ),
    "decisions.retain": Description(
        "Whether the broker keeps the last decision of each device for new subscribers.", True
    ),
    "decisions.when": Description(
        "always: publish a decision for every reading. change: only when label, acceptance or "
        "reason differ from the device's previous decision. rejection: only decisions that are "
        "not accepted.",
        "change",
    ),
    "decisions.file": Description(
        f"A file to which these decisions are also appended, one JSON object per line. {_PATHS}",
        "decisions.jsonl",
    ),
    # --- state -----------------------------------------------------------------------------------
    "state.folder": Description(
        f"The folder for snapshots and journal; only one daemon at a time can use it. {_PATHS}",
        "/var/lib/streamlvq",
    ),
    "state.snapshot_seconds": Description("Seconds between snapshots.", 60.0),
    "state.keep": Description("Number of snapshots to keep, the newest ones.", 5),
    "state.journal": Description(
        "Whether to write readings to a journal before they are acknowledged, so that they can "
        "be learnt again after a crash. auto: if readings.qos is 1.",
        "always",
    ),
    "state.sync": Description(
        "Whether to wait until the journal is on disk. false is faster and survives a crash of "
        "the daemon, but not of the machine.",
        True,
    ),
    "state.duplicates": Description(
        "Number of readings that are remembered to recognise duplicates; at least "
        "broker.receive_maximum.",
        65_536,
    ),
    # --- status ----------------------------------------------------------------------------------
    "status.topic": Description(
        "The topic with a retained message that says whether the daemon is online or offline "
        "(also its last will). {client_id} is broker.client_id. null: none.",
        "streamlvq/{client_id}/status",
    ),
    "status.dead_letters": Description(
        "The topic to which messages that cannot be used are published, with the reason. null: "
        "they are only counted.",
        "streamlvq/{client_id}/dead",
    ),
    "status.home_assistant": Description(
        "Prefix of the discovery topics of Home Assistant, which then shows every device. "
        "decisions.topic must contain all placeholders of readings.topic. Default: no "
        "discovery.",
        "homeassistant",
    ),
    # --- health ----------------------------------------------------------------------------------
    "health.host": Description(
        "The address to listen on. 0.0.0.0 makes it reachable from other machines, without a "
        "password.",
        "0.0.0.0",
    ),
    "health.port": Description(
        "The port of /healthz and /metrics; 0 for any free port. Default: no HTTP server.", 9464
    ),
    "health.silence_seconds": Description(
        "Seconds without a reading after which /healthz reports a failure.", 300.0
    ),
    "health.snapshot_age_seconds": Description(
        "Age of the last snapshot, in seconds, at which /healthz reports a failure; must be "
        "more than state.snapshot_seconds.",
        600.0,
    ),
    "health.warnings_fail": Description(
        "Whether /healthz reports a failure, instead of a warning, if somebody should look into "
        "something: junk features and classes, labels that contradict the model, sensors that "
        "stand still, are missing or out of range.",
        False,
    ),
    "health.still_readings": Description(
        "Readings of a device without a change of a feature that used to move, after which this is "
        "a warning of /healthz (and after five times the longest calm before). 0: never.",
        1000,
    ),
    "health.missing_readings": Description(
        "Readings of a device without a feature that it used to send, after which this is a "
        "warning (and after five times the longest absence before). 0: never.",
        200,
    ),
    "health.range_margin": Description(
        "How far a feature of a device may leave the range of everything seen before without a "
        "warning, as a multiple of the width of that range. 0: any distance.",
        1.0,
    ),
    "health.max_devices": Description("Maximum number of devices with metrics of their own.", 100),
    # --- shard -----------------------------------------------------------------------------------
    "shard.index": Description("The number of this daemon, from 0 to count - 1.", 0),
    "shard.count": Description(
        "How many daemons share the devices; each needs its own client_id and state.folder.", 4
    ),
    # --- fleet -----------------------------------------------------------------------------------
    "fleet.name": Description(
        "Name of the fleet: letters, digits, dots, hyphens and underscores. All its nodes use "
        "the same name, topic_prefix and broker.",
        "ovens",
    ),
    "fleet.trust": Description(
        "Whose models are accepted: the file with the public keys of all nodes (`streamlvq keys "
        "trust` writes it), or everyone, which accepts whatever anyone may publish to the "
        f"broker. There is no default. {_PATHS}",
        "/etc/streamlvq/trusted-keys.txt",
    ),
    "fleet.role": Description(
        "peer: fuses what the others publish by itself; no further process is needed. hub: has "
        "no readings and no model, fuses for all nodes and publishes a model for each. member: "
        "publishes its own model and takes the fused one from the hub.",
        "member",
    ),
    "fleet.node": Description(
        "Name of this node (or of the hub), unique in the fleet. Default: broker.client_id.",
        "oven-3",
    ),
    "fleet.hub": Description("Name of the hub; required for members, and only for them.", "hub"),
    "fleet.key_file": Description(
        "Our private key, to sign what we publish (`streamlvq keys new` makes one). Required "
        f"unless trust is everyone. {_PATHS}",
        "/etc/streamlvq/oven-3.key",
    ),
    "fleet.serve": Description(
        "Which model decides. both: our own, pooled with models of the fleet; weights say how much "
        "each of them counts, by how well they answer readings that they have not learnt. fused: "
        "that of the whole fleet. local: our own. Our own model learns from our readings alone.",
        "both",
    ),
    "fleet.max_candidates": Description(
        "With serve: both, how many models of the fleet are kept beside our own, those that matter "
        "most. Each costs about as much to ask as our own.",
        3,
    ),
    "fleet.topic_prefix": Description(
        "Prefix of the fleet's topics: PREFIX/fleet/NAME/nodes/NODE holds the model of a node, "
        "PREFIX/fleet/NAME/models/NODE the one that the hub made for it.",
        "streamlvq",
    ),
    "fleet.publish_seconds": Description(
        "Seconds between publications of our model, if it has learnt something in between.",
        300.0,
    ),
    "fleet.publish_after": Description(
        "Number of labelled readings after which our model is published without waiting for "
        "publish_seconds.",
        200,
    ),
    "fleet.publish_pause_seconds": Description(
        "Minimum number of seconds between two publications, however much is learnt.", 10.0
    ),
    "fleet.min_samples": Description(
        "Number of labelled readings that our model must have learnt before it is first published.",
        20,
    ),
    "fleet.min_new_per_class": Description(
        "Number of new labelled readings of a class without which our publications say the same "
        "of it as before, or nothing: two publications one reading apart tell that reading. 1: "
        "publish everything. This is no differential privacy, see docs/privacy.md.",
        10,
    ),
    "fleet.fuse_seconds": Description(
        "Seconds to wait for further changes when a model of the fleet has changed, before all "
        "are fused.",
        2.0,
    ),
    "fleet.max_age_seconds": Description(
        "Seconds after which the model of a node that has gone silent is left out. Nodes that "
        "are running publish often enough, even if they have nothing new.",
        604_800.0,
    ),
    "fleet.max_snapshot_bytes": Description(
        "Largest message of the fleet that is accepted or sent, in bytes. Independent of "
        "broker.max_payload_bytes, but the broker must allow it.",
        1_048_576,
    ),
    "fleet.weighting": Description(
        "How much each node counts for a class: in proportion to its samples (samples), or all "
        "nodes equally (uniform). If there is a hub, its setting applies, as for drift and "
        "aggregator.",
        "uniform",
    ),
    "fleet.drift": Description(
        "How the difference between the nodes' sensors is corrected: "
        f"{CORRECTIONS.described()}, or auto (the simplest with which fused models know classes "
        "that were hidden from nodes about as well as with any).",
        "least_squares",
    ),
    "fleet.aggregator": Description(
        f"How models become one: {AGGREGATORS.described()}. A minority of nodes that claim "
        "anything cannot move a robust one far.",
        "geometric_median",
    ),
    # --- logging ---------------------------------------------------------------------------------
    "logging.level": Description(
        "The lowest level that is logged: debug, info, warning or error.", "info"
    ),
    "logging.format": Description("text for people, json for machines.", "json"),
}


# --- sections, types and ranges ------------------------------------------------------------------

# Parameters of models and wrappers that decide how long a reading takes or how much memory is asked
# for. Snapshots hold no more than that either: a state that works can be kept.
MAX_VALUES = {
    "rehearsal": 10_000,
    "buffer_size": 100_000_000,
    "memory": 1_000_000,
    "window": 100_000,
    "max_devices": 100_000_000,
}
PRIVATE_MODEL = "PrivateLVQ"  # the type of the model under a section `privacy`
MAX_MODELS = 8_000  # the format of snapshots has room for the names of so many models' arrays

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
    limit: Annotated[int, Meta(ge=1, le=MAX_MODELS)] = 1000
    max_features: Count = 4096
    max_classes: Annotated[int, Meta(ge=2, le=1_000_000_000)] = 256


class PrivacySection(Section, kw_only=True, frozen=True):
    epsilon: Annotated[float, Meta(gt=0, le=64)]
    delta: Annotated[float, Meta(gt=0, le=0.1)] = 1e-5
    unit: str = "reading"  # `Privacy` says why others cannot be protected
    segment: Annotated[int, Meta(ge=1, le=65_536)] | None = None
    bounds: dict[str, Any]  # lowest and highest value by feature
    classes: list[Any]
    metric: Literal["shared", "local"] = "shared"
    half_life: Annotated[float, Meta(ge=0.1, le=1e6)] | None = 50.0
    batch: Annotated[int, Meta(ge=1, le=65_536)] = 256
    warmup: Annotated[int, Meta(ge=1, le=65_536)] = 4096
    scale_batch: Annotated[int, Meta(ge=2, le=65_536)] = 512
    horizon: Annotated[int, Meta(ge=1, le=16_777_216)] | None = None


class AdmissionSection(Section, kw_only=True, frozen=True):
    after: Annotated[int, Meta(ge=1, le=20)] = 5
    feature_window: Count = 200
    class_window: Count = 5000
    commissioning: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 200


class IntegratorSection(Section, kw_only=True, frozen=True):
    window: Annotated[int, Meta(ge=1, le=MAX_VALUES["window"])] | Literal["adaptive"] = "adaptive"
    max_gap: Seconds | None = None
    max_devices: Annotated[int, Meta(ge=1, le=MAX_VALUES["max_devices"])] = 100_000


class RejectorSection(Section, kw_only=True, frozen=True):
    type: Literal["relsim", "probability"] = "relsim"
    threshold: Share | dict[str, Share] | None = None
    target_rate: Share | None = None
    target_accuracy: Share | None = None
    reject_cost: Share | None = None
    memory: Annotated[int, Meta(ge=1, le=MAX_VALUES["memory"])] = 1000
    per_class: bool = False
    novelty_rate: Share | None = 0.01


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
    warnings_fail: bool = False
    still_readings: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 1000
    missing_readings: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 200
    range_margin: Annotated[float, Meta(ge=0, le=1e9)] = 1.0
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
    serve: Literal["both", "fused", "local"] = "both"
    max_candidates: Annotated[int, Meta(ge=1, le=36)] = 3
    topic_prefix: str = "streamlvq"
    publish_seconds: Seconds = 300.0
    publish_after: Count = 200
    publish_pause_seconds: Seconds = 10.0
    min_samples: Count = 20
    min_new_per_class: Count = 10
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
    privacy: PrivacySection | None = None
    admission: AdmissionSection = AdmissionSection()
    integrator: IntegratorSection | None = None
    rejector: RejectorSection | None = None
    decisions: DecisionsSection = DecisionsSection()
    state: StateSection = StateSection()
    status: StatusSection = StatusSection()
    health: HealthSection = HealthSection()
    shard: ShardSection = ShardSection()
    fleet: FleetSection | None = None
    logging: LoggingSection = LoggingSection()
