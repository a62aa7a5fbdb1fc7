"""The house keeps its order: no reaching into other packages, one meaning for each name.

docs/architecture.md and docs/glossary.md say where things are; what they name has to exist.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from support import ROOT

SOURCES = {
    ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__"): path
    for base in (ROOT, ROOT / "connectors")
    for package in ("streamlvq", "streamlvq_connectors")
    for path in sorted((base / package).rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}
TUPLES = {"_replace", "_asdict", "_fields", "_make"}  # public names of named tuples
FOREIGN = {  # private names of others that have no public counterpart, and why
    ("streamlvq.wrappers", "_last_step"),  # River's pipelines: the final estimator
    ("streamlvq.plot", "_last_step"),
    ("streamlvq.metrics", "_get_params"),  # River's metrics: parameters, to clone them
    ("streamlvq.service", "_exit"),  # os._exit: leave without running anything else
}


def package_of(module: str) -> str:
    """Return the package of a module; modules at the top level stand for themselves."""
    return ".".join(module.split(".")[:2])


def own_names() -> dict[str, set[str]]:
    """Return what each package defines: functions, classes, variables, attributes of self."""
    names: dict[str, set[str]] = defaultdict(set)
    for module, tree in TREES.items():
        own = names[package_of(module)]
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id in {"self", "cls"}
            ):
                own.add(node.attr)
    return names


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in TUPLES


def test_no_package_touches_private_attributes_of_another() -> None:
    own = own_names()
    touched = []
    for module, tree in TREES.items():
        package = package_of(module)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in SOURCES:
                touched += [
                    f"{module}:{node.lineno} imports {alias.name}"
                    for alias in node.names
                    if is_private(alias.name) and package_of(node.module) != package
                ]
            if not isinstance(node, ast.Attribute) or not is_private(node.attr):
                continue
            by_itself = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if by_itself or (package, node.attr) in FOREIGN or node.attr in own[package]:
                continue
            touched.append(f"{module}:{node.lineno} {ast.unparse(node)}")
    assert touched == []


def test_each_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for module, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_module_hides_a_name_of_its_package() -> None:
    """Importing a module sets it in its package: names that `__getattr__` would find are hidden."""
    hidden = [
        f"{module}.{name.value}"
        for module, tree in TREES.items()
        if any(
            isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body
        )
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.walk(node.value)
        if isinstance(name, ast.Constant) and f"{module}.{name.value}" in SOURCES
    ]
    assert hidden == []


COMMANDS = {"NAME", "SUMMARY", "TEXT", "EXAMPLES"}  # what every command has


def test_each_constant_has_one_meaning() -> None:
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for module, tree in TREES.items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign) and node.value is not None:
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and re.fullmatch("[A-Z][A-Z0-9_]+", target.id):
                    assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
                    values[target.id][module] = ast.unparse(node.value)
    several = {
        name: found
        for name, found in values.items()
        if len(set(found.values())) > 1 and name not in COMMANDS
    }
    assert several == {}


@pytest.mark.parametrize("page", ["architecture", "glossary"])
def test_what_the_documents_name_exists(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_0-9]+\.(?:py|md|yaml))?)`", text))
    assert len(named) > 10
    missing = [name for name in sorted(named) if not any(_places(name))]
    assert missing == []


def _places(name: str) -> list[Path]:
    """Return the files or folders that a path of a document may mean."""
    roots = (ROOT, ROOT / "streamlvq", ROOT / "connectors" / "streamlvq_connectors")
    return [root / name for root in roots if (root / name).exists()]


def test_classes_of_the_glossary_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][a-z]+[A-Za-z]*)`", text))
    known = {
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assert sorted(named - known) == []
