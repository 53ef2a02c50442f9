"""Statistics of counts: association, exact tails, intervals, expected counts, false discoveries."""

from neatrec.statistics.independence import (
    Factors,
    possible_pairs,
    quasi_independence,
    sample_possible_pairs,
)
from neatrec.statistics.measures import (
    benjamini_hochberg,
    chi_squared,
    chi_squared_p,
    chi_squared_threshold,
    garwood_interval,
    jaccard,
    largest_mean,
    lift,
    poisson_log_tail,
    poisson_tail,
    shrunk_lift,
    signed_llr,
)
from neatrec.statistics.prior_fit import fit_lift_prior
from neatrec.statistics.shrinkage import (
    HalfCounts,
    LiftEstimate,
    LiftPrior,
    PairSample,
    estimate_lifts,
    exact_estimate,
    with_halves,
)

__all__ = [
    "Factors",
    "HalfCounts",
    "LiftEstimate",
    "LiftPrior",
    "PairSample",
    "benjamini_hochberg",
    "chi_squared",
    "chi_squared_p",
    "chi_squared_threshold",
    "estimate_lifts",
    "exact_estimate",
    "fit_lift_prior",
    "garwood_interval",
    "jaccard",
    "largest_mean",
    "lift",
    "poisson_log_tail",
    "poisson_tail",
    "possible_pairs",
    "quasi_independence",
    "sample_possible_pairs",
    "shrunk_lift",
    "signed_llr",
    "with_halves",
]
