"""How long visitors stay, from events."""
