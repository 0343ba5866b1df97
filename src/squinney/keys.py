"""Idempotency keys: what is done with one happens once."""

from __future__ import annotations

from dataclasses import dataclass

from squinney import checks


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key: what is done with it happens once. `scope` keeps one caller's keys from another's."""

    text: str
    scope: str = ""

    @classmethod
    def of(cls, given: str | Key | None) -> Key | None:
        """The key as given, checked; a plain string has the empty scope.

        Raises: `Invalid`.
        """
        if given is None:
            return None
        key = given if isinstance(given, Key) else cls(given)
        checks.text(key.text, "key", least=1, most=200)
        checks.text(key.scope, "scope", most=200)
        return key
