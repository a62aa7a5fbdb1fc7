"""Golden files: today's bytes, texts and names, so that moving code cannot change them unnoticed.

`python tests/test_golden.py` writes the files in `tests/golden/` anew; the diff of `digests.json`
then says what an intentional change has changed.

Learning rounds differently on other processors, and so do LAPACK and BLAS: bytes that depend on it
are compared exactly only on a machine like the one in `machine.json` and by their numbers
elsewhere. What needs no learning (reading files back, envelopes, journals) is always exact.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import msgspec
import numba
import numpy as np
import numpy.typing as npt
import pytest
import scipy

import streamlvq
from streamlvq import Monitor, Snapshot, fuse
from streamlvq.cli import main
from streamlvq.config import Config, loads
from streamlvq.connect import Message
from support.brokers import available
from support.daemons import Client, Daemon, until
from support.daemons import readings as daemon_readings
from support.daemons import settings as daemon_settings
from support.fleets import ROOT, hub_settings, node_readings, node_settings

# --- the names that a refactoring may change: everything internal is in this section --------------

from streamlvq.service.journal import Journal, Received, Serve  # isort: skip
from streamlvq.service.processor import MessageProcessor  # isort: skip
from streamlvq.events import Refused  # isort: skip
from streamlvq.fleet import Header, PrivateKey, TrustedKeys, parse_envelope, seal  # isort: skip
from streamlvq.payloads import Decoder, Encoder, dead_letter  # isort: skip

AGGREGATOR = "aggregator"  # the keyword of `fuse`


class Service:
    """From messages to published decisions, as in the daemon but without its input and output."""

    def __init__(self, text: str) -> None:
        config = loads(text)
        self.monitor = Monitor(config)
        self._processor = MessageProcessor(Decoder(config), self.monitor)
        self._encoder = Encoder(config)

    def process(self, messages: list[Message]) -> list[str]:
        """Publish a decision for each reading, as lines of topic and payload."""
        result = self._processor.process(messages)
        assert [refused.reason for refused in result.refused] == []
        sent = [out for part in result.decisions for out in self._encoder.encode(part)]
        return [f"{out.topic} {out.payload.decode()}" for out in sent]


def journal_bytes(folder: Path) -> bytes:
    """Two batches of messages, and a model to serve between them."""
    journal = Journal(folder)
    messages = [Message("oven/1", b"20.5", 1.5), Message("oven/\xe9", b"\xff\x00", 2.0, True)]
    journal.append(Received(messages))
    journal.append(Serve("", b"a snapshot"))
    journal.append(Serve("", None))
    journal.append(Received([]))
    journal.close()
    (file,) = folder.glob("journal-*.log")
    return file.name.encode() + b"\n" + file.read_bytes()


def envelope_bytes(key: PrivateKey | None, payload: bytes, kind: str, **more: Any) -> bytes:
    header = Header("plant", "camera \xe9", kind, epoch=7, sequence=2, created=1.8e9, **more)
    return seal(payload, header, key)


def envelope_is_read(data: bytes, public: str) -> bytes:
    envelope = parse_envelope(data, limit=10_000)
    envelope.check(TrustedKeys({"camera \xe9": public, "hub": public}))
    return envelope.payload


def dead_letters() -> list[bytes]:
    return [
        dead_letter(Message("a/b", payload, 1.7e9, True), Refused(0, "payload", "expected JSON"))
        for payload in (b"oops", b"\xff\xfe", b"\xc3\xa9" * 10_000)
    ]


# --- where the files are --------------------------------------------------------------------------

FOLDER = Path(__file__).parent / "golden"
Bytes = dict[str, bytes]


def machine() -> dict[str, str]:
    """All that decides how numbers are rounded."""
    features = llvmlite.binding.get_host_cpu_features().flatten()
    return {
        "cpu": str(numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()),
        "features": hashlib.sha256(str(numba.config.CPU_FEATURES or features).encode()).hexdigest()[
            :16
        ],
        "blas": os.environ.get("OPENBLAS_CORETYPE", ""),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "compiled": str(not numba.config.DISABLE_JIT and not numba.config.BOUNDSCHECK),
        "opt": str(numba.config.OPT),
    }


def golden_text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def golden_json(name: str) -> Any:
    return json.loads(golden_text(name))


@functools.cache
def golden_files() -> Bytes:
    with zipfile.ZipFile(FOLDER / "files.zip") as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@functools.cache
def is_same_machine() -> bool:
    return bool(golden_json("machine.json") == machine())


def digest(data: bytes) -> list[Any]:
    return [len(data), hashlib.sha256(data).hexdigest()]


# --- small streams --------------------------------------------------------------------------------

FEATURES = ("heat", "noise", "flow", "power")
CLASSES = ("idle", "running", "worn")
UNITS = np.array([10.0, 0.5, 3.0, 200.0])
CENTRES = UNITS * np.array([[5.0, 5, 5, 5], [9, 8, 5, 7], [7, 11, 9, 7]])
SHIFTS = {"bath": 0.0, "leeds": 2.0, "york": -3.0}
Sample = tuple[dict[str, float], str]


def samples(count: int, seed: int = 0, shift: float = 0.0, missing: float = 0.05) -> list[Sample]:
    """Labelled readings; the last class comes late, a reading may lack a feature."""
    random = np.random.default_rng(seed)
    found = []
    for k in range(count):
        code = int(random.integers(2 if k < count // 4 else 3))
        values = CENTRES[code] + UNITS * (random.normal(size=4) + shift)
        rounded = values.round(3).tolist()
        there = random.random(4) >= missing
        x = {
            name: v for name, v, is_there in zip(FEATURES, rounded, there, strict=True) if is_there
        }
        found.append((x, CLASSES[code]))
    return found


def messages(count: int, *, late: int = 0, seed: int = 0) -> list[Message]:
    """Readings of three devices as JSON; the labels of some come later, the last `late` never."""
    random = np.random.default_rng(100 + seed)
    found: list[Message] = []
    owed: list[Message] = []
    for n, (x, y) in enumerate(samples(count, seed)):
        device = f"d{n % 3}"
        payload: dict[str, Any] = {**x, "t": 1.7e9 + n, "n": n}
        if random.random() < 0.6 and n < count - late:
            payload["y"] = y
        else:
            label = json.dumps({"label": y, "n": n}).encode()
            owed.append(Message(f"plant/{device}/labels", label, 1.7e9 + n))
        found.append(Message(f"plant/{device}/readings", json.dumps(payload).encode(), 1.7e9 + n))
        if n % 40 == 39 and n < count - late:
            found += owed[::2]
            owed.clear()
    return found


# --- what is made: each function gives the bytes of some golden files -----------------------------

SMALL = {"buffer_size": 30}


def classifiers() -> dict[str, Callable[[], Any]]:
    """Every model that is exported, and wrappers around some."""
    s = streamlvq
    every = {
        name: getattr(s, name)
        for name in s.__all__
        if name.endswith(("LVQ", "LVQ1", "LVQ21", "LVQ3")) and name != "LVQCommittee"
    }
    made: dict[str, Callable[[], Any]] = {
        name: functools.partial(model, **SMALL) for name, model in every.items()
    }
    return made | {
        "GLVQ-empty": s.GLVQ,
        "GLVQ-grown": lambda: s.GLVQ(
            prototypes_per_class=2, max_prototypes_per_class=3, half_life=50, seed=7, **SMALL
        ),
        "GMLVQ-rank": lambda: s.GMLVQ(rank=2, step="constant", **SMALL),
        "LVQ1-raw": lambda: s.LVQ1(standardize=False, **SMALL),
        "PairwiseLVQ-rank": lambda: s.PairwiseLVQ(rank=2, **SMALL),
        "LVQCommittee": s.LVQCommittee,
        "LVQCommittee-own": lambda: s.LVQCommittee(
            members={
                "learner": s.GMLVQ(**SMALL),
                "follower": s.GLVQ(half_life=40, buffer_size=20),
            }
        ),
        "FeatureTransform": lambda: s.FeatureTransform(s.GLVQ(**SMALL)),
        "FeatureTransform-some": lambda: s.FeatureTransform(
            s.LGRLVQ(**SMALL), "sqrt", ["heat", "flow"]
        ),
        "TimeIntegrator": lambda: s.TimeIntegrator(s.GMLVQ(**SMALL), window=4),
        "TimeIntegrator-gap": lambda: s.TimeIntegrator(
            s.LVQCommittee(), window=5, centered=True, max_gap=3.0
        ),
        "RelSimRejector": lambda: s.RelSimRejector(s.GLVQ(**SMALL), target_rate=0.1, memory=40),
        "RelSimRejector-window": lambda: s.RelSimRejector(
            s.TimeIntegrator(s.GLVQ(**SMALL), window=3),
            target_accuracy=0.9,
            memory=30,
            per_class=True,
        ),
        "ProbabilityRejector": lambda: s.ProbabilityRejector(
            s.TimeIntegrator(s.RSLVQ(**SMALL), window=3), reject_cost=0.2
        ),
        "ProbabilityRejector-pairs": lambda: s.ProbabilityRejector(
            s.PairwiseLVQ(**SMALL), target_accuracy=0.8, memory=40
        ),
        "whole chain": lambda: s.FeatureTransform(
            s.RelSimRejector(
                s.TimeIntegrator(s.LGMLVQ(**SMALL), window=3), threshold=dict.fromkeys(CLASSES, 0.2)
            ),
            "asinh",
        ),
    }


def learnt(name: str) -> Any:
    """A classifier of this name after a stream; wrappers see devices and times."""
    model = classifiers()[name]()
    if name.endswith("-empty"):
        return model
    has_window = "TimeIntegrator" in repr(Snapshot.of(model))
    for n, (x, y) in enumerate(samples(150)):
        extra = origin(n) if has_window else {}
        model.predict_proba_one(x, **extra)
        model.learn_one(x, y, **extra)
    return model


def origin(n: int) -> dict[str, Any]:
    """What a window wants to know about the n-th reading."""
    return {"device": f"d{n % 3}", "t": 1.7e9 + n + n // 50}


def snapshot_bytes(name: str) -> Bytes:
    """A classifier with its readings, and as it is shared."""
    model = learnt(name)
    created = 1.8e9 if name == "GLVQ-grown" else None
    return {
        f"snapshots/{name}": Snapshot.of(model, created=created).to_bytes(),
        f"snapshots/{name}, shared": Snapshot.of(model, "camera \xe9", readings=False).to_bytes(),
    }


SERVICE = """
readings: {topic: "plant/{device}/readings", label: y, time: t, sequence: n}
labels: {topic: "plant/{device}/labels", sequence: n, wait: 100}
decisions: {topic: "plant/{device}/decision"}
state: {duplicates: 1000}
"""
SERVICES = {
    "plain": "model: {type: GLVQ, parameters: {buffer_size: 30}}",
    "window": """
model: {type: GLVQ, parameters: {buffer_size: 30}}
integrator: {window: 4, max_gap: 20}
rejector: {target_accuracy: 0.9, memory: 40}
""",
    "per device": """
model: {type: PairwiseLVQ, per: device, transform: log, parameters: {buffer_size: 20}}
integrator: {window: 2}
rejector: {type: probability, target_rate: 0.2, memory: 20}
""",
    "serving": """
model: {type: GMLVQ, parameters: {buffer_size: 30}}
integrator: {window: 3}
rejector: {target_rate: 0.1, memory: 40}
fleet: {name: plant, trust: everyone, serve: both}
""",
}


@functools.cache
def service(name: str) -> tuple[bytes, str]:
    """A checkpoint after some messages, and the decisions that were published until then.

    One reading comes twice, labels come late, and some readings still wait for theirs.
    """
    running, published = Service(SERVICE + SERVICES[name]), []
    stream = messages(120, late=15)
    stream.insert(60, stream[55])
    for start in range(0, len(stream), 16):
        if name == "serving" and start == 64:
            running.monitor.serve("", fused_nodes("GMLVQ").for_node("york"))
        published += running.process(stream[start : start + 16])
    assert running.monitor.waiting > 0
    return running.monitor.checkpoint(), "".join(f"{line}\n" for line in published)


def checkpoint_bytes(name: str) -> Bytes:
    return {f"checkpoints/{name}": service(name)[0]}


FUSED = ("GLVQ", "GRLVQ", "LGMLVQ", "PairwiseLVQ", "LVQCommittee")
FUSIONS: dict[str, dict[str, Any]] = {
    **{f"drift {name}": {"drift": name} for name in ("auto", "none", "tree")},
    "drift least_squares": {"drift": "least_squares", "weighting": "uniform"},
    "drift scale_shift": {"drift": "scale_shift", "screen": False},
    **{
        name: {AGGREGATOR: name, "drift": "least_squares", "quorum": 2}
        for name in ("mean", "median", "trimmed_mean", "geometric_median")
    },
}


@functools.cache
def nodes(model: str) -> tuple[Snapshot, ...]:
    """Three nodes whose sensors are shifted; the last has never seen a class."""
    found = []
    for seed, (name, shift) in enumerate(SHIFTS.items()):
        learner = getattr(streamlvq, model)()
        for x, y in samples(120, seed, shift, missing=0.0):
            if (name, y) != ("york", "worn"):
                learner.learn_one(x, y)
        found.append(Snapshot.of(learner, name, readings=False))
    return tuple(found)


def fused_nodes(model: str, how: str = "drift auto") -> Any:
    return fuse(nodes(model), **FUSIONS[how])


def fusion_bytes(model: str) -> Bytes:
    """What each node is given, for each way to fuse; and the report."""
    found: Bytes = {}
    for how in FUSIONS:
        fused = fused_nodes(model, how)
        for name in fused.nodes:
            found[f"fusion/{model}, {how}, {name}"] = fused.snapshot(name).to_bytes()
        if model == "GLVQ":
            report = msgspec.to_builtins(fused.report, str_keys=True)
            found[f"fusion/{model}, {how}, report.json"] = json.dumps(report).encode()
    return found


def decision_bytes(name: str) -> Bytes:
    return {f"decisions/published {name}.jsonl": service(name)[1].encode()}


def replay_bytes(folder: Path) -> Bytes:
    """What `streamlvq replay --decisions` writes."""
    lines = [",".join(("t", "pump", *FEATURES, "state"))]
    for n, (x, y) in enumerate(samples(90, seed=3)):
        values = [str(x.get(name, "")) for name in FEATURES]
        lines.append(",".join([f"{1.7e9 + n:.0f}", f"p{n % 2}", *values, y if n % 5 else ""]))
    log, config, out = folder / "plant.csv", folder / "c.yaml", folder / "out.jsonl"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config.write_text(
        "readings: {label: state, time: t, device: pump}\nmodel: {type: GLVQ}\n"
        "integrator: {window: 3}\nrejector: {target_rate: 0.1, memory: 30}\n"
    )
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["replay", str(log), "--config", str(config), "--decisions", str(out)]) == 0
    return {"decisions/replay.jsonl": out.read_bytes()}


KEY = """\
-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
"""


def fixed_key(folder: Path) -> PrivateKey:
    path = folder / "node.key"
    if not path.exists():
        path.write_text(KEY)
        path.chmod(0o600)
    return PrivateKey.load(path)


def exact_bytes(folder: Path) -> Bytes:
    """What no processor changes."""
    key = fixed_key(folder)
    (folder / "journal").mkdir()
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(["keys", "show", str(folder / "node.key")]) == 0
    found = {
        "exact/envelope snapshot": envelope_bytes(key, b"what was learnt", "snapshot"),
        "exact/envelope model": envelope_bytes(key, b"what was fused", "model", author="hub"),
        "exact/envelope unsigned": envelope_bytes(None, b"", "snapshot"),
        "exact/keys show": shown.getvalue().replace(str(folder), "").encode(),
        "exact/journal": journal_bytes(folder / "journal"),
    }
    letters = {f"exact/dead letter {k}": data for k, data in enumerate(dead_letters())}
    return found | letters


def help_texts() -> dict[str, str]:
    """`--help` of the command line and of all commands that it lists."""
    first = _help()
    listed = first.partition("commands:")[2].partition("\n\n")[0]
    names = re.findall(r"^    (\w+)", listed, re.MULTILINE)
    return {"": first} | {name: _help(name) for name in names}


def _help(*command: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setenv("COLUMNS", "100")
        patch.setenv("NO_COLOR", "1")
        with pytest.raises(SystemExit):
            main([*command, "--help"])
    return out.getvalue()


# --- metrics of real processes --------------------------------------------------------------------

Metrics = dict[str, list[str]]  # the type of each, then its labels


def metrics_of(daemon: Daemon) -> Metrics:
    """Names, types and labels of what stands at /metrics; help texts and values are free."""
    with urllib.request.urlopen(daemon._url("metrics"), timeout=5) as answer:
        text = answer.read().decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {name: set() for name in types}
    for name, inside in re.findall(r"^([a-z_A-Z]\w*)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        whole = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        labels[whole] |= set(re.findall(r'(?:^|,)(\w+)="', inside))
    return {name: [kind, *sorted(labels[name])] for name, kind in sorted(types.items())}


@contextlib.contextmanager
def processes(folder: Path) -> Iterator[dict[str, Daemon]]:
    """A daemon by itself, a hub and two members that decide with what it fused."""
    if not available():
        pytest.skip("expected a broker (mosquitto, or nats-server from the extra demo), got none")
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(available()[0]())
        member = {"role": "member", "hub": "hub", "min_samples": 60, "publish_after": 10**6}
        wanted = {
            "daemon": daemon_settings(broker, folder / "daemon"),
            "hub": hub_settings(broker, folder),
            **{name: node_settings(broker, folder, name, fleet=member) for name in ("a", "b")},
        }
        started = {
            name: stack.enter_context(Daemon(folder / name, config).launch())
            for name, config in wanted.items()
        }
        for daemon in started.values():
            until(lambda d=daemon: "READY=1" in d.heard or d.ended(), 120, "ready")
            assert not daemon.ended(), daemon.log
        client = stack.enter_context(Client(broker))
        client.send(daemon_readings(100))
        client.send(node_readings("b", 60))
        until(lambda: started["hub"].metrics()["streamlvq_fleet_members"] == 1, 60, "b is known")
        client.send(node_readings("a", 60))
        until(lambda: started["a"].metrics()["streamlvq_fleet_installed_total"], 60, "installed")
        client.send(node_readings("a", 60, first=1000))
        bad = (
            "plant/d0/readings",
            "plant/a/d0/readings",
            f"{ROOT}/nodes/x",
            f"{ROOT}/models/a",
        )
        client.send([Message(topic, b"oops", 1.0) for topic in bad])
        yield started


def observed_metrics(folder: Path) -> dict[str, Metrics]:
    with processes(folder) as running:
        time.sleep(3.0)
        return {name: metrics_of(running[name]) for name in ("daemon", "hub", "a")}


# --- comparing ------------------------------------------------------------------------------------

Array = npt.NDArray[Any]


def contents(data: bytes) -> tuple[dict[str, Array], Any]:
    """The arrays of a safetensors file and what its header says, without the checksum."""
    from safetensors.numpy import load

    arrays = dict(load(data))
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    (said,) = (json.loads(text) for text in header["__metadata__"].values())
    said.pop("checksum")
    return arrays, said


def assert_close(got: Any, expected: Any, where: str = "") -> None:
    """Equal, but for the last digits of numbers."""
    if isinstance(expected, float) or isinstance(got, float):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True), where
    elif isinstance(expected, dict):
        assert list(got) == list(expected), where
        for name in expected:
            assert_close(got[name], expected[name], f"{where}/{name}")
    elif isinstance(expected, list):
        assert len(got) == len(expected), where
        for k, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
            assert_close(mine, theirs, f"{where}/{k}")
    else:
        assert got == expected, where


def assert_same_numbers(got: bytes, expected: bytes, where: str) -> None:
    """Arrays of the same names, types, shapes and norms; a metric may be turned around."""
    (arrays, said), (wanted, wished) = contents(got), contents(expected)
    assert_close(said, wished, where)
    assert sorted(arrays) == sorted(wanted), where
    for name, array in wanted.items():
        mine = arrays[name]
        assert (mine.dtype, mine.shape) == (array.dtype, array.shape), f"{where}: {name}"
        if array.dtype.kind == "f":
            assert _norm(mine) == pytest.approx(_norm(array), rel=1e-4), f"{where}: {name}"


def _norm(array: Array) -> list[float]:
    finite = array[np.isfinite(array)]
    return [float(finite.size), float(np.sqrt(np.sum(finite.astype(np.float64) ** 2)))]


def assert_golden(made: Bytes, *, exact: bool) -> None:
    """Compare with the golden files; of some only the digest is kept."""
    digests, files = golden_json("digests.json"), golden_files()
    for name, data in made.items():
        assert name in digests, f"{name}: run `python tests/test_golden.py` for something new"
        if exact or is_same_machine():
            if digest(data) == digests[name]:
                continue
            if name not in files:
                assert digest(data) == digests[name], name
        if name not in files:
            continue
        if name.endswith((".json", ".jsonl")):
            mine, theirs = (_lines(text) for text in (data, files[name]))
            assert_close(mine, theirs, name)
        elif not exact:
            assert_same_numbers(data, files[name], name)
        if exact or is_same_machine():
            assert data == files[name], f"{name}: the same numbers, other bytes"


def _lines(data: bytes) -> list[Any]:
    return [json.loads("{" + line.partition("{")[2]) for line in data.decode().splitlines()]


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", classifiers())
def test_snapshots_of_every_model_and_wrapper(name: str) -> None:
    assert_golden(snapshot_bytes(name), exact=False)


@pytest.mark.parametrize("name", classifiers())
def test_snapshots_of_before_are_read_and_written_alike(name: str) -> None:
    for what in (name, f"{name}, shared"):
        data = golden_files()[f"snapshots/{what}"]
        snapshot = Snapshot.from_bytes(data)
        assert snapshot.to_bytes() == data
        again = Snapshot.of(
            snapshot.classifier(),
            snapshot.node,
            readings=snapshot.has_readings,
            created=snapshot.created,
        )
        assert again.to_bytes() == data


@pytest.mark.parametrize("name", [n for n in classifiers() if not n.endswith("-empty")])
def test_snapshots_of_before_decide_alike(name: str) -> None:
    model = Snapshot.from_bytes(golden_files()[f"snapshots/{name}"]).classifier()
    assert_close(predictions(model), golden_json("predictions.json")[name], name)


def predictions(model: Any) -> list[dict[str, float]]:
    has_window = "TimeIntegrator" in repr(Snapshot.of(model))
    return [
        model.predict_proba_one(x, **(origin(150 + n) if has_window else {}))
        for n, (x, _) in enumerate(samples(4, seed=9))
    ]


@pytest.mark.parametrize("name", SERVICES)
def test_checkpoints(name: str) -> None:
    assert_golden(checkpoint_bytes(name), exact=False)


@pytest.mark.parametrize("name", SERVICES)
def test_checkpoints_of_before_are_restored(name: str) -> None:
    config: Config = loads(SERVICE + SERVICES[name])
    data = golden_files()[f"checkpoints/{name}"]
    assert Monitor.restore(config, data).checkpoint() == data


@pytest.mark.parametrize("name", SERVICES)
def test_published_decisions(name: str) -> None:
    assert_golden(decision_bytes(name), exact=False)


def test_replayed_decisions(tmp_path: Path) -> None:
    assert_golden(replay_bytes(tmp_path), exact=False)


@pytest.mark.parametrize("model", FUSED)
def test_fused_models(model: str) -> None:
    assert_golden(fusion_bytes(model), exact=False)


def test_envelopes_journals_and_dead_letters(tmp_path: Path) -> None:
    made = exact_bytes(tmp_path)
    assert_golden(made, exact=True)
    public = fixed_key(tmp_path).public
    for kind, payload in {"snapshot": b"what was learnt", "model": b"what was fused"}.items():
        assert envelope_is_read(golden_files()[f"exact/envelope {kind}"], public) == payload


def test_metrics_of_daemons(tmp_path: Path) -> None:
    expected = golden_json("metrics.json")
    with processes(tmp_path) as running:
        for name, wanted in expected.items():
            with contextlib.suppress(AssertionError):  # labels come with the first value
                until(lambda d=running[name], w=wanted: metrics_of(d) == w, 15)
            assert metrics_of(running[name]) == wanted, name


def test_help() -> None:
    expected, texts = golden_json("help.json"), help_texts()
    assert list(texts) == list(expected["texts"])
    for name, text in texts.items():
        wanted = "\n".join(expected["texts"][name]) + "\n"
        if expected["python"] == _python():
            assert text == wanted
        else:  # argparse writes it in another way
            assert _options(text) == _options(wanted)


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text))


def test_nothing_golden_is_left_over(tmp_path: Path) -> None:
    """What no test makes any more pins nothing."""
    kept = golden_json("digests.json")
    models = {f"snapshots/{name}{end}" for name in classifiers() for end in ("", ", shared")}
    assert {name for name in kept if name.startswith("snapshots/")} == models
    assert {n for n in kept if n.startswith("checkpoints/")} == {
        f"checkpoints/{n}" for n in SERVICES
    }
    assert {name for name in kept if name.startswith("exact/")} == set(exact_bytes(tmp_path))
    assert set(golden_files()) <= set(kept)
    assert all(digest(data) == kept[name] for name, data in golden_files().items())


# --- writing them anew ----------------------------------------------------------------------------


KEPT = ("york", ".json")


def is_kept_whole(name: str) -> bool:
    """Not every fused model: all nodes are given the same in other coordinates."""
    kept = ("fusion/GLVQ", "fusion/LGMLVQ")
    return not name.startswith("fusion/") or (name.startswith(kept) and name.endswith(KEPT))


def write() -> None:
    """Make all golden files."""
    FOLDER.mkdir(exist_ok=True)
    made: Bytes = {}
    for name in classifiers():
        made |= snapshot_bytes(name)
    for name in SERVICES:
        made |= checkpoint_bytes(name) | decision_bytes(name)
    for model in FUSED:
        made |= fusion_bytes(model)
    with tempfile.TemporaryDirectory() as folder:
        made |= exact_bytes(Path(folder)) | replay_bytes(Path(folder))
    with zipfile.ZipFile(FOLDER / "files.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name in filter(is_kept_whole, sorted(made)):
            entry = zipfile.ZipInfo(name)  # of 1980: the same bytes each time
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, made[name])
    digests = {name: digest(made[name]) for name in sorted(made)}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in digests.items()]
    _write("digests.json", "{\n" + ",\n".join(lines) + "\n}")
    probabilities = {
        name: predictions(Snapshot.from_bytes(made[f"snapshots/{name}"]).classifier())
        for name in classifiers()
        if not name.endswith("-empty")
    }
    _write("predictions.json", json.dumps(probabilities, indent=1))
    texts = {name: text.splitlines() for name, text in help_texts().items()}
    _write("help.json", json.dumps({"python": _python(), "texts": texts}, indent=1))
    with tempfile.TemporaryDirectory() as folder:
        metrics = observed_metrics(Path(folder))
    rows = {
        who: ",\n".join(f"  {json.dumps(n)}: {json.dumps(row)}" for n, row in found.items())
        for who, found in metrics.items()
    }
    parts = [f" {json.dumps(who)}: {{\n{lines}\n }}" for who, lines in rows.items()]
    _write("metrics.json", "{\n" + ",\n".join(parts) + "\n}")
    _write("machine.json", json.dumps(machine(), indent=1))


def _write(name: str, text: str) -> None:
    (FOLDER / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.iterdir())}
    print(sizes, sum(sizes.values()), file=sys.stderr)
