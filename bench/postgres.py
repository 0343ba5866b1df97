"""A private PostgreSQL on a unix socket, for products that need one; it stops with the benchmark."""

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
    """Return the folder of `initdb` and `pg_ctl`: one of Debian's, or the one of `initdb` on the PATH."""
    for folder in FOLDERS:
        if (folder / "initdb").is_file():
            return folder
    program = shutil.which("initdb")
    return Path(program).resolve().parent if program else None


@contextmanager
def private_postgres() -> Iterator[Path | None]:
    """Start PostgreSQL and yield the folder of its socket; yield None if it cannot run here."""
    binary = binaries()
    if binary is None or (os.geteuid() == 0 and not shutil.which("runuser")):
        yield None
        return
    # PostgreSQL refuses to run as root, so root runs it as Debian's user `postgres`.
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
