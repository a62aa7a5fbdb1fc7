"""Descriptions and range checks of parameters that models share."""

from __future__ import annotations

import inspect
import math
import numbers
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

from streamlvq.errors import ParameterError

T = TypeVar("T", bound=type)

LARGEST_WHOLE = 2**62  # fits into the kernels' integers
LARGEST_REAL = sys.float_info.max
MAX_SAMPLE_WEIGHT = 1e6  # of a sample or class

DESCRIPTIONS = {
    "prototypes_per_class": (
        "The first samples of a class that become its prototypes, whether or not they were "
        "recognised."
    ),
    "max_prototypes_per_class": (
        "A misclassified sample becomes a prototype while its class has fewer than this. The same "
        "number as `prototypes_per_class` (or less) switches growth off."
    ),
    "learning_rate": "Step size for the prototypes, in units of the feature scales.",
    "metric_learning_rate": "Step size for the relevances or the matrix.",
    "rank": (
        "Rows of the matrix: how many directions it can tell apart. At most the number of features; "
        "None for a full matrix."
    ),
    "step": (
        '`"adagrad"`: divide each gradient by the root of its recent mean square; `"constant"`: '
        "plain gradient steps, which want smaller learning rates (about 0.01), of bounded length; "
        '`"published"`: the update rule as published and nothing else, see `textbook`.'
    ),
    "step_decay": (
        "Share of the squared gradients that is kept from one step to the next: 1 for ever smaller "
        "steps, less for steps that stay ready to follow a change."
    ),
    "activation": ('`"identity"`: every sample counts; `"sigmoid"`: mostly those near a border.'),
    "slope": "Steepness of the sigmoid.",
    "sigma": "Variance of the mixture components; the smaller, the more only close samples count.",
    "window": "Relative width of the region around a border in which samples count.",
    "epsilon": "Share of the learning rate for two prototypes of the right class.",
    "absent": (
        'What a feature means that a reading does not mention: `"missing"` (unknown), or `"zero"` for '
        "counts of words, one-hot codes and other sparse readings. None and NaN are always missing. "
        'In a committee `"zero"` holds for all members. One sparse reading resembles few others: '
        'with `"zero"` prototypes start near the mean of their class and follow it, and after errors a '
        "class gets one more for every 100 readings."
    ),
    "standardize": (
        "Scale every feature by its running deviation. Switch it off for features that already "
        'come in comparable units. With `absent="zero"` a feature is divided by the root of its '
        "deviation: rare words then count, but do not drown the others. Scale features of other "
        "units before."
    ),
    "scale_floor": (
        "A feature's scale is never less than this share of the largest deviation seen, so that "
        'rare peaks do not drown everything else. Not used with `absent="zero"`.'
    ),
    "rehearsal": "Samples replayed from the buffer for each one learnt; 0 switches it off.",
    "buffer_size": "How many recent samples are kept for rehearsal.",
    "half_life": (
        "For sensors that drift: samples after which the past counts half (in means, deviations, "
        "step sizes and in which prototypes are still useful); rehearsal looks back no further. A "
        "class at its limit then replaces its least useful prototype on an error. None never "
        "forgets."
    ),
    "class_weight": (
        'How much the samples of a class count. `"auto"`: in `GLVQ` and its relatives, those of '
        "classes with less than a third of a fair share count more, which would be drowned "
        'otherwise; `"balanced"`: every class counts the same; a mapping: weights by label, 1 for '
        "those it does not name; None: all samples count the same. More weight finds more of a "
        "class, with more false alarms."
    ),
    "coupling": (
        'How the pairs become one probability for each class: `"pkpd"` (fastest), `"ht"`, `"wlw1"`, '
        '`"wlw2"` or `"vote"`, see `streamlvq.coupling.couple`.'
    ),
    "members": (
        "Names of members, or a mapping from names to models (None for the one that is known by that "
        'name). `"learner"` learns metrics (`LGMLVQ()`, or `GRLVQ()` if absent features are zero: '
        'there are many then, and a matrix has a number for every pair), `"follower"` keeps up with '
        'change (a `GLVQ` with many short-lived prototypes), `"pairs"` tells each pair of classes apart '
        '(`PairwiseLVQ()`), `"forest"` finds rules (`WindowForest()`) and `"bins"` puts many noisy '
        "features together (`BinnedNaiveBayes()`). Default: learner, follower, forest and bins; without "
        "the last two if absent features are zero, since they are not made for thousands of features."
    ),
    "trees": "Number of trees.",
    "longest_window": "Last samples that are kept; no tree is grown on more.",
    "shortest_window": (
        "Last samples on which a tree is grown at least, while there are as many; at most "
        "`longest_window`."
    ),
    "regrow_every": "Samples after which the oldest tree is regrown; fewer while there are few.",
    "max_depth": "Cuts from the root of a tree to a leaf, at most.",
    "max_leaves": "Leaves of a tree, at most.",
    "min_leaf": "Samples on each side of a cut, at least.",
    "bins": "Bins of each feature, at most.",
    "seed": "For the random numbers of rehearsal and low-rank matrices; None for a different run each time.",
}


# What leaves of every model the published rule, with the first samples of a class as its prototypes.
# Models without one of these parameters do not need it.
TEXTBOOK: Mapping[str, Any] = {
    "max_prototypes_per_class": 1,  # or `prototypes_per_class`, if that is more
    "step": "published",
    "standardize": False,
    "scale_floor": 0.0,
    "rehearsal": 0,
    "half_life": None,
    "class_weight": None,
}


def documented(cls: T, descriptions: Mapping[str, str] = DESCRIPTIONS) -> T:
    """Replace `{parameters}` in a class docstring by the description of its parameters."""
    if cls.__doc__ is None:  # python -OO
        return cls
    lines: list[str] = []
    for name in inspect.signature(cls.__init__).parameters:  # type: ignore[misc]
        if name != "self":
            lines += [f"    {name}", f"        {descriptions[name]}"]
    cls.__doc__ = cls.__doc__.replace("    {parameters}", "\n".join(lines))
    return cls


ABSENT_VALUES = {
    "missing": math.nan,
    "zero": 0.0,
}  # values of a feature that a reading does not mention


def check_range(
    owner: str,
    name: str,
    value: Any,
    low: float,
    high: float = float("inf"),
    *,
    whole: bool = False,
    about: str = "",
) -> None:
    """Raise `ParameterError` unless low <= value <= high (and is whole if `whole`).

    `about` says what the value is for, where a parameter has several.
    """
    kind = "a whole number" if whole else "a number"
    largest = LARGEST_WHOLE if whole else LARGEST_REAL
    expected = f"expected {kind} "
    expected += f"of at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
    accepted = numbers.Integral if whole else numbers.Real
    good = isinstance(value, accepted) and not isinstance(value, bool)
    if good and value > largest and value != float("inf"):
        raise ParameterError(owner, name, f"{expected} that fits into 64 bits, got one too large")
    if not good or not low <= value <= min(high, largest):
        raise ParameterError(owner, name, f"{expected}{about}, got {value!r}")


def check_choice(owner: str, name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise `ParameterError` unless the value is one of the choices."""
    if value not in choices:
        raise ParameterError(owner, name, f"expected one of {choices}, got {value!r}")


def check_class_weight(owner: str, value: Any) -> None:
    """Raise `ParameterError` unless the value is a rule for the weights of classes."""
    if isinstance(value, Mapping):
        for label, weight in value.items():
            check_range(
                owner, "class_weight", weight, 0, MAX_SAMPLE_WEIGHT, about=f" for {label!r}"
            )
    elif value is not None and value not in ("auto", "balanced"):
        raise ParameterError(
            owner,
            "class_weight",
            f"expected 'auto', 'balanced', a mapping from labels to weights or None, got {value!r}",
        )


def check_weight(w: Any) -> None:
    """Raise ValueError unless w can be the weight of a sample."""
    good = isinstance(w, numbers.Real) and not isinstance(w, bool)
    if not good or not 0 <= w <= MAX_SAMPLE_WEIGHT:
        raise ValueError(f"expected a weight w from 0 to {MAX_SAMPLE_WEIGHT:g}, got {w!r}")
