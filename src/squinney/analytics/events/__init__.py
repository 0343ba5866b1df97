"""System 1: the event log, its imports, and what becomes of old events."""
