"""Ads for callers: HTTP routes, pages and commands."""
