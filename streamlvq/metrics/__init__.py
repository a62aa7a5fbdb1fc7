"""How good are decisions that may be refused, and can their probabilities be believed?

River's metrics for rejection and calibration. They need a bounded amount of memory, and those of
several streams can be added up with `merge`.
"""

from __future__ import annotations

from streamlvq.metrics.accuracy_reject_curve import AccuracyRejectCurve
from streamlvq.metrics.covered_accuracy import CoveredAccuracy
from streamlvq.metrics.expected_calibration_error import ExpectedCalibrationError
from streamlvq.metrics.reject_rate import RejectRate

__all__ = ["AccuracyRejectCurve", "CoveredAccuracy", "ExpectedCalibrationError", "RejectRate"]
