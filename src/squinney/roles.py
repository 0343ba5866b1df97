"""The roles of people; each role includes the ones before it."""

from __future__ import annotations

ROLES = ("visitor", "member", "editor", "admin")


def may_act_as(role: str, needed: str) -> bool:
    """Return whether `role` includes the needed role."""
    return ROLES.index(role) >= ROLES.index(needed)
