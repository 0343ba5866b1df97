"""The pictures of a proof, as HTML and SVG: on the site's pages, in the reports of `squinney.testing`, and in the docs.

They are text that is already escaped. `pictures.css` has their colours and sizes: a page includes it as a file, a
report contains it.
"""
