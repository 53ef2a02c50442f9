"""How good a model is, and how sure that is: an exam made once, sat by every model, graded with intervals and tests.

exam = make_exam(train, test, make_labels(test))
grades = grade(exam, {"shrunk-lift": [sit(model, exam)]})
"""

from neatrec.evaluation.candidates import Catalogue, Partners, RecallSet, catalogue, partners, recall_set
from neatrec.evaluation.held_out_lift import HeldOutLift, held_out, held_out_lifts
from neatrec.evaluation.metrics import KS, ceiling, hit_rate, ndcg, reciprocal_rank
from neatrec.evaluation.paired_tests import holm, sign_flip_p
from neatrec.evaluation.ranks import Asked, Judged, Scorer, judge
from neatrec.evaluation.results import Grades, Result, grade
from neatrec.evaluation.summary import PairedTest, Standing, Summary, summarise
from neatrec.evaluation.task import Answers, Exam, make_exam, sit

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
