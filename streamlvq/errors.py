"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations


class StreamLVQError(Exception):
    """Base of the errors that only this library raises."""


class NotLearntYetError(StreamLVQError, ValueError):
    """A question that a model can answer only after it has learnt something."""


class ParameterError(StreamLVQError, ValueError):
    """A parameter of a model or wrapper has a value that it cannot have.

    `owner` is the class, `parameter` the one at fault (None if it is the choice among several),
    `message` what was expected and what was given, `instead` a class that would do.
    """

    def __init__(
        self, owner: str, parameter: str | None, message: str, *, instead: str | None = None
    ) -> None:
        where = owner if parameter is None else f"{owner}({parameter}=...)"
        use = "" if instead is None else f"; use {instead}"
        super().__init__(f"{where}: {message}{use}")
        self.owner = owner
        self.parameter = parameter
        self.message = message
        self.instead = instead


class SnapshotError(StreamLVQError, ValueError):
    """Something that is not a valid snapshot or state, or cannot be put into one."""


class LedgerError(StreamLVQError, OSError):
    """Ledger of releases that cannot be used: damaged, locked, not writable, or of another promise.

    What needs it stops where it is: readings go on only with an account of what they release.
    """


class MissingExtraError(StreamLVQError, ImportError):
    """An optional package is needed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'streamlvq[{extra}]'")
