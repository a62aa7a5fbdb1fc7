"""What an integrator and a rejector remember, carried over to another model."""

from __future__ import annotations

from typing import Any


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
    return classifier.moved_to(model)
