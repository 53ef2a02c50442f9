"""`odds`: the default ranking, by two logistic regressions on features of a pair."""

from neatrec.models.odds.model import GOALS, Odds, OddsParameters

__all__ = ["GOALS", "Odds", "OddsParameters"]
