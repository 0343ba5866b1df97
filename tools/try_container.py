"""Follow the steps of deploy/Containerfile without an image builder: as root, `python -m tools.try_container`.

The base image is this machine's own system and Python. Everything else is as in the file: the steps of RUN, what the
final stage copies, its user, environment and command, a root file system that nobody can write, and `/tmp` in memory. A
MongoDB on a loopback port takes the place of yours. It needs root on Linux, for the mounts.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from squinney.testing.replica_set import ReplicaSet, free_ports

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "deploy/Containerfile"
PYTHON = "/usr/bin/python3"  # readable by every user, unlike one in a home folder
SECONDS = 120.0
INSTALLED = "/opt/squinney"  # what the final stage copies from the first


def instructions(text: str) -> list[tuple[str, str]]:
    """Return each instruction of the file with its text."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def build(work: Path, steps: list[tuple[str, str]]) -> None:
    """Run the first stage in a name space of its own, in which /source and /opt/squinney are folders of `work`."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.rstrip("\0").split("\0"):
        target = work / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    for kind, text in steps:
        if kind == "RUN":
            command = re.sub(r"^python ", f"{PYTHON} ", text)
            _inside(work, f"cd /source && {command}")


def start(work: Path, steps: list[tuple[str, str]], settings: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run the final stage's command as its user, with a root file system that cannot be written."""
    last = dict(steps)
    environment = {"PATH": "/usr/bin:/bin", **dict(pair.split("=", 1) for pair in last["ENV"].split()), **settings}
    words = [*_words(last["ENTRYPOINT"]), *_words(last["CMD"])]
    as_user = f"setpriv --reuid {last['USER']} --regid {last['USER']} --clear-groups --no-new-privs"
    read_only = "mount -t tmpfs tmpfs /tmp && mount -o remount,bind,ro / && cd /"
    return _popen(work, f"{read_only} && exec {as_user} {shlex.join(words)}", environment)


def _words(text: str) -> list[str]:
    return re.findall(r'"([^"]*)"', text)


def _mounts(work: Path) -> str:
    return f"mount --bind {work}/source /source && mount --bind {work}/installed {INSTALLED}"


def _popen(work: Path, script: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", f"{_mounts(work)} && {script}"]
    return subprocess.Popen(command, env=environment, cwd="/")


def _inside(work: Path, script: str) -> None:
    process = _popen(work, script, {**os.environ, "HOME": str(work)})
    if process.wait(600):
        sys.exit(f"failed: {script}")


def answer_of(port: int, path: str, process: subprocess.Popen[bytes]) -> bytes:
    """Return what the service answers, once it does."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
                return bytes(response.read())
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main() -> None:
    """Build, run, ask, and end it by SIGTERM."""
    parts = FILE.read_text("utf-8").split("\nFROM ")
    first, final = (instructions(f"FROM {part}") for part in parts[1:])
    with ExitStack() as ending:
        work = Path(ending.enter_context(tempfile.TemporaryDirectory()))
        work.chmod(0o755)
        for name, place in (("source", Path("/source")), ("installed", Path(INSTALLED))):
            (work / name).mkdir()
            if not place.exists():
                place.mkdir(parents=True)
                ending.callback(place.rmdir)
        build(work, first)
        servers = ReplicaSet.start(work / "servers", members=1)
        ending.callback(servers.stop)
        (port,) = free_ports(1)
        settings = {"MONGODB_URI": servers.uri, "SQUINNEY_SECRET": "x" * 32, "HOST": "127.0.0.1", "PORT": str(port)}
        prepare = _popen(work, f"{INSTALLED}/bin/squinney indexes --apply > {work}/indexes", {**os.environ, **settings})
        if prepare.wait(600):
            sys.exit("the database cannot be prepared")
        process = start(work, final, settings)
        ending.callback(process.kill)
        for path in ("/healthz", "/readyz", "/", "/static/site.css"):
            print(f"{path}: {len(answer_of(port, path, process))} bytes")
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
    if code:
        sys.exit(f"after SIGTERM it ended with {code}")
    print("container: built, served as its user on a read-only root, and ended by SIGTERM")


if __name__ == "__main__":
    main()
