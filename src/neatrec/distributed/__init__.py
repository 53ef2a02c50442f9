"""Processes that train one model, started by torchrun or Spark and joined by torch.distributed."""

from __future__ import annotations

from neatrec.distributed.launch import Launch, launched
from neatrec.distributed.team import TorchTeam, joined

__all__ = ["Launch", "TorchTeam", "joined", "launched"]
