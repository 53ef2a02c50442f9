"""`bayes`: the lift of a pair, drawn towards what everything else says about it."""

from neatrec.models.bayes.fit import GOALS
from neatrec.models.bayes.model import Bayes, BayesParameters, Posterior

__all__ = ["GOALS", "Bayes", "BayesParameters", "Posterior"]
