"""System 2: page views counted as they happen, read as complete series."""
