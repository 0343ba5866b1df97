"""Members: accounts, profiles, circles and blocks, relations between members, and the import of a graph."""

from __future__ import annotations
