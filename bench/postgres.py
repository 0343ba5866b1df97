"""A private PostgreSQL on a unix socket, for peers that need one; it ends with the benchmark."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDERS = [Path("/usr/lib/postgresql") / version / "bin" for version in ("17", "16", "15", "14")]


def binaries() -> Path | None:
    """Where `initdb` and `pg_ctl` are: Debian's folders, or beside what is on PATH."""
    for folder in FOLDERS:
        if (folder / "initdb").is_file():
            return folder
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


@contextmanager
def private_postgres() -> Iterator[Path | None]:
    """The folder of its socket; None where there is no PostgreSQL to run."""
    binary = binaries()
    if binary is None or (os.geteuid() == 0 and not shutil.which("runuser")):
        yield None
        return
    # It refuses to run as root: then Debian's own user for it does.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="sqpg-") as name:
        folder = Path(name)
        if as_user:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        run = lambda *command: subprocess.run([*as_user, *command], check=True, capture_output=True, cwd=folder)  # noqa: E731
        run(str(binary / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8")
        options = f"-k {folder} -c listen_addresses= -c max_connections=100"
        run(str(binary / "pg_ctl"), "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            run(str(binary / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
