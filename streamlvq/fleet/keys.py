"""Keys: the secret one of a node, and the public one that others know it by.

A public key is a short text (base64 of 32 bytes), to be copied from one machine to another by hand.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import logging
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from streamlvq.errors import MissingExtraError
from streamlvq.fleet.errors import KeyFileError, shown
from streamlvq.snapshot.files import UNFINISHED_SUFFIX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_BYTES = 32
MODE = 0o600  # of a private key: for its owner alone
LARGEST_FILE = 2**20
_LOG = logging.getLogger("streamlvq")


# --- private keys ---------------------------------------------------------------------------------


class PrivateKey:
    """What a node signs with; whoever has it can speak in the node's name.

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
        """A key that nobody else has."""
        return cls(_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The key in a file; raises `KeyFileError` if there is none in it."""
        _ed25519()  # what is missing should be said before what is wrong
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            load_pem_private_key,
        )

        data = read(path)
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
        """Write a file that only its owner can read; never over a file that is there already."""
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
        """What others need to know whether this key signed something."""
        return base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, data: bytes) -> bytes:
        """64 bytes; the same ones each time."""
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
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        os.write(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _warn_if_open(path: str | Path) -> None:
    """Only a warning: secrets that are mounted into containers are often readable by a group."""
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        _LOG.warning("%s can be read by others (mode %04o): chmod 600 %s", path, mode, path)


def read(path: str | Path) -> bytes:
    """What is in a file of keys, which cannot be large."""
    with open(path, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise KeyFileError(f"{path}: expected a file, got something else")
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise KeyFileError(f"{path}: expected at most {LARGEST_FILE} bytes, got more")
    return data


# --- public keys ----------------------------------------------------------------------------------


def check_public(text: str) -> str:
    """A public key that can be one; raises `KeyFileError` for others.

    Examples
    --------
    >>> from streamlvq.fleet.keys import check_public
    >>> check_public("c2hvcnQ=")
    Traceback (most recent call last):
    streamlvq.fleet.errors.KeyFileError: expected a public key of 44 characters, got 'c2hvcnQ='...

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
    """Whether the owner of a public key signed this."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    try:
        _verifier(public).verify(signature, data)
    except InvalidSignature:
        return False
    return True


@functools.lru_cache(maxsize=4096)
def _verifier(public: str) -> Any:
    return _ed25519().Ed25519PublicKey.from_public_bytes(base64.b64decode(public))
