"""The documentation: Sphinx with MyST and Furo, built without network by `make docs`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # diagrams.py, docstrings.py

project = "Squinney"
author = "The Squinney authors"
copyright = author
release = version = version_of("squinney")

extensions = ["myst_parser", "sphinx.ext.autodoc", "diagrams", "docstrings"]
autodoc_default_options = {"members": True, "undoc-members": True, "no-value": True}
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
default_role = "code"  # what docstrings put between single backquotes
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure", "ref.python"]  # several documents have a field called type

html_theme = "furo"
html_title = f"Squinney {release}"
html_copy_source = False
