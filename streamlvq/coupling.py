"""Pairwise coupling: from probabilities of pairs of classes to probabilities of classes."""

from __future__ import annotations

import functools
from types import ModuleType

import numpy as np
import numpy.typing as npt

from streamlvq.kernels.layout import COUPLINGS, coupling_scratch

__all__ = ["couple"]

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-6  # by which the two probabilities of a pair may miss a sum of one


@functools.cache
def _kernels() -> ModuleType:
    from streamlvq.kernels import coupling  # noqa: PLC0415

    return coupling


def couple(r: npt.ArrayLike, method: str = "pkpd", counts: npt.ArrayLike | None = None) -> Floats:
    """Class probabilities that agree with pairwise ones as well as possible.

    Pairwise probabilities are consistent if there are class probabilities p with
    `r[l, m] = p[l] / (p[l] + p[m])`; all methods but voting find these then. Otherwise they differ
    in what they compromise about. Probabilities below 1e-12 and above 1 - 1e-12 count as these, so
    zeros and ones do no harm.

    Parameters
    ----------
    r
        Pairwise probabilities, classes x classes or readings x classes x classes: `r[l, m]` is the
        probability of class l if it is l or m, and `r[l, m] + r[m, l]` is one. The diagonal is
        ignored.
    method
        "pkpd": a closed form, by far the fastest. "ht": the smallest Kullback-Leibler divergence.
        "wlw1": an equilibrium of classes that pass on probability. "wlw2": the smallest squares of
        `r[m, l] p[l] - r[l, m] p[m]`. "vote": the share of the pairs that prefer a class.
    counts
        How much each pair counts for "ht": the number of samples of each class, of which those of
        the two classes are added, or a classes x classes array. None: all count alike.

    Returns
    -------
    The probability of every class; a row for each reading if there are several.

    Examples
    --------

    >>> from streamlvq.coupling import couple

    >>> r = [[0.0, 0.9, 0.6], [0.1, 0.0, 0.3], [0.4, 0.7, 0.0]]
    >>> couple(r).round(3)
    array([0.571, 0.082, 0.347])
    >>> couple(r, method="wlw2").round(3)
    array([0.556, 0.097, 0.347])

    Where the pairs disagree, those with more samples have more to say:

    >>> couple(r, method="ht").round(3)
    array([0.583, 0.104, 0.313])
    >>> couple(r, method="ht", counts=[5, 5, 100]).round(3)
    array([0.526, 0.137, 0.336])

    References
    ----------
    - Friedman, J. H. (1996). Another approach to polychotomous classification. Technical report,
      Stanford University. (vote)
    - Hastie, T., Tibshirani, R. (1998). Classification by pairwise coupling. Annals of Statistics
      26, 451-471. (ht)
    - Price, D., Knerr, S., Personnaz, L., Dreyfus, G. (1994). Pairwise neural network classifiers
      with probabilistic outputs. NIPS 7, 1109-1116. (pkpd)
    - Wu, T.-F., Lin, C.-J., Weng, R. C. (2004). Probability estimates for multi-class
      classification by pairwise coupling. Journal of Machine Learning Research 5, 975-1005. (wlw1,
      wlw2)

    """
    if method not in tuple(COUPLINGS):
        raise ValueError(f"method: expected one of {', '.join(COUPLINGS)}, got {method!r}")
    pairs = _complementary(r)
    classes = pairs.shape[-1]
    weights = _weights(counts, classes)
    out = np.empty(pairs.shape[:-1])
    _kernels().couple_array(
        pairs.reshape(-1, classes, classes),
        weights,
        COUPLINGS[method],
        np.empty(coupling_scratch(classes)),
        out.reshape(-1, classes),
    )
    return out


def _complementary(r: npt.ArrayLike) -> Floats:
    """A copy of pairwise probabilities in which the two of a pair add up to one."""
    pairs = np.array(r, np.float64, order="C")
    if pairs.ndim not in (2, 3) or pairs.shape[-1] != pairs.shape[-2]:
        wanted = "expected classes x classes or readings x classes x classes"
        raise ValueError(f"r: {wanted}, got shape {pairs.shape}")
    if pairs.shape[-1] == 0:
        raise ValueError(f"r: expected at least one class, got shape {pairs.shape}")
    _set_diagonal(pairs, 0.5)
    _refuse("r", pairs, ~((pairs >= 0.0) & (pairs <= 1.0)), "expected a probability")
    sums = pairs + pairs.swapaxes(-1, -2)
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if wrong.any():
        *reading, first, second = np.argwhere(wrong)[0].tolist()
        pair = f"r{[*reading, first, second]} + r{[*reading, second, first]}"
        raise ValueError(f"{pair}: expected 1, got {sums[*reading, first, second]}")
    pairs /= sums
    return pairs


def _weights(counts: npt.ArrayLike | None, classes: int) -> Floats:
    """What each pair counts; an array of shape (0, 0) if all count alike."""
    if counts is None:
        return np.empty((0, 0))
    given = np.array(counts, np.float64, order="C")
    if given.shape not in ((classes,), (classes, classes)):
        wanted = f"expected shape ({classes},) or ({classes}, {classes})"
        raise ValueError(f"counts: {wanted}, got {given.shape}")
    per_pair = given.ndim == 2
    if per_pair:
        _set_diagonal(given, 0.0)
    _refuse("counts", given, ~((given >= 0.0) & (given < np.inf)), "expected a number of samples")
    if per_pair:
        _refuse_asymmetry(given)
    given /= max(given.max(), np.finfo(np.float64).tiny)  # before a sum can overflow
    weights = given if per_pair else given[:, None] + given
    _refuse_gaps(weights)
    return weights


def _refuse_asymmetry(counts: Floats) -> None:
    wrong = np.abs(counts - counts.T) > TOLERANCE * np.maximum(counts, counts.T)
    if wrong.any():
        first, second = np.argwhere(wrong)[0].tolist()
        pair = f"counts{[first, second]} and counts{[second, first]}"
        values = f"{counts[first, second]} and {counts[second, first]}"
        raise ValueError(f"{pair}: expected the same number, got {values}")


def _refuse_gaps(weights: Floats) -> None:
    """Classes that no chain of pairs links could be anything relative to each other."""
    linked = (weights > 0.0) | np.eye(len(weights), dtype=np.bool_)
    for _ in range(len(weights).bit_length()):  # chains of twice the length each time
        linked = linked @ linked
    if not linked.all():
        found = np.flatnonzero(linked[0]).tolist()
        raise ValueError(f"counts: expected to link all classes, got {found} apart from others")


def _set_diagonal(array: Floats, value: float) -> None:
    every = np.arange(array.shape[-1])
    array[..., every, every] = value


def _refuse(name: str, array: Floats, wrong: npt.NDArray[np.bool_], expected: str) -> None:
    if wrong.any():
        place = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"{name}{place}: {expected}, got {array[*place]}")
