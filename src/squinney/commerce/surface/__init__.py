"""The HTTP routes, pages and commands of commerce."""
