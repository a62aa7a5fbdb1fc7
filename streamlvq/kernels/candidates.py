"""Log-linear pool of the local model and fixed candidates, see `streamlvq.models.pool`.

`candidates` are probabilities, candidates x rows x classes, NaN where one does not know a class;
`local` are those of the local model over all classes, of which those with `held` count; `unseen`
are the logarithms of the mass of the others.
"""

from __future__ import annotations

from math import exp, isnan, log

from streamlvq.kernels.compile import helper, kernel

LEAST_OPINION = 1e-3  # no opinion may veto a class: less counts as this


@helper
def opinion_log(p):
    """Return the logarithm of a probability; what is missing or tiny counts as `LEAST_OPINION`."""
    return log(p) if p > LEAST_OPINION else log(LEAST_OPINION)


@kernel(
    "void(float64[:, :, ::1], float64[::1], float64[:, ::1], int64[::1], float64, float64[::1], "
    "float64[:, ::1])"
)
def pool_candidates(candidates, weights, local, held, local_weight, unseen, out):
    """Pool the probabilities of each row: the local model has a say about the classes it holds.

    A candidate that does not know a class which the local model holds lets it speak: of what the
    candidate gives to all classes of the local model, such a class gets the local model's share.
    """
    classes = out.shape[1]
    for k in range(out.shape[0]):
        for c in range(classes):
            out[k, c] = local_weight * opinion_log(local[k, c]) if held[c] else unseen[c]
        for m in range(candidates.shape[0]):
            rest, inside = 1.0, 1.0
            for c in range(classes):
                if isnan(candidates[m, k, c]):
                    rest -= local[k, c] if held[c] else 0.0
                elif not held[c]:
                    inside -= candidates[m, k, c]
            for c in range(classes):
                opinion = candidates[m, k, c]
                if held[c]:
                    opinion = inside * local[k, c] if isnan(opinion) else rest * opinion
                out[k, c] += weights[m] * opinion_log(opinion)
        top = -1e300
        for c in range(classes):
            top = max(top, out[k, c])
        total = 0.0
        for c in range(classes):
            out[k, c] = exp(out[k, c] - top)
            total += out[k, c]
        for c in range(classes):
            out[k, c] /= total
