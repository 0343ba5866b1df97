"""Plugins active in every test run: counts of writes and crash points, and the audit of queries."""
