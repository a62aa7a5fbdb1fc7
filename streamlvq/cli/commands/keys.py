"""`streamlvq keys`: create keys, show them, trust those of others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from streamlvq.errors import StreamLVQError
from streamlvq.fleet import KeyFileError, PrivateKey, TrustedKeys
from streamlvq.fleet.keys import check_public

TEXT = """\
new FILE                 create a private key for a node and print its public key; keep FILE secret
show FILE                print the public key of a private key, or the entries of a trust file
trust FILE NODE KEY      add the public key of a node to a trust file

Each node of a fleet signs what it publishes with its own key, and accepts only nodes whose public
key is in its trust file. That file holds lines `node: key`, is not secret, may be edited by hand,
and can be the same on all nodes.

Signatures need an extra: pip install 'streamlvq[fleet]'"""
EXAMPLES = """\
examples:
  streamlvq keys new camera1.key                   on each node, once
  streamlvq keys show camera1.key                  the public key, to give to the others
  streamlvq keys trust fleet.keys camera1 gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q=
  streamlvq keys trust fleet.keys camera1 new.key --replace    if the node has a new key
  streamlvq keys show fleet.keys                   who is trusted"""

PRIVATE = b"-----BEGIN "
GIVEN = {"new": ("FILE",), "show": ("FILE",), "trust": ("FILE", "NODE", "KEY")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=tuple(GIVEN))
    parser.add_argument("file", metavar="FILE", help="a private key, or a trust file")
    parser.add_argument("node", metavar="NODE", nargs="?", help="for trust: the name of the node")
    parser.add_argument(
        "key", metavar="KEY", nargs="?", help="for trust: its public key, or its key file"
    )
    parser.add_argument(
        "--replace", action="store_true", help="for trust: replace a key that is trusted already"
    )


def run(options: argparse.Namespace) -> int:
    given = [word for word in (options.file, options.node, options.key) if word is not None]
    wanted = GIVEN[options.what]
    if len(given) != len(wanted):
        raise StreamLVQError(
            f"keys {options.what}: expected {' '.join(wanted)}, got {' '.join(given)!r}; "
            "see `streamlvq keys --help`"
        )
    if options.replace and options.what != "trust":
        raise StreamLVQError(f"keys {options.what}: expected no --replace; it is for trust")
    {"new": _new, "show": _show, "trust": _trust}[options.what](given, options.replace)
    return 0


def _new(given: Sequence[str], _: bool) -> None:
    key = PrivateKey.new()
    key.save(given[0])
    print(f"{given[0]}: a new private key, readable only by its owner; never copy it elsewhere")
    print(f"public key: {key.public}")


def _show(given: Sequence[str], _: bool) -> None:
    if _is_private(given[0]):
        print(PrivateKey.load(given[0]).public)
        return
    trust = TrustedKeys.load(given[0])
    width = max(map(len, trust), default=0)
    for node in sorted(trust):
        print(f"{node:{width}}  {trust[node]}")
    if not trust:
        print(f"{given[0]}: nobody is trusted")


def _trust(given: Sequence[str], replace: bool) -> None:
    file, node, key = given
    trust = TrustedKeys.load(file) if Path(file).exists() else TrustedKeys(path=file)
    public, before = _public(key), trust.get(node)
    if before == public:
        print(f"{file}: {node} is trusted already")
        return
    if before is not None and not replace:
        raise KeyFileError(
            f"{file}: expected the key {before} of {node!r}, got another one; is it really that "
            "node's? Then say --replace"
        )
    trust.add(node, public)
    trust.save()
    print(f"{file}: {node} is trusted" + (", with another key than before" if before else ""))


def _public(key: str) -> str:
    """Return a public key given as text or as a key file."""
    if Path(key).is_file() and _is_private(key):
        return PrivateKey.load(key).public
    return check_public(key)


def _is_private(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(PRIVATE)) == PRIVATE
