"""What a choice is made of: zones in memory, profiles for caps, and the choice itself."""
