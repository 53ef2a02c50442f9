"""Which pairs really go together: labels by two protocols, the shuffle null, the audit."""

from neatrec.labels.config import EXPECTED, PROTOCOLS
from neatrec.labels.make import make_labels
from neatrec.labels.null import NullResult, shuffle_null
from neatrec.labels.record import Labels
from neatrec.labels.shuffle import WITHIN, shuffled

__all__ = ["EXPECTED", "PROTOCOLS", "WITHIN", "Labels", "NullResult", "make_labels", "shuffle_null", "shuffled"]
