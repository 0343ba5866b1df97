"""Sessions of visitors, derived from events."""
