"""Sphinx: `make docs` builds the pages of this folder, offline."""

import sys
from pathlib import Path

from neatrec._version import __version__

sys.path.append(str(Path(__file__).parent))  # generated.py

project = "neatrec"
author = "The neatrec developers"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated"]
html_theme = "furo"
html_title = "neatrec"
html_show_sourcelink = False
myst_heading_anchors = 3
suppress_warnings = ["myst.header", "toc.not_included"]  # decisions stand in no menu
default_role = "code"  # docstrings have Markdown's single backticks
smartquotes = False  # two hyphens begin an option
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
