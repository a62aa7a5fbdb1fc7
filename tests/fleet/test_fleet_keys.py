"""Keys: files of real keys, files that people edit, and the command that makes them."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
from hypothesis import given
from hypothesis import strategies as st

from streamlvq.cli import main
from streamlvq.fleet import KeyFileError, PrivateKey, TrustedKeys
from streamlvq.fleet.keys import check_public, verify

# Fixed, because they are part of the names of tests, which must be the same in every process.
A, B, C = (base64.b64encode(bytes([7 * k, k]) * 16).decode() for k in (1, 2, 3))
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(str.isprintable)


# --- private keys --------------------------------------------------------------------------------


def test_a_key_comes_back_from_its_file(tmp_path: Path) -> None:
    key, path = PrivateKey.new(), tmp_path / "node.key"
    key.save(path)
    again = PrivateKey.load(path)
    assert again.public == key.public
    assert again.sign(b"data") == key.sign(b"data")
    assert [p.name for p in tmp_path.iterdir()] == ["node.key"]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    before = os.umask(0)
    try:
        PrivateKey.new().save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "node.key"
    path.write_text("precious")
    with pytest.raises(KeyFileError, match=r"node\.key: expected no file, got one"):
        PrivateKey.new().save(path)
    assert path.read_text() == "precious"
    assert [p.name for p in tmp_path.iterdir()] == ["node.key"]


def test_a_dangling_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "node.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError, match="expected no file"):
        PrivateKey.new().save(tmp_path / "node.key")
    assert not (tmp_path / "elsewhere").exists()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="expected to write a key, got 'No such file"):
        PrivateKey.new().save(tmp_path / "missing" / "node.key")


def test_others_see_a_key_that_can_be_read_by_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "node.key"
    PrivateKey.new().save(path)
    with caplog.at_level(logging.WARNING):
        PrivateKey.load(path)
        assert caplog.text == ""
        path.chmod(0o644)
        PrivateKey.load(path)
    assert "can be read by others (mode 0644): chmod 600" in caplog.text


def pem(key: object, password: bytes | None = None) -> bytes:
    lock = ser.BestAvailableEncryption(password) if password else ser.NoEncryption()
    return key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, lock)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a private key without a password"),
        (b"hello", "expected a private key without a password"),
        (os.urandom(200), "expected a private key without a password"),
        (b"-----BEGIN PRIVATE KEY-----\nMC4CAQAw", "expected a private key without a password"),
        (pem(ed25519.Ed25519PrivateKey.generate())[:-40], "expected a private key without"),
        (pem(ed25519.Ed25519PrivateKey.generate(), b"secret"), "without a password"),
        (pem(x25519.X25519PrivateKey.generate()), "expected an Ed25519 key"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "expected an Ed25519 key"),
        (b"x" * (2**20 + 1), "expected at most 1048576 bytes"),
    ],
    ids=["empty", "text", "noise", "begun", "cut", "locked", "x25519", "ec", "large"],
)
def test_files_that_are_no_key(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "node.key"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=words) as caught:
        PrivateKey.load(path)
    assert str(caught.value).startswith(str(path))


def test_keys_of_other_programs_are_welcome(tmp_path: Path) -> None:
    """The format is that of `openssl genpkey -algorithm ed25519`."""
    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "node.key").write_bytes(pem(key))
    signature = PrivateKey.load(tmp_path / "node.key").sign(b"data")
    key.public_key().verify(signature, b"data")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PrivateKey.load(tmp_path / "node.key")
    with pytest.raises(IsADirectoryError):
        PrivateKey.load(tmp_path)
    with pytest.raises(KeyFileError, match="expected a file"):
        PrivateKey.load("/dev/null")


def test_the_secret_stays_secret() -> None:
    key = PrivateKey.new()
    assert repr(key) == f"PrivateKey(public={key.public!r})"
    with pytest.raises(TypeError, match="expected to save a private key with `save`"):
        pickle.dumps(key)


def test_signatures() -> None:
    key, other = PrivateKey.new(), PrivateKey.new()
    signature = key.sign(b"data")
    assert verify(key.public, signature, b"data")
    assert not verify(key.public, signature, b"date")
    assert not verify(other.public, signature, b"data")
    assert not verify(key.public, signature[:-1], b"data")
    assert not verify(key.public, b"", b"data")


# --- public keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        A[:-1],
        A + "=",
        A + "\n",
        " " + A,
        A.replace("=", "A"),
        "é" * 44,
        "A" * 44,
        "=" * 44,
    ],
)
def test_texts_that_are_no_public_key(text: str) -> None:
    with pytest.raises(KeyFileError, match="expected a public key of 44 characters"):
        check_public(text)


def test_a_key_can_be_written_in_one_way_only() -> None:
    """The last character but one has two bits that are not used."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    spellings = [A[:42] + letter + "=" for letter in alphabet]
    good = []
    for text in spellings:
        try:
            good.append(check_public(text))
        except KeyFileError:
            continue
    assert A in good
    assert len(good) == 16


# --- those who are trusted -----------------------------------------------------------------------


def test_a_file_that_somebody_wrote(tmp_path: Path) -> None:
    path = tmp_path / "fleet.keys"
    path.write_text(
        f"# the hall\n\ncamera 1: {A}\n  kiln-2 :  {B}   # the new one\n"
        f'"hub: #3": {C}\r\nofen ü: {A}\n',
        encoding="utf-8-sig",
    )
    trust = TrustedKeys.load(path)
    assert dict(trust) == {"camera 1": A, "kiln-2": B, "hub: #3": C, "ofen ü": A}
    assert trust.get("camera 2") is None


def test_editing_keeps_what_people_wrote(tmp_path: Path) -> None:
    path = tmp_path / "fleet.keys"
    path.write_text(f"# the hall\ncamera 1: {A}  # old\n\n# the yard\ncamera 2: {B}  # good\n")
    trust = TrustedKeys.load(path)
    trust.add("camera 3", C)
    trust.add("camera 1", C)
    trust.add("camera 2", B)
    trust.save()
    assert path.read_text() == (
        f"# the hall\ncamera 1: {C}\n\n# the yard\ncamera 2: {B}  # good\ncamera 3: {C}\n"
    )
    assert dict(TrustedKeys.load(path)) == dict(trust)


@given(st.dictionaries(names, st.sampled_from([A, B, C]), max_size=5))
def test_any_name_comes_back_and_yaml_agrees(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("keys") / "fleet.keys"
    trust = TrustedKeys(keys, path)
    trust.save()
    assert dict(TrustedKeys.load(path)) == keys
    # As text: YAML takes some plain names (1, yes, null) for something else.
    assert (yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader) or {}) == keys


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("camera 2", "expected `node: key`, got 'camera 2'"),
        ("camera 2:", "expected `node: key`"),
        (f"{B}", "expected `node: key`"),
        (f": {B}", "node: expected 1 to 200|expected `node: key`"),
        (f"camera 2 {B}", "expected `node: key`"),
        (f"camera 2: {B[:-2]}", "expected a public key of 44 characters"),
        (f"camera 2: {B} {C}", "expected a public key|expected `node: key`"),
        (f"camera 1: {B}", "expected each node once, got 'camera 1' again: it is in line 2"),
        (f'"camera 2: {B}', "expected `node: key`"),
        (f'"cam\\era": {B}', "expected a name in quotes"),
        (f"{'x' * 201}: {B}", "node: expected 1 to 200 printable characters"),
        (f"a\tb: {B}", "node: expected 1 to 200 printable characters"),
        (f"- camera 2: {B[:9]}", "expected a public key"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "fleet.keys"
    path.write_text(f"# trusted\ncamera 1: {A}\n{line}\n")
    with pytest.raises(KeyFileError, match=words) as caught:
        TrustedKeys.load(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_files_that_hold_no_text(tmp_path: Path) -> None:
    (tmp_path / "fleet.keys").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KeyFileError, match="expected text in UTF-8"):
        TrustedKeys.load(tmp_path / "fleet.keys")
    with pytest.raises(FileNotFoundError):
        TrustedKeys.load(tmp_path / "missing.keys")
    with pytest.raises(KeyFileError, match="expected a path"):
        TrustedKeys().save()


def test_only_keys_and_names_are_added() -> None:
    trust = TrustedKeys({"camera 1": A})
    with pytest.raises(KeyFileError, match="expected a public key"):
        trust.add("camera 2", "hello")
    with pytest.raises(KeyFileError, match="node: expected"):
        trust.add("a\nb", B)
    assert dict(trust) == {"camera 1": A}


# --- the command ---------------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["keys", *map(str, arguments)])
    return (status, *capsys.readouterr())


def test_a_fleet_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, trusted = tmp_path / "camera1.key", tmp_path / "fleet.keys"
    status, out, err = said(capsys, "new", key)
    public = PrivateKey.load(key).public
    assert (status, err) == (0, "")
    assert f"public key: {public}\n" in out
    assert said(capsys, "show", key) == (0, f"{public}\n", "")
    assert said(capsys, "trust", trusted, "camera 1", public) == (
        *(0, f"{trusted}: camera 1 is trusted\n", ""),
    )
    assert "is trusted already" in said(capsys, "trust", trusted, "camera 1", key)[1]
    assert said(capsys, "trust", trusted, "hub", A)[0] == 0
    assert said(capsys, "show", trusted) == (0, f"camera 1  {public}\nhub       {A}\n", "")
    assert dict(TrustedKeys.load(trusted)) == {"camera 1": public, "hub": A}


def test_another_key_is_not_trusted_by_accident(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = tmp_path / "fleet.keys"
    assert said(capsys, "trust", trusted, "camera 1", A)[0] == 0
    status, _, err = said(capsys, "trust", trusted, "camera 1", B)
    assert status == 2
    assert "is it really that node's? Then say --replace" in err
    assert dict(TrustedKeys.load(trusted)) == {"camera 1": A}
    status, out, _ = said(capsys, "trust", trusted, "camera 1", B, "--replace")
    assert (status, out) == (0, f"{trusted}: camera 1 is trusted, with another key than before\n")
    assert dict(TrustedKeys.load(trusted)) == {"camera 1": B}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new", "a.key", "camera 1"], "keys new: expected FILE, got 'a.key camera 1'"),
        (["trust", "fleet.keys", "camera 1"], "keys trust: expected FILE NODE KEY"),
        (["show", "missing.key"], "missing.key: No such file"),
        (["show", "bad.keys"], "bad.keys:1: expected `node: key`"),
        (["trust", "fleet.keys", "camera 1", "hello"], "`streamlvq keys show` prints that"),
        (["trust", "bad.keys", "camera 1", A], "bad.keys:1: expected `node: key`"),
        (["trust", "no/fleet.keys", "camera 1", A], "make the folder first"),
        (["new", "no/a.key"], "no/a.key: expected to write a key"),
        (["new", "bad.keys"], "bad.keys: expected no file, got one"),
        (["show", "a.key", "--replace"], "it is for trust"),
    ],
)
def test_mistakes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.keys").write_text("nonsense\n")
    status, out, err = said(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("streamlvq: error: ") and err.count("\n") == 1
    assert words in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.keys"]


def test_nobody_is_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.keys").write_text("# nobody yet\n")
    assert "nobody is trusted" in said(capsys, "show", tmp_path / "fleet.keys")[1]


def test_as_a_process_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "streamlvq", "keys", "new", "n.key"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert PrivateKey.load(tmp_path / "n.key").public in done.stdout
    assert "PRIVATE" not in done.stdout
