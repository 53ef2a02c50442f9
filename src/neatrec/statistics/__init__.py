"""Statistics of counts: association, exact tails, intervals, expected counts, false discoveries."""

from neatrec.statistics.association import (
    chi_squared,
    chi_squared_p,
    chi_squared_threshold,
    jaccard,
    lift,
    shrunk_lift,
    signed_llr,
)
from neatrec.statistics.discovery import Discoveries, benjamini_hochberg
from neatrec.statistics.independence import QuasiIndependence, possible_pairs, quasi_independence
from neatrec.statistics.resampling import bootstrap_interval
from neatrec.statistics.tails import garwood_interval, largest_mean, poisson_log_tail, poisson_tail

__all__ = [
    "Discoveries",
    "QuasiIndependence",
    "benjamini_hochberg",
    "bootstrap_interval",
    "chi_squared",
    "chi_squared_p",
    "chi_squared_threshold",
    "garwood_interval",
    "jaccard",
    "largest_mean",
    "lift",
    "poisson_log_tail",
    "poisson_tail",
    "possible_pairs",
    "quasi_independence",
    "shrunk_lift",
    "signed_llr",
]
