"""Evaluation: one task for every model, summarized with intervals and paired tests.

task = build_task(train, test, make_labels(test))
results = summarize(task, {"shrunk-lift": [evaluate_model(model, task)]})
"""

from neatrec.evaluation.summary import Results, summarize
from neatrec.evaluation.task import EvaluationTask, ModelRanks, build_task, evaluate_model

__all__ = [
    "EvaluationTask",
    "ModelRanks",
    "Results",
    "build_task",
    "evaluate_model",
    "summarize",
]
