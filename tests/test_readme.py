"""The README: its examples run, and it leaves nothing out."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

import streamlvq

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(
        str(ROOT / "README.md"), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert tried > 15
    assert failed == 0, "see the differences above"


@pytest.mark.parametrize("name", streamlvq.__all__)
def test_every_model_is_in_the_table(name: str) -> None:
    assert f"\n| `{name}` |" in README


def test_every_code_block_ends_its_doctest() -> None:
    """Without an empty line the closing fence would be taken for expected output."""
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        assert ">>>" not in block or block.endswith("\n\n")


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("picture", re.findall(r"\]\((docs/[^)]+\.png)\)", README))
def test_pictures_are_small(picture: str) -> None:
    assert (ROOT / picture).stat().st_size < 150_000


@pytest.mark.parametrize("script", re.findall(r"examples/\w+\.py", README))
def test_examples_that_it_names_exist(script: str) -> None:
    assert (ROOT / script).exists()
