"""The command line: thin over the same operations."""
