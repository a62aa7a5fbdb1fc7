"""All studies of privacy, with the figures to reach.

python benchmarks/privacy.py                             # all of them, hours
python benchmarks/privacy.py --studies published leakage --small
python benchmarks/privacy.py --studies published --data mnist --models GMLVQ
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from common import Table, show
from privacy_aggregate import aggregate
from privacy_attack_paper import attack_paper
from privacy_curve import curve
from privacy_leakage import leakage
from privacy_published import paper, public, published, rates
from privacy_stream import cost, forever, local, log, often, stream

STUDIES: dict[str, Callable[..., Iterator[Table]]] = {
    "stream": stream,
    "curve": curve,
    "local": local,
    "log": log,
    "forever": forever,
    "often": often,
    "cost": cost,
    "rates": rates,
    "published": published,
    "paper": paper,
    "public": public,
    "aggregate": aggregate,
    "leakage": leakage,
    "attack_paper": attack_paper,
}
SMALL: dict[str, dict[str, Any]] = {
    "stream": {"data": ["digits", "letter"], "seeds": 1},
    "curve": {"data": ["digits"], "seeds": 1},
    "local": {"data": ["letter"], "seeds": 1},
    "log": {"data": ["digits"], "seeds": 1},
    "forever": {"data": ["digits"], "seeds": 1},
    "often": {"seeds": 1},
    "cost": {"data": ["digits"]},
    "rates": {"data": ["segment"]},
    "published": {"data": ["segment"], "repeats": 1},
    "paper": {"data": ["segment"], "repeats": 1},
    "public": {"models": ["GLVQ"], "repeats": 1},
    "aggregate": {"seeds": 1, "per_class": [3000]},
    "leakage": {"seeds": 40},
    "attack_paper": {"steps": 1000},
}
OPTIONS = ("data", "models", "epsilons", "repeats", "seeds")


def settings(study: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the command-line options that a study accepts."""
    known = inspect.signature(STUDIES[study]).parameters
    found = dict(SMALL.get(study, {})) if options.small else {}
    for name in OPTIONS:
        value = getattr(options, name)
        if value is not None and name in known:
            found[name] = value
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--small", action="store_true", help="a first impression, in minutes")
    parser.add_argument("--data", nargs="+", help="of the studies that go through data sets")
    parser.add_argument("--models", nargs="+", help="of the studies that compare models")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    for study in options.studies:
        show(STUDIES[study](**settings(study, options)), options.markdown)


if __name__ == "__main__":
    main()
