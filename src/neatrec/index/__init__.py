"""The serving table: each item's best answers with their evidence, in files that are used where they lie."""

from neatrec.index.answers import Answers
from neatrec.index.asking import Asked, Believed, ask
from neatrec.index.build import IndexArrays, build_index, index_of
from neatrec.index.evidence import Evidence
from neatrec.index.files import write_index
from neatrec.index.grades import GRADES
from neatrec.index.opened import Index
from neatrec.index.rewrite import has_table, rewrite_index, save_indexed
from neatrec.index.words import FOOTER

__all__ = [
    "FOOTER",
    "GRADES",
    "Answers",
    "Asked",
    "Believed",
    "Evidence",
    "Index",
    "IndexArrays",
    "ask",
    "build_index",
    "has_table",
    "index_of",
    "rewrite_index",
    "save_indexed",
    "write_index",
]
