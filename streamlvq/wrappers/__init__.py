"""Wrappers around classifiers: feature transforms, time integration and rejection."""

from __future__ import annotations

from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.integrator import TimeIntegrator
from streamlvq.wrappers.probability_rejector import ProbabilityRejector
from streamlvq.wrappers.relsim_rejector import RelSimRejector

__all__ = ["FeatureTransform", "ProbabilityRejector", "RelSimRejector", "TimeIntegrator"]
