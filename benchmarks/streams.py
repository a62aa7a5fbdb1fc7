"""Progressive accuracy, log loss and CPU time of our models and their peers on every stream.

python benchmarks/streams.py --streams digits Letter --models LGMLVQ "LGMLVQ(rank=8)" ARF
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from common import Factory, Table, our_model, show, verdict
from datasets import STREAMS, Stream, stream
from peers import PEERS, RIVER
from progressive import Result, evaluate

OURS = "LVQCommittee"
RIVER_VERSION = version("river")

# Progressive accuracy to reach, in at most this part of the best River peer's time.
TARGETS = {
    "ImageSegments": 0.940,
    "digits": 0.960,
    "RandomRBFDrift": 0.88,
    "Letter": 0.83,
    "UCI HAR": 0.976,
}
TIME_SHARE = 1 / 5


@dataclass(frozen=True)
class Entry:
    """Result of one model on one stream."""

    model: str
    result: Result
    cached: bool = False


class PeerCache:
    """JSON file with the results of peers, which are slow and do not change with our code."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.results = json.loads(path.read_text())

    def get(self, data: Stream, model: str, max_seconds: float) -> Result | None:
        entry = self.results.get(self._key(data, model))
        if entry is None or entry["river"] != RIVER_VERSION:
            return None
        result = Result(**{k: v for k, v in entry.items() if k != "river"})
        # A run that was cut short is good enough only while runs are cut short.
        return result if result.finished or math.isfinite(max_seconds) else None

    def put(self, data: Stream, model: str, result: Result) -> None:
        self.results[self._key(data, model)] = {**asdict(result), "river": RIVER_VERSION}
        if self.path is not None:
            # Written through a second file: an interrupted run must not lose hours of results.
            partial = self.path.with_name(self.path.name + ".part")
            partial.write_text(json.dumps(self.results, indent=1))
            partial.replace(self.path)

    @staticmethod
    def _key(data: Stream, model: str) -> str:
        return f"{data.name}|{len(data)}|{model}"


def measure(data: Stream, model: str, cache: PeerCache, max_seconds: float) -> Entry:
    if model not in PEERS:
        return Entry(model, evaluate(our_model(model), data, max_seconds))
    if (known := cache.get(data, model, max_seconds)) is not None:
        return Entry(model, known, cached=True)
    factory: Factory = PEERS[model]
    result = evaluate(factory, data, max_seconds)
    cache.put(data, model, result)
    return Entry(model, result)


def measure_all(
    data: Stream, models: Sequence[str], cache: PeerCache, max_seconds: float
) -> list[Entry]:
    entries = []
    for model in models:
        entries.append(measure(data, model, cache, max_seconds))
        if not entries[-1].cached:
            print(f"{data.name}: {model} done", file=sys.stderr, flush=True)
    return entries


def stream_table(data: Stream, entries: Sequence[Entry]) -> Table:
    title = (
        f"{data.name}: {len(data)} samples, {data.X.shape[1]} features, {len(set(data.y))} classes"
    )
    table = Table(title, ["model", "accuracy", "log loss", "us/sample", "note"])
    for entry in sorted(
        entries, key=lambda e: (e.result.finished, e.result.accuracy), reverse=True
    ):
        table.add(*cells(entry))
    return table


def cells(entry: Entry) -> tuple[str, ...]:
    result, note = entry.result, "cached" if entry.cached else ""
    if not result.finished:
        # The scores of a part are not those of the stream: later samples may be easier or harder.
        stopped = f"stopped after {result.n} samples"
        return entry.model, "-", "-", f"{result.us:.1f}", ", ".join(filter(None, [stopped, note]))
    return (
        entry.model,
        f"{result.accuracy:.4f}",
        f"{result.log_loss:.4f}",
        f"{result.us:.1f}",
        note,
    )


def summary_table(results: dict[str, list[Entry]], ours: Sequence[str]) -> Table:
    columns = ["stream", "ours", "accuracy", "target", "us", "best River peer", "accuracy", "us"]
    table = Table("Summary", [*columns, "time share", "verdict"])
    for name, entries in results.items():
        best = best_peer(entries)
        for entry in (e for e in entries if e.model in ours and e.result.finished):
            table.add(name, *summary_cells(name, entry, best))
    return table


def best_peer(entries: Sequence[Entry]) -> Entry | None:
    """Return the most accurate River model that finished the stream."""
    finished = [e for e in entries if e.model in RIVER and e.result.finished]
    return max(finished, key=lambda e: e.result.accuracy, default=None)


def summary_cells(name: str, ours: Entry, best: Entry | None) -> tuple[str, ...]:
    target = TARGETS.get(name)
    share = ours.result.us / best.result.us if best else math.nan
    return (
        ours.model,
        f"{ours.result.accuracy:.4f}",
        f"{target:.3f}" if target else "-",
        f"{ours.result.us:.1f}",
        best.model if best else "-",
        f"{best.result.accuracy:.4f}" if best else "-",
        f"{best.result.us:.1f}" if best else "-",
        f"{share:.3f}" if best else "-",
        judge(ours.result.accuracy, target, share),
    )


def judge(accuracy: float, target: float | None, share: float) -> str:
    if target is None:
        return "no target"
    if math.isnan(share):
        return f"accuracy {verdict(accuracy >= target)}, time unknown"
    return f"accuracy {verdict(accuracy >= target)}, time {verdict(share <= TIME_SHARE)}"


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add(
        "--streams",
        nargs="+",
        choices=STREAMS,
        default=list(STREAMS),
        metavar="NAME",
        help=f"of: {', '.join(STREAMS)}",
    )
    add(
        "--models",
        nargs="+",
        default=[OURS, *PEERS],
        metavar="NAME",
        help=f"models of streamlvq such as LGMLVQ or 'GMLVQ(rehearsal=0)', 'peers' for all peers, "
        f"or of: {', '.join(PEERS)}",
    )
    add("--limit", type=int, help="only the first so many samples of each stream")
    add("--peers-cache", type=Path, metavar="FILE", help="JSON file of peers' results to reuse")
    add("--max-seconds", type=float, default=math.inf, help="CPU time allowed a model on a stream")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    return parser.parse_args(argv)


def chosen_models(names: Sequence[str]) -> list[str]:
    chosen = [model for name in names for model in (PEERS if name == "peers" else [name])]
    for model in chosen:
        if model not in PEERS:
            our_model(model)  # a spelling mistake should not surface after an hour of peers
    return list(dict.fromkeys(chosen))


def main() -> None:
    args = parse_args()
    models = chosen_models(args.models)
    cache = PeerCache(args.peers_cache)
    results: dict[str, list[Entry]] = {}
    for name in args.streams:
        data = stream(name).head(args.limit)
        results[name] = measure_all(data, models, cache, args.max_seconds)
        show([stream_table(data, results[name])], args.markdown)
    ours = [model for model in models if model not in PEERS]
    if ours:
        show([summary_table(results, ours)], args.markdown)


if __name__ == "__main__":
    main()
