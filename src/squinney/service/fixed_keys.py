"""Keys of the API that a setting names, for a service without the system `identity`."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from squinney.clock import utcnow
from squinney.errors import Invalid
from squinney.identity import ApiKey, KeyRefused
from squinney.identity.rules import digest
from squinney.settings import VARIABLES, Settings

MIN_LENGTH = 32
SCOPE = "*:write"


class FixedKeys:
    """Keys that may call the whole API. They do not change while the process runs."""

    def __init__(self, keys: Sequence[str]) -> None:
        now = utcnow()
        self._keys: dict[str, ApiKey] = {
            digest(key): {
                "_id": digest(key)[:12],
                "name": "from the settings",
                "scopes": [SCOPE],
                "created_at": now,
                "created_by": "",
            }
            for key in keys
        }

    def find_cached(self, presented: str) -> ApiKey | None:
        """Return the key, or None if it is not one of them."""
        given = digest(presented)
        # guard: only a key of the settings is accepted
        return next((key for known, key in self._keys.items() if hmac.compare_digest(known, given)), None)

    def find(self, presented: str) -> ApiKey:
        """Return the key.

        Raises: `KeyRefused`.
        """
        key = self.find_cached(presented)
        if key is None:
            raise KeyRefused("the API key is unknown")
        return key


def fixed_keys(settings: Settings, *, has_identity: bool) -> list[str]:
    """Return the keys of the setting.

    Raises: `Invalid` if a service without `identity` has none, one with it has some, or one is too short.
    """
    where = VARIABLES["api_keys"]
    given = settings.api_keys.get_secret_value() if settings.api_keys else ""
    keys = [key.strip() for key in given.replace("\n", ",").split(",") if key.strip()]
    if keys and has_identity:
        raise Invalid(f"{where}: with the system identity, keys are made by `squinney keys create`", field="api_keys")
    if not keys and not has_identity:
        raise Invalid(
            f"{where}: without the system identity, the keys of the API must be set here, separated by commas; "
            "create one with `openssl rand -hex 32`",
            field="api_keys",
        )
    require_length(keys, where)
    return keys


def require_length(keys: Sequence[str], where: str) -> None:
    """Refuse keys that can be guessed.

    Raises: `Invalid`.
    """
    # guard: a key of the settings has a minimum length
    if any(len(key) < MIN_LENGTH or not key.isascii() for key in keys):
        raise Invalid(f"{where}: each key must have at least {MIN_LENGTH} characters, of ASCII", field="api_keys")
