"""Processes that serve: their port, their number, their end."""
