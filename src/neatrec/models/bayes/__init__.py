"""`bayes`: the lift of a pair, drawn towards what everything else says about it."""

from neatrec.models.bayes.model import Bayes, BayesParameters, BayesSure, Posterior

__all__ = ["Bayes", "BayesParameters", "BayesSure", "Posterior"]
