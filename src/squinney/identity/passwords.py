"""Hashes and checks passwords with argon2id, a few at a time."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from squinney import checks
from squinney.errors import Unavailable

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_LENGTH = 10
MAX_LENGTH = 200
AT_ONCE = 4  # each hash takes 64 MB and a core for about 50 ms, so many sign-ins could exhaust the machine
WAIT_SECONDS = 5.0

_turn = threading.BoundedSemaphore(AT_ONCE)


def checked(password: str) -> str:
    """Return the password if its length is allowed.

    Raises: `Invalid`.
    """
    return checks.text(password, "password", min_length=MIN_LENGTH, max_length=MAX_LENGTH)


def hashed(password: str) -> str:
    """Return the hash to store.

    Raises: `Unavailable` if no hashing slot becomes free in 5 seconds.
    """
    with _Turn():
        return _hasher().hash(password)


def matches(stored: str | None, password: str) -> bool:
    """Return whether the password matches the stored hash.

    Without a stored hash it takes as long, so that the response time does not reveal which logins exist.

    Raises: `Unavailable` if no hashing slot becomes free in 5 seconds.
    """
    hasher = _hasher()
    from argon2.exceptions import InvalidHashError, VerificationError

    with _Turn():
        try:
            return hasher.verify(stored or _dummy_hash(), password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


def is_outdated(stored: str) -> bool:
    """Return whether the hash was made with other parameters than the current ones."""
    return _hasher().check_needs_rehash(stored)


@lru_cache(maxsize=1)
def _dummy_hash() -> str:
    return _hasher().hash("a password that no person has")


@lru_cache(maxsize=1)
def _hasher() -> PasswordHasher:
    try:  # imported here, because sessions, keys and errors do not need it
        from argon2 import PasswordHasher
    except ModuleNotFoundError as error:
        needs = "passwords need argon2-cffi: pip install 'squinney[server]'"
        raise ModuleNotFoundError(needs, name=error.name) from error
    return PasswordHasher(parallelism=1)  # the default of four threads would take all cores from other requests


class _Turn:
    def __enter__(self) -> None:
        if not _turn.acquire(timeout=WAIT_SECONDS):
            raise Unavailable("too many sign-ins are in progress; try again later")

    def __exit__(self, *_: object) -> None:
        _turn.release()
