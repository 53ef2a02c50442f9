"""Sphinx: `make docs` builds the pages of this folder, offline."""

from neatrec._version import __version__

project = "neatrec"
author = "The neatrec developers"
release = __version__
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "What goes with what, and how sure that is", "page_width": "64em"}
html_show_sourcelink = False
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
