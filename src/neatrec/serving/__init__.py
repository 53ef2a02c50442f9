"""The serving table: each item's best answers with their evidence, in files that are used where they lie."""

from neatrec.cooccurrence.strata import strata_words
from neatrec.models.base import Model

# what a service needs to answer beyond the table, so that it knows indexes and nothing of training
from neatrec.models.recommendations import best
from neatrec.serving.build import build_index, has_table, index_of, rewrite_index, save_indexed
from neatrec.serving.evidence import FOOTER, GRADES, PairEvidence, table_words
from neatrec.serving.files import ServingArrays, write_index
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
    "ServingArrays",
    "ServingTable",
    "best",
    "build_index",
    "has_table",
    "index_of",
    "recommend",
    "rewrite_index",
    "save_indexed",
    "strata_words",
    "table_words",
    "write_index",
]
