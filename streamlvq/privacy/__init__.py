"""Learning, sharing and publishing under differential privacy."""

from streamlvq.privacy.attribute import Leakage, leakage
from streamlvq.privacy.randomised_response import RandomisedResponse
from streamlvq.wrappers.private_map import PrivateMap

__all__ = ["Leakage", "PrivateMap", "RandomisedResponse", "leakage"]
