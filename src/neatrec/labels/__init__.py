"""Which pairs really go together: labels by two protocols, the shuffle null, the audit."""

from neatrec.labels.config import EXPECTED, PROTOCOLS, LabelOptions
from neatrec.labels.make import make_labels
from neatrec.labels.null import WITHIN, NullResult, shuffle_null, shuffled
from neatrec.labels.record import Labels

__all__ = [
    "EXPECTED",
    "PROTOCOLS",
    "WITHIN",
    "LabelOptions",
    "Labels",
    "NullResult",
    "make_labels",
    "shuffle_null",
    "shuffled",
]
