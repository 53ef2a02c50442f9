"""Evaluation: a task built once, ranked by every model, summarized with intervals and paired tests.

task = build_task(train, test, make_labels(test))
result = summarize(task, {"shrunk-lift": [evaluate_model(model, task)]})
"""

from neatrec.evaluation.candidates import (
    CandidateSet,
    CatalogCandidates,
    PartnerCounts,
    candidate_set,
    catalogue,
    partners,
)
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out_lifts, held_out_pairs
from neatrec.evaluation.intervals import holm, paired_p
from neatrec.evaluation.metrics import KS, ceiling, hit_rate, ndcg, reciprocal_rank
from neatrec.evaluation.ranks import LabelQueries, LabelRanks, Scorer, rank_labels
from neatrec.evaluation.summary import (
    EvaluationResult,
    LevelResult,
    ModelSummary,
    PairedTest,
    Summary,
    SummaryOptions,
    summarize,
    summarize_ranks,
)
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
    "SummaryOptions",
    "build_task",
    "candidate_set",
    "catalogue",
    "ceiling",
    "evaluate_model",
    "held_out_lifts",
    "held_out_pairs",
    "hit_rate",
    "holm",
    "ndcg",
    "paired_p",
    "partners",
    "rank_labels",
    "reciprocal_rank",
    "summarize",
    "summarize_ranks",
]
