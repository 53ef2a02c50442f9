"""Where training and evaluation meet: check, labels runs, the leaderboard, the demo."""
