"""Pairwise coupling: class probabilities from probabilities of pairs of classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamlvq.arrays import Floats
from streamlvq.kernels import kernels
from streamlvq.kernels.layout import COUPLINGS, coupling_scratch

TOLERANCE = 1e-6  # allowed deviation of a pair's two probabilities from a sum of one


def couple(r: npt.ArrayLike, method: str = "pkpd", counts: npt.ArrayLike | None = None) -> Floats:
    """Return the class probabilities that best agree with pairwise ones.

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
    Probability of every class; one row per reading if there are several.

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
    kernels("coupling").couple_array(
        pairs.reshape(-1, classes, classes),
        weights,
        COUPLINGS[method],
        np.empty(coupling_scratch(classes)),
        out.reshape(-1, classes),
    )
    return out


def _complementary(r: npt.ArrayLike) -> Floats:
    """Validate pairwise probabilities and return a copy in which each pair sums to one."""
    pairs = np.array(r, np.float64, order="C")
    if pairs.ndim not in (2, 3) or pairs.shape[-1] != pairs.shape[-2]:
        expected_shape = "expected classes x classes or readings x classes x classes"
        raise ValueError(f"r: {expected_shape}, got shape {pairs.shape}")
    if pairs.shape[-1] == 0:
        raise ValueError(f"r: expected at least one class, got shape {pairs.shape}")
    _set_diagonal(pairs, 0.5)
    _raise_where("r", pairs, ~((pairs >= 0.0) & (pairs <= 1.0)), "expected a probability")
    sums = pairs + pairs.swapaxes(-1, -2)
    wrong = np.abs(sums - 1.0) > TOLERANCE
    if wrong.any():
        *reading, first, second = np.argwhere(wrong)[0].tolist()
        pair = f"r{[*reading, first, second]} + r{[*reading, second, first]}"
        raise ValueError(f"{pair}: expected 1, got {sums[*reading, first, second]}")
    pairs /= sums
    return pairs


def _weights(counts: npt.ArrayLike | None, classes: int) -> Floats:
    """Return the weight of each pair; an array of shape (0, 0) for equal weights."""
    if counts is None:
        return np.empty((0, 0))
    values = np.array(counts, np.float64, order="C")
    if values.shape not in ((classes,), (classes, classes)):
        expected_shape = f"expected shape ({classes},) or ({classes}, {classes})"
        raise ValueError(f"counts: {expected_shape}, got {values.shape}")
    per_pair = values.ndim == 2
    if per_pair:
        _set_diagonal(values, 0.0)
    invalid = ~((values >= 0.0) & (values < np.inf))
    _raise_where("counts", values, invalid, "expected a number of samples")
    if per_pair:
        _check_symmetry(values)
    values /= max(values.max(), np.finfo(np.float64).tiny)  # before a sum can overflow
    weights = values if per_pair else values[:, None] + values
    _check_connected(weights)
    return weights


def _check_symmetry(counts: Floats) -> None:
    wrong = np.abs(counts - counts.T) > TOLERANCE * np.maximum(counts, counts.T)
    if wrong.any():
        first, second = np.argwhere(wrong)[0].tolist()
        pair = f"counts{[first, second]} and counts{[second, first]}"
        got = f"{counts[first, second]} and {counts[second, first]}"
        raise ValueError(f"{pair}: expected the same number, got {got}")


def _check_connected(weights: Floats) -> None:
    """Raise ValueError unless pairs with weight connect all classes."""
    reachable = (weights > 0.0) | np.eye(len(weights), dtype=np.bool_)
    for _ in range(len(weights).bit_length()):  # each product doubles the length of the paths
        reachable = reachable @ reachable
    if not reachable.all():
        connected = np.flatnonzero(reachable[0]).tolist()
        raise ValueError(
            f"counts: expected pairs that connect all classes, got {connected} apart from others"
        )


def _set_diagonal(array: Floats, value: float) -> None:
    indices = np.arange(array.shape[-1])
    array[..., indices, indices] = value


def _raise_where(name: str, array: Floats, wrong: npt.NDArray[np.bool_], expected: str) -> None:
    if wrong.any():
        index = np.argwhere(wrong)[0].tolist()
        raise ValueError(f"{name}{index}: {expected}, got {array[*index]}")
