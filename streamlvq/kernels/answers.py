"""Whether `work` still holds the answer for a reading: learning it need not measure it again."""

from __future__ import annotations

from streamlvq.kernels import views
from streamlvq.kernels.compile import helper


@helper
def keep_answer(ints, work, x):
    """To be called when distances and scores of x were left in `work`."""
    last = views.last_answered(work, ints)
    last[0] = 1.0
    for i in range(x.shape[0]):
        last[1 + i] = x[i]


@helper
def forget_answer(ints, work):
    """To be called when the model or what is in `work` is about to change."""
    views.last_answered(work, ints)[0] = 0.0


@helper
def has_answer(ints, work, x):
    """Missing features are unlike anything, so that readings with gaps are measured again."""
    last = views.last_answered(work, ints)
    same = last[0] == 1.0
    for i in range(x.shape[0]):
        same = same and last[1 + i] == x[i]
    return same
