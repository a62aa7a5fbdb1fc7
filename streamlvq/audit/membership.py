"""Attack on who took part: was this reading among those that were learnt?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from streamlvq.arrays import Bools, Floats, Label, Rows
from streamlvq.audit.attack import Attack
from streamlvq.audit.findings import AuditVerdict, Finding, not_applicable
from streamlvq.text import plural

SHADOW_MODELS = 24  # each learns a random half; each is the target once, the others its shadows
MAX_SAMPLED = 1000  # readings that are learnt or left out
MIN_SAMPLED = 100
CLOSE_AUC = 0.55  # up to here membership is hardly better than a coin
DEVIATIONS = 3.0  # of the mean over targets, below which it has to be above that
LEAST_CERTAINTY = 1e-6  # of a probability


class LikelihoodRatio(Attack):
    """Likelihood-ratio membership: shadow models show how sure a model is of what it has learnt.

    For each reading the certainties of models that learnt it, and of those that did not, are two
    Gaussians; their ratio at the target's certainty tells members from others.

    References
    ----------
    - Carlini, N. et al. (2022). Membership inference attacks from first principles. IEEE S&P.

    """

    def finding(self) -> Finding:
        truth, make = self.case.truth, self.case.make
        if truth is None or make is None:
            return not_applicable("needs a log, from which models of the same kind are trained")
        if self.case.private is not None:
            return not_applicable("of a private model, two-worlds asks more with less")
        if len(truth.labels) < MIN_SAMPLED or len(set(truth.labels)) < 2:
            return not_applicable(
                f"needs {MIN_SAMPLED} labelled readings of two classes, got {len(truth.labels)}"
            )
        random = np.random.default_rng(self.case.seed)
        chosen = sorted(random.permutation(len(truth.labels))[:MAX_SAMPLED].tolist())
        labels = [truth.labels[k] for k in chosen]
        certainty, member = _shadows(
            make, truth.rows[chosen], labels, truth.features, random, self.case.progress
        )
        scores = [area_under_curve(*each) for each in _targets(certainty, member)]
        mean = float(np.mean(scores))
        error = float(np.std(scores, ddof=1) / len(scores) ** 0.5)
        close = mean - DEVIATIONS * error > CLOSE_AUC
        measure = (
            f"AUC {mean:.2f} (.50 is a coin), {plural(SHADOW_MODELS, 'model')} on halves of "
            f"{plural(len(labels), 'reading')}"
        )
        return Finding(
            AuditVerdict.CLOSE if close else AuditVerdict.NOTHING,
            measure,
            "readings from the same source, and the model that decides",
            "fewer prototypes, a shared metric or a lower rank, or differential privacy"
            if close
            else "",
            figures={"auc": mean, "error": error, "readings": len(labels)},
        )


def _shadows(
    make: Any,
    rows: Rows,
    labels: Sequence[Label],
    features: Sequence[Any],
    random: np.random.Generator,
    progress: bool | None,
) -> tuple[Rows, Bools]:
    """Return how sure each model is of each reading, and which it has learnt.

    A random half of the models learns each reading.
    """
    order = random.random((SHADOW_MODELS, len(labels))).argsort(axis=0)
    member = order < SHADOW_MODELS // 2
    certainty = np.empty(member.shape)
    for k in progress_bar(range(SHADOW_MODELS), "membership", progress):
        model = make()
        own = np.flatnonzero(member[k]).tolist()
        model.learn_array(rows[own], [labels[n] for n in own], features=features)
        certainty[k] = _certainty(model, rows, labels, features)
    return certainty, member


def _certainty(model: Any, rows: Rows, labels: Sequence[Label], features: Sequence[Any]) -> Floats:
    """Return the log odds that a model gives the label of each reading."""
    place = {label: code for code, label in enumerate(model.classes)}
    p = model.predict_proba_array(rows, features)
    own = np.array([p[n, place[y]] if y in place else 0.0 for n, y in enumerate(labels)])
    own = np.clip(own, LEAST_CERTAINTY, 1.0 - LEAST_CERTAINTY)
    odds: Floats = np.log(own) - np.log1p(-own)
    return odds


def _targets(certainty: Rows, member: Bools) -> Iterable[tuple[Floats, Bools]]:
    """Yield the log likelihood ratios of each model's certainties, and who its members are."""
    for target in range(len(certainty)):
        others = np.arange(len(certainty)) != target
        inside, outside = member[others], ~member[others]
        means, deviations = [], []
        for which in (inside, outside):
            count = which.sum(axis=0)
            mean = np.where(which, certainty[others], 0.0).sum(axis=0) / count
            square = np.where(which, (certainty[others] - mean) ** 2, 0.0).sum(axis=0)
            means.append(mean)
            deviations.append(np.sqrt(square.sum() / count.sum()) + 1e-6)  # alike for all readings
        z = [(certainty[target] - m) / s for m, s in zip(means, deviations, strict=True)]
        ratio = 0.5 * (z[1] ** 2 - z[0] ** 2) + np.log(deviations[1] / deviations[0])
        yield ratio, member[target]


def area_under_curve(scores: Floats, positive: Bools) -> float:
    """Return the chance that a positive one has the higher score; ties count half.

    Examples
    --------
    >>> import numpy as np
    >>> area_under_curve(np.array([1.0, 2.0, 3.0]), np.array([False, True, True]))
    1.0

    """
    ranks = rankdata(scores)
    count = int(positive.sum())
    above = float(ranks[positive].sum()) - count * (count + 1) / 2
    return above / (count * (len(scores) - count))


def progress_bar(steps: Iterable[Any], name: str, shown: bool | None) -> Iterable[Any]:
    """Return the steps with a progress bar; None shows it in a terminal only."""
    if not (sys.stderr.isatty() if shown is None else shown):
        return steps
    from tqdm import tqdm  # noqa: PLC0415

    bar: Iterable[Any] = tqdm(steps, desc=name, leave=False)
    return bar
