"""The actions of characters, and how each one becomes one plan of guarded steps."""
