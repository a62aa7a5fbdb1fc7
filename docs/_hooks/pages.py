"""MkDocs hook: pages made of the code and of files outside docs/, links to them, and formulas.

A page in docs/ may link to any file of the repository, as it would on a code host: `LINKED` says
which page of the site shows that file. What the code knows is written here when the site is built,
so that there is nothing to keep up to date: the command line from its parsers, keys from the
schema, and an API page for each part of the public interface.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import importlib
import json
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from streamlvq.cli.main import COMMANDS, DESCRIPTION, make_parser
from streamlvq.config.documents import TABLE_END, TABLE_START, all_keys, key_table
from streamlvq.registry import MODELS

ROOT = Path(__file__).parents[2]
DOCS = "docs"
HELP_COLUMNS = "96"
SCRIPTS = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
CONFIGS = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
OTHERS = {"streamlvq.service": "ini", "schema.json": "json"}  # more files of configs/

# Pages that show a file of the repository, by its path.
LINKED = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "configs/README.md": "reference/configuration.md",
    "examples": "reference/examples.md",
    "examples/tour.ipynb": "start/tour.md",
    **{f"examples/{name}": f"reference/examples/{Path(name).stem}.md" for name in SCRIPTS},
    **{f"configs/{name}": f"reference/configs/{name}.md" for name in (*CONFIGS, *OTHERS)},
}
SHOWN = {uri: path for path, uri in LINKED.items()}


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# --- files ---------------------------------------------------------------------------------------


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that have no source in docs/."""
    pages: dict[str, str | bytes] = {
        "changelog.md": text("CHANGELOG.md"),
        "contributing.md": text("CONTRIBUTING.md"),
        "reference/configuration.md": configuration_page(),
        "reference/cli.md": cli_page(),
        "reference/examples.md": examples_page(),
        **notebook_page("examples/tour.ipynb", "start/tour.md"),
        **{f"reference/api/{name}.md": api_page(name) for name in API},
    }
    for name in SCRIPTS:
        pages[LINKED[f"examples/{name}"]] = script_page(name)
    for name in (*CONFIGS, *OTHERS):
        pages[LINKED[f"configs/{name}"]] = config_file_page(name)
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))
    return files


# --- links and formulas --------------------------------------------------------------------------

_FENCE = re.compile(r"^(```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)]*)?(\))")
_FORMULA = re.compile(r"^```math\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\$`([^`]+)`\$")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn formulas into MathML, and links to files of the repository into links to pages."""
    markdown = _FORMULA.sub(lambda found: convert(found[1], display="block"), markdown)
    parts = _FENCE.split(markdown)
    for k in range(0, len(parts), 2):  # the others are fenced code
        parts[k] = _INLINE.sub(lambda found: convert(found[1]), parts[k])
        parts[k] = _LINK.sub(lambda found: _relinked(found, page.file.src_uri), parts[k])
    return "".join(parts)


def _relinked(found: re.Match[str], uri: str) -> str:
    """Return a link with its target as seen from the page of this URI."""
    origin = SHOWN.get(uri, f"{DOCS}/{uri}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[2]))
    if target in LINKED:
        target = LINKED[target]
    elif target.startswith(f"{DOCS}/"):
        target = target.removeprefix(f"{DOCS}/")
    else:
        return found[0]  # MkDocs complains about it
    return (
        f"{found[1]}{posixpath.relpath(target, posixpath.dirname(uri))}{found[3] or ''}{found[4]}"
    )


# --- configuration -------------------------------------------------------------------------------


def configuration_page() -> str:
    """Return configs/README.md, in which every key has an anchor of its own."""
    head, _, rest = text("configs/README.md").partition(TABLE_START)
    table, section = [], ""
    for line in key_table().splitlines():
        if found := re.match(r"### `(.+)`", line):
            section = found[1]
            line = f"{line} {{ #{section} }}"
        elif found := re.match(r"\| `(\w+)` ", line):
            line = line.replace(f"`{found[1]}`", f"`{found[1]}`{{ #{section}.{found[1]} }}", 1)
        table.append(line)
    missing = [key.path for key in all_keys() if f"#{key.path} " not in "\n".join(table)]
    assert not missing, f"keys without an anchor: {missing}"
    return head + "\n".join(table) + rest.partition(TABLE_END)[2]


def config_file_page(name: str) -> str:
    kind = OTHERS.get(name, "yaml")
    return f"# {name}\n\nThe file `configs/{name}`.\n\n{fenced(text(f'configs/{name}'), kind)}"


# --- command line --------------------------------------------------------------------------------


def cli_page() -> str:
    """Return the help of every command."""
    parts = [
        "# Command line",
        DESCRIPTION,
        "Exit status 0 means success, 2 an error that you can put right: one line on standard "
        "error says what it is. `--debug` shows the traceback.",
        "\n".join(f"- [`{name}`](#{name}): {summary}" for name, summary in COMMANDS.items()),
    ]
    for name in COMMANDS:
        parser = _parser(name)
        about, examples = parser.description or "", parser.epilog or ""
        parser.description = parser.epilog = None
        with _columns(HELP_COLUMNS):
            parts += [f"## `streamlvq {name}` {{ #{name} }}", about, fenced(parser.format_help())]
        parts += _examples(examples)
    return "\n\n".join(parts) + "\n"


def _parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command."""
    actions = make_parser(name)._subparsers._group_actions  # type: ignore[union-attr]
    return actions[0].choices[name]  # type: ignore[index,no-any-return]


def _examples(epilog: str) -> list[str]:
    head, _, rest = epilog.partition("examples:\n")
    lines = [line.removeprefix("  ") for line in rest.rstrip().splitlines()]
    code = "\n".join(lines)
    return [part for part in (head.strip(), f"Examples:\n\n{fenced(code)}" if code else "") if part]


@contextlib.contextmanager
def _columns(width: str) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = width
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


# --- examples ------------------------------------------------------------------------------------


def examples_page() -> str:
    rows = [f"| [`{name}`](examples/{Path(name).stem}.md) | {_summary(name)} |" for name in SCRIPTS]
    table = "\n".join(["| script | what it does |", "|---|---|", *rows])
    return (
        "# Examples\n\nScripts in `examples/`; our tests run each of them. "
        "[The tour](../start/tour.md) is a notebook.\n\n" + table + "\n"
    )


def _summary(name: str) -> str:
    return (ast.get_docstring(ast.parse(text(f"examples/{name}"))) or "").splitlines()[0]


def script_page(name: str) -> str:
    source = text(f"examples/{name}")
    return f"# {name}\n\nThe file `examples/{name}`.\n\n{fenced(source, 'python')}"


def notebook_page(path: str, uri: str) -> dict[str, str | bytes]:
    """Return a page with the cells of a notebook and their stored outputs, and its pictures."""
    pages: dict[str, str | bytes] = {}
    parts: list[str] = []
    for number, cell in enumerate(json.loads(text(path))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{Path(path).stem}-{number}.png"
                pages[posixpath.join(posixpath.dirname(uri), name)] = base64.b64decode(
                    data["image/png"]
                )
                parts.append(f"![output of the cell above]({name})")
            elif shown := "".join(output.get("text", data.get("text/plain", ()))):
                parts.append(f'<div class="output" markdown>\n\n{fenced(shown)}\n</div>')
    return {**pages, uri: "\n\n".join(parts) + "\n"}


# --- public interface ----------------------------------------------------------------------------


# What every model can do, shown once.
MODEL_MEMBERS = (
    *("learn_one", "predict_one", "predict_proba_one", "observe_one"),
    *("explain_one", "relsim_one", "prototypes", "relevances", "metric", "scales"),
    *("features", "classes", "samples", "train"),
    *("learn_array", "predict_array", "predict_proba_array"),
    *("learn_many", "predict_many", "predict_proba_many"),
)
WRAPPER_MEMBERS = {
    "FeatureTransform": ("transform_one", "inverse_one"),
    "RelSimRejector": ("decide_one", "threshold_for"),
    "ProbabilityRejector": ("decide_one", "threshold_for"),
    "TimeIntegrator": (
        *("integrated_one", "learn_one", "observe_one", "predict_one", "predict_proba_one"),
        *("starts_segment", "finish", "reset", "delay", "tracked_devices"),
    ),
}
SNAPSHOT_MEMBERS = (
    *("of", "save", "load", "to_bytes", "from_bytes", "classifier"),
    *("node", "created", "features", "labels", "samples", "counts", "means", "spreads"),
    *("prototypes", "relevances", "has_readings"),
)
MONITOR_MEMBERS = ("step", "checkpoint", "restore", "models", "local", "serve", "devices")

Members = Sequence[str] | None  # None: all


def _models() -> dict[str, Members]:
    first = "LGMLVQ"  # the default choice
    names = [first, *(name for name in MODELS if name != first)]
    return {f"streamlvq.{name}": MODEL_MEMBERS if name == first else () for name in names}


def _all(module: str, members: Members = None) -> dict[str, Members]:
    names = importlib.import_module(module).__all__
    return {f"{module}.{name}": members for name in names if not name.isupper()}


def _of(module: str, *names: str, members: Members = None) -> dict[str, Members]:
    return {f"{module}.{name}": members for name in names}


# Title, introduction, and what is documented, by name of the page.
API: dict[str, tuple[str, str, Callable[[], dict[str, Members]]]] = {
    "models": (
        "Models",
        "River classifiers. [Choose a model](../../howto/model.md) says when to take which; the "
        "methods that all of them share are listed under `LGMLVQ`.",
        _models,
    ),
    "wrappers": (
        "Wrappers",
        "Around a model, or a pipeline that ends with one; they are classifiers themselves. "
        "[When it does not know](../../certainty.md) shows how to use them.",
        lambda: {f"streamlvq.{name}": members for name, members in WRAPPER_MEMBERS.items()},
    ),
    "records": (
        "Decisions and records",
        "What models and wrappers return.",
        lambda: {
            **_of("streamlvq", "Decision", "Integrated"),
            **_of("streamlvq.records", "Explanation", "Prototype"),
        },
    ),
    "metrics": (
        "Metrics of classifiers",
        "`streamlvq.metrics`: River metrics for classifiers that may stay silent. "
        "Those of the daemon, for Prometheus, are [elsewhere](../metrics.md).",
        lambda: _all("streamlvq.metrics"),
    ),
    "plot": (
        "Plots",
        '`streamlvq.plot`: pictures with matplotlib (`pip install ".[plot]"`). '
        "Each function returns matplotlib axes, and draws into yours if you pass `ax=`.",
        lambda: _all("streamlvq.plot"),
    ),
    "monitor": (
        "Monitor and events",
        "The deterministic step in the middle of the daemon and of a replay, without a broker.",
        lambda: {
            **_of("streamlvq", "Monitor", members=MONITOR_MEMBERS),
            **_of("streamlvq.monitor", "Outcome"),
            **_of("streamlvq.events", "Readings", "LateLabel", "Decisions", "Refused"),
        },
    ),
    "snapshot": (
        "Snapshots",
        "A model as a file or as bytes: checked before it is believed, never executable.",
        lambda: {
            **_of("streamlvq", "Snapshot", members=SNAPSHOT_MEMBERS),
            **_of("streamlvq.snapshot", "SnapshotError"),
        },
    ),
    "fusion": (
        "Fusion",
        "`streamlvq.fuse` and what it returns; [Fleets](../../fleet.md) explains it.",
        lambda: {
            "streamlvq.fuse": None,
            **{
                path: members
                for path, members in _all("streamlvq.fusion").items()
                if path != "streamlvq.fusion.fuse"
            },
        },
    ),
    "privacy": (
        "Privacy",
        "`streamlvq.privacy`; [Privacy](../../privacy.md) says what is guaranteed and why.",
        lambda: {
            **_all("streamlvq.privacy"),
            **_of(
                "streamlvq.privacy.accountant",
                "gaussian_epsilon",
                "gaussian_mu",
                "gaussian_delta",
                "poisson_epsilon",
                "poisson_sigma",
                "compose_gaussian",
            ),
            **_of("streamlvq.privacy.ledger", "Ledger", "read_ledger"),
        },
    ),
    "audit": (
        "Audit",
        "`streamlvq.audit`: attacks on what nodes publish; "
        "[Attack yourself](../../privacy.md#attack-yourself) explains them.",
        lambda: _all("streamlvq.audit"),
    ),
    "certainty": (
        "Coupling and robustness",
        "Pairwise probabilities, acceptance balls and certificates.",
        lambda: {
            **_of("streamlvq.coupling", "couple"),
            **_of("streamlvq.robustness", "acceptance_ball", "AcceptanceBall", "is_outlier"),
            **_of("streamlvq.robustness", "certificate", "Certificate"),
        },
    ),
    "config": (
        "Configuration in Python",
        "Reading, checking and describing configurations; their keys are in the "
        "[configuration reference](../configuration.md).",
        lambda: _of(
            "streamlvq.config",
            *("load", "loads", "check", "describe", "sample", "minimal_sample"),
            *("build_classifier", "Config", "ConfigError", "Problem"),
        ),
    ),
    "connect": (
        "Connectors",
        "What a link (a live connection) and a log (a recorded file) are. "
        "[Contributing](../../contributing.md#a-link) shows how to write one.",
        lambda: _of(
            "streamlvq.connect",
            *("Link", "Log", "LogWriter", "Message", "Outgoing", "Subscription"),
            *("links", "link_for", "logs", "open_log"),
        ),
    ),
    "synth": (
        "Simulated machines",
        "`streamlvq.synth`: machines with faults, drifting sensors and glitches, to try things "
        "out with.",
        lambda: _all("streamlvq.synth"),
    ),
}


def api_page(name: str) -> str:
    """Return a page of directives for mkdocstrings."""
    title, introduction, content = API[name]
    parts = [f"# {title}", introduction]
    for path, members in content().items():
        options: dict[str, Any] = {}
        if members is not None:
            options = {"members": list(members), "inherited_members": list(members)}
        parts.append(f"::: {path}\n    options: {json.dumps(options)}")
    return "\n\n".join(parts) + "\n"


def fenced(code: str, kind: str = "text") -> str:
    marks = "````" if "```" in code else "```"
    return f"{marks}{kind}\n{code.rstrip()}\n{marks}\n"
