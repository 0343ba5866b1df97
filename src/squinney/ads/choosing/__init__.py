"""Choosing ads: the zones in memory, the profiles for caps, and the choice itself."""
