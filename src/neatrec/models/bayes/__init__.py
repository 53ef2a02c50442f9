"""`bayes`: the lift of a pair, drawn towards what everything else says about it."""

from neatrec.models.bayes.model import Bayes, BayesParameters
from neatrec.models.bayes.ranker import GOALS

__all__ = ["GOALS", "Bayes", "BayesParameters"]
