"""Polls for callers: a page and commands."""
