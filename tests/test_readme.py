"""The README and the pages in docs/: their examples run, and they leave nothing out."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import matplotlib
import pytest

from support import ROOT

matplotlib.use("Agg")  # no window

import streamlvq
from streamlvq import config, coupling, metrics, plot, robustness
from streamlvq.cli.main import chosen_command, make_parser

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (
    *("demo", "run", "replay", "train", "record", "inspect", "config", "version"),
    *("fuse", "fleet", "keys"),
)
PAGES = [Path("README.md"), *(path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md"))]
MAPS = ("architecture.md", "glossary.md")  # have no examples; see `test_architecture`


def text(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def found(pattern: str) -> list[tuple[Path, str]]:
    """What matches on each page."""
    flags = re.DOTALL | re.MULTILINE
    return [(page, match) for page in PAGES for match in re.findall(pattern, text(page), flags)]


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in MAPS], ids=str)
def test_examples_run(page: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(
        str(ROOT / page), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert tried > (10 if page.name == "daemon.md" else 15)
    assert failed == 0, "see the differences above"


@pytest.mark.parametrize("name", streamlvq.__all__)
def test_every_model_is_in_the_table(name: str) -> None:
    assert f"\n| `{name}` |" in README


@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_is_named(name: str) -> None:
    assert f"plot.{name}(" in README


@pytest.mark.parametrize("name", metrics.__all__)
def test_every_metric_is_explained(name: str) -> None:
    assert f"`{name}`" in README
    assert f"metrics.{name}(" in text(Path("docs/certainty.md"))


@pytest.mark.parametrize(
    "function", [coupling.couple, robustness.certificate], ids=lambda f: f.__name__
)
def test_functions_on_demand_are_shown(function: object) -> None:
    assert f"{function.__name__}(" in text(Path("docs/certainty.md"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_code_block_ends_its_doctest(page: Path) -> None:
    """Without an empty line the closing fence would be taken for expected output."""
    for block in re.findall(r"```python\n(.*?)```", text(page), flags=re.DOTALL):
        assert ">>>" not in block or block.endswith("\n\n")


@pytest.mark.parametrize(("page", "target"), found(r"\]\((?!http)([^)#]+)[^)]*\)"))
def test_links_lead_somewhere(page: Path, target: str) -> None:
    assert (ROOT / page.parent / target).exists()


@pytest.mark.parametrize(("page", "heading"), found(r"\]\(#([^)]+)\)"))
def test_links_within_a_page_lead_to_a_heading(page: Path, heading: str) -> None:
    headings = re.findall(r"^#+ (.*)$", text(page), flags=re.MULTILINE)
    assert heading in [re.sub(r"[^\w\- ]", "", name).lower().replace(" ", "-") for name in headings]


@pytest.mark.parametrize(("page", "picture"), found(r"\]\(([^)]+\.png)\)"))
def test_pictures_are_small(page: Path, picture: str) -> None:
    assert (ROOT / page.parent / picture).stat().st_size < 150_000


@pytest.mark.parametrize(("page", "script"), found(r"(?:examples|benchmarks)/\w+\.py"))
def test_scripts_that_it_names_exist(page: Path, script: str) -> None:
    assert (ROOT / script).exists()


def test_every_page_is_linked() -> None:
    for page in PAGES[1:]:
        assert f"]({page.as_posix()})" in README


@pytest.mark.parametrize(("page", "block"), found(r"```yaml\n(.*?)```"))
def test_configurations_load(page: Path, block: str) -> None:
    found = config.loads(block)
    if found.readings is None:  # a hub has none
        assert found.fleet is not None
        assert found.fleet.role == "hub"
    else:
        assert found.readings.topic


@pytest.mark.parametrize(("page", "line"), found(r"(?:^|`)(streamlvq \w[^`\n#]*)"))
def test_commands_are_understood(page: Path, line: str) -> None:
    """Options and all; words in capitals stand for something, so that nothing runs."""
    if line.split() not in (["streamlvq", name] for name in COMMANDS):
        given = shlex.split(line)[1:]
        make_parser(chosen_command(given)).parse_args(given)
