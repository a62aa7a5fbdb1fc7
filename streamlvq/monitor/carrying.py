"""What an integrator and a rejector remember, carried over to another model."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np

from streamlvq.events import Label
from streamlvq.models.base import LVQClassifier
from streamlvq.state import Floats
from streamlvq.wrappers import TimeIntegrator
from streamlvq.wrappers.chain import links
from streamlvq.wrappers.feature_transform import FeatureTransform
from streamlvq.wrappers.rejector import Rejector
from streamlvq.wrappers.thresholds import Adaptive


def carried(classifier: Any, model: Any) -> Any:
    """Wrappers like those of a classifier around another model, with copies of what they remember.

    Devices keep their windows and thresholds their certainties. Columns follow their class to its
    place in the model; a class that is new there counts in windows as one that was unknown when
    their readings came, and what is about a class that the model does not know is dropped. Raises
    ValueError for a model that the wrappers cannot work with.

    Parameters
    ----------
    classifier
        A model in wrappers of streamlvq; it stays as it is.
    model
        What to put in the place of its model.

    """
    *wrappers, _ = links(classifier)
    for wrapper in reversed(wrappers):
        model = _around(wrapper, model)
    return model


def _around(wrapper: Any, inner: Any) -> Any:
    names = [name for name in inspect.signature(type(wrapper)).parameters if name != "classifier"]
    new = type(wrapper)(inner, **{name: getattr(wrapper, name) for name in names})
    *_, model = links(inner)
    if isinstance(wrapper, TimeIntegrator):
        _carry_windows(wrapper, new, model)
    elif isinstance(wrapper, Rejector):
        _carry_thresholds(wrapper, new, model.classes)
    else:
        assert isinstance(wrapper, FeatureTransform), wrapper  # which remembers nothing
    return new


def _carry_windows(old: TimeIntegrator, new: TimeIntegrator, model: Any) -> None:
    before, after = old._windows, new._windows
    after.logs = _moved(before.logs, list(old._labels), list(model.classes))
    after.counts, after.times = before.counts.copy(), before.times.copy()
    after._places, after._free = before._places.copy(), before._free.copy()
    # An engine's own list of labels is recognised by its identity.
    own = isinstance(model, LVQClassifier)
    new._labels = model._labels if own else list(model.classes)


def _moved(logs: Floats, before: list[Label], after: list[Label]) -> Floats:
    """Columns in the order of other classes; the last one stands for all that are unknown."""
    unknown = logs.shape[2] - 1
    place = {label: column for column, label in enumerate(before[:unknown])}
    columns = [place.get(label, unknown) for label in after]
    return np.ascontiguousarray(logs[:, :, [*columns, unknown]])


def _carry_thresholds(old: Rejector, new: Rejector, classes: tuple[Label, ...]) -> None:
    if isinstance(old._thresholds, Adaptive):
        assert isinstance(new._thresholds, Adaptive)
        kept = {None, *classes} if old._thresholds.per_class else {None}
        new._thresholds._recent = {
            label: copy.deepcopy(recent)
            for label, recent in old._thresholds._recent.items()
            if label in kept
        }
