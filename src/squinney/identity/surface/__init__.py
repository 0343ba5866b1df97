"""The HTTP routes, pages and commands of identity."""
