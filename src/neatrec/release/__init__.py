"""Bundles in production: publish, limits, diff, rollback, exports."""

from neatrec.release.diff import BundleDiff, compare
from neatrec.release.export import Exported, ExportOptions, export_answers
from neatrec.release.export_rows import AllAnswers
from neatrec.release.limits import PublishLimits
from neatrec.release.publish import publish, rollback
from neatrec.release.store import BundleStore, versions_in

__all__ = [
    "AllAnswers",
    "BundleDiff",
    "BundleStore",
    "ExportOptions",
    "Exported",
    "PublishLimits",
    "compare",
    "export_answers",
    "publish",
    "rollback",
    "versions_in",
]
