"""Compiled arithmetic of models and batches, and how Python gets at it."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def kernels(module: str) -> Any:
    """Return constants and kernels of a module; numba is imported only then."""
    from streamlvq.kernels.compile import KernelModule  # noqa: PLC0415

    return KernelModule(module)
