"""A schedule of two plain transfers, played for a visitor command by command."""
