"""Cheap password hashing for tests; only tests/systems/identity tests the real cost."""

from __future__ import annotations

from argon2 import PasswordHasher

QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
NOBODYS = QUICK.hash("the password of nobody")
REPLACED = {"_hasher": lambda: QUICK, "_dummy_hash": lambda: NOBODYS}  # of squinney.identity.passwords
