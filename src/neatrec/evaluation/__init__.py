"""How good a model is, and how sure that is: an exam made once, sat by every model, graded with intervals and tests.

exam = make_exam(train, test, make_labels(test))
grades = grade(exam, {"shrunk-lift": [sit(model, exam)]})
"""

from neatrec.evaluation.candidates import Catalogue, Partners, RecallSet, catalogue, partners, recall_set
from neatrec.evaluation.exam import Answers, Exam, make_exam, sit
from neatrec.evaluation.grade import Grades, Result, grade
from neatrec.evaluation.heldout import HeldOutLift, held_out, held_out_lifts
from neatrec.evaluation.judge import Asked, Judged, Scorer, judge
from neatrec.evaluation.metrics import KS, ceiling, hit_rate, ndcg, reciprocal_rank
from neatrec.evaluation.paired import holm, sign_flip_p
from neatrec.evaluation.summary import PairedTest, Standing, Summary, summarise

__all__ = [
    "KS",
    "Answers",
    "Asked",
    "Catalogue",
    "Exam",
    "Grades",
    "HeldOutLift",
    "Judged",
    "PairedTest",
    "Partners",
    "RecallSet",
    "Result",
    "Scorer",
    "Standing",
    "Summary",
    "catalogue",
    "ceiling",
    "grade",
    "held_out",
    "held_out_lifts",
    "hit_rate",
    "holm",
    "judge",
    "make_exam",
    "ndcg",
    "partners",
    "recall_set",
    "reciprocal_rank",
    "sign_flip_p",
    "sit",
    "summarise",
]
