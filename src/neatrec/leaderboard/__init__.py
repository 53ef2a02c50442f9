"""Models trained on the same baskets and compared by the same evaluation task."""

from neatrec.leaderboard.run import Leaderboard, LeaderboardOptions, run_leaderboard

__all__ = ["Leaderboard", "LeaderboardOptions", "run_leaderboard"]
