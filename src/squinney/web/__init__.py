"""The web front: server-rendered pages over the same operations."""
