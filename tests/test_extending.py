"""The examples of CONTRIBUTING.md: a new part is one file and one line in a registry."""

from __future__ import annotations

import ast
import difflib
import gzip
import importlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import streamlvq
from streamlvq import registry
from streamlvq.config import Broker, ConfigError, ReadingsSection, build_classifier, loads
from streamlvq.config.schema import Config
from streamlvq.connect import Message, Outgoing, UnknownConnectorError, link_for, logs, open_log
from streamlvq.events import Readings
from streamlvq.fusion import FusionError, fuse
from streamlvq.fusion.aggregators import Median, get_aggregator
from streamlvq.fusion.corrections import NoCorrection, get_correction
from streamlvq.payloads import Decoder
from streamlvq.registry import AGGREGATORS, CORRECTIONS, FORMATS, MEMBERS, MODELS, Registry
from streamlvq.report.fusion_page import fusion_html
from streamlvq.snapshot import Snapshot
from support import ROOT
from support.samples import blobs, image_segments, taught
from support.small_fleet import LABELS, accuracy, fleet

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """The code blocks below a heading."""

    path: str  # of the file that the first block is
    source: str
    more: list[str]  # the other blocks

    @property
    def module(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".")

    @property
    def line(self) -> str:
        """The line in a registry."""
        (line,) = self.more
        assert line.count("\n") == 1
        return line

    def register(self, parts: Registry[Any]) -> str:
        """Do what the line does; return the name."""
        ((name, (target, summary)),) = ast.literal_eval(f"{{{self.line}}}").items()
        assert target.partition(":")[0] == self.module
        parts.register(name, target, summary)
        return str(name)


def example(heading: str) -> Example:
    body = TEXT.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    first, *more = [source for _, source in BLOCK.findall(body)]
    return Example(first.partition("\n")[0].removeprefix("# "), first, more)


REGISTERED = {
    "A model": MODELS,
    "A committee member": MEMBERS,
    "An aggregator": AGGREGATORS,
    "A drift correction": CORRECTIONS,
    "A payload format": FORMATS,
}
INSTALLED = ("A link", "A log")


def write(folder: Path, part: Example) -> None:
    path = folder / part.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(part.source, "utf-8")


@pytest.fixture(scope="module", autouse=True)
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What has a line in a registry: files beside those of their packages, and the lines."""
    folder = tmp_path_factory.mktemp("examples")
    names: list[tuple[Registry[Any], str]] = []
    with pytest.MonkeyPatch.context() as patch:
        for heading, parts in REGISTERED.items():
            part = example(heading)
            write(folder, part)
            package = importlib.import_module(part.module.rpartition(".")[0])
            beside = [*package.__path__, str((folder / part.path).parent)]
            patch.setattr(package, "__path__", beside)
            names.append((parts, part.register(parts)))
        yield
        for parts, name in names:
            parts.remove(name)
    for heading in REGISTERED:
        sys.modules.pop(example(heading).module, None)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with a link and a log, as an installer leaves it behind."""
    groups: dict[str, dict[str, str]] = {}
    for heading in INSTALLED:
        part = example(heading)
        write(tmp_path, part)
        (line,) = part.more
        groups |= tomllib.loads(line)["project"]["entry-points"]
    info = tmp_path / "plant_connectors-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plant-connectors\nVersion: 1.0\n")
    points = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [each for each in sys.modules if each.partition(".")[0] == "plant_connectors"]:
        del sys.modules[name]


# --- one file and one line ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, with a file and a line for each part."""
    folder = tmp_path_factory.mktemp("tree")
    unwanted = shutil.ignore_patterns("__pycache__", ".*")
    shutil.copytree(ROOT / "streamlvq", folder / "streamlvq", ignore=unwanted)
    before = {path for path in folder.rglob("*") if path.is_file()}
    lines = folder / "streamlvq" / "registry.py"
    old = text = lines.read_text("utf-8")
    for heading, parts in REGISTERED.items():
        part = example(heading)
        write(folder, part)
        (name,) = [name for name, value in vars(registry).items() if value is parts]
        start = text.index(f"\n{name}: ")
        end = text.index("\n    },\n)", start) + 1
        text = f"{text[:end]}        {part.line}{text[end:]}"
    lines.write_text(text, "utf-8")
    added = {path for path in folder.rglob("*") if path.is_file()} - before
    assert len(added) == len(REGISTERED)
    changes = [each[0] for each in difflib.ndiff(old.splitlines(), text.splitlines())]
    assert (changes.count("+"), changes.count("-")) == (len(REGISTERED), 0)
    return folder


def run(tree: Path, *arguments: str) -> str:
    """Standard output of a program that uses the copied sources."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, check=False, cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_line_offers_them(tree: Path) -> None:
    text = run(tree, "-m", "streamlvq", "fuse", "--help")
    for expected in ("loudest (the node with the largest weight)", "half_shift (half of a shift)"):
        assert expected in " ".join(text.split())
    assert re.search(r"\{auto,.*half_shift\}", text)
    assert re.search(r"\{mean,.*loudest\}", text)


def test_the_schema_and_its_documents_have_them(tree: Path) -> None:
    keys = json.loads(run(tree, "-m", "streamlvq", "config", "schema"))["properties"]
    model, format = keys["model"]["properties"]["type"], keys["readings"]["properties"]["format"]
    assert "RRSLVQ" in model["enum"] and "RRSLVQ" in model["description"]
    assert "logfmt" in format["enum"] and "text of names and values" in format["description"]
    fleet_keys = keys["fleet"]["properties"]
    assert "half_shift" in fleet_keys["drift"]["enum"]
    assert "loudest" in fleet_keys["aggregator"]["enum"]
    table = run(tree, "-c", "from streamlvq.config.documents import *; print(key_table())")
    for expected in ("RRSLVQ", "logfmt (text of names", "half_shift (half of", "loudest (the node"):
        assert expected in table


def test_a_configuration_may_name_them(tree: Path) -> None:
    path = tree / "plant.yaml"
    path.write_text(
        "model: {type: RRSLVQ}\nreadings: {format: logfmt, label: state, sequence: n}\n"
        "fleet: {name: ovens, node: a, trust: everyone, drift: half_shift, aggregator: loudest}\n"
    )
    code = (
        "import streamlvq\n"
        "from streamlvq.config import build_classifier, load\n"
        "from streamlvq.connect import Message\n"
        "from streamlvq.payloads import Decoder\n"
        f"assert streamlvq.__file__.startswith({str(tree)!r})\n"
        f"config = load({str(path)!r})\n"
        "message = Message('sensors/a/readings', b'n=7 rms=0.5 state=ok', 0.0)\n"
        "[event] = Decoder(config).decode([message]).events\n"
        "print(type(build_classifier(config)).__module__, event.rows.tolist(), event.labels)\n"
    )
    assert run(tree, "-c", code) == "streamlvq.models.rrslvq [[0.5]] ['ok']\n"


# --- models ---------------------------------------------------------------------------------------


def test_a_model_learns_and_is_kept() -> None:
    model = build_classifier(loads("model: {type: RRSLVQ, parameters: {rehearsal: 2}}"))
    assert type(model) is MODELS["RRSLVQ"] is streamlvq.RRSLVQ
    assert "metric_learning_rate\n        Step size" in (type(model).__doc__ or "")
    samples = image_segments(500)
    right = 0
    for x, y in samples:
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    assert right / len(samples) > 0.8
    assert np.ptp(list(model.relevances().values())) > 0.01, "it has learnt what matters"
    data = Snapshot.of(model).to_bytes()
    twin = Snapshot.from_bytes(data).classifier()
    assert type(twin) is type(model)
    assert twin.state().same_as(model.state())
    for x, y in samples[:50]:
        assert twin.predict_proba_one(x) == model.predict_proba_one(x)
        twin.learn_one(x, y)
        model.learn_one(x, y)
    assert twin.state().same_as(model.state())


def test_a_model_can_be_fused() -> None:
    fused = fuse(fleet("RRSLVQ"))
    assert type(fused.for_node("york")) is MODELS["RRSLVQ"]
    assert set(fused.snapshot("york").labels) == set(LABELS)
    assert accuracy(fused.for_node("york"), "york") > 0.9


def test_a_committee_member() -> None:
    committee = streamlvq.LVQCommittee(members=["learner", "follower", "slow"])
    model = "{type: LVQCommittee, parameters: {members: [learner, follower, slow]}}"
    configured = build_classifier(loads(f"model: {model}"))
    X, y = blobs(200, d=4, classes=3)
    for model in (committee, configured):
        taught(model, X, y.tolist())
        assert list(model.weights) == ["learner", "follower", "slow"]
        assert model.parts["slow"].half_life == 5000
    assert configured.state().same_as(committee.state())
    twin = Snapshot.from_bytes(Snapshot.of(committee).to_bytes()).classifier()
    assert twin.state().same_as(committee.state())
    alone = taught(streamlvq.GRLVQ(half_life=5000), X, y.tolist())
    assert alone.state().same_as(committee.parts["slow"].state())
    # Its opinion counts, and the members of a committee without it are the same.
    default = taught(streamlvq.LVQCommittee(members=["learner", "follower"]), X, y.tolist())
    for name, member in default.parts.items():
        assert member.state().same_as(committee.parts[name].state())
    assert not np.array_equal(default.predict_proba_array(X), committee.predict_proba_array(X))


def test_a_model_without_a_name_can_be_a_member() -> None:
    members = {"learner": None, "mine": MODELS["RRSLVQ"]()}
    committee = streamlvq.LVQCommittee(members=members)
    X, y = blobs(100, d=4, classes=3)
    taught(committee, X, y.tolist())
    alone = taught(MODELS["RRSLVQ"](), X, y.tolist())
    assert alone.state().same_as(committee.parts["mine"].state())


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("{a: {type: RRSLV}}", r"model.parameters.members.a.type: .*did you mean 'RRSLVQ'"),
        ("{a: RRSLVQ}", r"model.parameters.members.a: expected a model such as"),
        ("{a: }", r"model.parameters.members: member: expected one of learner.* got 'a'"),
        ("[GLVQ]", r"model.parameters.members: member: expected one of .*slow, got 'GLVQ'"),
        ("learner", r"model.parameters.members: expected names of members, or a mapping"),
    ],
)
def test_wrong_members_in_a_configuration(members: str, message: str) -> None:
    config = f"model: {{type: LVQCommittee, parameters: {{members: {members}}}}}"
    with pytest.raises(ConfigError, match=message):
        build_classifier(loads(config))


# --- fusion ---------------------------------------------------------------------------------------


def test_a_new_correction() -> None:
    half = fuse(fleet(), drift="half_shift", screen=False).report
    whole = fuse(fleet(), drift="least_squares", screen=False).report
    for name, node in half.nodes.items():
        for feature, shift in node.shift.items():
            assert 2 * shift == pytest.approx(whole.nodes[name].shift[feature])
    assert half.drift == "half_shift"
    assert any("half shifts of sensors do not explain" in text for text in half.warnings)
    page = fusion_html(half)
    assert "half shifts" in page and "half of a shift" in page


def test_only_what_says_so_is_tried_by_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(fuse(fleet()).report.trials) == {"none", "least_squares", "scale_shift"}
    monkeypatch.setattr(CORRECTIONS["half_shift"], "automatic", True)
    assert list(fuse(fleet()).report.trials)[-1] == "half_shift"


def test_a_new_aggregator() -> None:
    fused = fuse(fleet(), aggregator="loudest")
    assert fused.report.aggregator == "loudest"
    assert set(fused.snapshot("york").labels) == {"idle", "running", "worn"}  # it is not robust
    for node in fused.nodes:
        assert np.isfinite(fused.for_node(node).metric()).all()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(FusionError, match=r"drift: expected one of auto, .*half_shift"):
        fuse(fleet(), drift="whole_shift")
    with pytest.raises(FusionError, match=r"aggregator: expected one of mean, .*loudest, got"):
        fuse(fleet(), aggregator="silent")


def test_what_parts_say_of_themselves() -> None:
    assert {name for name in AGGREGATORS if not get_aggregator(name).robust} == {"mean", "loudest"}
    assert {name for name in AGGREGATORS if get_aggregator(name).linear} == {"mean"}
    assert 0.0 < Median.trimmed <= 0.5
    assert {name for name in CORRECTIONS if get_correction(name).one_frame} == {"none"}
    assert {name for name in CORRECTIONS if get_correction(name).needs_scales} == {"scale_shift"}
    assert NoCorrection.corrects == "nothing"


# --- payloads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [None, ["rms", "heat"]], ids=["found out", "given"])
@pytest.mark.parametrize("count", [1, 50])
def test_a_payload_format(features: list[str] | None, count: int) -> None:
    section = ReadingsSection(format="logfmt", features=features, label="state", sequence="n")
    payloads = [b"n=%d rms=%d.5 heat=61 state=ok" % (n, n) for n in range(count)]
    payloads.insert(count // 2, b"rms")
    messages = [Message("sensors/a/readings", payload, 1.7e9) for payload in payloads]
    decoded = Decoder(Config(readings=section)).decode(messages)
    events = [event for event in decoded.events if isinstance(event, Readings)]
    rows = {
        n: dict(zip(event.features, row, strict=True))
        for event in events
        for n, row in zip(event.sequences, event.rows.tolist(), strict=True)
    }
    assert rows == {n: {"rms": n + 0.5, "heat": 61.0} for n in range(count)}
    assert {label for event in events for label in event.labels} == {"ok"}
    (refused,) = decoded.refused
    assert (refused.source, refused.reason) == (count // 2, "payload")
    assert "expected text such as rms=0.42 state=ok, got" in refused.text


# --- connectors -----------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_link(installed: None) -> None:
    url = f"udp://127.0.0.1:{free_port()}"
    broker = loads(f"broker: {{url: '{url}'}}").broker
    link = link_for(url)(broker)
    assert link.connected and link.error is None
    assert link.read(0.0) == []
    link.publish([Outgoing("early", b"")])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sensor:
        sensor.bind(("127.0.0.1", 0))
        sensor.settimeout(10.0)
        sensor.sendto(b"sensors/a/readings rms=0.5 heat=61", ("127.0.0.1", int(url[-5:])))
        [message] = link.read(10.0)
        config = Config(broker=broker, readings=ReadingsSection(format="logfmt"))
        [event] = Decoder(config).decode([message]).events
        assert isinstance(event, Readings)
        assert (event.devices, sorted(event.features)) == (["a"], ["heat", "rms"])
        link.acknowledge([message])
        link.publish([Outgoing("decisions/a", b"ok")])
        link.close([Outgoing("status", b"gone")])
        assert sensor.recv(100) == b"decisions/a ok"
        assert sensor.recv(100) == b"status gone"
    counters = {name: count for name, count in link.counters.items() if count}
    assert counters == {"received": 1, "published": 2, "dropped": 1}


def test_a_link_that_is_not_installed() -> None:
    with pytest.raises(UnknownConnectorError, match=r"expected memory://, .* got 'udp://host:1'"):
        link_for("udp://host:1")
    with pytest.raises(ConfigError, match="expected mqtt:// or mqtts://, got 'udp://'"):
        loads("broker: {url: 'udp://host:1'}")
    assert Broker().url.startswith("mqtt://")


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("format", [None, "kcat"])
def test_a_log(installed: None, tmp_path: Path, ending: str, format: str | None) -> None:
    assert "kcat" in logs()
    path = tmp_path / f"plant.log{ending}"
    text = b'1700000000250\tsensors/a/readings\t{"rms": 1.5}\nnonsense\n1700000001000\tb\t\t\n'
    path.write_bytes(gzip.compress(text) if ending else text)
    log = open_log(path, None, format)
    assert (log.format, log.holds_messages) == ("kcat", True)
    assert log.read() == [
        Message("sensors/a/readings", b'{"rms": 1.5}', 1700000000.25, False, 1),
        Message("b", b"\t", 1700000001.0, False, 3),
    ]
    assert log.refused == ["line 2: expected time, topic and payload, got b'nonsense'"]
    assert log.read() is None
    assert log.progress == (path.stat().st_size,) * 2
    log.close()
