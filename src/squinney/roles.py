"""Roles of people, from the least to the most; each includes those before it."""

from __future__ import annotations

ROLES = ("visitor", "member", "editor", "admin")


def may_act_as(role: str, needed: str) -> bool:
    """Whether a role includes another."""
    return ROLES.index(role) >= ROLES.index(needed)
