"""Progressive accuracy, log loss and CPU time of our models and their peers on every stream.

python benchmarks/streams.py --streams digits Letter --models LGMLVQ "LGMLVQ(rank=8)" ARF
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any

from common import Figure, Table, figure_table, our_model, show, verdict
from datasets import COMPARED, IN_TIME_ORDER, STREAMS, Stream, stream
from peers import JVM_WARM_UP, MOA, PACKAGES, PEERS, installed, peer
from progressive import WARM_UP, Result, evaluate
from ranks import Duel, block, duel, finished, mean_accuracy, mean_ranks

OURS = "LVQCommittee"

REPEAT = "NoChange"
STRONGEST = "MOA SRP30"

# Progressive accuracy to reach with one configuration, over the first 10 000 samples; that of
# RandomRBFDrift over 20 000 (--limit 20000).
TARGETS = {
    "ImageSegments": 0.940,
    "digits": 0.960,
    "RandomRBFDrift": 0.880,
    "Letter": 0.830,
    "UCI HAR": 0.976,
    "keystroke": 0.957,
    "tep": 0.890,
    "Agrawal drift": 0.875,
    "LED drift": 0.722,
    "noaa_weather": 0.795,
    "shuttle": 0.994,
    "elec2": 0.915,
}
TARGET_ROWS = {"RandomRBFDrift": 20_000}
# What may be lost on a stream against an earlier run.
ACCURACY_SLACK = 0.003
LOSS_SLACK = 0.005
# Of the comparison with all peers: on at least so many streams, at most this p and this part of
# the strongest peer's time.
MIN_STREAMS = 18
MAX_P = 0.05
TIME_SHARE = 1 / 5


@dataclass(frozen=True)
class Entry:
    """Result of one model on one stream, its labels `delay` samples late."""

    model: str
    delay: int
    result: Result
    cached: bool = False


class Results:
    """JSON file of results: of peers, which are slow and do not change, or of an earlier run."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self.entries = json.loads(path.read_text())

    def get(self, data: Stream, model: str, delay: int = 0) -> Result | None:
        """Return the result of a model on exactly these samples."""
        entry = self.entries.get(self._key(data, model, delay))
        if entry is None or entry["data"] != data.digest:
            return None
        return Result(**{field.name: entry[field.name] for field in fields(Result)})

    def get_peer(self, data: Stream, model: str, delay: int, max_seconds: float) -> Result | None:
        """Return the result of a peer, if it would not come out differently today."""
        result = self.get(data, model, delay)
        measured = self.entries.get(self._key(data, model, delay), {}).get("version")
        # Without the peer's package an old result is the best that can be had.
        if result is None or installed(model) not in {None, measured}:
            return None
        # A run that was cut short is good enough only while runs are cut short.
        return result if result.finished or math.isfinite(max_seconds) else None

    def put(self, data: Stream, model: str, delay: int, result: Result) -> None:
        entry = {**asdict(result), "data": data.digest}
        if model in PEERS:
            entry["version"] = installed(model)
        self.entries[self._key(data, model, delay)] = entry
        if self.path is not None:
            # Written through a second file: an interrupted run must not lose hours of results.
            partial = self.path.with_name(self.path.name + ".part")
            partial.write_text(json.dumps(self.entries, indent=1, sort_keys=True) + "\n")
            partial.replace(self.path)

    @staticmethod
    def _key(data: Stream, model: str, delay: int) -> str:
        return "|".join([data.name, str(len(data)), model, *([f"delay {delay}"] if delay else [])])


@dataclass(frozen=True)
class Bench:
    """Measures models on streams, peers only where their results are not known yet."""

    peers: Results
    saved: Results
    delays: Sequence[int]
    max_seconds: float
    cached_only: bool = False

    def measure_all(self, data: Stream, models: Sequence[str]) -> list[Entry]:
        return [
            entry
            for delay, model in product(self.delays, models)
            if (entry := self.measure(data, model, delay)) is not None
        ]

    def measure(self, data: Stream, model: str, delay: int) -> Entry | None:
        """Return the result of a model, None for a peer that is neither known nor installed."""
        if model not in PEERS:
            result = evaluate(our_model(model), data, self.max_seconds, delay)
            self.saved.put(data, model, delay, result)
        elif known := self.peers.get_peer(data, model, delay, self.max_seconds):
            return Entry(model, delay, known, cached=True)
        elif self.cached_only:
            return None
        elif installed(model) is None:
            print(f"{data.name}: {model} needs {PACKAGES[model]}", file=sys.stderr, flush=True)
            return None
        else:
            warm_up = JVM_WARM_UP if model in MOA else WARM_UP
            result = evaluate(peer(model, data), data, self.max_seconds, delay, warm_up)
            self.peers.put(data, model, delay, result)
        print(f"{data.name}: {model} done", file=sys.stderr, flush=True)
        return Entry(model, delay, result)


# --- tables -----------------------------------------------------------------------------------


def stream_table(data: Stream, entries: Sequence[Entry], delays: Sequence[int]) -> Table:
    order = ", in time order" if data.name in IN_TIME_ORDER else ""
    title = (
        f"{data.name}: {len(data)} samples, {data.X.shape[1]} features, "
        f"{len(set(data.y))} classes{order}"
    )
    late = [f"{score}, {delay} late" for delay in delays[1:] for score in ("accuracy", "log loss")]
    table = Table(title, ["model", "accuracy", "log loss", *late, "us/sample", "note"])
    by_model = [
        {entry.delay: entry for entry in entries if entry.model == model}
        for model in dict.fromkeys(entry.model for entry in entries)
    ]
    rows = [row for row in by_model if 0 in row]
    for row in sorted(rows, key=lambda row: _order(row[0].result), reverse=True):
        scores = [cell for delay in delays for cell in score_cells(row.get(delay))]
        table.add(row[0].model, *scores, f"{row[0].result.us:.1f}", note(row[0]))
    return table


def _order(result: Result) -> tuple[bool, float]:
    return result.finished, result.accuracy


def score_cells(entry: Entry | None) -> tuple[str, str]:
    # The scores of a part are not those of the stream: later samples may be easier or harder.
    if entry is None or not entry.result.finished:
        return "-", "-"
    return f"{entry.result.accuracy:.4f}", f"{entry.result.log_loss:.4f}"


def note(entry: Entry) -> str:
    stopped = "" if entry.result.finished else f"stopped after {entry.result.n} samples"
    return ", ".join(filter(None, [stopped, "cached" if entry.cached else ""]))


def summary_table(results: dict[str, list[Entry]], ours: str, delays: Sequence[int]) -> Table:
    """Return a row per stream: ours, repeating the last label, and the best of the peers."""
    late = [f"{delay} late" for delay in delays[1:]]
    score = ["accuracy", *late]
    columns = [ours, *score, "log loss", "us", "target", "verdict", "repeat", *late]
    table = Table("Summary", [*columns, "best peer", *score, "us"])
    for name, entries in results.items():
        mine = {e.delay: e for e in entries if e.model == ours}
        if not mine[0].result.finished:
            continue
        repeat = {e.delay: e for e in entries if e.model == REPEAT}
        best = best_peer(entries)
        theirs = {e.delay: e for e in entries if best and e.model == best.model}
        target = target_of(name, mine[0].result)
        table.add(
            name + (" (in time order)" if name in IN_TIME_ORDER else ""),
            *accuracies(mine, delays),
            f"{mine[0].result.log_loss:.4f}",
            f"{mine[0].result.us:.1f}",
            f"{target:.3f}" if target else "-",
            verdict(mine[0].result.accuracy >= target) if target else "-",
            *accuracies(repeat, delays),
            best.model if best else "-",
            *accuracies(theirs, delays),
            f"{best.result.us:.1f}" if best else "-",
        )
    return table


def target_of(name: str, result: Result) -> float | None:
    """Return the accuracy to reach, None on fewer or more samples than it was set for."""
    return TARGETS.get(name) if result.rows == TARGET_ROWS.get(name, result.rows) else None


def accuracies(entries: dict[int, Entry], delays: Sequence[int]) -> list[str]:
    return [score_cells(entries.get(delay))[0] for delay in delays]


def best_peer(entries: Sequence[Entry]) -> Entry | None:
    """Return the learner that was the most accurate peer on the whole stream."""
    peers = [e for e in entries if e.model in PEERS and e.model != REPEAT]
    whole = [e for e in peers if e.result.finished and e.delay == 0]
    return max(whole, key=lambda e: e.result.accuracy, default=None)


def against_table(results: dict[str, list[Entry]], earlier: dict[str, Result], ours: str) -> Table:
    """Compare our results with those of an earlier run on the same samples."""
    scores = ["accuracy", "before", "difference", "log loss", "before", "difference"]
    table = Table(f"{ours} against the earlier run", ["stream", *scores, "us", "before", "verdict"])
    for name, then in earlier.items():
        now = next(e.result for e in results[name] if e.model == ours and e.delay == 0)
        accuracy, loss = now.accuracy - then.accuracy, now.log_loss - then.log_loss
        no_worse = accuracy >= -ACCURACY_SLACK and loss <= LOSS_SLACK
        table.add(
            name,
            f"{now.accuracy:.4f}", f"{then.accuracy:.4f}", f"{accuracy:+.4f}",
            f"{now.log_loss:.4f}", f"{then.log_loss:.4f}", f"{loss:+.4f}",
            f"{now.us:.1f}", f"{then.us:.1f}", verdict(no_worse),
        )  # fmt: skip
    return table


def rank_tables(results: dict[str, list[Entry]], ours: str, delay: int) -> Iterator[Table]:
    """Yield mean ranks of all models with the record of ours against each, and the figures."""
    scores: dict[str, dict[str, Result]] = {}
    for name in (name for name in COMPARED if name in results):
        for entry in results[name]:
            if entry.delay == delay:
                scores.setdefault(entry.model, {})[name] = entry.result
    ranked, streams = block(scores, min(MIN_STREAMS, len(finished(scores[ours]))))
    ranks = mean_ranks(scores, ranked, streams)
    duels = {model: duel(scores[ours], scores[model]) for model in scores if model != ours}
    late = f", labels {delay} late" if delay else ""
    columns = ["model", "mean rank", "mean accuracy", "duels", "wins", "ties", "losses", "p"]
    table = Table(
        f"{ours} against each; ranks over {len(streams)} streams{late}", [*columns, "cost ratio"]
    )
    for model in sorted(scores, key=lambda model: ranks.get(model, math.inf)):
        cells = ["-", "-"]
        if model in ranks:
            cells = [f"{ranks[model]:.2f}", f"{mean_accuracy(scores[model], streams):.4f}"]
        it = duels.get(model)
        record = (
            [it.streams, it.wins, it.ties, it.losses, f"{it.p:.4f}", f"{it.cost:.3g}"]
            if it
            else ["-"] * 6
        )
        table.add(model, *cells, *record)
    yield table
    peers = {model: it for model, it in duels.items() if model in PEERS}
    title = f"Figures of {ours}{late}"
    yield figure_table(rank_figures(ranks, peers, ours, len(streams)), title)


def rank_figures(
    ranks: dict[str, float], duels: dict[str, Duel], ours: str, streams: int
) -> Iterator[Figure]:
    others = [ranks[model] for model in duels if model in ranks]
    yield Figure("streams", streams, MIN_STREAMS, at_least=True)
    if others and ours in ranks:
        yield Figure("mean rank, limit: the best peer's", ranks[ours], min(others))
    for model, it in duels.items():
        yield Figure(f"wins less losses against {model}", it.wins - it.losses, 1, at_least=True)
        if model != STRONGEST:
            yield Figure(f"p against {model}", it.p, MAX_P)
    if STRONGEST in duels:
        yield Figure(f"median cost against {STRONGEST}", duels[STRONGEST].cost, TIME_SHARE)


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
    add("--limit", type=int, default=10_000, help="at most so many samples of each stream")
    add("--delay", type=int, default=0, metavar="N", help="also with labels N samples late")
    add("--ranks", action="store_true", help="compare over all streams with every peer")
    add("--against", type=Path, metavar="FILE", help="compare with results kept by --save")
    add("--save", type=Path, metavar="FILE", help="JSON file that keeps our results")
    add("--peers-cache", type=Path, metavar="FILE", help="JSON file of peers' results to reuse")
    add("--cached-only", action="store_true", help="no peers but those in that file")
    add("--max-seconds", type=float, default=math.inf, help="CPU time allowed a model on a stream")
    add("--markdown", action="store_true", help="print the tables as Markdown")
    return parser.parse_args(argv)


def chosen_models(names: Sequence[str]) -> list[str]:
    chosen = [model for name in names for model in (PEERS if name == "peers" else [name])]
    chosen.append(REPEAT)  # on data in time order a figure means little without it
    for model in chosen:
        if model not in PEERS:
            our_model(model)  # a spelling mistake should not surface after an hour of peers
    return list(dict.fromkeys(chosen))


def main() -> None:
    args = parse_args()
    models = chosen_models(args.models)
    delays = [0, args.delay] if args.delay else [0]
    files = Results(args.peers_cache), Results(args.save)
    bench = Bench(*files, delays, args.max_seconds, args.cached_only)
    earlier = Results(args.against)
    before: dict[str, dict[str, Result]] = {}
    results: dict[str, list[Entry]] = {}
    ours = [model for model in models if model not in PEERS]
    for name in args.streams:
        data = stream(name).head(args.limit)
        results[name] = bench.measure_all(data, models)
        show([stream_table(data, results[name], delays)], args.markdown)
        for model in ours:
            if (then := earlier.get(data, model)) is not None:
                before.setdefault(model, {})[name] = then
    for model in ours:
        show([summary_table(results, model, delays)], args.markdown)
        if args.against:
            show([against_table(results, before.get(model, {}), model)], args.markdown)
        if args.ranks:
            for delay in delays:
                show(rank_tables(results, model, delay), args.markdown)


if __name__ == "__main__":
    main()
