"""System 5: the category tree."""
