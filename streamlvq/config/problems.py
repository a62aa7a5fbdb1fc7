"""What is wrong with a configuration, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streamlvq.errors import StreamLVQError

Path = tuple[str, ...]  # the keys that lead to a value


class Problem(NamedTuple):
    """One thing that is wrong; `line` is None where there is no file, or nothing in it."""

    path: Path
    message: str
    line: int | None = None

    def text(self, name: str | None = None) -> str:
        """It with the file, the line and the path in front, as far as they are known."""
        place = [] if name is None else [name if self.line is None else f"{name}:{self.line}"]
        return ": ".join([*place, *([".".join(self.path)] if self.path else []), self.message])


class ConfigError(StreamLVQError, ValueError):
    """A configuration that cannot be used; `problems` are all that were found.

    Parameters
    ----------
    problems
        At least one.
    name
        The file that they are in.

    """

    def __init__(self, problems: Sequence[Problem], name: str | None = None) -> None:
        super().__init__("\n".join(problem.text(name) for problem in problems))
        self.problems = tuple(problems)
        self.name = name
