"""All studies of fusion, with the figures to reach.

python benchmarks/fusion.py                              # all of them, hours
python benchmarks/fusion.py --studies spectra hostile --small
python benchmarks/fusion.py --studies thesis --data segment --models LGMLVQ
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from common import Table, show
from fusion_choice import choice
from fusion_condense import condense, families
from fusion_cost import cost
from fusion_few import few
from fusion_gas import gas
from fusion_hostile import hostile
from fusion_hostile_pool import hostile_pool
from fusion_network import network, network_pool
from fusion_never import never
from fusion_paper import paper
from fusion_pool import pool
from fusion_probes import probes
from fusion_rounds import rounds
from fusion_spectra import spectra
from fusion_stream import streaming
from fusion_theorem import theorem
from fusion_thesis import thesis

STUDIES: dict[str, Callable[..., Iterator[Table]]] = {
    "pool": pool,
    "choice": choice,
    "thesis": thesis,
    "spectra": spectra,
    "paper": paper,
    "theorem": theorem,
    "gas": gas,
    "hostile": hostile,
    "hostile_pool": hostile_pool,
    "never": never,
    "few": few,
    "rounds": rounds,
    "probes": probes,
    "network": network,
    "condense": condense,
    "families": families,
    "network_pool": network_pool,
    "cost": cost,
    "streaming": streaming,
}
SMALL: dict[str, dict[str, Any]] = {
    "pool": {"data": ["keystroke"], "seeds": 1, "models": ["GMLVQ"]},
    "choice": {"data": ["keystroke", "letter"], "seeds": 1},
    "thesis": {"data": ["segment"], "epochs": 10},
    "spectra": {"seeds": 2, "epochs": 10},
    "paper": {"seeds": 2},
    "theorem": {"draws": 5},
    "gas": {"epochs": 5, "seeds": 1},
    "hostile": {"seeds": 1, "epochs": 10, "data": ["segment", "spectra"], "models": ["LGMLVQ"]},
    "hostile_pool": {"data": ["segment"], "models": ["LGMLVQ"]},
    "never": {"seeds": 1, "epochs": 5, "models": ["GMLVQ"]},
    "few": {"seeds": 4},
    "rounds": {"seeds": 1, "models": ["GMLVQ"]},
    "probes": {"seeds": 1},
    "network": {"seeds": 1, "epochs": 5, "models": ["GMLVQ"], "data": ["segment"]},
    "condense": {"data": ["keystroke"], "seeds": 1},
    "families": {"data": ["segment"], "seeds": 1},
    "network_pool": {"models": ["GMLVQ"], "data": ["segment"]},
    "streaming": {"readings": 1000},
}
OPTIONS = ("data", "models", "model", "epochs", "seeds", "seed", "draws", "repeats", "readings")


def settings(study: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the command-line options that a study accepts."""
    known = inspect.signature(STUDIES[study]).parameters
    found = dict(SMALL.get(study, {})) if options.small else {}
    for name in (*OPTIONS, "central"):
        value = getattr(options, name)
        if value is not None and value is not False and name in known:
            found[name] = value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--small", action="store_true", help="a first impression, in minutes")
    parser.add_argument("--data", nargs="+", help="of the studies that go through data sets")
    parser.add_argument("--models", nargs="+", help="of the studies that compare models")
    parser.add_argument("--model", help="of spectra, paper and gas")
    for name in OPTIONS[3:]:
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--central", action="store_true", help="thesis: all data at one place too")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    for study in options.studies:
        show(STUDIES[study](**settings(study, options)), options.markdown)


if __name__ == "__main__":
    main()
