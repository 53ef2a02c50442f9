"""Popularity against variance: whether a Gaussian model's variances follow how often items are bought."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from neatrec.report.figures import popularity_chart
from neatrec.report.page import FigureRow, Paragraph, Section

CLEAR = 0.3
"""A correlation at least this far from 0 is called a tie."""


def variance_section(purchases: npt.ArrayLike, log_variance: npt.ArrayLike, model: str) -> Section:
    """The figure and its correlation, over the items sold in training. Arrays of shape (items,)."""
    bought, spread = np.asarray(purchases, dtype=np.float64), np.asarray(log_variance, dtype=np.float64)
    sold = bought > 0
    correlation = log_correlation(bought[sold], spread[sold])
    caption = (
        f"Log-variance of {model} against purchases, {int(sold.sum()):,} items: median, middle half, middle 90 %, "
        f"and some items as dots. Correlation with the logarithm of purchases: {correlation:.2f}."
    )
    figure = popularity_chart("popularity-variance", bought[sold], spread[sold], correlation, caption)
    words = Paragraph(
        f"{model} learns a Gaussian for each item. {_in_words(correlation)} The variance is not a measure of how sure "
        "a recommendation is."
    )
    return Section("variance", "Popularity and variance", (words, FigureRow((figure,))))


def _in_words(correlation: float) -> str:
    """What the correlation says.

    >>> _in_words(0.82)
    'The paper finds wide ones for what is bought often, and so does this training: the two rise together.'
    """
    if correlation >= CLEAR:
        return "The paper finds wide ones for what is bought often, and so does this training: the two rise together."
    if correlation <= -CLEAR:
        return "The paper finds wide ones for what is bought often; this training finds narrow ones."
    return "The paper finds wide ones for what is bought often; this training shows no clear tie between the two."


def log_correlation(purchases: npt.NDArray[np.float64], log_variance: npt.NDArray[np.float64]) -> float:
    """Pearson's correlation of log-variance with the logarithm of purchases; NaN where one of them never varies.

    >>> log_correlation(np.array([1.0, 10.0, 100.0]), np.array([0.0, 1.0, 2.0]))
    1.0
    """
    logs = np.log(purchases)
    if len(logs) < 2 or np.ptp(logs) == 0 or np.ptp(log_variance) == 0:
        return float("nan")
    return round(float(np.corrcoef(logs, log_variance)[0, 1]), 12)
