"""`ReleaseSeries`: the encoder of secret sums, and the decoder of what was released."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import numpy as np

from streamlvq.arrays import Array, Floats, Ints
from streamlvq.privacy.factor import ToeplitzFactor
from streamlvq.privacy.noise import integer_gaussian

KEY_WORDS = 4  # of 64 bits


class ReleaseSeries:
    """Releases `rint(C x)_t + noise` of vectors x, and the running sums that they say.

    The encoder's buffers hold sums of readings and are secret. The decoder sees releases alone:
    everything of it, and whatever is made of it, may be known to everybody. Noise is not kept.

    Parameters
    ----------
    factor
        C.
    size
        Numbers of a vector.

    """

    def __init__(self, factor: ToeplitzFactor, size: int) -> None:
        self.factor, self.size = factor, size
        self._decay = np.array(factor.decay)[:, None]
        self._weight = np.array(factor.weight)
        buffers = len(factor.decay)
        self.encoder = np.zeros((buffers, size))  # secret
        self.decoder = np.zeros((buffers, size))
        self.totals = np.zeros(size)
        # The same decoder on the noise of the first release alone gives the noise of the sums.
        self.impulse = np.zeros(buffers)
        self.response = np.zeros(2)  # of the running sum, and the sum of its squares
        self.started = np.zeros(1, np.int64)

    def encode(self, vector: Floats) -> Floats:
        """Return `rint(C x)` for the next vector, secret."""
        encoded: Floats = np.rint(vector + self._weight @ self.encoder)
        return encoded

    def accept(self, vector: Floats, released: Ints) -> None:
        """Go on to the next release: keep the vector in the encoder, decode what was released."""
        self.encoder = self._decay * self.encoder + vector
        value = released - self._weight @ self.decoder
        self.decoder = self._decay * self.decoder + value
        self.totals = self.factor.forget * self.totals + value
        first = 0.0 if self.started[0] else 1.0
        answer = first - float(self._weight @ self.impulse)
        self.impulse = self._decay[:, 0] * self.impulse + answer
        self.response[0] = self.factor.forget * self.response[0] + answer
        self.response[1] += self.response[0] ** 2
        self.started[0] = 1

    @property
    def amplification(self) -> float:
        """Noise of the running sums in units of that of a release."""
        return float(np.sqrt(self.response[1]))

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a state, which are this object's own."""
        names = ("encoder", "decoder", "totals", "impulse", "response", "started")
        return {name: getattr(self, name) for name in names}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over the arrays of a state."""
        for name in self.arrays():
            setattr(self, name, arrays[name].copy())


class BatchSeal:
    """A keyed digest of the readings of a batch: nobody without the key learns anything from it.

    It is part of the release that the ledger keeps, and tells whether a batch that comes again
    after a crash is the one that the release was made of.
    """

    def __init__(self) -> None:
        self.key: Ints = np.frombuffer(secrets.token_bytes(8 * KEY_WORDS), np.int64).copy()
        self.chain: Ints = np.zeros(KEY_WORDS, np.int64)

    @property
    def name(self) -> str:
        """Name of the series, at random."""
        text = b"name of the series"
        return hmac.new(self.key.tobytes(), text, hashlib.sha256).hexdigest()[:16]

    def extended(self, *parts: bytes) -> Ints:
        """Return the chain with more readings."""
        digest = hmac.new(self.key.tobytes(), self.chain.tobytes(), hashlib.sha256)
        for part in parts:
            digest.update(part)
        return np.frombuffer(digest.digest(), np.int64).copy()

    def of_release(self, number: int, chain: Ints) -> int:
        """Return the digest of a release, one number."""
        text = b"release %d" % number + chain.tobytes()
        digest = hmac.new(self.key.tobytes(), text, hashlib.sha256).digest()
        return int(np.frombuffer(digest[:8], np.int64)[0])


def draw(encoded: Floats, sigma: float) -> Ints:
    """Return integers with noise on them."""
    released: Ints = encoded.astype(np.int64) + integer_gaussian(sigma, len(encoded))
    return released
