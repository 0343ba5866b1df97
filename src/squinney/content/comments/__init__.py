"""System 10: discussions, stored in three ways."""
