"""The content system's HTTP routes, pages and commands."""
