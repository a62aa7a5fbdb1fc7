"""Keyword routing: which extra arguments a wrapped classifier accepts.

Streams may carry more than features and a label: a device, a time, a weight. River's pipelines
pass such a keyword to the steps whose methods name it, and wrappers do the same.
"""

from __future__ import annotations

import inspect
from typing import Any

from river import base

from streamlvq.wrappers.chain import is_pipeline

Names = frozenset[str] | None  # None: any


def accepted(estimator: Any, method: str) -> Names:
    """Return the keywords that a method accepts, including those of inner estimators.

    Our own wrappers select keywords themselves, so they accept all.
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
    """Return the keywords whose names are accepted."""
    if names is None or keywords.keys() <= names:
        return keywords
    return {name: value for name, value in keywords.items() if name in names}


def _named(estimator: Any, method: str) -> tuple[frozenset[str], bool]:
    """Return the keywords in a method's signature, and whether it accepts any others."""
    function: Any = getattr(type(estimator), method, None)
    if function is base.Classifier.predict_one:  # River's default forwards all keywords
        function = type(estimator).predict_proba_one
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # no such method, or no signature
        return frozenset(), False
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = frozenset(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
    return names - {"self", "x", "y"}, any_name


def _parts(estimator: Any, method: str) -> list[Any]:
    """Return the estimators to which an estimator forwards its keywords."""
    if is_pipeline(estimator):
        steps = list(estimator.steps.values())
        return steps if method == "learn_one" else steps[-1:]
    if hasattr(estimator, "transformers"):
        return list(estimator.transformers.values())
    if isinstance(estimator, base.Wrapper):
        return [estimator._wrapped_model]
    return []
