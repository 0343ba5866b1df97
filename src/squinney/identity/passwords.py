"""Passwords: argon2id, a few at a time."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from squinney import checks
from squinney.errors import Unavailable

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST = 10
LONGEST = 200
AT_ONCE = 4  # each takes 64 MB and a core for some 50 ms: a flood of sign-ins must not take the machine
WAIT_SECONDS = 5.0

_turn = threading.BoundedSemaphore(AT_ONCE)


def checked(password: str) -> str:
    """The password if it may be chosen.

    Raises: `Invalid`.
    """
    return checks.text(password, "password", least=SHORTEST, most=LONGEST)


def hashed(password: str) -> str:
    """What is stored of it.

    Raises: `Unavailable` where too many wait already.
    """
    with _Turn():
        return _hasher().hash(password)


def matches(stored: str | None, password: str) -> bool:
    """Whether it is the one. Takes as long where nothing is stored, so that nobody learns which logins exist.

    Raises: `Unavailable` where too many wait already.
    """
    hasher = _hasher()
    from argon2.exceptions import InvalidHashError, VerificationError

    with _Turn():
        try:
            return hasher.verify(stored or _nobodys(), password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


def is_outdated(stored: str) -> bool:
    """Whether today's parameters are stronger than those it was hashed with."""
    return _hasher().check_needs_rehash(stored)


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _hasher().hash("the password of nobody")


@lru_cache(maxsize=1)
def _hasher() -> PasswordHasher:
    try:  # not above: sessions, keys and everybody's errors do without it
        from argon2 import PasswordHasher
    except ModuleNotFoundError as error:
        needs = "passwords need argon2-cffi: pip install 'squinney[server]'"
        raise ModuleNotFoundError(needs, name=error.name) from error
    return PasswordHasher(parallelism=1)  # its four threads of old would take every core from those who wait for pages


class _Turn:
    def __enter__(self) -> None:
        if not _turn.acquire(timeout=WAIT_SECONDS):
            raise Unavailable("too many people are signing in at this moment")

    def __exit__(self, *_: object) -> None:
        _turn.release()
