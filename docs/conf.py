"""The documentation: Sphinx with MyST and Furo, built without network by `make docs`."""

from importlib.metadata import version as version_of

project = "Squinney"
author = "The Squinney authors"
copyright = author
release = version = version_of("squinney")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"Squinney {release}"
html_copy_source = False
