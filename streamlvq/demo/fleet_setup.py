"""What each node of the demo's fleet needs: a folder, a key, a configuration."""

from __future__ import annotations

import importlib.util
import string
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from streamlvq.demo.fleet_story import HALLS, LABELS

if TYPE_CHECKING:
    from streamlvq.fleet import TrustedKeys

FOLDER, TRUST = "fleet", "trusted-keys"
CONFIG, KEY, STATE, DECISIONS = "monitor.yaml", "node.key", "state", "decisions.jsonl"


def can_sign() -> bool:
    """Whether what signatures need is installed."""
    return importlib.util.find_spec("cryptography") is not None


def set_up(url: str, folder: Path) -> TrustedKeys:
    """Make keys and write configurations; gives the public keys of all nodes.

    Parameters
    ----------
    url
        Of the broker.
    folder
        Of the demo; there will be a folder for each node in its folder `fleet`.

    """
    from streamlvq.fleet import PrivateKey, TrustedKeys  # noqa: PLC0415  (needs cryptography)

    trust = TrustedKeys(path=folder / FOLDER / TRUST)
    for node in HALLS:
        own = folder / FOLDER / node
        own.mkdir(parents=True)
        key = PrivateKey.new()
        key.save(own / KEY)
        trust.add(node, key.public)
        (own / CONFIG).write_text(configuration(url, folder, node), encoding="utf-8")
    trust.save()
    return trust


def configuration(url: str, folder: Path, node: str) -> str:
    """What the daemon of a node is told, from the template that comes with the package."""
    template = files("streamlvq.demo").joinpath("fleet.yaml").read_text(encoding="utf-8")
    own = folder / FOLDER / node
    return string.Template(template).substitute(
        url=url,
        node=node,
        key=own / KEY,
        trust=folder / FOLDER / TRUST,
        decisions=own / DECISIONS,
        state=own / STATE,
        labels=LABELS,
    )
