"""The serving table: each item's answers with their evidence, opened from a bundle."""

from neatrec.cooccurrence.strata import strata_words
from neatrec.serving.answers import Answer, Answers
from neatrec.serving.build import save_indexed
from neatrec.serving.counted import EvidenceTable
from neatrec.serving.evidence import FOOTER, GRADES, Evidence
from neatrec.serving.filters import Filters, ShopRules
from neatrec.serving.recommend import answers_from_category, answers_to, recommend
from neatrec.serving.table import PairTable

__all__ = [
    "FOOTER",
    "GRADES",
    "Answer",
    "Answers",
    "Evidence",
    "EvidenceTable",
    "Filters",
    "PairTable",
    "ShopRules",
    "answers_from_category",
    "answers_to",
    "recommend",
    "save_indexed",
    "strata_words",
]
