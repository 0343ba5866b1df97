"""What characters do: the documents of an action, gathered into one plan."""
