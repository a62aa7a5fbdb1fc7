"""Registries: names and summaries at once, parts when they are used."""

from __future__ import annotations

import fractions
import subprocess
import sys
from typing import Any

import pytest

import streamlvq
from streamlvq import models
from streamlvq.errors import StreamLVQError
from streamlvq.registry import (
    AGGREGATORS,
    ATTACKS,
    CORRECTIONS,
    FORMATS,
    MEMBERS,
    MODELS,
    DuplicateNameError,
    Registry,
    UnknownNameError,
)


@pytest.fixture
def parts() -> Registry[Any]:
    return Registry(
        "number",
        {
            "fraction": ("fractions:Fraction", "a ratio of integers"),
            "decimal": ("decimal:Decimal", "a decimal number"),
            "missing": ("fractions:Nothing", "not there"),
            "nowhere": ("no_such_module:Part", "not there either"),
        },
    )


def test_names_and_summaries_in_order(parts: Registry[Any]) -> None:
    assert list(parts) == ["fraction", "decimal", "missing", "nowhere"]
    assert parts.names == tuple(parts)
    assert len(parts) == 4
    assert parts.summary("decimal") == "a decimal number"
    assert parts.described().startswith(
        "fraction (a ratio of integers), decimal (a decimal number)"
    )
    assert repr(parts) == "Registry('number', ['fraction', 'decimal', 'missing', 'nowhere'])"


def test_parts_are_imported_when_used(parts: Registry[Any]) -> None:
    assert parts["fraction"] is fractions.Fraction
    assert parts["fraction"] is parts["fraction"]
    with pytest.raises(AttributeError, match="Nothing"):
        parts["missing"]
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        parts["nowhere"]


def test_reading_names_imports_nothing() -> None:
    code = (
        "import sys\n"
        "from streamlvq.registry import AGGREGATORS, CORRECTIONS\n"
        "assert list(AGGREGATORS) and CORRECTIONS.described()\n"
        "assert not any(name.startswith('streamlvq.fusion') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["decimals", "", None, 3, ["decimal"]])
def test_unknown_names(parts: Registry[Any], name: Any) -> None:
    assert name not in parts
    for ask in (parts.__getitem__, parts.summary, parts.check, parts.remove):
        with pytest.raises(UnknownNameError) as caught:
            ask(name)
        error = caught.value
        assert isinstance(error, StreamLVQError) and isinstance(error, LookupError)
        assert (error.kind, error.name, error.known) == ("number", name, parts.names)
        assert str(error).startswith("number: expected one of fraction, decimal, missing, nowhere")
        assert f"got {name!r}" in str(error)


def test_a_suggestion(parts: Registry[Any]) -> None:
    with pytest.raises(UnknownNameError, match=r"'decimals'; did you mean 'decimal'\?$") as found:
        parts["decimals"]
    assert found.value.nearest == "decimal"
    with pytest.raises(UnknownNameError, match=r"got 'xyz'$") as found:
        parts["xyz"]
    assert found.value.nearest is None


def test_one_more_at_run_time(parts: Registry[Any]) -> None:
    parts.register("complex", complex, "with an imaginary part")
    parts.register("round", "builtins:round", "to whole numbers")
    assert list(parts)[-2:] == ["complex", "round"]
    assert parts["complex"] is complex and parts["round"] is round
    assert parts.summary("complex") == "with an imaginary part"
    parts.remove("complex")
    parts.remove("round")
    assert len(parts) == 4
    parts.register("complex", float, "once more")
    assert parts["complex"] is float


def test_duplicates_are_refused(parts: Registry[Any]) -> None:
    with pytest.raises(DuplicateNameError, match="number: expected a new name, got 'decimal'"):
        parts.register("decimal", float, "another one")
    assert parts.summary("decimal") == "a decimal number"


@pytest.mark.parametrize("target", ["decimal", "decimal:", ":Decimal", ""])
def test_a_target_names_module_and_attribute(target: str) -> None:
    with pytest.raises(ValueError, match=r"expected 'package\.module:attribute', got"):
        Registry("number", {"decimal": (target, "a decimal number")})


REGISTRIES = [CORRECTIONS, AGGREGATORS, MODELS, MEMBERS, FORMATS, ATTACKS]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.kind)
def test_all_that_is_registered_is_there(registry: Registry[Any]) -> None:
    for name in registry:
        assert registry[name].__doc__, name
        assert 0 < len(registry.summary(name)) <= 60


def test_every_exported_model_is_registered() -> None:
    assert set(models.__all__) <= set(MODELS)
    assert [name for name in MODELS if name in models.__all__] == models.__all__
    for name in MODELS:
        assert MODELS[name] is getattr(streamlvq, name)
