"""Descriptions of all keys, for the sample, the JSON Schema and the documentation."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamlvq.registry import AGGREGATORS, CORRECTIONS


class Word(NamedTuple):
    """Meaning of a key, and an example value."""

    meaning: str
    example: Any


_PATHS = "Relative to the working directory of the daemon."

SECTIONS = {
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
        "Several nodes that share what they have learnt, but no readings: each publishes its "
        "model and decides with what all of them know. Leave this section out to work alone."
    ),
    "logging": ("What the daemon logs to standard error."),
}

KEYS = {
    # --- broker ----------------------------------------------------------------------------------
    "broker.url": Word(
        "Address of the broker: mqtt://HOST:PORT, or mqtts://HOST:PORT for TLS. The port may be "
        "left out (1883, 8883). Must not contain a user name or password.",
        "mqtts://broker.example:8883",
    ),
    "broker.client_id": Word(
        "The client identifier, under which the broker keeps our session. It must stay the same "
        "across restarts, and no other client may use it.",
        "monitor-hall-3",
    ),
    "broker.protocol": Word("MQTT version: 5 or 3.1.1. NATS supports only 3.1.1.", "3.1.1"),
    "broker.username": Word("User name, if the broker requires one.", "monitor"),
    "broker.password_env": Word(
        "The environment variable that holds the password. Never put the password itself here.",
        "MQTT_PASSWORD",
    ),
    "broker.password_file": Word(
        f"The file that holds the password, instead of password_env. {_PATHS}",
        "/etc/streamlvq/password",
    ),
    "broker.tls.ca_file": Word(
        "Certificates of the authorities to trust (PEM), instead of those of the system.",
        "/etc/streamlvq/ca.pem",
    ),
    "broker.tls.cert_file": Word(
        "Client certificate (PEM), if the broker requires one.", "/etc/streamlvq/client.pem"
    ),
    "broker.tls.key_file": Word(
        "Private key of the client certificate (PEM), unless it is in the same file.",
        "/etc/streamlvq/client.key",
    ),
    "broker.tls.verify": Word(
        "Whether to check the broker's certificate and host name. Turn this off only for "
        "experiments.",
        True,
    ),
    "broker.keepalive_seconds": Word(
        "Seconds without traffic after which a ping checks that the connection is alive.", 60
    ),
    "broker.session_expiry_seconds": Word(
        "Seconds that the broker keeps our session, and messages that arrive for it, while we "
        "are disconnected. MQTT 5 only; with 3.1.1 the broker's configuration decides.",
        604_800,
    ),
    "broker.receive_maximum": Word(
        "Unacknowledged QoS 1 messages that the broker may send at a time. MQTT 5 only; with "
        "3.1.1 the broker's configuration decides.",
        1000,
    ),
    "broker.max_payload_bytes": Word(
        "Largest payload that is accepted, in bytes; larger ones are refused. A broker that "
        "speaks MQTT 5 is told, and does not deliver messages that are much larger.",
        262_144,
    ),
    "broker.connect_timeout_seconds": Word(
        "Seconds to wait for the broker to answer before trying again.", 10.0
    ),
    "broker.reconnect_max_seconds": Word(
        "Longest pause between attempts to reconnect, in seconds. Pauses start short and grow "
        "up to this; the attempts never end.",
        60.0,
    ),
    "broker.outgoing_limit": Word(
        "Maximum number of QoS 1 messages that wait for the broker's acknowledgement.", 10_000
    ),
    "broker.fast_receive": Word(
        "Whether to read many messages from the network at once. Turn this off to receive with "
        "plain paho-mqtt, at several times the CPU cost.",
        True,
    ),
    # --- readings --------------------------------------------------------------------------------
    "readings.topic": Word(
        "The topics to subscribe to. A name in braces matches one level, '+' matches one level "
        "without naming it, '#' at the end matches all further levels. {device} is the device "
        "that a reading comes from; all named levels together identify it: leeds/press-4.",
        "plant/{site}/{device}/readings",
    ),
    "readings.qos": Word(
        "1: no reading is lost, some may arrive twice (duplicates are recognised). 0: cheaper, "
        "but readings that arrive while the daemon is down are lost.",
        1,
    ),
    "readings.format": Word(
        "Format of the payloads: json (an object), json_array (an array of numbers, named by "
        "columns), msgpack (a map) or float32 (raw little-endian numbers, named by columns).",
        "json",
    ),
    "readings.columns": Word(
        "Names of the values in json_array, float32 and msgpack arrays, in order.",
        ["rms", "peak", "label"],
    ),
    "readings.features": Word(
        "The fields that the model sees. A dot leads into an object: vibration.rms; quote a key "
        "that contains a dot itself. Default: every number that is not the label, time, "
        "sequence or device.",
        ["vibration.rms", "temperature"],
    ),
    "readings.label": Word(
        "The field that holds the label, in readings that have one. Such readings are learnt at "
        "once.",
        "state",
    ),
    "readings.time": Word(
        "The field that holds the time at which the reading was taken. Default: the time at "
        "which it was received.",
        "t",
    ),
    "readings.time_unit": Word(
        "Unit of the time: s, ms, us or ns since 1970, or iso for text such as "
        "2025-03-01T12:00:00Z.",
        "ms",
    ),
    "readings.sequence": Word(
        "The field that holds the sequence number given by the device. It distinguishes a "
        "reading that was delivered twice from a new one with the same values. float32 counts "
        "exactly only up to 16777216.",
        "seq",
    ),
    "readings.device": Word(
        "The field that names the device. Default: {device} in the topic.", "machine.id"
    ),
    # --- labels ----------------------------------------------------------------------------------
    "labels.topic": Word(
        "The topics to subscribe to for labels, with the placeholders of readings.topic in any "
        "order. They must not overlap with readings.topic.",
        "sensors/{device}/labels",
    ),
    "labels.qos": Word("As for readings.qos: with 1, no label is lost.", 1),
    "labels.format": Word("Format of the payloads: json or msgpack.", "json"),
    "labels.label": Word("The field that holds the label.", "state"),
    "labels.time": Word(
        "The field that holds the time of the reading that the label is for, exactly as the "
        "reading gave it. Use either this or labels.sequence.",
        "t",
    ),
    "labels.time_unit": Word("Unit of the time, as for readings.time_unit.", "ms"),
    "labels.sequence": Word(
        "The field that holds the sequence number of the reading that the label is for. Use "
        "either this or labels.time; this is more reliable.",
        "seq",
    ),
    "labels.device": Word(
        "The field that names the device. Default: {device} in the topic.", "machine.id"
    ),
    "labels.wait": Word(
        "Maximum number of unlabelled readings, of all devices together, that are remembered "
        "until their label arrives.",
        10_000,
    ),
    # --- model -----------------------------------------------------------------------------------
    "model.type": Word(
        "The model: LGMLVQ is the most accurate single one, LVQCommittee also follows change, "
        "GLVQ is the fastest. Any model of streamlvq.models is allowed.",
        "GMLVQ",
    ),
    "model.per": Word(
        "all: one model that all devices share. device: one model per device. Or a placeholder "
        "of readings.topic, such as site: one model for each of its values.",
        "site",
    ),
    "model.parameters": Word(
        "Parameters of the model, named as in its Python class.",
        {"rank": 8, "half_life": 20_000},
    ),
    "model.transform": Word(
        "A function applied to every feature before the model sees it. log: for numbers above 0 "
        "and sensors that differ by a gain, which logarithms turn into a shift. log1p: log(1 + "
        "x), for counts. sqrt: for numbers from 0 up. asinh: like log, for numbers of either "
        "sign. Readings with numbers that the function is not defined for are refused. Default: "
        "none.",
        "log",
    ),
    "model.start": Word(
        "The snapshot that every model starts from, such as one written by `streamlvq train`. "
        f"Default: models start empty. What is in state.folder takes precedence. {_PATHS}",
        "first.slvq",
    ),
    "model.limit": Word(
        "Maximum number of models; readings that would need another one are refused.", 1000
    ),
    "model.max_features": Word(
        "Maximum number of features of a model; readings that would add more are refused.", 4096
    ),
    "model.max_classes": Word(
        "Maximum number of classes of a model; labels that would add more are refused.", 256
    ),
    # --- integrator ------------------------------------------------------------------------------
    "integrator.window": Word("Number of readings that are combined, the current one included.", 5),
    "integrator.max_gap": Word(
        "Seconds between two readings of a device after which its window starts afresh. "
        "Default: windows never expire.",
        30.0,
    ),
    "integrator.max_devices": Word(
        "Maximum number of devices with a window; beyond that, the device that has been silent "
        "longest is forgotten.",
        100_000,
    ),
    # --- rejector --------------------------------------------------------------------------------
    "rejector.type": Word(
        "relsim: certainty is how much closer a reading is to one class than to the next. "
        "probability: certainty is the probability of the class, for models without RelSim "
        "(PairwiseLVQ, LVQCommittee).",
        "probability",
    ),
    "rejector.threshold": Word(
        "The lowest certainty that is accepted, from 0 to 1, or one for each label; labels "
        "without one use the highest.",
        {"running": 0.1, "bearing_fault": 0.4},
    ),
    "rejector.target_rate": Word(
        "Instead of a threshold: the share of readings to reject, from 0 to 1.", 0.05
    ),
    "rejector.target_accuracy": Word(
        "Instead of a threshold: reject as few readings as are needed for the rest to be this "
        "accurate, from 0 to 1. Everything is rejected until there are labels to measure it.",
        0.99,
    ),
    "rejector.reject_cost": Word(
        "Instead of a threshold: the cost of a rejection relative to an error, from 0 to 1.", 0.2
    ),
    "rejector.memory": Word(
        "Number of past readings that an adaptive threshold is based on.", 1000
    ),
    "rejector.per_class": Word(
        "Whether to adapt a separate threshold for each predicted label.", True
    ),
    # --- decisions -------------------------------------------------------------------------------
    "decisions.topic": Word(
        "The topic to publish decisions to, with placeholders as in readings.topic. null: do "
        "not publish. Characters that a topic cannot contain are escaped as in a URL: a space "
        "becomes %20.",
        "plant/{site}/{device}/decision",
    ),
    "decisions.qos": Word(
        "0: cheap, but decisions are lost while the broker is unreachable. 1: they are sent again.",
        0,
    ),
    "decisions.retain": Word(
        "Whether the broker keeps the last decision of each device for new subscribers.", True
    ),
    "decisions.when": Word(
        "always: publish a decision for every reading. change: only when label, acceptance or "
        "reason differ from the device's previous decision. rejection: only decisions that are "
        "not accepted.",
        "change",
    ),
    "decisions.file": Word(
        f"A file to which these decisions are also appended, one JSON object per line. {_PATHS}",
        "decisions.jsonl",
    ),
    # --- state -----------------------------------------------------------------------------------
    "state.folder": Word(
        f"The folder for snapshots and journal; only one daemon at a time can use it. {_PATHS}",
        "/var/lib/streamlvq",
    ),
    "state.snapshot_seconds": Word("Seconds between snapshots.", 60.0),
    "state.keep": Word("Number of snapshots to keep, the newest ones.", 5),
    "state.journal": Word(
        "Whether to write readings to a journal before they are acknowledged, so that they can "
        "be learnt again after a crash. auto: if readings.qos is 1.",
        "always",
    ),
    "state.sync": Word(
        "Whether to wait until the journal is on disk. false is faster and survives a crash of "
        "the daemon, but not of the machine.",
        True,
    ),
    "state.duplicates": Word(
        "Number of readings that are remembered to recognise duplicates; at least "
        "broker.receive_maximum.",
        65_536,
    ),
    # --- status ----------------------------------------------------------------------------------
    "status.topic": Word(
        "The topic with a retained message that says whether the daemon is online or offline "
        "(also its last will). {client_id} is broker.client_id. null: none.",
        "streamlvq/{client_id}/status",
    ),
    "status.dead_letters": Word(
        "The topic to which messages that cannot be used are published, with the reason. null: "
        "they are only counted.",
        "streamlvq/{client_id}/dead",
    ),
    "status.home_assistant": Word(
        "Prefix of the discovery topics of Home Assistant, which then shows every device. "
        "decisions.topic must contain all placeholders of readings.topic. Default: no "
        "discovery.",
        "homeassistant",
    ),
    # --- health ----------------------------------------------------------------------------------
    "health.host": Word(
        "The address to listen on. 0.0.0.0 makes it reachable from other machines, without a "
        "password.",
        "0.0.0.0",
    ),
    "health.port": Word(
        "The port of /healthz and /metrics; 0 for any free port. Default: no HTTP server.", 9464
    ),
    "health.silence_seconds": Word(
        "Seconds without a reading after which /healthz reports a failure.", 300.0
    ),
    "health.snapshot_age_seconds": Word(
        "Age of the last snapshot, in seconds, at which /healthz reports a failure; must be "
        "more than state.snapshot_seconds.",
        600.0,
    ),
    "health.max_devices": Word("Maximum number of devices with metrics of their own.", 100),
    # --- shard -----------------------------------------------------------------------------------
    "shard.index": Word("The number of this daemon, from 0 to count - 1.", 0),
    "shard.count": Word(
        "How many daemons share the devices; each needs its own client_id and state.folder.", 4
    ),
    # --- fleet -----------------------------------------------------------------------------------
    "fleet.name": Word(
        "Name of the fleet: letters, digits, dots, hyphens and underscores. All its nodes use "
        "the same name, topic_prefix and broker.",
        "ovens",
    ),
    "fleet.trust": Word(
        "Whose models are accepted: the file with the public keys of all nodes (`streamlvq keys "
        "trust` writes it), or everyone, which accepts whatever anyone may publish to the "
        f"broker. There is no default. {_PATHS}",
        "/etc/streamlvq/trusted-keys.txt",
    ),
    "fleet.role": Word(
        "peer: fuses what the others publish by itself; no further process is needed. hub: has "
        "no readings and no model, fuses for all nodes and publishes a model for each. member: "
        "publishes its own model and takes the fused one from the hub.",
        "member",
    ),
    "fleet.node": Word(
        "Name of this node (or of the hub), unique in the fleet. Default: broker.client_id.",
        "oven-3",
    ),
    "fleet.hub": Word("Name of the hub; required for members, and only for them.", "hub"),
    "fleet.key_file": Word(
        "Our private key, to sign what we publish (`streamlvq keys new` makes one). Required "
        f"unless trust is everyone. {_PATHS}",
        "/etc/streamlvq/oven-3.key",
    ),
    "fleet.serve": Word(
        "Which model decides. fused: that of the whole fleet. local: our own. better: the "
        "fleet's, unless our own is clearly better on our latest labels (accuracy higher by "
        ".02, on at least 20 labels since the fleet's model arrived; until the lead falls below "
        ".01); our labels say nothing about classes that only others know. Our own model learns "
        "from our readings alone.",
        "better",
    ),
    "fleet.topic_prefix": Word(
        "Prefix of the fleet's topics: PREFIX/fleet/NAME/nodes/NODE holds the model of a node, "
        "PREFIX/fleet/NAME/models/NODE the one that the hub made for it.",
        "streamlvq",
    ),
    "fleet.publish_seconds": Word(
        "Seconds between publications of our model, if it has learnt something in between.",
        300.0,
    ),
    "fleet.publish_after": Word(
        "Number of labelled readings after which our model is published without waiting for "
        "publish_seconds.",
        200,
    ),
    "fleet.publish_pause_seconds": Word(
        "Minimum number of seconds between two publications, however much is learnt.", 10.0
    ),
    "fleet.min_samples": Word(
        "Number of labelled readings that our model must have learnt before it is first published.",
        20,
    ),
    "fleet.fuse_seconds": Word(
        "Seconds to wait for further changes when a model of the fleet has changed, before all "
        "are fused.",
        2.0,
    ),
    "fleet.max_age_seconds": Word(
        "Seconds after which the model of a node that has gone silent is left out. Nodes that "
        "are running publish often enough, even if they have nothing new.",
        604_800.0,
    ),
    "fleet.max_snapshot_bytes": Word(
        "Largest message of the fleet that is accepted or sent, in bytes. Independent of "
        "broker.max_payload_bytes, but the broker must allow it.",
        1_048_576,
    ),
    "fleet.weighting": Word(
        "How much each node counts for a class: in proportion to its samples (samples), or all "
        "nodes equally (uniform). If there is a hub, its setting applies, as for drift and "
        "aggregator.",
        "uniform",
    ),
    "fleet.drift": Word(
        "How the difference between the nodes' sensors is corrected: "
        f"{CORRECTIONS.described()}, or auto (whichever predicts class means best).",
        "least_squares",
    ),
    "fleet.aggregator": Word(
        f"How models become one: {AGGREGATORS.described()}. A minority of nodes that claim "
        "anything cannot move a robust one far.",
        "geometric_median",
    ),
    # --- logging ---------------------------------------------------------------------------------
    "logging.level": Word(
        "The lowest level that is logged: debug, info, warning or error.", "info"
    ),
    "logging.format": Word("text for people, json for machines.", "json"),
}
