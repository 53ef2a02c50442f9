"""The serving table: each item's best answers with their evidence, in files that are used where they lie."""

from neatrec.models.base import Model

# what a service needs to answer beyond the table, so that it knows indexes and nothing of training
from neatrec.models.recommendations import CartScores, best, score_cart
from neatrec.serving.answers import ItemAnswers
from neatrec.serving.build import ServingArrays, build_index, index_of
from neatrec.serving.evidence import PairEvidence
from neatrec.serving.files import write_index
from neatrec.serving.grades import GRADES
from neatrec.serving.index import ServingTable
from neatrec.serving.query import AnswerWithEvidence, QueryResult, ask
from neatrec.serving.save import has_table, rewrite_index, save_indexed
from neatrec.serving.words import FOOTER, table_words

__all__ = [
    "FOOTER",
    "GRADES",
    "AnswerWithEvidence",
    "CartScores",
    "ItemAnswers",
    "Model",
    "PairEvidence",
    "QueryResult",
    "ServingArrays",
    "ServingTable",
    "ask",
    "best",
    "build_index",
    "has_table",
    "index_of",
    "rewrite_index",
    "save_indexed",
    "score_cart",
    "table_words",
    "write_index",
]
