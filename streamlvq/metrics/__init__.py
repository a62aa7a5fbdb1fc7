"""River metrics for selective classification and calibration.

They use bounded memory, and metrics of several streams can be combined with `merge`.
"""

from __future__ import annotations

from streamlvq.metrics.calibration import ExpectedCalibrationError
from streamlvq.metrics.selective import AccuracyRejectCurve, CoveredAccuracy, RejectRate

__all__ = ["AccuracyRejectCurve", "CoveredAccuracy", "ExpectedCalibrationError", "RejectRate"]
