"""Configurations that are right: how they are read, built, shown and documented."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamlvq
from streamlvq import models
from streamlvq.config import (
    Address,
    Broker,
    Config,
    ConfigError,
    IntegratorSection,
    LabelsSection,
    ModelSection,
    ReadingsSection,
    RejectorSection,
    ShardSection,
    Tls,
    broker_address,
    broker_password,
    build_classifier,
    check,
    describe,
    load,
    loads,
    minimal_sample,
    sample,
)
from streamlvq.config.documents import (
    REQUIRED_VALUE,
    TABLE_END,
    TABLE_START,
    all_keys,
    json_schema,
    key_table,
    publish,
    readme_with_table,
)
from streamlvq.config.schema import KEY_DESCRIPTIONS, SECTION_DESCRIPTIONS
from streamlvq.registry import MODELS
from support import ROOT

FOLDER = ROOT / "configs"
EXAMPLES = sorted(FOLDER.glob("*.yaml"))


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# nothing", "---", "{}", "~", "\ufeff", "broker:\nshard: {}"]
)
def test_nothing_is_all_defaults(text: str, tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(text, "utf-8")
    assert load(path) == load(str(path)) == Config()


def test_a_whole_configuration() -> None:
    config = loads(
        """
broker:
  url: mqtts://broker.example
  protocol: 3.1.1
  tls: {verify: no}
readings:
  topic: plant/{site}/{device}/readings
  features: [vibration.rms, 7, on]
  time: t
  time_unit: ms
  sequence: seq
labels: {topic: "plant/{site}/{device}/label", sequence: seq}
model: {per: site, parameters: {rank: 8, half_life: 2e4, standardize: off, seed: null}}
integrator: {window: 0x10, max_gap: 1e-3}
rejector: {threshold: {on: 0.25, no: .5, 3: 1e-1, ~: 0, null: 0.75}, memory: 1_000}
state: {keep: 010, snapshot_seconds: 60}
"""
    )
    assert config.broker == Broker(
        url="mqtts://broker.example", protocol="3.1.1", tls=Tls(verify=False)
    )
    assert config.readings == ReadingsSection(
        topic="plant/{site}/{device}/readings",
        features=["vibration.rms", "7", "on"],
        time="t",
        time_unit="ms",
        sequence="seq",
    )
    assert config.labels == LabelsSection(topic="plant/{site}/{device}/label", sequence="seq")
    parameters = {"rank": 8, "half_life": 20_000.0, "standardize": False, "seed": None}
    assert config.model == ModelSection(per="site", parameters=parameters)
    assert config.integrator == IntegratorSection(window=16, max_gap=0.001)
    thresholds = {"on": 0.25, "no": 0.5, "3": 0.1, "~": 0.0, "null": 0.75}
    assert config.rejector == RejectorSection(threshold=thresholds)
    assert config.state.keep == 10  # not eight
    assert type(config.state.snapshot_seconds) is float


@pytest.mark.parametrize("written", ["5", "'5'", '"5"'])
def test_the_protocol_is_a_text_however_it_is_written(written: str) -> None:
    assert loads(f"broker: {{protocol: {written}}}").broker.protocol == "5"


@pytest.mark.parametrize(
    ("written", "number"),
    [("60", 60), ("60.0", 60), ("6e1", 60), ("+60", 60), ("0x3C", 60), ("060", 60), ("1_0", 10)],
)
def test_whole_numbers(written: str, number: int) -> None:
    seconds = loads(f"broker: {{keepalive_seconds: {written}}}").broker.keepalive_seconds
    assert seconds == number
    assert type(seconds) is int


@pytest.mark.parametrize(
    ("written", "number"),
    [("1e-3", 0.001), ("1E3", 1000), (".5", 0.5), ("5.", 5), ("1_0.5", 10.5), ("2.5e+1", 25)],
)
def test_numbers(written: str, number: float) -> None:
    assert loads(f"state: {{snapshot_seconds: {written}}}").state.snapshot_seconds == number


@pytest.mark.parametrize(("written", "truth"), [("true", True), ("No", False), ("ON", True)])
def test_truths(written: str, truth: bool) -> None:
    assert loads(f"state: {{sync: {written}}}").state.sync is truth


@given(st.floats(1e-6, 3e7))
def test_numbers_survive_being_written(number: float) -> None:
    text = f"state: {{snapshot_seconds: {number!r}}}"
    assert loads(text).state.snapshot_seconds == number


def test_empty_sections() -> None:
    config = loads("broker:\nlabels:\nintegrator:\nrejector:\nmodel:\n  parameters:\n")
    assert config == Config()
    assert loads("integrator: {}").integrator == IntegratorSection()


def test_null_switches_off() -> None:
    config = loads("decisions: {topic: null}\nstatus: {topic: ~, dead_letters:}")
    assert config.decisions.topic is None
    assert config.status.topic is None
    assert config.status.dead_letters is None


def test_texts_are_taken_as_they_are_written() -> None:
    config = loads("broker: {client_id: 007, username: yes}\nreadings: {label: 2025-01-01}")
    assert (config.broker.client_id, config.broker.username) == ("007", "yes")
    assert config.readings.label == "2025-01-01"


def test_check_takes_what_was_built_in_code() -> None:
    assert check(Config()) == Config()
    with pytest.raises(ConfigError, match=r"^shard.index: expected less than shard.count \(1\)"):
        check(Config(shard=ShardSection(index=1)))


# --- the broker ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mqtt://localhost", Address("mqtt", "localhost", 1883)),
        ("mqtt://localhost/", Address("mqtt", "localhost", 1883)),
        ("mqtts://10.0.0.5", Address("mqtts", "10.0.0.5", 8883)),
        ("mqtt://[::1]:18", Address("mqtt", "::1", 18)),
        ("memory://test", Address("memory", "test", 0)),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    assert broker_address(loads(f"broker: {{url: '{url}'}}").broker) == address


def test_a_bad_address_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^broker.url: expected a URL such as"):
        broker_address(Broker(url="localhost"))


def test_the_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(password_env="STREAMLVQ_TEST_PASSWORD")
    monkeypatch.delenv("STREAMLVQ_TEST_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match=r"^broker.password_env: .* that is not set$"):
        broker_password(broker)
    monkeypatch.setenv("STREAMLVQ_TEST_PASSWORD", "hunter2")
    assert broker_password(broker) == "hunter2"
    assert "hunter2" not in repr(Config(broker=broker)) + describe(Config(broker=broker))


def test_the_password_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    broker = Broker(password_file=str(path))
    with pytest.raises(ConfigError, match=r"^broker.password_file: .* No such file"):
        broker_password(broker)
    path.write_bytes(b"hunter 2 \r\n")
    assert broker_password(broker) == "hunter 2 "
    path.write_bytes(b"\xff\xfehunter2")
    with pytest.raises(ConfigError, match="not text in UTF-8") as caught:
        broker_password(broker)
    assert "hunter2" not in str(caught.value)
    assert broker_password(Broker()) is None


# --- the classifier ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_built(name: str) -> None:
    classifier = build_classifier(loads(f"model: {{type: {name}}}"))
    assert type(classifier) is MODELS[name]


def test_each_classifier_is_a_fresh_one() -> None:
    config = loads("model: {type: GLVQ, parameters: {learning_rate: 1e-2}}\nintegrator: {}")
    first, second = build_classifier(config), build_classifier(config)
    first.learn_one({"x": 1.0}, "a")
    assert first.classifier.classes == ("a",)
    assert second.classifier.classes == ()
    assert second.classifier.learning_rate == 0.01


def test_wrappers_go_around_the_model_in_order() -> None:
    config = loads(
        "readings: {time: t}\nintegrator: {window: 3, max_gap: 2, max_devices: 7}\n"
        "rejector: {type: probability, target_accuracy: 0.9, memory: 50, per_class: true}"
    )
    rejector = build_classifier(config)
    integrator = rejector.classifier
    assert type(rejector) is streamlvq.ProbabilityRejector
    assert (rejector.target_accuracy, rejector.memory, rejector.per_class) == (0.9, 50, True)
    assert type(integrator) is streamlvq.TimeIntegrator
    assert (integrator.window, integrator.max_gap, integrator.max_devices) == (3, 2.0, 7)
    assert type(integrator.classifier) is models.LGMLVQ


def test_thresholds_hold_for_labels_of_any_type() -> None:
    config = loads("rejector: {threshold: {1: 0.1, -2: 0.2, off: 0.3, 'true': 0.4, x: 0.5}}")
    rejector = build_classifier(config)
    found = [rejector.threshold_for(y) for y in (1, "1", -2, "off", "true", "x", "other")]
    assert found == [0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5]
    assert (
        build_classifier(loads("rejector: {threshold: {'true': 0.4, y: 1}}")).threshold_for(True)
        == 0.4
    )


def test_members_of_a_committee_are_models_too() -> None:
    config = loads(
        "model:\n  type: LVQCommittee\n  parameters:\n"
        "    members:\n      learner: {type: GMLVQ, parameters: {rank: 2}}\n"
        "      follower:\n      old: {type: LVQ1}\n"
    )
    learner, follower, old = build_classifier(config).parts.values()
    assert (type(learner), learner.rank) == (models.GMLVQ, 2)
    assert (type(follower), follower.half_life) == (models.GLVQ, 1000)
    assert type(old) is models.LVQ1
    named = loads("model: {type: LVQCommittee, parameters: {members: [learner, pairs]}}")
    assert list(build_classifier(named).parts) == ["learner", "pairs"]


def test_what_cannot_be_built_says_which_key() -> None:
    config = Config(model=ModelSection(parameters={"rank": -1}))
    with pytest.raises(ConfigError, match=r"^model.parameters.rank: expected a whole number"):
        build_classifier(config)


# --- words ---------------------------------------------------------------------------------------


def test_every_key_is_documented_and_nothing_else() -> None:
    assert {key.path for key in all_keys() if not key.section} == set(KEY_DESCRIPTIONS)
    assert {key.path for key in all_keys() if key.section} == set(SECTION_DESCRIPTIONS)


@pytest.mark.parametrize("path", [*KEY_DESCRIPTIONS, *SECTION_DESCRIPTIONS])
def test_words_are_sentences(path: str) -> None:
    meaning = (
        KEY_DESCRIPTIONS[path].meaning if path in KEY_DESCRIPTIONS else SECTION_DESCRIPTIONS[path]
    )
    assert re.match(r"[A-Z0-9/a-z]", meaning)
    assert meaning.endswith(".")
    assert "  " not in meaning


@pytest.mark.parametrize("path", KEY_DESCRIPTIONS)
def test_every_example_works(path: str) -> None:
    """Alone in a configuration that has what it needs, each example is taken as it is."""
    config = with_example(path)
    value: Any = msgspec.to_builtins(config)
    for part in path.split("."):
        value = value[part]
    assert value == KEY_DESCRIPTIONS[path].example


def with_example(path: str) -> Config:
    values: dict[str, Any] = {
        "broker": {"url": "mqtts://h"},
        "readings": {"topic": "plant/{site}/{device}/readings", "time": "t0", "sequence": "n"},
        "decisions": {"topic": "plant/{site}/{device}/decision"},
    }
    *sections, name = path.split(".")
    inner = values
    for part in sections:
        inner = inner.setdefault(part, {})
    if sections == ["labels"]:
        inner |= {"topic": "plant/{site}/{device}/labels"}
        inner |= {"sequence": "n"} if name != "time" else {}
    if sections == ["rejector"] and name not in ("threshold", "target_accuracy", "reject_cost"):
        inner["target_rate"] = 0.1
    if sections == ["fleet"]:
        inner |= {"name": "f", "trust": "everyone", "key_file": "x"}
        inner |= {"role": "member", "hub": "h"} if name in ("role", "hub") else {}
    if sections == ["privacy"]:
        values["model"] = {"type": "PrivateLVQ"}
        values["readings"] |= {"features": ["rms", "temperature"], "sequence": "n"}
        inner |= {"epsilon": 1.0, "classes": ["ok", "worn"]}
        inner |= {"bounds": {"rms": [0.0, 2.0], "temperature": [0.0, 120.0]}}
        inner |= {"segment": 20} if name == "unit" else {}
        inner |= {"unit": "segment"} if name == "segment" else {}
    if path == "broker.tls.key_file":
        inner["cert_file"] = "x"
    if path == "readings.columns":
        inner |= {"format": "json_array", "time": None, "sequence": None}
    inner[name] = KEY_DESCRIPTIONS[path].example
    if path in ("labels.topic", "status.home_assistant"):
        values["readings"]["topic"] = "sensors/{device}/readings"
        values["decisions"]["topic"] = "sensors/{device}/decision"
    return loads(json.dumps(values))


# --- samples and descriptions --------------------------------------------------------------------


def test_the_sample_says_the_defaults() -> None:
    assert loads(sample()) == Config()


def test_the_sample_has_every_key_once() -> None:
    names = re.findall(r"^ *#?([a-z_]+):(?: |$)", sample(), re.MULTILINE)
    assert names == [key.name for key in all_keys()]


def test_the_sample_has_every_meaning() -> None:
    text = " ".join(re.sub(r"^ *# ?", "", sample(), flags=re.MULTILINE).split())
    for meaning in [
        *SECTION_DESCRIPTIONS.values(),
        *(word.meaning for word in KEY_DESCRIPTIONS.values()),
    ]:
        assert meaning in text


@pytest.mark.parametrize("section", ["labels", "integrator", "rejector"])
def test_sections_of_the_sample_can_be_switched_on(section: str) -> None:
    """By taking the # away, and of what excludes each other all but one."""
    head, _, rest = sample().partition(f"#{section}:")
    body, gap, tail = rest.partition("\n\n")
    body = re.sub(r"^  #(?=\w)", "  ", body, flags=re.MULTILINE)
    others = "time" if section == "labels" else "target_accuracy|threshold|reject_cost"
    body = re.sub(rf"^  ({others}):.*$", "", body, flags=re.MULTILINE)
    text = f"{head}{section}:{body}{gap}{tail}"
    for name in ("time", "sequence"):
        text = text.replace(f"  #{name}: ", f"  {name}: ", 1)
    config = loads(text)
    assert getattr(config, section) is not None


def test_the_minimal_sample() -> None:
    config = loads(minimal_sample())
    assert config == Config(readings=ReadingsSection(label="label"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_published_configurations_work(path: Path) -> None:
    config = load(path)
    assert build_classifier(config) is not None
    assert check(config) == config


def test_the_published_configurations_are_these() -> None:
    names = {path.name for path in EXAMPLES}
    assert names == {
        "minimal.yaml",
        "machine.yaml",
        "edge-float32.yaml",
        "fleet-node.yaml",
        "private.yaml",
        "fleet-hub.yaml",
        "sample.yaml",
    }
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert [name for name in names if f"]({name})" not in readme] == []


def test_the_minimal_file_is_the_minimal_sample() -> None:
    assert load(FOLDER / "minimal.yaml") == loads(minimal_sample())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_descriptions_say_all(path: Path) -> None:
    config = load(path)
    assert loads(describe(config)) == config
    text = describe(config)
    assert [key.name for key in all_keys() if key.section and f"{key.name}:" not in text] == []


def test_descriptions_show_no_password() -> None:
    config = Config(broker=Broker(url="mqtt://me:hunter2@host"))  # only code can say that
    assert "hunter2" not in describe(config)
    assert "mqtt://***@host" in describe(config)


# --- published files -----------------------------------------------------------------------------

STALE = "stale; run: python -m streamlvq.config.documents configs"


def test_published_files_are_up_to_date() -> None:
    assert json.loads((FOLDER / "schema.json").read_text("utf-8")) == json_schema(), STALE
    assert (FOLDER / "sample.yaml").read_text("utf-8") == sample(), STALE
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert readme_with_table(readme) == readme, STALE


def test_publishing_writes_them(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(f"a\n{TABLE_START}\nold\n{TABLE_END}\nb\n")
    publish(tmp_path)
    assert load(tmp_path / "sample.yaml") == Config()
    assert (tmp_path / "schema.json").read_bytes() == (FOLDER / "schema.json").read_bytes()
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert readme == f"a\n{TABLE_START}\n{key_table()}{TABLE_END}\nb\n"
    with pytest.raises(ValueError, match="expected the lines"):
        readme_with_table("no marks")


def test_the_table_has_every_key() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \| .+ \|$", key_table(), re.MULTILINE)
    assert rows == [key.name for key in all_keys() if not key.section]


# --- the JSON Schema -----------------------------------------------------------------------------


def test_the_schema_describes_every_key() -> None:
    for key in all_keys():
        part: Any = json_schema()
        for name in key.path.split("."):
            part = part["properties"][name]
        assert part["description"] == (
            SECTION_DESCRIPTIONS[key.path] if key.section else KEY_DESCRIPTIONS[key.path].meaning
        )
        if not key.section:
            assert part["examples"] == [KEY_DESCRIPTIONS[key.path].example]
            assert part.get("default", REQUIRED_VALUE) == key.default


def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_editors_accept_what_we_accept(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    values = yaml.safe_load(path.read_text("utf-8"))
    assert list(validator().iter_errors(values)) == []


@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        ({"broker": {"protocol": 5}}, True),
        ({"broker": None}, True),
        ({"broker": {"keepalive_seconds": 0}}, False),
        ({"state": {"snapshot_seconds": 0}}, False),
        ({"readings": {"topc": "a"}}, False),
        ({"labels": {"label": "x"}}, False),
        ({"rejector": {"threshold": {"a": 0.1}}}, True),
        ({"rejector": {"threshold": {"a": 2}}}, False),
        ({"health": {"port": None}}, True),
        ({"fleet": {"name": "ovens", "trust": "everyone"}}, True),
        ({"fleet": {"name": "ovens"}}, False),
        ({"fleet": {"name": "ovens", "trust": "everyone", "role": "boss"}}, False),
    ],
)
def test_editors_refuse_what_we_refuse(values: dict[str, Any], accepted: bool) -> None:
    assert validator().is_valid(values) is accepted


# --- cost ----------------------------------------------------------------------------------------


def test_reading_a_configuration_loads_little() -> None:
    """No compiler, and YAML only once there is something to read."""
    code = (
        "import sys, streamlvq.config as c; assert 'yaml' not in sys.modules; "
        f"c.load({str(FOLDER / 'machine.yaml')!r}); "
        "assert 'yaml' in sys.modules; assert 'numba' not in sys.modules; "
        "assert 'paho' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
