"""The secret that signs cursors and forms."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from squinney.errors import Invalid
from squinney.settings import VARIABLES, Settings

FILE = "secret"
MIN_LENGTH = 32


def secrets_for(settings: Settings, folder: Path | None) -> tuple[bytes, ...]:
    """Return the configured secrets, or the one in the embedded MongoDB's folder, which the first call creates.

    Each line is a secret. The first one signs; what the others signed is still valid.

    Atomic: the file appears complete, because one `link` publishes it; of several processes, one succeeds.
    After a crash: an unused temporary file may remain.
    Raises: `Invalid` if there is a URI and no secret, or a secret is too short.
    """
    if settings.secret is not None:
        where, lines = VARIABLES["secret"], settings.secret.get_secret_value()
    elif folder is not None:
        where, lines = str(folder / FILE), _read_or_create(folder / FILE)
    else:
        raise Invalid(
            f"{VARIABLES['secret']}: must be set with {VARIABLES['uri']}, to the same value for every process; "
            "create one with `openssl rand -hex 32`",
            field="secret",
        )
    secret_lines = [line.strip() for line in lines.splitlines() if line.strip()] or [""]
    # guard: a stored secret has a minimum length
    if any(len(secret) < MIN_LENGTH for secret in secret_lines):
        raise Invalid(f"{where}: must have at least {MIN_LENGTH} characters", field="secret")
    return tuple(secret.encode() for secret in secret_lines)


def _read_or_create(file: Path) -> str:
    if not file.exists():
        fresh = file.with_name(f"{FILE}.{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_hex(32))
            new.flush()
            os.fsync(new.fileno())  # otherwise the file may be empty after a power cut
        with suppress(FileExistsError):  # another process created it first
            os.link(fresh, file)
        fresh.unlink()
    return file.read_text()
