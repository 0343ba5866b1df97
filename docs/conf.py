"""The documentation: Sphinx with MyST and Furo, built without network by `make docs`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # diagrams.py

project = "Squinney"
author = "The Squinney authors"
copyright = author
release = version = version_of("squinney")

extensions = ["myst_parser", "diagrams"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"Squinney {release}"
html_copy_source = False
