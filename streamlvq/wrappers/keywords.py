"""Which extra arguments a wrapped classifier has use for.

Streams may come with more than features and a label: the device, the time, a weight. River's
pipelines hand such a keyword to the steps whose methods name it. Wrappers do the same here.
"""

from __future__ import annotations

import inspect
from typing import Any

from river import base

from streamlvq.wrappers.chain import is_pipeline

Names = frozenset[str] | None  # None: any


def accepted(estimator: Any, method: str) -> Names:
    """The keywords that a method has use for, looking into pipelines, unions and wrappers.

    Wrappers of ours choose for themselves, so they are given all.
    """
    if getattr(estimator, "chooses_keywords", False):
        return None
    names, any_name = _named(estimator, method)
    parts = _parts(estimator, method)
    if any_name and not parts:
        return None
    for part in parts:
        inner = accepted(part, method)
        if inner is None:
            return None
        names |= inner
    return names


def chosen(names: Names, keywords: dict[str, Any]) -> dict[str, Any]:
    """Those of the keywords that have one of the names."""
    if names is None or keywords.keys() <= names:
        return keywords
    return {name: value for name, value in keywords.items() if name in names}


def _named(estimator: Any, method: str) -> tuple[frozenset[str], bool]:
    """The keywords in a method's signature, and whether it takes any other."""
    function: Any = getattr(type(estimator), method, None)
    if function is base.Classifier.predict_one:  # River's default hands everything on
        function = type(estimator).predict_proba_one
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # there is no such method, or it does not tell
        return frozenset(), False
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    return names - {"self", "x", "y"}, any_name


def _parts(estimator: Any, method: str) -> list[Any]:
    """Those to whom an estimator hands its keywords on."""
    if is_pipeline(estimator):
        steps = list(estimator.steps.values())
        return steps if method == "learn_one" else steps[-1:]
    if hasattr(estimator, "transformers"):
        return list(estimator.transformers.values())
    if isinstance(estimator, base.Wrapper):
        return [estimator._wrapped_model]
    return []
