"""Methods that a wrapper has only if the wrapped classifier has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from streamlvq.wrappers.chain import unwrap

F = TypeVar("F", bound=Callable[..., Any])
Candidates = Callable[[Any], Iterator[Any]]


class _ConditionalMethod:
    """Descriptor of a method that exists only if a wrapped estimator has one of that name."""

    def __init__(self, method: Callable[..., Any], candidates: Candidates) -> None:
        self._method = method
        self._candidates = candidates

    def __get__(self, wrapper: Any, owner: type[Any]) -> Any:
        if wrapper is None:
            return self._method
        name = self._method.__name__
        if not any(hasattr(link, name) for link in self._candidates(wrapper.classifier)):
            raise AttributeError(
                f"{owner.__name__}.{name}: expected a wrapped classifier with {name}, got "
                f"{type(wrapper.classifier).__name__}"
            )
        return self._method.__get__(wrapper, owner)


def available_if(method: F) -> F:
    """Provide a method only if some estimator inside has it, so that `hasattr` is correct."""
    return cast(F, _ConditionalMethod(method, unwrap))


def if_wrapped(method: F) -> F:
    """Provide a method only if the wrapped classifier itself has it."""
    return cast(F, _ConditionalMethod(method, lambda classifier: iter((classifier,))))
