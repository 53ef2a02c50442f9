"""Labels, the pairs that go together, by two protocols; and the shuffle null."""

from neatrec.labels.config import EXPECTED, PROTOCOLS, LabelConfig, LabelOptions
from neatrec.labels.make import make_labels
from neatrec.labels.null import WITHIN, NullResult, shuffle_null, shuffled
from neatrec.labels.record import Labels

__all__ = [
    "EXPECTED",
    "PROTOCOLS",
    "WITHIN",
    "LabelConfig",
    "LabelOptions",
    "Labels",
    "NullResult",
    "make_labels",
    "shuffle_null",
    "shuffled",
]
