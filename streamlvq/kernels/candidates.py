"""Log-linear pool of the local model and fixed candidates, see `streamlvq.models.pool`.

`candidates` are probabilities, candidates x rows x classes, NaN where one does not know a class;
`local` are those of the local model over all classes, of which those with `held` count; `unseen`
are the logarithms of the mass of the others.
"""

from __future__ import annotations

from math import exp, log

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
    """Pool the probabilities of each row: the local model has a say about the classes it holds."""
    classes = out.shape[1]
    for k in range(out.shape[0]):
        top = -1e300
        for c in range(classes):
            score = local_weight * opinion_log(local[k, c]) if held[c] else unseen[c]
            for m in range(candidates.shape[0]):
                score += weights[m] * opinion_log(candidates[m, k, c])
            out[k, c] = score
            top = max(top, score)
        total = 0.0
        for c in range(classes):
            out[k, c] = exp(out[k, c] - top)
            total += out[k, c]
        for c in range(classes):
            out[k, c] /= total
