"""The secret that signs cursors and forms."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from squinney.errors import Invalid
from squinney.settings import VARIABLES, Settings

FILE = "secret"
SHORTEST = 32


def secret_for(settings: Settings, folder: Path | None) -> bytes:
    """The secret that is set, or the one of the embedded MongoDB's folder, which is made the first time.

    Atomic: the file appears whole, under a name that only one process can create.
    After a crash: it is there or it is not.
    Raises: `Invalid` where there is a URI and no secret, or one that is too short.
    """
    if settings.secret is not None:
        given = settings.secret.get_secret_value()
        if len(given) < SHORTEST:
            raise Invalid(f"{VARIABLES['secret']}: must have at least {SHORTEST} characters", field="secret")
        return given.encode()
    if folder is None:
        raise Invalid(
            f"{VARIABLES['secret']}: must be set where there is a {VARIABLES['uri']}, the same for every process; "
            "make one with `openssl rand -hex 32`",
            field="secret",
        )
    return _kept(folder / FILE)


def _kept(file: Path) -> bytes:
    if not file.exists():
        fresh = file.with_name(f"{FILE}.{secrets.token_hex(8)}")
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new:
            new.write(secrets.token_hex(32))
        with suppress(FileExistsError):  # another process was faster
            os.link(fresh, file)
        fresh.unlink()
    return file.read_bytes()
