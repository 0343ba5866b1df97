"""What each action of a character changes: a function for each plans it as guarded steps, which `ActionRunner` runs."""
