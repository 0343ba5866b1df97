"""The world's HTTP routes, pages and commands."""
