"""How much do two sets of logits differ as predictions of classes?

The analyzer "classes" comes with precreg. Classes are the last axis, and each row of it is a prediction. Suites read
its declaration when they load, so this module imports numpy late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from precreg.measure.analyzers import AnalyzerFigures, analyzer
from precreg.types import Metric

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

# Differences of logits up to 1 keep the exponential near 1, where the sum of small terms is accurate.
_SMALL = 1.0
_DIVERGENCE = "sum(q (log q - log p)), p = softmax(a), q = softmax(r)"


@analyzer(
    Metric("kl_divergence", "nat", f"mean over rows of {_DIVERGENCE}", "lower", "Kullback and Leibler, 1951"),
    Metric("max_kl_divergence", "nat", f"max over rows of {_DIVERGENCE}", "lower", "Kullback and Leibler, 1951"),
    Metric("top1_agreement", "1", "share of rows with argmax a = argmax r", "higher", "image classification"),
)
def classes(actual: NDArray[Any], reference: NDArray[Any]) -> AnalyzerFigures:
    """Return the KL divergence from the reference, and the share of rows with the same best class.

    Whole numbers and arrays without two classes have no figures.
    """
    import numpy as np

    if actual.ndim == 0 or actual.shape[-1] < 2 or any(side.dtype.kind in "iubc" for side in (actual, reference)):
        return {}
    ours, exact = (side.astype(np.float64).reshape(-1, side.shape[-1]) for side in (actual, reference))
    divergence = kl_divergence(ours, exact)
    agreement = ours.argmax(-1) == exact.argmax(-1)
    return {
        "kl_divergence": divergence.mean(),
        "max_kl_divergence": divergence.max(),
        "top1_agreement": agreement.mean(),
    }


def kl_divergence(ours: Rows, exact: Rows) -> Rows:
    """Return sum(q (log q - log p)) of each row of logits, with p = softmax(ours) and q = softmax(exact)."""
    import numpy as np

    with np.errstate(all="ignore"):
        weights = _softmax(exact)
        change = ours - exact
        change = change - (weights * change).sum(-1, keepdims=True)
        # The divergence is log(sum(q exp(change))), and sum(q change) is 0. The terms are positive and of second order,
        # so nothing cancels. The difference of logarithms would lose all digits below 1e-16.
        small = np.log1p((weights * (np.expm1(change) - change)).sum(-1))
        is_small = (np.abs(change) <= _SMALL).all(-1)
        return np.asarray(np.where(is_small, small, _of_logarithms(ours, exact, weights)))


def _of_logarithms(ours: Rows, exact: Rows, weights: Rows) -> Rows:
    """Return the divergence by its definition. A class without weight adds nothing, whatever its logits."""
    import numpy as np

    difference = _log_softmax(exact) - _log_softmax(ours)
    return np.asarray(np.where(weights > 0, weights * difference, 0).sum(-1))


def _softmax(logits: Rows) -> Rows:
    """Return softmax over the last axis."""
    import numpy as np

    terms = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(terms / terms.sum(-1, keepdims=True))


def _log_softmax(logits: Rows) -> Rows:
    import numpy as np

    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
