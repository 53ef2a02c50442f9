"""How good a model is, and how sure that is: an task made once, sat by every model, graded with intervals and tests.

task = build_task(train, test, make_labels(test))
grades = summarize(task, {"shrunk-lift": [evaluate_model(model, task)]})
"""

from neatrec.evaluation.candidates import (
    CandidateSet,
    CatalogCandidates,
    PartnerCounts,
    catalogue,
    partners,
    recall_set,
)
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out, held_out_lifts
from neatrec.evaluation.metrics import KS, ceiling, hit_rate, ndcg, reciprocal_rank
from neatrec.evaluation.paired_tests import holm, sign_flip_p
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, Scorer, rank_labels
from neatrec.evaluation.results import EvaluationResult, LevelResult, summarize
from neatrec.evaluation.summary import ModelSummary, PairedTest, Summary, summarize_ranks
from neatrec.evaluation.task import EvaluationTask, ModelRanks, build_task, evaluate_model

__all__ = [
    "KS",
    "CandidateSet",
    "CatalogCandidates",
    "EvaluationResult",
    "EvaluationTask",
    "HeldOutLift",
    "LabelQueries",
    "LabelRanks",
    "LevelResult",
    "ModelRanks",
    "ModelSummary",
    "PairedTest",
    "PartnerCounts",
    "Scorer",
    "Summary",
    "build_task",
    "catalogue",
    "ceiling",
    "evaluate_model",
    "held_out",
    "held_out_lifts",
    "hit_rate",
    "holm",
    "ndcg",
    "partners",
    "rank_labels",
    "recall_set",
    "reciprocal_rank",
    "sign_flip_p",
    "summarize",
    "summarize_ranks",
]
