"""What can go wrong, said so that the reader knows what to do next."""

from __future__ import annotations


class StreamLVQError(Exception):
    """Base of the errors that only this library raises."""


class NotLearntYetError(StreamLVQError, ValueError):
    """A question that a model can answer only after it has learnt something."""


class SnapshotError(StreamLVQError, ValueError):
    """Something that is not a valid snapshot or state, or cannot be put into one."""


class MissingExtraError(StreamLVQError, ImportError):
    """An optional package is needed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}: pip install 'streamlvq[{extra}]'")
