"""YAML reader: from text to a configuration, with the line of every key and of every problem.

The text is not trusted, so what makes YAML dangerous is refused: tags (they can build objects),
aliases (a few lines can expand to gigabytes), deep nesting and large files. By hand on purpose: the
loaders of PyYAML build values that no longer know their lines.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from streamlvq.config.errors import ConfigError, KeyPath, Problem
from streamlvq.config.schema import FORMER_VALUES, KEY_DESCRIPTIONS, Config
from streamlvq.text import nearest, suggestion

# --- from text to nodes --------------------------------------------------------------------------

CONFIG_MAX_BYTES = 1 << 20
CONFIG_MAX_DEPTH = 32


class _RefusedError(Exception):
    """A feature of YAML that configurations may not use."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def compose(text: str, name: str) -> Any:
    """Return the root node of a YAML text, None if it is empty; raise `ConfigError`."""
    import yaml  # noqa: PLC0415

    if len(text) > CONFIG_MAX_BYTES:
        raise _error(f"expected a configuration of at most 1 MiB, got {len(text)} characters", name)
    loader = None
    try:
        loader = _loader()(text)
        return loader.get_single_node()
    except _RefusedError as error:
        raise _error(str(error), name, error.line) from None
    except yaml.MarkedYAMLError as error:
        raise _error(*_parser_message(error, name)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"expected text, got the character {chr(error.character)!r}"
        raise _error(message, name, line) from None
    except (ValueError, OverflowError) as error:  # escapes that stand for no character
        reached = None if loader is None else loader.line + 1
        raise _error(f"not valid YAML: {error}", name, reached) from None
    finally:
        if loader is not None:
            loader.dispose()


def _error(message: str, name: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem((), message, line)], name)


def _parser_message(error: Any, name: str) -> tuple[str, str, int | None]:
    """Return the parser's message without its excerpt of the file, which may hold secrets."""
    mark = error.problem_mark or error.context_mark
    message = ", ".join(part for part in (error.context, error.problem) if part)
    hint = ""
    if "'\\t'" in message:
        hint = "; indent with spaces, not with tabs"
    elif "mapping values are not allowed" in message:
        hint = "; is the indentation right? A text that holds ': ' needs quotes"
    elif "single document" in message:
        hint = "; leave out what follows the line '---'"
    return f"not valid YAML: {message}{hint}", name, None if mark is None else mark.line + 1


@functools.cache
def _loader() -> Any:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """A loader that composes nodes and refuses what configurations may not use."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise _RefusedError(f"expected a value, got the alias *{event.anchor}", line)
            if getattr(event, "tag", None) is not None:
                raise _RefusedError(
                    f"expected a plain value, got the tag {event.tag!r}; a text goes in quotes",
                    line,
                )
            if self.depth >= CONFIG_MAX_DEPTH:
                raise _RefusedError(f"expected at most {CONFIG_MAX_DEPTH} levels of nesting", line)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader


# --- values of scalars ---------------------------------------------------------------------------
#
# YAML 1.1 guesses: `3.1.1` is a text and `5` a number, `off` is false, `1e-3` a text and `010`
# eight. Here the type that the schema asks for decides, and the text is taken as it was written.

_WHOLE = re.compile(r"[-+]?(0x[0-9a-fA-F]{1,16}|[0-9][0-9_]{0,30})")
_REAL = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]{1,4})?")
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def is_nothing(node: Any) -> bool:
    """Return True for YAML's null, such as a key without a value."""
    return node.id == "scalar" and node.style is None and node.value in _NOTHING


def truth(node: Any) -> bool | None:
    """Read true or false; None if it is neither."""
    return _TRUTH.get(node.value.lower()) if node.style is None else None


def real(node: Any) -> float | None:
    """Read a finite number; None if it is not one."""
    if node.style is not None or len(node.value) > 400 or not _REAL.fullmatch(node.value):
        return None
    number = float(node.value.replace("_", ""))
    return number if math.isfinite(number) else None


def whole(node: Any) -> int | None:
    """Read a whole number in any notation; None if it is not one."""
    if node.style is None and _WHOLE.fullmatch(node.value):
        text = node.value.replace("_", "")
        return int(text, 16 if "0x" in text else 10)
    number = real(node)
    # Larger floats, such as 1e300, are whole only because they have no digits left.
    return int(number) if number is not None and number == int(number) < 2**53 else None


def guess(node: Any) -> Any:
    """Read a scalar of any type as what it most likely means."""
    if is_nothing(node):
        return None
    for read in (truth, whole_as_written, real):
        value = read(node)
        if value is not None:
            return value
    return node.value


def whole_as_written(node: Any) -> int | None:
    """Read a whole number without a point or an exponent; None if it is not one."""
    return whole(node) if _WHOLE.fullmatch(node.value) else None


# --- from nodes to values ------------------------------------------------------------------------
#
# All problems are collected, each with its path and line, so that one run is enough to mend a
# file.

_INVALID = object()  # in place of a wrong value
_KINDS = {"mapping": "keys with values", "sequence": "a list"}
_PASSWORD = "; a password does not belong in the file: use password_env or password_file"


class YamlReader:
    """Values of a YAML tree, with the problems found and the line of every path.

    `root` is the root node, None for an empty file.
    """

    def __init__(self, root: Any) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[KeyPath, int] = {}
        self.values: dict[str, Any] = {}
        self._intended: set[KeyPath] = set()  # what misspelt keys were probably meant to be
        if root is not None and not is_nothing(root):
            found = self._read_struct(root, inspect.type_info(Config), ())
            self.values = {} if found is _INVALID else found

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a path, or else of the nearest path that leads there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def unreliable_paths(self) -> set[KeyPath]:
        """Return the paths whose values are wrong, or missing because their key is misspelt."""
        return {problem.path for problem in self.problems if problem.path} | self._intended

    def _add_problem(self, path: KeyPath, message: str, node: Any = None) -> Any:
        line = self.line(path) if node is None else node.start_mark.line + 1
        self.problems.append(Problem(path, message, line))
        return _INVALID

    # --- by type ---------------------------------------------------------------------------------

    def _read(self, node: Any, kind: Any, path: KeyPath, default: str = "") -> Any:
        if isinstance(kind, inspect.UnionType):
            return self._read_union(node, kind, path, default)
        if isinstance(kind, inspect.StructType):
            return {} if is_nothing(node) else self._read_struct(node, kind, path)
        if isinstance(kind, inspect.ListType):
            return self._read_list(node, kind, path)
        if isinstance(kind, inspect.DictType):
            return {} if is_nothing(node) else self._read_dict(node, kind, path)
        if isinstance(kind, inspect.AnyType):
            return self._read_any(node, path)
        value = _read_scalar(node, kind)
        if value is _INVALID:
            hint = _former(node, path) or _hint(node, kind, default)
            self._add_problem(path, f"expected {expected(kind)}, got {got(node)}{hint}")
        return value

    def _read_union(self, node: Any, kind: Any, path: KeyPath, default: str) -> Any:
        """Read None if that is allowed, or another type that has the form of the node."""
        kinds = [k for k in kind.types if not isinstance(k, inspect.NoneType)]
        if is_nothing(node) and len(kinds) < len(kind.types):
            return None
        forms = [k for k in kinds if _form(k) == node.id]
        if len(forms) > 1:  # numbers and words
            values = [value for k in forms if (value := _read_scalar(node, k)) is not _INVALID]
            hint = "" if values else _hint(node, kind, default)
            message = f"expected {expected(kind)}, got {got(node)}{hint}"
            return values[0] if values else self._add_problem(path, message)
        if forms or len(kinds) == 1:
            return self._read(node, (forms or kinds)[0], path, default)
        wanted = " or ".join(expected(k) for k in kinds)
        return self._add_problem(path, f"expected {wanted}, got {got(node)}")

    def _pairs(self, node: Any, path: KeyPath) -> Iterator[tuple[str, Any, KeyPath]]:
        """Yield each key of a mapping once, with its value and path."""
        for key, value in node.value:
            if key.id != "scalar":
                self._add_problem(path, f"expected a name as key, got {got(key)}", key)
                continue
            inner = (*path, key.value)
            if inner in self.lines:
                first = self.lines[inner]
                self._add_problem(inner, f"given twice; the first is in line {first}", key)
                continue
            self.lines[inner] = key.start_mark.line + 1
            yield key.value, value, inner

    def _read_struct(self, node: Any, kind: Any, path: KeyPath) -> Any:
        if node.id != "mapping":
            return self._add_problem(
                path, f"expected keys such as {_examples(kind)}, got {got(node)}", node
            )
        fields = {field.name: field for field in kind.fields}
        found = {}
        for name, value, inner in self._pairs(node, path):
            if name not in fields:
                self._add_unknown(inner, list(fields))
                continue
            found[name] = self._read(value, fields[name].type, inner, _default(fields[name]))
        for name in fields.keys() - found.keys():
            if fields[name].required:
                missing = (*path, name)
                example = KEY_DESCRIPTIONS[".".join(missing)].example
                return self._add_problem(
                    missing, f"missing; expected something such as {example!r}"
                )
        if any(fields[name].required and value is _INVALID for name, value in found.items()):
            return _INVALID
        return {name: value for name, value in found.items() if value is not _INVALID}

    def _add_unknown(self, path: KeyPath, siblings: list[str]) -> None:
        near = nearest(path[-1], siblings)
        if near is not None:
            self._intended.add((*path[:-1], near))
        self._add_problem(path, f"unknown key{_unknown_key_hint(path, siblings)}")

    def _read_list(self, node: Any, kind: Any, path: KeyPath) -> Any:
        if node.id != "sequence":
            return self._add_problem(path, f"expected {expected(kind)}, got {got(node)}")
        items = []
        for i, item in enumerate(node.value):
            inner = (*path, str(i))
            self.lines[inner] = item.start_mark.line + 1
            items.append(self._read(item, kind.item_type, inner))
        return [item for item in items if item is not _INVALID]

    def _read_dict(self, node: Any, kind: Any, path: KeyPath) -> Any:
        if node.id != "mapping":
            return self._add_problem(path, f"expected {expected(kind)}, got {got(node)}")
        pairs = self._pairs(node, path)
        found = {name: self._read(value, kind.value_type, inner) for name, value, inner in pairs}
        return {name: value for name, value in found.items() if value is not _INVALID}

    def _read_any(self, node: Any, path: KeyPath) -> Any:
        if node.id == "scalar":
            return guess(node)
        kind = inspect.DictType if node.id == "mapping" else inspect.ListType
        if kind is inspect.DictType:
            return self._read_dict(
                node, inspect.DictType(inspect.StrType(), inspect.AnyType()), path
            )
        return self._read_list(node, inspect.ListType(inspect.AnyType()), path)


# --- scalars -------------------------------------------------------------------------------------


def _read_scalar(node: Any, kind: Any) -> Any:
    """Return the value of a node, `_INVALID` if it is not of that kind."""
    if node.id != "scalar" or is_nothing(node):
        return _INVALID
    if isinstance(kind, inspect.StrType):
        return node.value
    if isinstance(kind, inspect.LiteralType):
        return _read_choice(node, kind.values)
    value: Any
    if isinstance(kind, inspect.BoolType):
        value = truth(node)
    else:
        value = whole(node) if isinstance(kind, inspect.IntType) else real(node)
        value = value if value is None or _in_range(value, kind) else None
    return _INVALID if value is None else value


def _read_choice(node: Any, values: tuple[Any, ...]) -> Any:
    found = node.value if isinstance(values[0], str) else whole(node)
    return found if found in values else _INVALID


def _in_range(value: float, kind: Any) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
    )


# --- messages ------------------------------------------------------------------------------------


def expected(kind: Any) -> str:
    """Describe the values that a type allows."""
    if isinstance(kind, inspect.UnionType):
        kinds = [k for k in kind.types if not isinstance(k, inspect.NoneType)]
        return " or ".join(expected(k) for k in kinds)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        noun = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
        return f"{noun} {_range(kind)}"
    if isinstance(kind, inspect.LiteralType):
        words = [str(value) for value in kind.values]
        return " or ".join([*filter(None, [", ".join(words[:-1])]), words[-1]])
    if isinstance(kind, inspect.ListType):
        return "a list of names, such as [one, two]"
    if isinstance(kind, inspect.DictType):
        return "names with values, such as {one: 0.1, two: 0.2}"
    if isinstance(kind, inspect.StructType):
        return f"keys such as {_examples(kind)}"
    return "true or false" if isinstance(kind, inspect.BoolType) else "a text"


def _range(kind: Any) -> str:
    if kind.gt is not None:
        return f"above {kind.gt:g} and up to {kind.le}"
    return f"from {kind.ge} to {kind.le}"


def got(node: Any) -> str:
    """Describe the value of a node."""
    if node.id != "scalar":
        return _KINDS[node.id]
    if is_nothing(node):
        return "nothing"
    text = node.value if len(node.value) <= 60 else node.value[:57] + "..."
    return repr(text) if real(node) is None else text


def _former(node: Any, path: KeyPath) -> str:
    """Say what to write instead of a value that was possible once."""
    values = FORMER_VALUES.get(".".join(path), {})
    instead = values.get(node.value) if node.id == "scalar" else None
    return "" if instead is None else f"; write {instead} instead"


def _hint(node: Any, kind: Any, default: str) -> str:
    if is_nothing(node) and default:
        return f"; leave the line out for the default, {default}"
    if node.id == "scalar" and node.style in ("'", '"') and _looks_bare(node.value):
        return "; leave out the quotes"
    return suggestion(node.value, _words(kind)) if node.id == "scalar" else ""


def _words(kind: Any) -> list[str]:
    if isinstance(kind, inspect.UnionType):
        return [word for k in kind.types for word in _words(k)]
    return [v for v in getattr(kind, "values", ()) if isinstance(v, str)]


def _looks_bare(text: str) -> bool:
    from yaml import ScalarNode  # noqa: PLC0415

    return not isinstance(guess(ScalarNode(None, text)), str | None)


def _default(field: Any) -> str:
    value = field.default
    return "" if value is msgspec.NODEFAULT or value is None else str(value)


def _form(kind: Any) -> str:
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return "mapping"
    return "sequence" if isinstance(kind, inspect.ListType) else "scalar"


_CONFIG = inspect.type_info(Config)


def _keys(kind: Any) -> list[str]:
    if isinstance(kind, inspect.UnionType):
        return [name for k in kind.types for name in _keys(k)]
    return [f.name for f in kind.fields] if isinstance(kind, inspect.StructType) else []


def _examples(kind: Any) -> str:
    return " and ".join(f"'{name}:'" for name in _keys(kind)[:2])


def _unknown_key_hint(path: KeyPath, siblings: list[str]) -> str:
    """Say where an unknown key belongs, or what it may be a misspelling of."""
    *above, name = path
    if name == "password":
        return _PASSWORD
    near = suggestion(name, siblings)
    if near:
        return near
    homes = [f.name for f in _CONFIG.fields if name in _keys(f.type)]  # type: ignore[attr-defined]
    if name in _keys(_CONFIG) and above:
        return f"; {name!r} is a section of its own, at the start of a line"
    if homes:
        return f"; there is one in {' and in '.join(repr(home) for home in homes)}"
    return f"; expected {'one of ' if len(siblings) > 1 else ''}{', '.join(siblings)}"
