"""Wrappers around classifiers: feature transforms, time integration and rejection."""

from __future__ import annotations

from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.rejectors import ProbabilityRejector, RelSimRejector
from streamlvq.wrappers.time_integrator import TimeIntegrator

__all__ = ["FeatureTransform", "ProbabilityRejector", "RelSimRejector", "TimeIntegrator"]
