"""River metrics for selective classification and calibration.

They use bounded memory, and metrics of several streams can be combined with `merge`.
"""

from __future__ import annotations

from streamlvq.metrics.accuracy_reject_curve import AccuracyRejectCurve
from streamlvq.metrics.covered_accuracy import CoveredAccuracy
from streamlvq.metrics.expected_calibration_error import ExpectedCalibrationError
from streamlvq.metrics.reject_rate import RejectRate

__all__ = ["AccuracyRejectCurve", "CoveredAccuracy", "ExpectedCalibrationError", "RejectRate"]
