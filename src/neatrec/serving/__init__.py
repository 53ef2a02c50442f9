"""The serving table: each item's best answers with their evidence, in files that are used where they lie."""

from neatrec.cooccurrence.strata import strata_words
from neatrec.models.base import Model

# what a service needs to answer beyond the table, so that it knows indexes and nothing of training
from neatrec.models.recommendations import best
from neatrec.serving.build import has_table, rewrite_index, save_indexed
from neatrec.serving.evidence import FOOTER, GRADES, PairEvidence, table_words
from neatrec.serving.query import AnswerWithEvidence, QueryResult, recommend
from neatrec.serving.table import ItemAnswers, ServingTable

__all__ = [
    "FOOTER",
    "GRADES",
    "AnswerWithEvidence",
    "ItemAnswers",
    "Model",
    "PairEvidence",
    "QueryResult",
    "ServingTable",
    "best",
    "has_table",
    "recommend",
    "rewrite_index",
    "save_indexed",
    "strata_words",
    "table_words",
]
