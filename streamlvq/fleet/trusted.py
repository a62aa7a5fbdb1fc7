"""Those who are trusted: public keys by the name of their node."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from streamlvq.fleet.errors import EnvelopeRefused, KeyFileError, shown
from streamlvq.fleet.header import check_name
from streamlvq.fleet.keys import check_public, read
from streamlvq.snapshot.files import write_atomically

_LINE = re.compile(r'(?P<name>"(?:[^"\\]|\\.)*"|[^#\s"].*?)\s*:\s+(?P<key>\S+)\s*(?:#.*)?')
_PLAIN = re.compile(r"[\w.][\w. -]*(?<! )")  # names that need no quotes, neither here nor in YAML


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
        """Read a file; raises `KeyFileError` with the line that is wrong."""
        trust = cls(path=path)
        try:
            text = read(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise KeyFileError(f"{path}: expected text in UTF-8, got {error}") from error
        for number, line in enumerate(text.splitlines(), 1):
            try:
                trust._take(line)
            except KeyFileError as error:
                raise KeyFileError(f"{path}:{number}: {error}") from error
        return trust

    def add(self, node: str, public: str) -> None:
        """Trust a node from now on; another key of the same node is replaced."""
        public, line = check_public(public), f"{_written(_name(node))}: {public}"
        if node in self._places:
            if self._keys[node] != public:
                self._lines[self._places[node]] = line
        else:
            self._places[node] = len(self._lines)
            self._lines.append(line)
        self._keys[node] = public

    def save(self) -> None:
        """Write the file as a whole, with the comments that were in it."""
        if self.path is None:
            raise KeyFileError("expected a path to save trusted keys to, got none")
        write_atomically(self.path, "".join(f"{line}\n" for line in self._lines).encode())

    def _take(self, line: str) -> None:
        """Read one line."""
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
