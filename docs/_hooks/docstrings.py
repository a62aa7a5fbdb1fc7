"""Griffe extension: docstrings of models as they are at run time.

Models share the descriptions of their parameters: `{parameters}` in a docstring is filled in when
the class is created, so the source alone does not have it. Named tuples describe their fields under
Parameters, as a reader of the code expects; here they are attributes.
"""

from __future__ import annotations

import inspect
from typing import Any

import griffe

PLACEHOLDER = "{parameters}"


class RuntimeDocstrings(griffe.Extension):
    """Docstrings with their parameters filled in, and with the fields of named tuples."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring is None:
            return
        if PLACEHOLDER in cls.docstring.value:
            cls.docstring.value = inspect.cleandoc(griffe.dynamic_import(cls.path).__doc__ or "")
        if "NamedTuple" in map(str, cls.bases):
            fields = cls.docstring.value.replace("Parameters\n----------", "Attributes\n----------")
            cls.docstring.value = fields
