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
SMOOTHED_READINGS = 1024.0  # over which running sums of gradients are averaged


class ReleaseSeries:
    """Releases `rint(C x)_t + noise` of vectors x, and what they say about means and sums.

    The encoder's buffers hold sums of readings and are secret. What is decoded comes from releases
    alone: it, and whatever is made of it, may be known to everybody. Noise is not kept.

    The first numbers of a vector are statistics, of which the mean per reading is wanted. If
    readings had a constant mean m, release t would be `a_t m` plus noise, with `a = C b` for the
    lengths b of batches: least squares gives m with up to a third less noise than the last running
    sum has. Of the others, the gradients, running sums are wanted: `S = A C^-1 (C x + z)`. Half of
    their noise is that of the last few releases, so the mean over `SMOOTHED_READINGS` is taken.

    Both forget: a running sum by `forget` a batch. A release looks back half as far as a running
    sum, so the squares are forgotten such that they look back the other half.

    Parameters
    ----------
    factor
        C.
    statistics, gradients
        Numbers of a vector of each kind.

    """

    def __init__(self, factor: ToeplitzFactor, statistics: int, gradients: int) -> None:
        self.factor = factor
        self._decay = np.array(factor.decay)[:, None]
        self._weight = np.array(factor.weight)
        self._split = statistics
        self._keep = factor.forget / (2.0 - factor.forget)  # of the squares
        buffers = len(factor.decay)
        # Secret, in twice the precision of a float: what a buffer loses by rounding depends on all
        # readings, and would otherwise add up to more than the grid.
        self.encoder = np.zeros((buffers, statistics + gradients))
        self.remainder = np.zeros((buffers, statistics + gradients))
        self.products = np.zeros(statistics)  # of a_t and release t
        self.squares = np.zeros(2)  # of a_t, and of their variance
        self.lengths = np.zeros(buffers)  # buffers of C on the lengths of batches
        self.remembered = np.zeros(1)  # readings
        self.decoder = np.zeros((buffers, gradients))
        self.gradient = np.zeros(gradients)
        self.smooth = np.zeros(gradients)  # mean of the last running sums

    def encode(self, vector: Floats) -> Floats:
        """Return `rint(C x)` for the next vector, secret."""
        encoded: Floats = np.rint(vector + self._weight @ self.encoder)
        return encoded

    def keep(self, vector: Floats) -> None:
        """Let the encoder's buffers decay and add a vector."""
        product, lost = _product(self._decay, self.encoder)
        lost += self._decay * self.remainder
        total, more = _sum(product, vector)
        self.encoder, self.remainder = _sum(total, lost + more)

    def accept(self, vector: Floats, released: Ints, readings: int) -> None:
        """Go on to the next release: keep the vector in the encoder, decode what was released."""
        self.keep(vector)
        forget, keep = self.factor.forget, self._keep
        expected = readings + float(self._weight @ self.lengths)
        self.lengths = self._decay[:, 0] * self.lengths + readings
        self.products = keep * self.products + expected * released[: self._split]
        self.squares = np.array([keep, keep * keep]) * self.squares + expected**2
        self.remembered = forget * self.remembered + readings
        value = released[self._split :] - self._weight @ self.decoder
        self.decoder = self._decay * self.decoder + value
        self.gradient = forget * self.gradient + value
        share = min(1.0, readings / SMOOTHED_READINGS)
        self.smooth = self.smooth + share * (self.gradient - self.smooth)

    def take_statistics(self, released: Floats, readings: int, noise: float) -> None:
        """Begin with sums over a log, whose noise is so many times that of a release."""
        self.products = released / readings
        self.squares = np.array([1.0, (noise / readings) ** 2])
        self.remembered = np.array([float(readings)])

    def running_sums(self) -> Floats:
        """Return the vector of the readings remembered, statistics first."""
        means = self.products / self.squares[0]
        return np.concatenate([means * self.remembered[0], self.smooth])

    @property
    def amplification(self) -> float:
        """Noise of the sums of statistics, in units of that of a release."""
        deviation = float(np.sqrt(self.squares[1]) / self.squares[0])
        return deviation * float(self.remembered[0])

    PUBLIC = ("products", "squares", "lengths", "remembered", "decoder", "gradient", "smooth")

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of a state, which are this object's own."""
        return {name: getattr(self, name) for name in ("encoder", "remainder", *self.PUBLIC)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over the arrays of a state; empty ones are left out."""
        for name in self.arrays().keys() & arrays.keys():
            setattr(self, name, arrays[name].copy())


SPLITTER = 2.0**27 + 1.0


def _sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return `a + b` as a float and what it lacks (Knuth 1969)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return `a b` as a float and what it lacks (Dekker 1971)."""
    product = a * b
    high_a, low_a = _split(a)
    high_b, low_b = _split(b)
    lack = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return product, lack


def _split(a: Floats) -> tuple[Floats, Floats]:
    large = SPLITTER * a
    high = large - (large - a)
    return high, a - high


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
