"""What `config check` doubts about a fleet whose configuration can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamlvq.cli import main
from streamlvq.config import loads
from streamlvq.fleet import PrivateKey, TrustedKeys
from streamlvq.fleet.checks import config_warnings


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, PrivateKey]:
    made = {name: PrivateKey.new() for name in ("a", "b", "hub")}
    for name, key in made.items():
        key.save(tmp_path / f"{name}.key")
    return made


def trust(folder: Path, **keys: PrivateKey) -> None:
    TrustedKeys({name: key.public for name, key in keys.items()}, folder / "trust").save()


def asked(folder: Path, sections: dict[str, Any] | None = None, **fleet: Any) -> list[str]:
    section = {
        "name": "ovens",
        "node": "a",
        "trust": str(folder / "trust"),
        "key_file": str(folder / "a.key"),
        **fleet,
    }
    return config_warnings(loads(json.dumps({"fleet": section, **(sections or {})})))


def test_nothing_is_doubted_without_reason(tmp_path: Path, keys: dict[str, PrivateKey]) -> None:
    trust(tmp_path, a=keys["a"], b=keys["b"], hub=keys["hub"])
    assert asked(tmp_path) == []
    assert asked(tmp_path, role="member", hub="hub") == []
    hub = {"node": "hub", "key_file": str(tmp_path / "hub.key"), "role": "hub"}
    assert asked(tmp_path, **hub) == []
    assert asked(tmp_path, trust="everyone", key_file=None) == []
    assert config_warnings(loads("{}")) == []


def test_files_that_are_not_there(tmp_path: Path) -> None:
    key, trusted = asked(tmp_path)
    assert key.startswith(f"fleet.key_file: there is no file '{tmp_path}/a.key' here")
    assert f"`streamlvq keys new {tmp_path}/a.key`" in key
    assert trusted.startswith(f"fleet.trust: there is no file '{tmp_path}/trust' here")


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.key").write_text("rubbish")
    (tmp_path / "a.key").chmod(0o600)
    (tmp_path / "trust").write_text("rubbish")
    key, trusted = asked(tmp_path)
    assert "expected a private key" in key
    assert "trust:1: expected `node: key`" in trusted


def test_keys_that_do_not_belong_together(tmp_path: Path, keys: dict[str, PrivateKey]) -> None:
    trust(tmp_path, b=keys["b"])
    [doubt] = asked(tmp_path)
    assert "has no key of 'a'" in doubt
    assert doubt.endswith(f"keys trust {tmp_path}/trust a {keys['a'].public}`")
    trust(tmp_path, a=keys["b"], b=keys["b"])
    [doubt] = asked(tmp_path)
    assert doubt.startswith("fleet.key_file: ")
    assert doubt.endswith("--replace`")
    assert keys["b"].public in doubt
    trust(tmp_path, a=keys["a"])
    assert asked(tmp_path) == [f"fleet.trust: {tmp_path}/trust has no key of any other node"]
    [doubt] = asked(tmp_path, role="member", hub="hub")
    assert doubt.startswith("fleet.hub: ")


def test_a_hub_has_no_readings(tmp_path: Path, keys: dict[str, PrivateKey]) -> None:
    trust(tmp_path, a=keys["a"], b=keys["b"])
    sections = {"readings": {"topic": "ovens/{device}"}, "model": {"type": "GLVQ"}}
    found = asked(tmp_path, sections, role="hub")
    assert [doubt.partition(":")[0] for doubt in found] == ["readings", "model"]
    assert asked(tmp_path, sections) == []


def test_the_command_shows_doubts(
    tmp_path: Path, keys: dict[str, PrivateKey], capsys: pytest.CaptureFixture[str]
) -> None:
    trust(tmp_path, b=keys["b"])
    file = tmp_path / "node.yaml"
    fleet = {"name": "ovens", "node": "a", "trust": str(tmp_path / "trust")}
    file.write_text(json.dumps({"fleet": {**fleet, "key_file": str(tmp_path / "a.key")}}))
    assert main(["config", "check", str(file)]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{file}: warning: fleet.trust: ")
    assert last == f"{file}: can be read, with 1 warning"
    trust(tmp_path, a=keys["a"], b=keys["b"])
    assert main(["config", "check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: all is well\n"
