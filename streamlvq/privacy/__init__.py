"""Learning, sharing and publishing under differential privacy."""
