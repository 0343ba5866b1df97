"""The social network for callers: HTTP routes, pages and commands."""
