"""`streamlvq fuse`: one model out of what several nodes have learnt."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streamlvq import replay
from streamlvq.cli import arguments
from streamlvq.errors import StreamLVQError
from streamlvq.fusion import Fused, fuse
from streamlvq.fusion.node_models import group_compatible, newest
from streamlvq.fusion.report import pools_text
from streamlvq.fusion.rounds import PASSES, PULL, participants_of, run_rounds
from streamlvq.models.pool import PoolReport
from streamlvq.registry import AGGREGATORS, CORRECTIONS
from streamlvq.snapshot import Snapshot, write_atomically

TEXT = """\
Fuse the snapshots of nodes that watch the same classes with sensors of their own. How the sensors
differ is estimated from the classes that nodes share, and corrected; a class that one node has
never seen comes from the others.

Each node needs the fused model in the coordinates of its own sensors: `--each` writes one for every
node, `--for` for some. What `-o` writes is in common coordinates, between those of all nodes: it is
there to be fused again (site by site, then all sites), or to start from.

With `--rounds` what was fused goes back to the nodes, which learn it further from the readings that
they have stored, and is fused again (federated averaging). Nodes are played by their state folders,
or by snapshots with readings; nothing of what they learn stays there.

Where nodes bring their stored readings, it also shows how each node would weigh the fused models
against its own in a pool, as a daemon does with `fleet.serve: both`.

Without any file to write it shows what would come of it."""
EXAMPLES = """\
examples:
  streamlvq fuse bath.slvq leeds.slvq york.slvq
  streamlvq fuse bath.slvq leeds.slvq york.slvq --each fused/ --report fleet.html
  streamlvq fuse bath.slvq york.slvq --for york=new.slvq --drift least_squares
  streamlvq fuse bath=a/state leeds=b/state -o site.slvq  folders of daemons, with a name each
  streamlvq fuse a/state b/state --rounds 5 --each fused/  federated averaging"""

AUTO = "auto"
WEIGHTINGS = ("samples", "uniform")
FORBIDDEN = '/\\:*?"<>|%'  # in names of files, on some system
SUFFIX = ".slvq"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "snapshots",
        metavar="SNAPSHOT",
        nargs="+",
        help="a file, or the folder of a daemon; NODE=FILE calls its node so",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--drift",
        choices=(AUTO, *CORRECTIONS),
        default=AUTO,
        help=f"between sensors: {CORRECTIONS.described()}; auto (default) hides "
        "classes from nodes and takes what then works best",
    )
    how.add_argument(
        "--weighting",
        choices=WEIGHTINGS,
        default="samples",
        help="who learnt more has more to say (default), or all nodes alike",
    )
    how.add_argument(
        "--aggregator",
        choices=AGGREGATORS.names,
        default="mean",
        help=f"how models become one: {AGGREGATORS.described()}; default mean",
    )
    how.add_argument(
        "--rank",
        type=_rank,
        metavar="N",
        default="keep",
        help="of fused metrics: keep (default) the largest of any node, full, or a number",
    )
    rounds = parser.add_argument_group("rounds of federated averaging")
    rounds.add_argument(
        "--rounds", type=arguments.count, metavar="N", help="after the first fusion; default none"
    )
    rounds.add_argument(
        "--passes",
        type=arguments.count,
        metavar="N",
        help=f"of a node over its stored readings in each round; default {PASSES}",
    )
    rounds.add_argument(
        "--pull",
        type=_pull,
        metavar="X",
        help="towards what was fused, while a node learns (FedProx); default 0",
    )
    out = parser.add_argument_group("results")
    out.add_argument("-o", "--output", metavar="FILE", help="the model in common coordinates")
    out.add_argument(
        "--for",
        dest="own",
        action="append",
        default=[],
        metavar="NODE=FILE",
        help="the model for the sensors of a node; may be repeated",
    )
    out.add_argument("--each", metavar="FOLDER", help="a model for every node, NODE.slvq")
    out.add_argument("--report", metavar="HTML", help="write a page with pictures")
    out.add_argument("--json", metavar="FILE", help="write all numbers; - for standard output")
    out.add_argument("--quiet", action="store_true", help="no table, no warnings")


def run(options: argparse.Namespace) -> int:
    sources = [_source(text) for text in options.snapshots]
    own = dict(_own(text) for text in options.own)
    _check_rounds(options)
    _check_outputs(options, own, [path for _, path in sources])
    snapshots = _nodes(_load(sources))
    fused = _fused(options, snapshots)
    wanted = not options.quiet or options.report or options.json
    pools = fused.pool.reports() if wanted and fused.pool is not None else {}
    files = _files(options, own, fused, snapshots, pools)  # all, before the first is written
    if not options.quiet and options.json != arguments.STANDARD_OUTPUT:
        print(fused.report, flush=True)
        if pools:
            print(f"\n{pools_text(pools)}", flush=True)
        if options.rounds:
            print(_said_of_rounds(options, snapshots), flush=True)
    _write(options, files)
    return 0


def _rank(text: str) -> Any:
    if text in ("keep", "full"):
        return text
    try:
        return arguments.count(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"expected keep, full or a whole number of at least 1, got {text!r}"
        ) from None


def _pull(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return number


# --- how it is fused -----------------------------------------------------------------------------


def _check_rounds(options: argparse.Namespace) -> None:
    for name in ("passes", "pull"):
        if getattr(options, name) is not None and not options.rounds:
            raise StreamLVQError(f"--{name}: expected --rounds too, got none")


def _fused(options: argparse.Namespace, snapshots: Sequence[Snapshot]) -> Fused:
    how: dict[str, Any] = {
        name: getattr(options, name) for name in ("drift", "weighting", "aggregator", "rank")
    }
    if not options.rounds:
        return fuse(snapshots, **how)
    from tqdm import tqdm  # noqa: PLC0415

    given = {name: getattr(options, name) for name in ("passes", "pull")}
    how |= {name: value for name, value in given.items() if value is not None}
    steps = run_rounds(snapshots, rounds=options.rounds, **how)
    last = next(steps)
    shown = sys.stderr.isatty() and not options.quiet
    for step in tqdm(steps, "fuse", options.rounds, leave=False, disable=not shown, unit=" rounds"):
        last = step
    return last.fused


def _said_of_rounds(options: argparse.Namespace, snapshots: Sequence[Snapshot]) -> str:
    counts = sorted(len(each.readings) for each in participants_of(snapshots))
    many = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    passes, pull = options.passes or PASSES, options.pull or PULL
    how = f"{passes} pass{'es' * (passes > 1)}" + (f" with pull {pull:g}" if pull else "")
    return f"rounds       {options.rounds}, each of {how} over the {many} readings that nodes store"


# --- what is read --------------------------------------------------------------------------------


def _source(text: str) -> tuple[str | None, str]:
    """The name to give to a node, if any, and where it is; a path may hold = itself."""
    node, equals, path = text.partition("=")
    return (None, text) if not equals or Path(text).exists() else (node, path)


def _load(sources: Iterable[tuple[str | None, str]]) -> list[tuple[str, Snapshot]]:
    """All snapshots with their files; if some cannot be read, all of those are named."""
    found: list[tuple[str, Snapshot]] = []
    wrong: list[str] = []
    for node, path in sources:
        try:
            found += [(path, snapshot) for snapshot in replay.load_snapshots(path, node)]
        except OSError as error:
            wrong.append(f"{path}: {error.strerror or error}")
        except StreamLVQError as error:
            wrong.append(str(error))
    if wrong:
        raise StreamLVQError("; ".join([*wrong, "nothing was written"]))
    return found


def _nodes(found: Sequence[tuple[str, Snapshot]]) -> list[Snapshot]:
    """One snapshot of each node, if they can be fused."""
    files: dict[str, dict[Path, str]] = {}
    for path, snapshot in found:
        files.setdefault(snapshot.node, {}).setdefault(Path(path).resolve(), path)
    for node, paths in files.items():
        _check_one(node, list(paths.values()))
    snapshots = newest(snapshot for _, snapshot in found)
    _check_kinds(snapshots, {node: next(iter(paths.values())) for node, paths in files.items()})
    return snapshots


def _check_one(node: str, paths: Sequence[str]) -> None:
    """In a fleet the newest snapshot counts; of files nobody knows whether they were mixed up."""
    if len(paths) > 1:
        raise StreamLVQError(
            f"expected one file of each node, got {' and '.join(paths)}, all of node {node!r}: if "
            f"they are of different nodes, name them here (NODE={paths[0]}) or when they are made "
            "(`streamlvq train --node NODE`); if not, give the newest alone; nothing was written"
        )


def _check_kinds(snapshots: Sequence[Snapshot], files: Mapping[str, str]) -> None:
    groups = group_compatible(snapshots)
    if len(groups) > 1:
        kinds = [
            f"{_kind(group[0])} in {', '.join(files[each.node] for each in group)}"
            for group in groups
        ]
        raise StreamLVQError(
            f"expected models of one kind, got {' and '.join(kinds)}: fuse those of one kind, or "
            "train the others again with the same `model:` in their configuration; nothing was "
            "written"
        )


def _kind(snapshot: Snapshot) -> str:
    if snapshot.transform is None:
        return snapshot.type_name
    name, features = snapshot.transform
    which = "all" if features is None else len(features)
    return f"{snapshot.type_name} ({name} of {which} features)"


# --- what is written -----------------------------------------------------------------------------


def _own(text: str) -> tuple[str, str]:
    node, _, path = text.rpartition("=")
    if not node or not path:
        raise StreamLVQError(f"--for: expected NODE=FILE, got {text!r}")
    return node, path


def _check_outputs(
    options: argparse.Namespace, own: Mapping[str, str], read: Sequence[str]
) -> None:
    """Before the work: paths that cannot be written, and those that would destroy what is read."""
    wanted = {"-o": options.output, "--report": options.report, "--json": options.json}
    wanted |= {f"--for {node}": path for node, path in own.items()}
    arguments.check_outputs(wanted, read)
    if options.each is not None and Path(options.each).exists() and not Path(options.each).is_dir():
        raise StreamLVQError(f"--each: expected a folder, got {options.each!r}: this is none")


def _files(
    options: argparse.Namespace,
    own: Mapping[str, str],
    fused: Fused,
    snapshots: Sequence[Snapshot],
    pools: Mapping[str, PoolReport],
) -> dict[str, tuple[str, bytes]]:
    """What to write where, by the option that asked for it."""
    from streamlvq.report.fusion_page import fusion_html  # noqa: PLC0415 - drawn only if asked for

    places = {f"--for {node}": (_known(node, fused), path) for node, path in own.items()}
    places |= _each(options, fused)
    files = {name: (path, fused.snapshot(node).to_bytes()) for name, (node, path) in places.items()}
    if options.output is not None:
        files["-o"] = (options.output, fused.snapshot().to_bytes())
    if options.report is not None:
        text = fusion_html(fused.report, snapshots, fused, pools)
        files["--report"] = (options.report, text.encode())
    if options.json is not None:
        found = msgspec.to_builtins(fused.report) | ({"pools": pools} if pools else {})
        files["--json"] = (options.json, msgspec.json.encode(found) + b"\n")
    return files


def _known(node: str, fused: Fused) -> str:
    if node not in fused.nodes:
        raise StreamLVQError(f"--for: expected one of {', '.join(fused.nodes)}, got {node!r}")
    return node


def _each(options: argparse.Namespace, fused: Fused) -> dict[str, tuple[str, str]]:
    if options.each is None:
        return {}
    places = {}
    read = {Path(path).resolve() for _, path in map(_source, options.snapshots)}
    for node in fused.nodes:
        path = Path(options.each, _file_name(node))
        if path.resolve() in read:
            raise StreamLVQError(
                f"--each: expected a folder of its own, got {options.each!r}: {path} is read too, "
                "and what a node has learnt must not be replaced by what was fused"
            )
        places[f"--each {node}"] = (node, str(path))
    return places


def _file_name(node: str) -> str:
    """Names of nodes may hold what names of files may not."""
    return "".join(f"%{ord(c):02X}" if c in FORBIDDEN else c for c in node) + SUFFIX


def _write(options: argparse.Namespace, files: Mapping[str, tuple[str, bytes]]) -> None:
    if options.each is not None:
        Path(options.each).mkdir(parents=True, exist_ok=True)

    def writer(path: str, data: bytes) -> Any:
        if path == arguments.STANDARD_OUTPUT:
            return lambda: sys.stdout.write(data.decode())
        return lambda: write_atomically(path, data)

    unwritten = arguments.write_all({name: writer(*file) for name, file in files.items()})
    if not options.quiet and options.json != arguments.STANDARD_OUTPUT:
        for name, (path, _) in files.items():
            if name not in unwritten:
                print(f"{_called(name):<12} {path}")
    if unwritten:
        raise StreamLVQError("; ".join(unwritten.values()))


def _called(option: str) -> str:
    """What a file is, for people."""
    known = {"-o": "common", "--report": "report", "--json": "json"}
    return known.get(option, f"for {option.partition(' ')[2]}")
