"""Problems in a configuration, with their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamlvq.errors import StreamLVQError

KeyPath = tuple[str, ...]  # keys from the root to a value


class Problem(NamedTuple):
    """One problem in a configuration; `line` is None if it has no place in a file."""

    path: KeyPath
    message: str
    line: int | None = None

    def text(self, name: str | None = None) -> str:
        """Return the message after the file, line and path, as far as they are known."""
        place = [] if name is None else [name if self.line is None else f"{name}:{self.line}"]
        return ": ".join([*place, *([".".join(self.path)] if self.path else []), self.message])


class ConfigError(StreamLVQError, ValueError):
    """Raised for a configuration that cannot be used; `problems` lists everything found.

    Parameters
    ----------
    problems
        What is wrong; at least one problem.
    name
        The file that the problems are in.

    """

    def __init__(self, problems: Sequence[Problem], name: str | None = None) -> None:
        super().__init__("\n".join(problem.text(name) for problem in problems))
        self.problems = tuple(problems)
        self.name = name
