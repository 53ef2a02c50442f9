"""The serving table: each item's best answers with their evidence, in files that are used where they lie."""

from neatrec.index.answers import Answers
from neatrec.index.asking import Asked, Believed, ask
from neatrec.index.build import IndexArrays, build_index, index_of
from neatrec.index.evidence import Evidence
from neatrec.index.files import write_index
from neatrec.index.grades import GRADES
from neatrec.index.opened import Index
from neatrec.index.rewrite import has_table, rewrite_index, save_indexed
from neatrec.index.words import FOOTER, table_words

# what a service needs to answer beyond the table, so that it knows indexes and nothing of training
from neatrec.models.answers import ONE_SCALE, best, scale_of
from neatrec.models.base import Model

__all__ = [
    "FOOTER",
    "GRADES",
    "ONE_SCALE",
    "Answers",
    "Asked",
    "Believed",
    "Evidence",
    "Index",
    "IndexArrays",
    "Model",
    "ask",
    "best",
    "build_index",
    "has_table",
    "index_of",
    "rewrite_index",
    "save_indexed",
    "scale_of",
    "table_words",
    "write_index",
]
