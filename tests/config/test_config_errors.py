"""A table of bad configurations and exactly what is said about each."""
# ruff: noqa: E501 - a row of the table is a line

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from streamlvq.config import Config, ConfigError, Problem, load, loads
from streamlvq.config.documents import all_keys
from streamlvq.errors import StreamLVQError

MODELS = (
    "GLVQ, GMLVQ, GRLVQ, LGMLVQ, LGRLVQ, LMRSLVQ, LVQ1, LVQ3, LVQ21, MRSLVQ, OLVQ1, RSLVQ, "
    "BinnedNaiveBayes, LVQCommittee, PairwiseLVQ, WindowForest"
)

PRIVATE = """\
readings: {sequence: n,
  features: [a, b]}
model:
  type: PrivateLVQ
privacy:
  epsilon: 1
  bounds: {a: [0, 1], b: [0, 1]}
  classes: [x, y]
"""

BAD = [
    # --- YAML ------------------------------------------------------------------------------------
    ("a: [", "1: not valid YAML: while parsing a flow node, expected the node content, but found '<stream end>'"),
    ("broker:\n\turl: x", "2: not valid YAML: while scanning for the next token, found character '\\t' that cannot start any token; indent with spaces, not with tabs"),
    ("broker:\n  url: a: b", "2: not valid YAML: mapping values are not allowed here; is the indentation right? A text that holds ': ' needs quotes"),
    ("{}\n--- \n{}", "2: not valid YAML: expected a single document in the stream, but found another document; leave out what follows the line '---'"),
    ("broker: {url: '", "1: not valid YAML: while scanning a quoted scalar, found unexpected end of stream"),
    ("a: \x07", "1: expected text, got the character '\\x07'"),
    ("a: 1\nb: \x00", "2: expected text, got the character '\\x00'"),
    ("a: &x 1\nb: *x", "2: expected a value, got the alias *x"),
    ("a: !!python/name:os.system x", "1: expected a plain value, got the tag 'tag:yaml.org,2002:python/name:os.system'; a text goes in quotes"),
    ("a: !!str 5", "1: expected a plain value, got the tag 'tag:yaml.org,2002:str'; a text goes in quotes"),
    ("[" * 100, "1: expected at most 32 levels of nesting"),
    ("- a", "1: expected keys such as 'broker:' and 'readings:', got a list"),
    ("mqtt://host", "1: expected keys such as 'broker:' and 'readings:', got 'mqtt://host'"),
    ("? [a]\n: 1", "1: expected a name as key, got a list"),
    # --- names -----------------------------------------------------------------------------------
    ("reading: {qos: 1}", "1: reading: unknown key; did you mean 'readings'?"),
    ("readings:\n  topc: a/{device}", "2: readings.topc: unknown key; did you mean 'topic'?"),
    ("health:\n  Silence-Seconds: 3", "2: health.Silence-Seconds: unknown key; did you mean 'silence_seconds'?"),
    ("decisions:\n  window: 3", "2: decisions.window: unknown key; there is one in 'integrator'"),
    ("broker:\n  shard: {}", "2: broker.shard: unknown key; 'shard' is a section of its own, at the start of a line"),
    ("shard:\n  zzz: 1", "2: shard.zzz: unknown key; expected one of index, count"),
    ("broker:\n  password: x", "2: broker.password: unknown key; a password does not belong in the file: use password_env or password_file"),
    ("shard:\n  index: 0\n  count: 2\n  index: 1", "4: shard.index: given twice; the first is in line 2"),
    ("shard: {}\nshard: {}", "2: shard: given twice; the first is in line 1"),
    ("<<: {a: 1}", "1: <<: unknown key; expected one of broker, readings, labels, model, privacy, admission, integrator, rejector, decisions, state, status, health, shard, fleet, logging"),
    # --- types and ranges ------------------------------------------------------------------------
    ("broker:\n  keepalive_seconds: sixty", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got 'sixty'"),
    ("broker:\n  keepalive_seconds: 0", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got 0"),
    ("broker:\n  keepalive_seconds: 1.5", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got 1.5"),
    ("broker:\n  keepalive_seconds: 1:30", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got '1:30'"),
    ("broker:\n  keepalive_seconds: '60'", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got '60'; leave out the quotes"),
    ("broker:\n  keepalive_seconds: true", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got 'true'"),
    ("broker:\n  keepalive_seconds:", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got nothing; leave the line out for the default, 60"),
    ("broker:\n  keepalive_seconds: [60]", "2: broker.keepalive_seconds: expected a whole number from 1 to 65535, got a list"),
    ("broker:\n  url: {a: b}", "2: broker.url: expected a text, got keys with values"),
    ("broker:\n  url:", "2: broker.url: expected a text, got nothing; leave the line out for the default, mqtt://localhost:1883"),
    ("broker:\n  protocol: 4", "2: broker.protocol: expected 3.1.1 or 5, got 4"),
    ("broker:\n  fast_receive: maybe", "2: broker.fast_receive: expected true or false, got 'maybe'"),
    ("broker:\n  fast_receive: 1", "2: broker.fast_receive: expected true or false, got 1"),
    ("broker: mqtt://host", "1: broker: expected keys such as 'url:' and 'client_id:', got 'mqtt://host'"),
    ("state:\n  snapshot_seconds: 0", "2: state.snapshot_seconds: expected a number above 0 and up to 31536000, got 0"),
    ("state:\n  snapshot_seconds: .inf", "2: state.snapshot_seconds: expected a number above 0 and up to 31536000, got '.inf'"),
    ("state:\n  snapshot_seconds: .nan", "2: state.snapshot_seconds: expected a number above 0 and up to 31536000, got '.nan'"),
    ("state:\n  snapshot_seconds: 1e999", "2: state.snapshot_seconds: expected a number above 0 and up to 31536000, got '1e999'"),
    ("readings:\n  features: rms", "2: readings.features: expected a list of names, such as [one, two], got 'rms'"),
    ("readings:\n  features:\n    - a\n    -", "4: readings.features.1: expected a text, got nothing"),
    ("readings:\n  qos: 2", "2: readings.qos: expected 0 or 1, got 2"),
    ("readings:\n  format: xml", "2: readings.format: expected float32, json, json_array or msgpack, got 'xml'"),
    ("model:\n  parameters: [1]", "2: model.parameters: expected names with values, such as {one: 0.1, two: 0.2}, got a list"),
    ("rejector:\n  threshold: high", "2: rejector.threshold: expected a number from 0 to 1, got 'high'"),
    ("rejector:\n  threshold: [0.1]", "2: rejector.threshold: expected a number from 0 to 1 or names with values, such as {one: 0.1, two: 0.2}, got a list"),
    ("rejector:\n  threshold:\n    on: 0.2\n    off: 2", "4: rejector.threshold.off: expected a number from 0 to 1, got 2"),
    ("labels:\n  sequence: n", "1: labels.topic: missing; expected something such as 'sensors/{device}/labels'"),
    # --- privacy ---------------------------------------------------------------------------------
    ("model:\n  type: PrivateLVQ", "2: model.type: expected a section 'privacy:' too: it says what is promised"),
    (PRIVATE.replace("PrivateLVQ", "GLVQ"), "4: model.type: expected PrivateLVQ with privacy, got GLVQ, which keeps readings"),
    (PRIVATE.replace("epsilon: 1", "epsilon: 0"), "6: privacy.epsilon: expected a number above 0 and up to 64, got 0"),
    (PRIVATE.replace("epsilon: 1", "delta: 0.5\n  epsilon: 1"), "6: privacy.delta: expected a number above 0 and up to 0.1, got 0.5"),
    (PRIVATE.replace("epsilon: 1", "unit: device\n  epsilon: 1"), "6: privacy.unit: expected one of reading, segment, got 'device': a device sends for ever, and what it sends adds up without end"),
    (PRIVATE.replace("[x, y]", "[x]"), "8: privacy.classes: expected at least two different labels (public, not from the readings), got ['x']"),
    (PRIVATE.replace("b: [0, 1]", "b: [1, 0]"), "7: privacy.bounds: expected (low, high) with low < high for 'b', got [1, 0]"),
    (PRIVATE.replace("type: PrivateLVQ", "type: PrivateLVQ\n  parameters: {halflife: 3}"), "5: model.parameters.halflife: PrivateLVQ has no such parameter; it has step, radius, clip, absent"),
    (PRIVATE.replace("type: PrivateLVQ", "type: PrivateLVQ\n  per: device"), "5: model.per: expected all with privacy, got 'device': one ledger accounts for one model; run a daemon for each"),
    (PRIVATE.replace("type: PrivateLVQ", "type: PrivateLVQ\n  transform: log"), "5: model.transform: expected none with privacy, got 'log': privacy.bounds are in the units of the sensors"),
    (PRIVATE.replace("type: PrivateLVQ", "type: PrivateLVQ\n  start: a.slvq"), "5: model.start: expected none with privacy, got 'a.slvq': what it was trained on would be published without protection"),
    (PRIVATE.replace("[a, b]", "[a, b, c]"), "2: readings.features: expected features of privacy.bounds (a, b), got 'c' too: without bounds it cannot be protected"),
    (PRIVATE.replace("features: [a, b]", "label: l"), "1: readings.features: expected the features of privacy.bounds (a, b): which fields come must not decide what is learnt"),
    (PRIVATE.replace("features: [a, b]", "features: [a]"), "7: privacy.bounds: expected features of readings.features (a), got 'b', which no reading has"),
    (PRIVATE.replace("sequence: n,", ""), "1: readings.sequence: expected a field with privacy, or readings.time: without either, a reading that is delivered twice counts as two, and epsilon is for one"),
    (PRIVATE + "integrator: {}", "9: integrator.window: expected a number of readings with privacy, got adaptive, which learns from labels what no release says"),
    (PRIVATE + "rejector:\n  type: probability\n  target_rate: 0.1\n  novelty_rate:", "11: rejector.target_rate: expected a fixed threshold with privacy (rejector.threshold): this one adapts to single readings"),
    (PRIVATE + "rejector:\n  type: probability\n  threshold: 0.1", "9: rejector.novelty_rate: expected null with privacy, got 0.01: how new a reading is would be measured by stored ones"),
    (PRIVATE + "state:\n  journal: never", "10: state.journal: expected always with privacy, got never: after a crash, releases are taken from the ledger and belong to the readings in the journal"),
    (PRIVATE.replace("features: [a", "qos: 0,\n  features: [a"), " state.journal: expected always with privacy, got auto: after a crash, releases are taken from the ledger and belong to the readings in the journal"),
    (PRIVATE + "state:\n  sync: false", "10: state.sync: expected true with privacy, got false: the journal must not lose readings whose release the ledger has"),
    (PRIVATE + "fleet:\n  name: f\n  trust: everyone", "9: fleet.serve: expected fused or local with privacy, got both: the weights of a pool and its losses are measured on this node's readings, and published"),
    (PRIVATE + "fleet:\n  name: f\n  trust: everyone\n  role: hub", "5: privacy: expected none with fleet.role: hub, which has no readings"),
    # --- broker ----------------------------------------------------------------------------------
    ("broker:\n  url: localhost:1883", "2: broker.url: expected a URL such as mqtt://localhost:1883, got 'localhost:1883'"),
    ("broker:\n  url: http://host", "2: broker.url: expected mqtt:// or mqtts://, got 'http://'"),
    ("broker:\n  url: mqqt://host", "2: broker.url: expected mqtt:// or mqtts://, got 'mqqt://'; did you mean 'mqtt'?"),
    ("broker:\n  url: mqtt://", "2: broker.url: expected a host, such as mqtt://localhost:1883, got 'mqtt://'"),
    ("broker:\n  url: mqtt://host:port", "2: broker.url: expected a URL such as mqtt://localhost:1883, got 'mqtt://host:port' (Port could not be cast to integer value as 'port')"),
    ("broker:\n  url: mqtt://host:0", "2: broker.url: expected a port from 1 to 65535, got 0 in 'mqtt://host:0'"),
    ("broker:\n  url: mqtt://host/path", "2: broker.url: expected nothing after host and port, got 'mqtt://host/path'"),
    ("broker:\n  url: mqtt://me:hunter2@host", "2: broker.url: expected no user name or password in the URL; use username and password_env or password_file"),
    ("broker:\n  client_id: ''", "2: broker.client_id: expected a name of 1 to 256 bytes, the same at every start, got ''"),
    ("broker:\n  password_env: hunter 2", "2: broker.password_env: expected the name of an environment variable, such as MQTT_PASSWORD (the password itself goes into that variable)"),
    ("broker:\n  password_env: A\n  password_file: b", "3: broker.password_file: expected either password_env or password_file, got both"),
    ("broker:\n  protocol: 3.1.1\n  password_env: A", "1: broker.username: expected a username too: MQTT 3.1.1 has no password without"),
    ("broker:\n  username: ''", "2: broker.username: expected something, got ''; or leave the line out"),
    ("broker:\n  tls: {}", "2: broker.tls: expected a URL that begins with mqtts:// too"),
    ("broker:\n  url: mqtts://h\n  tls:\n    key_file: k", "3: broker.tls.cert_file: expected the certificate that belongs to key_file"),
    ("broker:\n  url: mqtts://h\n  tls:\n    ca_file: ''", "4: broker.tls.ca_file: expected the name of a file, got ''"),
    # --- topics ----------------------------------------------------------------------------------
    ("readings:\n  topic: a/b", "2: readings.topic: expected {device} as one of the levels, or readings.device to say which field names the device, got 'a/b'"),
    ("readings:\n  topic: a/{device", "2: readings.topic: expected a '}' for each '{', got '{device' in 'a/{device'"),
    ("readings:\n  topic: $share/g/{device}", "2: readings.topic: expected no shared subscription: it would deal the readings of one device to several daemons; use the section 'shard:'"),
    ("readings:\n  topic: out/{device}/+\ndecisions:\n  topic: out/{device}/x", "4: decisions.topic: expected a topic that readings.topic ('out/{device}/+') does not match, got 'out/{device}/x': the daemon would listen to itself"),
    ("decisions:\n  topic: out/{sit}", "2: decisions.topic: expected a placeholder of readings.topic, got {sit}"),
    ("readings: {topic: '{site}/{device}'}\ndecisions:\n  topic: x/y/{sit}", "3: decisions.topic: expected a placeholder of readings.topic, got {sit}; did you mean 'site'?"),
    ("decisions:\n  topic: out/#", "2: decisions.topic: expected a topic to publish to, got the wildcard '#' in 'out/#'; name the level instead, such as {device}"),
    ("decisions:\n  topic: sensors/a/readings", "2: decisions.topic: expected a topic that readings.topic ('sensors/{device}/readings') does not match, got 'sensors/a/readings': the daemon would listen to itself"),
    ("decisions:\n  topic: out\n  retain: true", "3: decisions.retain: expected {device} in decisions.topic: a broker keeps one message for each topic"),
    ("status:\n  topic: s/{device}", "2: status.topic: expected {client_id}, got {device}"),
    ("status:\n  home_assistant: ha/{x}", "2: status.home_assistant: expected a plain topic, such as homeassistant, got {x}"),
    ("status: {home_assistant: ha}\ndecisions: {topic: null}", "1: status.home_assistant: expected a decisions.topic that holds {device}, for Home Assistant to listen to, got None"),
    ("readings: {topic: '{site}/{device}'}\ndecisions: {topic: 'a/b/{device}'}\nstatus:\n  home_assistant: h/a/c", "4: status.home_assistant: expected a decisions.topic that holds {site} and {device}, for Home Assistant to listen to, got 'a/b/{device}'"),
    ("readings: {topic: '{site}/{device}'}\ndecisions:\n  topic: a/b/{device}\n  retain: true", "4: decisions.retain: expected {site} in decisions.topic: a broker keeps one message for each topic"),
    ("status:\n  home_assistant: sensors", "2: status.home_assistant: expected a topic that readings.topic ('sensors/{device}/readings') does not match, got 'sensors': the daemon would listen to itself"),
    # --- payloads --------------------------------------------------------------------------------
    ("readings:\n  columns: [a]", "2: readings.columns: expected no columns with format: json, whose values have names; to choose some of them use features"),
    ("readings:\n  format: float32", "1: readings.columns: expected the names of the values, in their order, for format: float32"),
    ("readings:\n  format: json_array\n  columns: [a, b, a]", "3: readings.columns: expected each name once, got 'a' twice"),
    ("readings:\n  format: json_array\n  columns: [rms, peak]\n  features: [rmss]", "4: readings.features: expected one of readings.columns, got 'rmss'; did you mean 'rms'?"),
    ("readings:\n  format: json_array\n  columns: [rms, peak]\n  label: y", "4: readings.label: expected one of readings.columns, got 'y'"),
    ("readings:\n  features: []", "2: readings.features: expected at least one name, got an empty list"),
    ("readings:\n  features: [a..b]", "2: readings.features: expected a path like motor.vib.x, got 'a..b': write a key that holds dots, quotes or backslashes in quotes (\"a.b\") or with backslashes (a\\.b)"),
    ("readings:\n  features: [a, b]\n  label: b", "2: readings.features: expected features only, got 'b', which is the label"),
    ("readings:\n  label: x\n  time: x", "3: readings.time: expected another field than the label's, got 'x'"),
    ("readings:\n  format: float32\n  columns: [a, t]\n  time: t\n  time_unit: iso", "5: readings.time_unit: expected a number as time, for payloads of float32, got 'iso'"),
    ("readings:\n  format: float32\n  columns: [a, d]\n  device: d", "4: readings.device: expected the device in the topic, for payloads of float32, which hold no names"),
    ("labels:\n  topic: labels/{device}", "1: labels: expected labels.sequence or labels.time, to know which reading a label is for"),
    ("labels:\n  topic: labels/{device}\n  sequence: n", "3: labels.sequence: expected readings.sequence too: labels find their reading by its sequence"),
    ("readings: {sequence: n, time: t}\nlabels:\n  topic: labels/{device}\n  sequence: n\n  time: t", "5: labels.time: expected one of labels.sequence and labels.time, to know which reading a label is for, got both"),
    ("readings: {sequence: n}\nlabels:\n  topic: labels/{device}\n  time: t", "4: labels.time: expected readings.time too: labels find their reading by its time"),
    ("readings: {sequence: n}\nlabels:\n  topic: labels\n  sequence: n", "3: labels.topic: expected {device} as one of the levels, or labels.device to say which field names the device, got 'labels'"),
    ("readings: {topic: 'r/{site}/{device}', sequence: n}\nlabels:\n  topic: labels/{device}\n  sequence: n", "3: labels.topic: expected also {site}, as in readings.topic ('r/{site}/{device}'), to know whose readings labels are for, got 'labels/{device}'"),
    ("readings: {sequence: n}\nlabels:\n  topic: labels/{hall}/{device}\n  sequence: n", "3: labels.topic: expected a placeholder of readings.topic, got {hall}"),
    ("readings: {sequence: n}\ndecisions: {topic: d}\nlabels:\n  topic: sensors/{device}/+\n  sequence: n", "4: labels.topic: expected topics that are none of readings.topic ('sensors/{device}/readings'), got 'sensors/{device}/+'"),
    # --- models ----------------------------------------------------------------------------------
    ("model:\n  type: GMVLQ", f"2: model.type: expected one of {MODELS}, got 'GMVLQ'; did you mean 'GMLVQ'?"),
    ("model:\n  parameters:\n    ranc: 3", "3: model.parameters.ranc: LGMLVQ has no such parameter; did you mean 'rank'?"),
    ("model:\n  type: LVQ1\n  parameters:\n    rank: 3", "4: model.parameters.rank: LVQ1 has no such parameter; it has prototypes_per_class, max_prototypes_per_class, learning_rate, absent, standardize, scale_floor, rehearsal, buffer_size, half_life, class_weight, seed"),
    ("model:\n  parameters:\n    rank: 0", "3: model.parameters.rank: expected a whole number of at least 1, got 0"),
    ("model:\n  parameters:\n    rank: eight", "3: model.parameters.rank: expected a whole number of at least 1, got 'eight'"),
    ("model:\n  parameters:\n    seed: 99999999999", "3: model.parameters.seed: expected a whole number up to 2147483647, got 99999999999"),
    ("model:\n  parameters:\n    standardize: 1", "3: model.parameters.standardize: expected a bool, got 1"),
    ("model:\n  parameters:\n    step: [adagrad]", "3: model.parameters.step: expected one of ('adagrad', 'constant', 'published'), got ['adagrad']"),
    ("model:\n  type: LVQCommittee\n  parameters:\n    members:\n      learner: GLVQ", "5: model.parameters.members.learner: expected a model such as {type: GLVQ, parameters: {half_life: 1000}}, got 'GLVQ'"),
    ("model:\n  type: LVQCommittee\n  parameters:\n    members:\n      learner:\n        type: GLVQ\n        parameters: {slope: 0}", "7: model.parameters.members.learner.parameters.slope: expected a number of at least 1e-06, got 0"),
    ("model:\n  type: WindowForest\n  parameters:\n    longest_window: 100\n    shortest_window: 5000", "5: model.parameters.shortest_window: expected at most longest_window (100), got 5000"),
    ("model:\n  per: site", "2: model.per: expected all, device or a placeholder of readings.topic (all, device), got 'site'"),
    ("model:\n  per: devices", "2: model.per: expected all, device or a placeholder of readings.topic (all, device), got 'devices'; did you mean 'device'?"),
    ("readings: {features: [a, b]}\nmodel:\n  max_features: 1", "3: model.max_features: expected at least as many as readings.features (2), got 1"),
    ("rejector: {}", "1: rejector: expected exactly one of threshold, target_rate, target_accuracy, reject_cost, got none"),
    ("rejector:\n  threshold: 0.1\n  target_rate: 0.1", "1: rejector: expected exactly one of threshold, target_rate, target_accuracy, reject_cost, got threshold and target_rate"),
    ("rejector:\n  threshold: 0.1\n  per_class: yes", "3: rejector.per_class: expected an adaptive threshold, got threshold=0.1; for fixed thresholds per class use a mapping"),
    ("rejector:\n  threshold: {}", "2: rejector.threshold: expected at least one label, got {}"),
    ("model: {type: PairwiseLVQ}\nrejector:\n  target_rate: 0.1", "2: rejector.type: expected a model of streamlvq with prototypes, got PairwiseLVQ, which has no RelSim; use type: probability"),
    ("admission:\n  after: 0", "2: admission.after: expected a whole number from 1 to 20, got 0"),
    ("integrator:\n  window: adaptve", "2: integrator.window: expected a whole number from 1 to 100000 or adaptive, got 'adaptve'; did you mean 'adaptive'?"),
    ("rejector:\n  type: relsm", "2: rejector.type: expected probability or relsim, got 'relsm'; did you mean 'relsim'?"),
    ("integrator:\n  window: 0", "2: integrator.window: expected a whole number from 1 to 100000 or adaptive, got 0"),
    ("decisions:\n  when: rejection", "2: decisions.when: expected a section 'rejector:' too: without one nothing is ever rejected"),
    # --- running ---------------------------------------------------------------------------------
    ("shard:\n  index: 2\n  count: 2", "2: shard.index: expected less than shard.count (2), got 2; the first shard is 0"),
    ("state:\n  duplicates: 10", "2: state.duplicates: expected at least broker.receive_maximum (1000), got 10: after a crash the broker sends so many again"),
    ("state:\n  folder: ''", "2: state.folder: expected the name of a folder, got ''"),
    ("decisions:\n  file: ''", "2: decisions.file: expected the name of a file, got ''"),
    ("health:\n  host: ''", "2: health.host: expected an address to listen on, such as 127.0.0.1, got ''"),
    ("health: {port: 80}\nstate:\n  snapshot_seconds: 600", "1: health.snapshot_age_seconds: expected more than state.snapshot_seconds (600), got 600: health would be bad between two snapshots"),
    # --- fleet -----------------------------------------------------------------------------------
    ("fleet:\n  name: ovens", "1: fleet.trust: missing; expected something such as '/etc/streamlvq/trusted-keys.txt'"),
    ("fleet:\n  trust: everyone", "1: fleet.name: missing; expected something such as 'ovens'"),
    ("fleet:\n  trust: everyone\n  name: my ovens", "3: fleet.name: expected 1 to 64 letters, digits, dots, hyphens and underscores, got 'my ovens'"),
    ("fleet:\n  name: f\n  trust: ''", "3: fleet.trust: expected the file of trusted keys, or everyone, got ''"),
    ("fleet:\n  name: f\n  trust: keys.txt", "1: fleet.key_file: missing; a node that trusts only keys must also sign (`streamlvq keys new` makes a key), unless trust is everyone"),
    ("fleet:\n  name: f\n  trust: everyone\n  key_file: ''", "4: fleet.key_file: expected the name of a file, got ''"),
    ("fleet:\n  name: f\n  trust: everyone\n  node: ''", "4: fleet.node: expected a name of 1 to 200 printable characters and at most 255 bytes, got ''"),
    ("broker: {client_id: " + "x" * 201 + "}\nfleet:\n  name: f\n  trust: everyone", "2: fleet.node: expected a name of 1 to 200 printable characters and at most 255 bytes, got '" + "x" * 80 + "', which is broker.client_id"),
    ("fleet:\n  name: f\n  trust: everyone\n  node: \"a\\tb\"", "4: fleet.node: expected a name of 1 to 200 printable characters and at most 255 bytes, got 'a\\tb'"),
    ("fleet:\n  name: f\n  trust: everyone\n  node: " + "\u00e9" * 128, "4: fleet.node: expected a name of 1 to 200 printable characters and at most 255 bytes, got '" + "\u00e9" * 80 + "'"),
    ("fleet:\n  name: f\n  trust: everyone\n  role: boss", "4: fleet.role: expected hub, member or peer, got 'boss'"),
    ("fleet:\n  name: f\n  trust: everyone\n  serve: better", "4: fleet.serve: expected both, fused or local, got 'better'; write both instead"),
    ("fleet:\n  name: f\n  trust: everyone\n  serve: bot", "4: fleet.serve: expected both, fused or local, got 'bot'; did you mean 'both'?"),
    ("fleet:\n  name: f\n  trust: everyone\n  max_candidates: 0", "4: fleet.max_candidates: expected a whole number from 1 to 36, got 0"),
    ("fleet:\n  name: f\n  trust: everyone\n  role: member", "1: fleet.hub: missing; a member needs the name of the hub that it takes models from"),
    ("fleet:\n  name: f\n  trust: everyone\n  role: member\n  hub: ''", "5: fleet.hub: expected a name of 1 to 200 printable characters and at most 255 bytes, got ''"),
    ("fleet:\n  name: f\n  trust: everyone\n  role: member\n  hub: streamlvq", "5: fleet.hub: expected another name than this node's, got 'streamlvq'"),
    ("fleet:\n  name: f\n  trust: everyone\n  hub: h", "4: fleet.hub: expected none with role: peer, which fuses by itself"),
    ("fleet:\n  name: f\n  trust: everyone\n  role: hub\n  hub: h", "5: fleet.hub: expected none with role: hub, which is the hub, named by fleet.node"),
    ("fleet: {name: f, trust: everyone}\nmodel:\n  per: device", "3: model.per: expected all: a node of a fleet shares one model, got 'device'; run a daemon for each model, or leave the section 'fleet:' out"),
    ("fleet:\n  name: f\n  trust: everyone\n  max_age_seconds: 500", "4: fleet.max_age_seconds: expected at least twice publish_seconds (300), got 500: nodes would be left out between two publications"),
    ("fleet:\n  name: f\n  trust: everyone\n  publish_pause_seconds: 301", "4: fleet.publish_pause_seconds: expected at most publish_seconds (300), got 301"),
    ("fleet:\n  name: f\n  trust: everyone\n  max_snapshot_bytes: 10", "4: fleet.max_snapshot_bytes: expected a whole number from 1024 to 67108864, got 10"),
    ("fleet:\n  name: f\n  trust: everyone\n  topic_prefix: a/#", "4: fleet.topic_prefix: expected a topic to publish to, got the wildcard '#' in 'a/#'; name the level instead, such as {device}"),
    ("fleet:\n  name: f\n  trust: everyone\n  topic_prefix: a/{b}", "4: fleet.topic_prefix: expected a plain topic, got 'a/{b}'"),
    ("fleet: {name: f, trust: everyone}\nstatus:\n  topic: streamlvq/fleet/f/nodes/{client_id}", "3: status.topic: expected topics that are none of the fleet's ('streamlvq/fleet/f/nodes/+'), got 'streamlvq/fleet/f/nodes/{client_id}'"),
    ("fleet: {name: f, trust: everyone}\ndecisions: {topic: d}\nstatus: {topic: s, dead_letters: t}\nreadings:\n  topic: '{device}/+/+/models/#'", "5: readings.topic: expected topics that are none of the fleet's ('streamlvq/fleet/f/models/+'), got '{device}/+/+/models/#'"),
]  # fmt: skip


def message_of(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loads(text, name="plant.yaml")
    return str(caught.value)


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_is_said(text: str, message: str) -> None:
    assert message_of(text) == f"plant.yaml:{message}"


def test_the_table_covers_every_section() -> None:
    sections = {key.path for key in all_keys() if key.section}
    said = " ".join(message for _, message in BAD)
    assert [s for s in sections if f" {s}." not in said and f" {s}:" not in said] == ["logging"]


def test_all_errors_are_said_in_the_order_of_the_file() -> None:
    text = """\
broker:
  url: mqtt://user:hunter2@host
  keepalive_seconds: sixty
readings:
  topc: a/{device}
  qos: 7
model:
  type: GMLVQ
  parameters: {rank: 0}
rejecter: {target_rate: 0.1}
shard: {index: 3, count: 2}
"""
    lines = message_of(text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["2", "3", "5", "6", "9", "10", "11"]
    assert [line.split(": ")[1] for line in lines] == [
        "broker.url",
        "broker.keepalive_seconds",
        "readings.topc",
        "readings.qos",
        "model.parameters.rank",
        "rejecter",
        "shard.index",
    ]


@pytest.mark.parametrize(
    "text",
    [
        # Each would also be an error of another key if the default stood in for what is misspelt.
        "readings: {topc: 'plant/{site}/{device}'}\ndecisions: {topic: 'out/{site}/{device}'}",
        "readings: {topc: 'plant/{site}/{device}'}\nmodel: {per: site}",
        "readings: {sequense: n}\nlabels: {topic: 'l/{device}', sequence: n}",
        "rejecter: {target_rate: 0.1}\ndecisions: {when: rejection}",
        "shard: {index: 3, cuont: 4}",
        "state: {duplicates: 100}\nbroker: {receive_maximun: 50}",
    ],
)
def test_a_misspelt_key_is_the_only_complaint(text: str) -> None:
    message = message_of(text)
    assert message.count("\n") == 0
    assert "unknown key; did you mean" in message


def test_errors_know_path_line_and_message() -> None:
    with pytest.raises(ConfigError) as caught:
        loads("shard:\n  index: -1\n  count: 0", name="x.yaml")
    error = caught.value
    assert isinstance(error, StreamLVQError)
    assert isinstance(error, ValueError)
    assert error.name == "x.yaml"
    assert error.problems == (
        Problem(("shard", "index"), "expected a whole number from 0 to 65534, got -1", 2),
        Problem(("shard", "count"), "expected a whole number from 1 to 65535, got 0", 3),
    )


def test_what_is_not_in_the_file_has_no_line() -> None:
    message = message_of(
        "readings: {topic: '{device}/#'}\nstatus: {topic: null, dead_letters: null}"
    )
    assert message == (
        "plant.yaml: decisions.topic: expected a topic that readings.topic ('{device}/#') does not "
        "match, got 'sensors/{device}/decision': the daemon would listen to itself"
    )


@pytest.mark.parametrize(
    "text",
    [
        "broker: {url: 'mqtt://me:hunter2@host'}",
        "broker: {url: 'me:hunter2@host:99999999'}",
        "broker: {password: hunter2}",
        "broker: {password: [hunter2]}",
        "broker: {passwrd: hunter2}",
        "broker: {password_env: 'hunter2!'}",
        "broker: {password_env: [hunter2]}",
        "broker: {password_file: {hunter2: 1}, password_env: A}",
        "broker:\n  password: hunter2: x",
        "broker:\n  password: 'hunter2",
    ],
)
def test_passwords_are_not_repeated(text: str) -> None:
    assert "hunter2" not in message_of(text)


def test_long_values_are_cut_in_messages() -> None:
    assert len(message_of(f"readings: {{qos: {'x' * 5000}}}")) < 200


# --- files ---------------------------------------------------------------------------------------


def file_message(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value).removeprefix(str(path))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert (
        file_message(tmp_path / "no.yaml")
        == ": expected a file to read, got: No such file or directory"
    )
    assert file_message(tmp_path) == ": expected a file to read, got: Is a directory"


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"broker:\n  url: mqtt://caf\xe9\n")
    assert file_message(path) == ":2: expected UTF-8 text, got the byte 0xe9"


def test_files_that_are_too_large(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    assert file_message(path) == ": expected a configuration of at most 1 MiB, got a larger file"
    assert "at most 1 MiB, got 1048577 characters" in message_of("#" * (1 << 20) + "\n")


def test_a_bomb_of_aliases_does_not_go_off() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert message_of("\n".join(lines)) == "plant.yaml:2: expected a value, got the alias *a0"


# --- anything at all -----------------------------------------------------------------------------

KEY_NAMES = sorted({key.name for key in all_keys()})
SCALARS = st.one_of(
    st.sampled_from(
        ["", "~", "yes", "off", "1e-3", "010", "0x1F", "1_000", ".inf", ".nan", "1:30"]
    ),
    st.sampled_from(
        ["'5'", '"x"', "{device}", "a/{device}", "'{a}/{device}'", "*a", "&a b", "!!x y"]
    ),
    st.sampled_from(
        ["LGMLVQ", "PairwiseLVQ", "relsim", "iso", "float32", "mqtt://h", "mqtts://h:1"]
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=8),
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Lines that look like a configuration, and are often wrong."""
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        indent = draw(st.sampled_from(["", "  ", "    ", "- "]))
        name = draw(st.sampled_from(KEY_NAMES) | st.text(max_size=4))
        lines.append(f"{indent}{name}: {draw(SCALARS)}")
    return "\n".join(lines)


def config_or_error(text: str) -> None:
    try:
        assert isinstance(loads(text), Config)
    except ConfigError as error:
        assert error.problems
        assert all(problem.message for problem in error.problems)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
@example('"\\U99999999"')
@example('a: "\\ud800"')
@example("model: {parameters: {rank: 99999999999999999999999999999999999999999999}}")
@example("health: {port: " + "9" * 6000 + "}")
@example('broker: {client_id: "\\ud800"}')
@example('decisions: {topic: "\\ud800"}')
def test_lines_are_a_configuration_or_an_error(text: str) -> None:
    config_or_error(text)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_text_is_a_configuration_or_an_error(text: str) -> None:
    config_or_error(text)


@settings(max_examples=100, deadline=None)
@given(st.binary())
def test_bytes_are_a_configuration_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    try:
        assert isinstance(load(path), Config)
    except ConfigError as error:
        assert error.problems


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([key.name for key in all_keys() if key.section and not key.depth]),
        st.dictionaries(
            st.sampled_from(KEY_NAMES),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=3), inner, max_size=3)
                ),
                max_leaves=4,
            ),
            max_size=4,
        ),
    )
)
def test_values_of_any_type_are_a_configuration_or_an_error(values: dict[str, object]) -> None:
    yaml = pytest.importorskip("yaml")
    config_or_error(yaml.safe_dump(values))
