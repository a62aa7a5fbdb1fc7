"""Methods that a wrapper has only if what it wraps has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from streamlvq.wrappers.chain import unwrap

F = TypeVar("F", bound=Callable[..., Any])
Where = Callable[[Any], Iterator[Any]]


class _IfInside:
    """A method that is there if somebody it could be handed on to has one of the same name."""

    def __init__(self, method: Callable[..., Any], where: Where) -> None:
        self._method = method
        self._where = where

    def __get__(self, wrapper: Any, owner: type[Any]) -> Any:
        if wrapper is None:
            return self._method
        name = self._method.__name__
        if not any(hasattr(link, name) for link in self._where(wrapper.classifier)):
            raise AttributeError(
                f"{owner.__name__}.{name}: expected it around a classifier that has it, got "
                f"{type(wrapper.classifier).__name__}"
            )
        return self._method.__get__(wrapper, owner)


def available_if(method: F) -> F:
    """Offer a method if anything inside has it, so that `hasattr` tells the truth."""
    return cast(F, _IfInside(method, unwrap))


def if_wrapped(method: F) -> F:
    """Offer a method if the wrapped classifier itself has it: nobody on the way is left out."""
    return cast(F, _IfInside(method, lambda classifier: iter((classifier,))))
