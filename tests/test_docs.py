"""The documentation: the site builds without a warning, its examples run, it leaves nothing out."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import matplotlib
import pytest

from support import ROOT
from support.brokers import Mosquitto
from support.walks import blocks, walked

matplotlib.use("Agg")  # no window

import streamlvq
from streamlvq import config, coupling, fusion, metrics, plot, robustness, synth, wrappers
from streamlvq.cli.main import COMMANDS, chosen_command, make_parser
from streamlvq.config.documents import all_keys
from streamlvq.fleet.envelope import REASONS
from streamlvq.registry import MODELS

DOCS = ROOT / "docs"
PAGES = [Path("README.md"), *sorted(path.relative_to(ROOT) for path in DOCS.rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WALKED = ("docs/start/replay.md", "docs/start/daemon.md")


def text(page: Path | str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def found(pattern: str) -> list[tuple[Path, str]]:
    """What matches on each page."""
    flags = re.DOTALL | re.MULTILINE
    return [(page, match) for page in PAGES for match in re.findall(pattern, text(page), flags)]


# --- the site ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning fails the build, such as one about a link to a missing anchor."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Links(HTMLParser):
    """Targets of links and pictures, and anchors, of a page of the site."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        name = {"a": "href", "img": "src", "link": "href", "script": "src"}.get(tag)
        if name and (target := given.get(name)):
            self.targets.append(target)


def test_site_has_no_dead_link(site: Path) -> None:
    """The built pages, generated ones included, checked without MkDocs."""
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    assert len(pages) > 50
    dead = []
    for page, links in pages.items():
        for target in links.targets:
            path, anchor = urldefrag(target)
            if re.match(r"[a-z]+:", target):
                continue
            place = (page.parent / unquote(path)).resolve() if path else page
            place = place / "index.html" if place.is_dir() else place
            known = pages[place].anchors if place in pages else {""}
            if not place.exists() or (anchor and unquote(anchor) not in known):
                dead.append(f"{page.relative_to(site)}: {target}")
    assert dead == []


def test_pages_work_offline(site: Path) -> None:
    """All but diagrams, for which the theme loads mermaid; without it their text is shown."""
    for page in site.rglob("*.html"):
        source = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="https?://[^"]+', source)


def api_text(site: Path) -> str:
    pages = (site / "reference" / "api").rglob("index.html")
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_everything_public_is_in_the_api_reference(site: Path) -> None:
    anchors = set(re.findall(r'id="(streamlvq[\w.]+)"', api_text(site)))
    for module in (streamlvq, metrics, plot, fusion, synth):
        for name in (name for name in module.__all__ if not name.isupper()):
            assert {f"{module.__name__}.{name}", f"streamlvq.{name}"} & anchors, name
    for name in MODELS:
        assert f"streamlvq.{name}" in anchors
    assert "{parameters}" not in api_text(site)


def test_every_key_and_command_is_in_the_reference(site: Path) -> None:
    keys = Links(site / "reference/configuration/index.html").anchors
    assert {key.path for key in all_keys()} <= keys
    assert set(COMMANDS) <= Links(site / "reference/cli/index.html").anchors


def test_metrics_are_those_of_running_daemons() -> None:
    golden = json.loads(text("tests/golden/metrics.json"))
    rows = re.findall(r"^\| `((?:streamlvq|process)_\w+)` \| (\w+) \| (.*?) \|", *_metrics_table())
    told = {name: [kind, *re.findall(r"\w+", labels)] for name, kind, labels in rows}
    wanted: dict[str, list[str]] = {}
    for metrics_of in golden.values():
        for name, kind_and_labels in metrics_of.items():
            if len(kind_and_labels) >= len(wanted.get(name, ())):
                wanted[name] = kind_and_labels
    assert told.keys() == wanted.keys()
    for name, (kind, *labels) in wanted.items():
        assert told[name][0] == kind
        assert set(labels) <= set(told[name][1:])  # some counters had nothing to count there


def _metrics_table() -> tuple[str, re.RegexFlag]:
    return text("docs/reference/metrics.md"), re.MULTILINE


def test_reasons_of_envelopes_are_explained() -> None:
    page = text("docs/reference/formats.md")
    assert all(f"`{reason}`" in page for reason in REASONS)


# --- examples on the pages -----------------------------------------------------------------------


def doctested() -> list[Path]:
    return [page for page in PAGES[1:] if ">>>" in text(page)]


@pytest.mark.parametrize("page", doctested(), ids=str)
def test_examples_run(page: Path) -> None:
    failed, tried = doctest.testfile(
        str(ROOT / page), module_relative=False, optionflags=FLAGS, encoding="utf-8"
    )
    assert tried > 0
    assert failed == 0, "see the differences above"


def test_examples_are_many() -> None:
    assert len(doctested()) >= 9


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_code_block_ends_its_doctest(page: Path) -> None:
    """Without an empty line the closing fence would be taken for expected output."""
    for block in re.findall(r"```python\n(.*?)```", text(page), flags=re.DOTALL):
        assert ">>>" not in block or block.endswith("\n\n")


@pytest.mark.parametrize(("page", "block"), found(r"^ *```yaml\n(.*?)```"))
def test_configurations_load(page: Path, block: str) -> None:
    given = config.loads(textwrap.dedent(block))
    assert given.readings is not None or given.fleet is not None


@pytest.mark.parametrize(("page", "line"), found(r"(?:^ *|`)(streamlvq \w[^`\n#&|>]*)"))
def test_commands_are_understood(page: Path, line: str) -> None:
    """Options and all; words in capitals stand for something, so that nothing runs."""
    if line.split() not in (["streamlvq", name] for name in COMMANDS):
        given = shlex.split(line)[1:]
        make_parser(chosen_command(given)).parse_args(given)


@pytest.mark.parametrize(("page", "script"), found(r"(?:examples|benchmarks)/\w+\.py"))
def test_scripts_that_it_names_exist(page: Path, script: str) -> None:
    assert (ROOT / script).exists()


@pytest.mark.parametrize("picture", sorted(DOCS.rglob("*.png")), ids=lambda path: path.name)
def test_pictures_are_small_and_shown(picture: Path) -> None:
    assert picture.stat().st_size < 150_000
    assert any(picture.name in text(page) for page in PAGES)


@pytest.mark.parametrize("page", WALKED)
def test_getting_started_runs(page: str, tmp_path: Path) -> None:
    """The page from top to bottom, as a new user would follow it."""
    with walked(page, tmp_path) as walk:
        for command, printed in walk.printed.items():
            assert "Traceback" not in printed, command
        if page.endswith("replay.md"):
            (shown,) = [block for kind, block in blocks(page) if "log          plant" in block]
            first = next(text for command, text in walk.printed.items() if "--label" in command)
            for line in shown.splitlines():
                start = line.partition("%")[0].partition(":")[0].partition("(")[0]
                assert start in first or line == "..."
        elif Mosquitto.installed():
            (health,) = [text for command, text in walk.printed.items() if "healthz" in command]
            assert json.loads(health) == {"healthy": True, "reasons": []}


# --- completeness --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_in_the_table(name: str) -> None:
    assert f"\n| `{name}` |" in text("docs/howto/model.md")


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_is_named(name: str) -> None:
    assert f"plot.{name}(" in text("docs/howto/explain.md")


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_metric_is_explained(name: str) -> None:
    assert f"\n| `{name}` |" in text("docs/howto/threshold.md")
    assert f"metrics.{name}(" in text("docs/certainty.md")


@pytest.mark.parametrize("name", wrappers.__all__)
def test_every_wrapper_is_explained(name: str) -> None:
    assert f"\n| `{name}` |" in text("docs/howto/threshold.md")


@pytest.mark.parametrize(
    "function", [coupling.couple, robustness.certificate], ids=lambda f: f.__name__
)
def test_functions_on_demand_are_shown(function: object) -> None:
    assert f"{function.__name__}(" in text("docs/certainty.md")  # type: ignore[attr-defined]
