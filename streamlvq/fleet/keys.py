"""Keys: the private key of a node, and the public key that others know it by.

A public key is a short text (base64 of 32 bytes), to be copied by hand from one machine to another.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import json
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streamlvq.errors import MissingExtraError, StreamLVQError
from streamlvq.fleet.envelope import EnvelopeRefused, check_name, shown
from streamlvq.snapshot.files import UNFINISHED_SUFFIX, write_atomically

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


KEY_BYTES = 32
PRIVATE_KEY_MODE = 0o600  # for its owner alone
KEY_FILE_MAX_BYTES = 2**20
_LOG = logging.getLogger("streamlvq")
_LINE = re.compile(r'(?P<name>"(?:[^"\\]|\\.)*"|[^#\s"].*?)\s*:\s+(?P<key>\S+)\s*(?:#.*)?')
_PLAIN = re.compile(r"[\w.][\w. -]*(?<! )")  # names that need no quotes, neither here nor in YAML


class KeyFileError(StreamLVQError, ValueError):
    """Key or key file that cannot be used."""


# --- private keys ---------------------------------------------------------------------------------


class PrivateKey:
    """Signing key of a node; whoever has it can act as that node.

    Examples
    --------

    >>> import tempfile
    >>> from pathlib import Path
    >>> from streamlvq.fleet import PrivateKey

    >>> key = PrivateKey.new()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "camera1.key")
    ...     key.save(path)
    ...     PrivateKey.load(path).public == key.public
    True
    >>> len(key.public)
    44

    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def new(cls) -> Self:
        """Return a new random key."""
        return cls(_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the key from a file; raise `KeyFileError` if it holds none."""
        _ed25519()  # what is missing should be said before what is wrong
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            load_pem_private_key,
        )

        data = read_key_file(path)
        try:
            key = load_pem_private_key(data, None)
        except (ValueError, TypeError) as error:  # TypeError: it is locked with a password
            raise KeyFileError(
                f"{path}: expected a private key without a password, got something else; make one "
                "with `streamlvq keys new`"
            ) from error
        except Exception as error:
            if type(error).__name__ != "UnsupportedAlgorithm":
                raise
            raise KeyFileError(f"{path}: expected an Ed25519 key, got another kind") from error
        if not isinstance(key, _ed25519().Ed25519PrivateKey):
            raise KeyFileError(f"{path}: expected an Ed25519 key, got a {type(key).__name__}")
        _warn_if_open(path)
        return cls(key)

    def save(self, path: str | Path) -> None:
        """Write a file that only its owner can read; never overwrite a file."""
        path = Path(path)
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}{UNFINISHED_SUFFIX}")
        try:
            _write_secret(unfinished, self._pem())
            os.link(unfinished, path)  # as a whole, and refuses if there is something already
        except FileExistsError as error:
            raise KeyFileError(
                f"{path}: expected no file, got one; a key that is lost cannot be made again: "
                "choose another name, or move the old one away"
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise KeyFileError(f"{path}: expected to write a key, got {reason!r}") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                unfinished.unlink()

    @property
    def public(self) -> str:
        """Public key that verifies the signatures of this key."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, data: bytes) -> bytes:
        """Return the signature: 64 bytes, always the same for the same data."""
        return self._key.sign(data)

    def _pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def __repr__(self) -> str:
        return f"PrivateKey(public={self.public!r})"  # the secret goes into no log

    def __reduce__(self) -> Any:
        raise TypeError("expected to save a private key with `save`, got a pickler")


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("cryptography", "fleet") from error
    return ed25519


def _write_secret(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_KEY_MODE)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _warn_if_open(path: str | Path) -> None:
    """Warn if others can read the file.

    Not an error: secrets mounted into containers are often readable by a group.
    """
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        _LOG.warning("%s can be read by others (mode %04o): chmod 600 %s", path, mode, path)


def read_key_file(path: str | Path) -> bytes:
    """Return the text of a key file, which cannot be large."""
    with open(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise KeyFileError(f"{path}: expected a file, got something else")
        data = file.read(KEY_FILE_MAX_BYTES + 1)
    if len(data) > KEY_FILE_MAX_BYTES:
        raise KeyFileError(f"{path}: expected at most {KEY_FILE_MAX_BYTES} bytes, got more")
    return data


# --- public keys ----------------------------------------------------------------------------------


def check_public(text: str) -> str:
    """Return a public key if it is well-formed; raise `KeyFileError` otherwise.

    Examples
    --------
    >>> from streamlvq.fleet.keys import check_public
    >>> check_public("c2hvcnQ=")
    Traceback (most recent call last):
    streamlvq.fleet.keys.KeyFileError: expected a public key of 44 characters, got 'c2hvcnQ='...

    """
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # Written again, because the last character has bits that mean nothing.
    if len(raw) != KEY_BYTES or base64.b64encode(raw).decode() != text:
        raise KeyFileError(
            f"expected a public key of 44 characters, got {shown(text)}; `streamlvq keys show` "
            "prints that of a key file"
        )
    return text


def verify(public: str, signature: bytes, data: bytes) -> bool:
    """Return whether the owner of a public key signed this."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        _verifier(public).verify(signature, data)
    except InvalidSignature:
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _verifier(public: str) -> Any:
    return _ed25519().Ed25519PublicKey.from_public_bytes(base64.b64decode(public))


# --- trusted keys ---------------------------------------------------------------------------------


class TrustedKeys(Mapping[str, str]):
    """Public keys by the name of their node.

    The file is for people to read and edit: a line for each node, comments after `#`.

        # the hall
        camera 1: gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q=
        "hub: 2": 7lxdkDBbRjFzvR5lVvdb6rPsXRQw3Yl3WhZ9v2dxoG4=   # a name with a colon

    Parameters
    ----------
    keys
        To begin with.
    path
        Where to save them.

    Examples
    --------

    >>> from streamlvq.fleet import PrivateKey, TrustedKeys

    >>> trust = TrustedKeys()
    >>> trust.add("camera 1", PrivateKey.new().public)
    >>> list(trust), trust.get("camera 2") is None
    (['camera 1'], True)

    """

    def __init__(self, keys: Mapping[str, str] | None = None, path: str | Path | None = None):
        self.path = None if path is None else Path(path)
        self._lines: list[str] = []
        self._keys: dict[str, str] = {}
        self._places: dict[str, int] = {}  # lines, from 0
        for node, public in (keys or {}).items():
            self.add(node, public)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file; raise `KeyFileError` that names the line that is wrong."""
        trust = cls(path=path)
        try:
            text = read_key_file(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise KeyFileError(f"{path}: expected text in UTF-8, got {error}") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                trust._take(line)
            except KeyFileError as error:
                raise KeyFileError(f"{path}:{number}: {error}") from error
        return trust

    def add(self, node: str, public: str) -> None:
        """Trust a node from now on, replacing any other key of that node."""
        public, line = check_public(public), f"{_written(_name(node))}: {public}"
        if node in self._places:
            if self._keys[node] != public:
                self._lines[self._places[node]] = line
        else:
            self._places[node] = len(self._lines)
            self._lines.append(line)
        self._keys[node] = public

    def save(self) -> None:
        """Write the file atomically, keeping its comments."""
        if self.path is None:
            raise KeyFileError("expected a path to save trusted keys to, got none")
        write_atomically(self.path, "".join(f"{line}\n" for line in self._lines).encode())

    def _take(self, line: str) -> None:
        """Parse one line."""
        place = len(self._lines)
        if line.strip() and not line.lstrip().startswith("#"):
            node, public = _parse(line.strip())
            if node in self._places:
                raise KeyFileError(
                    f"expected each node once, got {shown(node)} again: it is in line "
                    f"{self._places[node] + 1} already"
                )
            self._keys[node], self._places[node] = public, place
        self._lines.append(line)

    def __getitem__(self, node: str) -> str:
        return self._keys[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"TrustedKeys({self._keys!r})"


def _parse(line: str) -> tuple[str, str]:
    found = _LINE.fullmatch(line)
    if found is None:
        raise KeyFileError(f"expected `node: key`, got {shown(line)}")
    name = found["name"]
    if name.startswith('"'):
        try:
            name = json.loads(name)
        except ValueError as error:
            raise KeyFileError(f"expected a name in quotes, got {shown(name)}") from error
    return _name(name), check_public(found["key"])


def _name(node: str) -> str:
    try:
        return check_name("node", node)
    except EnvelopeRefused as error:
        raise KeyFileError(str(error)) from error


def _written(node: str) -> str:
    return node if _PLAIN.fullmatch(node) else json.dumps(node, ensure_ascii=False)
