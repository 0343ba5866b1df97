"""What may be answered without an index, each with its reason. Keep this short."""

# Functions of the product that read everything on purpose, when a person asks for it.
READS_EVERYTHING = {"find_problems", "repair", "find_stuck", "find_orphans", "drop_orphans"}

# The beginning of a shape as the run prints it, and why it may be as it is.
EXCEPTIONS: list[tuple[str, str]] = []
