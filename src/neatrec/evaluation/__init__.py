"""Evaluation: one task for every model, summarized with intervals and paired tests.

task = build_task(train, test, make_labels(test))
results = summarize(task, {"shrunk-lift": [evaluate_model(model, task)]})
"""

from neatrec.evaluation.ranks import LabelQueries, LabelRanks, rank_labels
from neatrec.evaluation.summary import Results, compare_models, summarize
from neatrec.evaluation.task import EvaluationTask, ModelRanks, build_task, evaluate_model

__all__ = [
    "EvaluationTask",
    "LabelQueries",
    "LabelRanks",
    "ModelRanks",
    "Results",
    "build_task",
    "compare_models",
    "evaluate_model",
    "rank_labels",
    "summarize",
]
