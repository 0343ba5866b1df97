"""The data folder of the embedded MongoDB, and the folder of its socket."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path

from squinney.errors import NoServer
from squinney.mongo.embedded.binary import ELSEWHERE

MARK = "squinney-data.txt"
MARK_TEXT = "This folder belongs to Squinney's embedded MongoDB. Deleting it deletes the data.\n"
SOCKET_NAME = "mongod.sock"
SOCKET_BYTES = 103 if sys.platform == "darwin" else 107
ROOM_BYTES = 256 * 1024 * 1024  # the journal and first files of a new server need less

CHOOSE = "set SQUINNEY_DATA to a folder of your own"


def default_folder(start: Path | None = None) -> Path:
    """Return `.squinney/` if `start` (the current folder) is in a clone of the project, else the user's data folder."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if _is_clone(folder / "pyproject.toml"):
            return folder / ".squinney"
    try:
        from platformdirs import user_data_path
    except ImportError as error:
        choices = f"run pip install 'squinney[embedded]' for an embedded one, {CHOOSE}, {ELSEWHERE}"
        raise NoServer(f"No MongoDB was named: {choices}") from error
    return user_data_path("squinney", appauthor=False)


def _is_clone(pyproject: Path) -> bool:
    try:
        return bool(tomllib.loads(pyproject.read_text("utf-8"))["project"]["name"] == "squinney")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def claim(folder: Path) -> None:
    """Create and mark `folder` as a private data folder. Running it again changes nothing.

    Raises: `NoServer` if it belongs to another user, contains other files, or cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_owner(folder)
        _check_contents(folder)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
        if not (folder / MARK).exists():
            (folder / MARK).write_text(MARK_TEXT)
    except OSError as error:
        raise NoServer(f"The data folder {folder} cannot be used ({error.strerror}): {CHOOSE}") from error


def _check_owner(folder: Path) -> None:
    owner = folder.stat().st_uid
    if owner != os.geteuid():
        raise NoServer(f"The data folder {folder} belongs to another user (id {owner}): run as that user, or {CHOOSE}")


def _check_contents(folder: Path) -> None:
    # In this order: a process that starts concurrently creates the mark before any other file.
    if any(folder.iterdir()) and not (folder / MARK).exists():
        raise NoServer(f"The folder {folder} contains files that are not Squinney's: name an empty one; {CHOOSE}")


def check_room(folder: Path) -> None:
    """Refuse to start a server on a disk that is nearly full; a running server is not affected.

    Raises: `NoServer`.
    """
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise NoServer(
            f"The disk of {folder} has {free // 2**20} MB left and MongoDB needs {ROOM_BYTES // 2**20} MB: "
            f"free some space, or set SQUINNEY_DATA to a folder on another disk"
        )


def socket_for(folder: Path, runtime: Path | None = None) -> Path:
    """Return a short socket path for the server of `folder`, and create its folder, which only this user may enter.

    It is not in `$XDG_RUNTIME_DIR`, which is emptied at logout and differs between logins: the server may outlive both.

    Raises: `NoServer` if the path is longer than the system allows.
    """
    parent = runtime or runtime_folder()
    socket = parent / hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12] / SOCKET_NAME
    if len(os.fsencode(socket)) > SOCKET_BYTES:
        raise NoServer(
            f"The socket's path {socket} is longer than the {SOCKET_BYTES} bytes this system allows: "
            f"set TMPDIR to a folder with a short path"
        )
    try:
        socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NoServer(f"The folder {socket.parent} for the socket cannot be created ({error.strerror})") from error
    return socket


def runtime_folder(temporary: Path | None = None) -> Path:
    """Return this user's socket folder under `temporary` (/tmp), or a new one if another user has that name."""
    if temporary is None:
        temporary = Path("/tmp") if os.access("/tmp", os.W_OK | os.X_OK) else Path(tempfile.gettempdir())  # noqa: S108
    usual = temporary / f"squinney-{os.geteuid()}"
    with suppress(OSError):  # a file with that name exists, or the folder is read-only: the next line detects it
        usual.mkdir(mode=0o700, exist_ok=True)
    return usual if _is_private(usual) else Path(tempfile.mkdtemp(prefix="squinney-", dir=temporary))


def _is_private(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
