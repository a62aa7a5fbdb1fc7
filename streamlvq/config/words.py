"""What every key of a configuration means, for samples, the JSON Schema and the documentation."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamlvq.registry import AGGREGATORS, CORRECTIONS


class Word(NamedTuple):
    """What a key does, and a value to show it with."""

    meaning: str
    example: Any


_PATHS = "Relative to the folder that the daemon is started in."

SECTIONS = {
    "broker": "The MQTT broker: where it is, and as whom to connect.",
    "broker.tls": "How the connection is encrypted; only for URLs that begin with mqtts://.",
    "readings": "The readings of the sensors: where they come in, and what is in their payloads.",
    "labels": (
        "Labels that come by themselves, later than their readings; one of sequence and time says "
        "which reading. Leave it out if there are none."
    ),
    "model": "The model that learns and decides.",
    "integrator": (
        "Decide on the last readings of a device together. Leave it out to decide on each alone."
    ),
    "rejector": (
        "Keep silent where the model is not certain: exactly one of threshold, target_rate, "
        "target_accuracy and reject_cost. Leave it out to accept every decision."
    ),
    "decisions": "What is done with decisions.",
    "state": "What is kept on disk, so that nothing is lost when the daemon or the machine stops.",
    "status": "What the daemon says about itself, on the broker.",
    "health": "What the daemon says about itself, over HTTP: /healthz and Prometheus' /metrics.",
    "shard": "One of several daemons that share the devices of one topic tree.",
    "fleet": (
        "Several nodes that share what they learnt, but no reading: each publishes its model, and "
        "decides with what all of them know. Leave it out to be alone."
    ),
    "logging": "What the daemon writes to standard error.",
}

KEYS = {
    # --- broker ----------------------------------------------------------------------------------
    "broker.url": Word(
        "Where the broker is: mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS. The port may be "
        "left out (1883, 8883). No user name or password in it.",
        "mqtts://broker.example:8883",
    ),
    "broker.client_id": Word(
        "The name that the broker keeps our session under. It must stay the same from start to "
        "start, and no other client may use it.",
        "monitor-hall-3",
    ),
    "broker.protocol": Word("Version of MQTT: 5 or 3.1.1. NATS speaks only 3.1.1.", "3.1.1"),
    "broker.username": Word("User name, if the broker wants one.", "monitor"),
    "broker.password_env": Word(
        "The environment variable that holds the password. The password itself never stands here.",
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
        "Our own certificate (PEM), if the broker wants one.", "/etc/streamlvq/client.pem"
    ),
    "broker.tls.key_file": Word(
        "The key of that certificate (PEM), unless it is in the same file.",
        "/etc/streamlvq/client.key",
    ),
    "broker.tls.verify": Word(
        "Whether the broker's certificate must be valid and in its name. Switch it off only to try "
        "something out.",
        True,
    ),
    "broker.keepalive_seconds": Word(
        "Seconds of silence after which a ping shows that the connection still works.", 60
    ),
    "broker.session_expiry_seconds": Word(
        "Seconds that the broker keeps our session, and what arrives for it, while we are away. "
        "Only MQTT 5; with 3.1.1 the broker's configuration says it.",
        604_800,
    ),
    "broker.receive_maximum": Word(
        "Readings that the broker may send ahead of our acknowledgement (QoS 1). Only MQTT 5; with "
        "3.1.1 the broker's configuration says it.",
        1000,
    ),
    "broker.max_payload_bytes": Word(
        "Bytes of the largest payload that is looked at; larger ones are refused. A broker that "
        "speaks MQTT 5 is told, and keeps much larger ones to itself.",
        262_144,
    ),
    "broker.connect_timeout_seconds": Word(
        "Seconds to wait for the broker's answer before the next attempt.", 10.0
    ),
    "broker.reconnect_max_seconds": Word(
        "Seconds between attempts to reconnect, at most. They begin short and grow up to this, for "
        "ever.",
        60.0,
    ),
    "broker.outgoing_limit": Word(
        "Messages of QoS 1 that wait for the broker's acknowledgement, at most.", 10_000
    ),
    "broker.fast_receive": Word(
        "Whether many messages are taken from the network at once. Switch it off to receive with "
        "the plain means of paho-mqtt, at several times the cost.",
        True,
    ),
    # --- readings --------------------------------------------------------------------------------
    "readings.topic": Word(
        "The topics to listen to. A name in braces stands for one level, '+' for one without a "
        "name, '#' at the end for all further ones. {device} is the device that a reading is from; "
        "all names together tell it from others: leeds/press-4.",
        "plant/{site}/{device}/readings",
    ),
    "readings.qos": Word(
        "1: no reading is lost, some may come twice (and are recognised). 0: cheaper, and what "
        "comes while we are away is lost.",
        1,
    ),
    "readings.format": Word(
        "Format of the payloads: json (an object), json_array (an array of numbers, named by "
        "columns), msgpack (a map) or float32 (raw little-endian numbers, named by columns).",
        "json",
    ),
    "readings.columns": Word(
        "Names of the values of json_array, float32 and msgpack arrays, in their order.",
        ["rms", "peak", "label"],
    ),
    "readings.features": Word(
        "Which fields the model sees. A dot leads into an object: vibration.rms; a key that holds "
        "a dot itself is written in quotes. Left out: every "
        "number that is not the label, time, sequence or device.",
        ["vibration.rms", "temperature"],
    ),
    "readings.label": Word(
        "The field that holds the label, of readings that have one. They are learnt at once.",
        "state",
    ),
    "readings.time": Word(
        "The field that says when the reading was taken. Left out: when it was received.", "t"
    ),
    "readings.time_unit": Word(
        "Unit of the time: s, ms, us or ns since 1970, or iso for a text such as "
        "2025-03-01T12:00:00Z.",
        "ms",
    ),
    "readings.sequence": Word(
        "The field that holds the number that the device gave the reading, which tells a reading "
        "that comes twice from one that says the same again. float32 counts exactly only up to "
        "16777216.",
        "seq",
    ),
    "readings.device": Word(
        "The field that names the device. Left out: {device} in the topic does.", "machine.id"
    ),
    # --- labels ----------------------------------------------------------------------------------
    "labels.topic": Word(
        "The topics to listen to for labels; with the placeholders of readings.topic, in any "
        "order. They must be other topics than those of the readings.",
        "sensors/{device}/labels",
    ),
    "labels.qos": Word("As readings.qos: with 1, no label is lost.", 1),
    "labels.format": Word("Format of the payloads: json or msgpack.", "json"),
    "labels.label": Word("The field that holds the label.", "state"),
    "labels.time": Word(
        "The field that holds the time of the reading that the label is for, exactly as the "
        "reading said it. Instead of labels.sequence.",
        "t",
    ),
    "labels.time_unit": Word("Unit of the time, as readings.time_unit.", "ms"),
    "labels.sequence": Word(
        "The field that holds the sequence number of the reading that the label is for. Surer than "
        "labels.time, and instead of it.",
        "seq",
    ),
    "labels.device": Word(
        "The field that names the device. Left out: {device} in the topic does.", "machine.id"
    ),
    "labels.wait": Word(
        "Readings without a label that are remembered until theirs comes, of all devices together.",
        10_000,
    ),
    # --- model -----------------------------------------------------------------------------------
    "model.type": Word(
        "Which model: LGMLVQ is the most accurate single one, LVQCommittee also follows change, "
        "GLVQ is the fastest. All of streamlvq.models are allowed.",
        "GMLVQ",
    ),
    "model.per": Word(
        "all: one model that all devices share. device: one for each. Or a placeholder of "
        "readings.topic, such as site: one for each of its values.",
        "site",
    ),
    "model.parameters": Word(
        "Parameters of the model, by the names that its Python class has for them.",
        {"rank": 8, "half_life": 20_000},
    ),
    "model.transform": Word(
        "What the model sees of every feature instead of the number itself. log: for numbers above "
        "0 and sensors that differ by gain, which logarithms turn into a shift. log1p: log(1 + x), "
        "for counts. sqrt: for numbers from 0 up. asinh: like log, for numbers of any sign. "
        "Numbers that it is not defined for are refused. Left out: the numbers themselves.",
        "log",
    ),
    "model.start": Word(
        "The snapshot that every model begins with, such as `streamlvq train` writes; left out: "
        f"they begin with nothing. What state.folder knows already comes first. {_PATHS}",
        "first.slvq",
    ),
    "model.limit": Word(
        "Models, at most; readings that would need a further one are refused.", 1000
    ),
    "model.max_features": Word(
        "Features of a model, at most; a reading that brings more is refused.", 4096
    ),
    "model.max_classes": Word("Classes of a model, at most; a label beyond is refused.", 256),
    # --- integrator ------------------------------------------------------------------------------
    "integrator.window": Word("Readings that are combined, the current one included.", 5),
    "integrator.max_gap": Word(
        "Seconds between two readings of a device after which its window starts afresh. Left out: "
        "time does not matter.",
        30.0,
    ),
    "integrator.max_devices": Word(
        "Windows that are kept; beyond that, the device that has been silent longest is forgotten.",
        100_000,
    ),
    # --- rejector --------------------------------------------------------------------------------
    "rejector.type": Word(
        "relsim: certain is what is much closer to one class than to the next. probability: what "
        "is probable; for models without a RelSim (PairwiseLVQ, LVQCommittee).",
        "probability",
    ),
    "rejector.threshold": Word(
        "The least certainty that is accepted, from 0 to 1, or one for each label; a label without "
        "one needs the largest.",
        {"running": 0.1, "bearing_fault": 0.4},
    ),
    "rejector.target_rate": Word(
        "Instead of a threshold: the share of readings to reject, from 0 to 1.", 0.05
    ),
    "rejector.target_accuracy": Word(
        "Instead of a threshold: reject as little as makes the rest this accurate, from 0 to 1. "
        "Everything is rejected until there are labels to judge by.",
        0.99,
    ),
    "rejector.reject_cost": Word(
        "Instead of a threshold: what a rejection costs if an error costs 1, from 0 to 1.", 0.2
    ),
    "rejector.memory": Word("Readings that a threshold that adapts looks back on.", 1000),
    "rejector.per_class": Word(
        "Whether a threshold that adapts is kept for each predicted label by itself.", True
    ),
    # --- decisions -------------------------------------------------------------------------------
    "decisions.topic": Word(
        "The topic to publish a decision to; placeholders as in readings.topic. null: publish "
        "none. Characters that a topic cannot carry are written as in a URL: a space becomes %20.",
        "plant/{site}/{device}/decision",
    ),
    "decisions.qos": Word(
        "0: cheap; a decision is lost if the broker is away just then. 1: it is sent again.", 0
    ),
    "decisions.retain": Word(
        "Whether the broker keeps the last decision of each device for those who ask later.", True
    ),
    "decisions.when": Word(
        "always: a decision for each reading. change: only when label, acceptance or reason differ "
        "from the device's last. rejection: only those that are not accepted.",
        "change",
    ),
    "decisions.file": Word(
        f"A file that every decision that is due is appended to, a JSON object in a line. {_PATHS}",
        "decisions.jsonl",
    ),
    # --- state -----------------------------------------------------------------------------------
    "state.folder": Word(
        f"The folder of snapshots and journal; one daemon at a time uses it. {_PATHS}",
        "/var/lib/streamlvq",
    ),
    "state.snapshot_seconds": Word("Seconds from one snapshot to the next.", 60.0),
    "state.keep": Word("Snapshots that are kept, the newest ones.", 5),
    "state.journal": Word(
        "Whether readings are written down before they are acknowledged, to be learnt again after "
        "a crash. auto: if readings.qos is 1.",
        "always",
    ),
    "state.sync": Word(
        "Whether to wait until the disk has the journal. false is faster and survives a crash of "
        "the daemon, but not of the machine.",
        True,
    ),
    "state.duplicates": Word(
        "Readings that are remembered to recognise one that comes twice; at least "
        "broker.receive_maximum.",
        65_536,
    ),
    # --- status ----------------------------------------------------------------------------------
    "status.topic": Word(
        "The topic that says, retained, whether the daemon is online or offline (also as its last "
        "will). {client_id} is broker.client_id. null: none.",
        "streamlvq/{client_id}/status",
    ),
    "status.dead_letters": Word(
        "The topic that messages go to which nothing can be learnt from, with the reason. null: "
        "they are only counted.",
        "streamlvq/{client_id}/dead",
    ),
    "status.home_assistant": Word(
        "Prefix of the discovery topics of Home Assistant, which then shows every device. "
        "decisions.topic must hold all placeholders of readings.topic. Left out: no discovery.",
        "homeassistant",
    ),
    # --- health ----------------------------------------------------------------------------------
    "health.host": Word(
        "The address to listen on; 0.0.0.0 lets other machines ask, and there is no password.",
        "0.0.0.0",
    ),
    "health.port": Word(
        "The port of /healthz and /metrics; 0 for any that is free. Left out: no HTTP at all.", 9464
    ),
    "health.silence_seconds": Word(
        "Seconds without a reading after which /healthz turns red.", 300.0
    ),
    "health.snapshot_age_seconds": Word(
        "Age of the last snapshot, in seconds, at which /healthz turns red; more than "
        "state.snapshot_seconds.",
        600.0,
    ),
    "health.max_devices": Word("Devices with metrics of their own, at most.", 100),
    # --- shard -----------------------------------------------------------------------------------
    "shard.index": Word("Which of the daemons this is, from 0 to count - 1.", 0),
    "shard.count": Word(
        "How many daemons share the devices; each needs its own client_id and state.folder.", 4
    ),
    # --- fleet -----------------------------------------------------------------------------------
    "fleet.name": Word(
        "The fleet: letters, digits, dots, hyphens and underscores. Its nodes share this name, "
        "topic_prefix and the broker.",
        "ovens",
    ),
    "fleet.trust": Word(
        "Whose models count: the file of the public keys of all nodes (`streamlvq keys trust` "
        "writes it), or everyone, which believes whoever may publish to the broker. There is no "
        f"default: it must be said. {_PATHS}",
        "/etc/streamlvq/trusted-keys.txt",
    ),
    "fleet.role": Word(
        "peer: fuses by itself whatever the others publish; needs no further process. hub: has no "
        "readings and no model, fuses for all nodes and publishes a model for each. member: "
        "publishes its own model and takes the fused one from the hub.",
        "member",
    ),
    "fleet.node": Word(
        "The name of this node (or of the hub), which no other one of the fleet has. Left out: "
        "broker.client_id.",
        "oven-3",
    ),
    "fleet.hub": Word("The name of the hub; members need it, and only they.", "hub"),
    "fleet.key_file": Word(
        "Our private key, to sign what we publish (`streamlvq keys new` makes one). Needed unless "
        f"trust is everyone. {_PATHS}",
        "/etc/streamlvq/oven-3.key",
    ),
    "fleet.serve": Word(
        "Who decides: fused, the model of the whole fleet. local, our own. better, the fleet's "
        "unless our own is clearly better on our latest labels (by .02 of the accuracy, on at "
        "least 20 labels since the fleet's came; until the lead is below .01): our labels say "
        "nothing about classes that only others know. Our own learns from our readings alone.",
        "better",
    ),
    "fleet.topic_prefix": Word(
        "What the topics of the fleet begin with: PREFIX/fleet/NAME/nodes/NODE has the model of a "
        "node, PREFIX/fleet/NAME/models/NODE what the hub made for it.",
        "streamlvq",
    ),
    "fleet.publish_seconds": Word(
        "Seconds from one publication of our model to the next, if something was learnt meanwhile.",
        300.0,
    ),
    "fleet.publish_after": Word(
        "Labelled readings after which our model is published without waiting for that time.", 200
    ),
    "fleet.publish_pause_seconds": Word(
        "Seconds between two publications at least, however much is learnt.", 10.0
    ),
    "fleet.min_samples": Word(
        "Labelled readings that our model must have learnt before it is published at all.", 20
    ),
    "fleet.fuse_seconds": Word(
        "Seconds to wait for more when a model of the fleet has changed, before all are fused.", 2.0
    ),
    "fleet.max_age_seconds": Word(
        "Seconds after which the model of a node that is not heard of any more is left out. Who is "
        "there publishes often enough, even with nothing new to say.",
        604_800.0,
    ),
    "fleet.max_snapshot_bytes": Word(
        "Bytes of the largest message of the fleet that is looked at or sent. It does not depend "
        "on broker.max_payload_bytes, but the broker must let it through.",
        1_048_576,
    ),
    "fleet.weighting": Word(
        "How much each node counts in a class: by the samples that it saw (samples), or all alike "
        "(uniform). The hub's word counts where there is one, as for drift and aggregator.",
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
    "logging.level": Word("The least that is worth a line: debug, info, warning or error.", "info"),
    "logging.format": Word("text for people, json for machines.", "json"),
}
