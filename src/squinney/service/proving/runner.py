"""The process that runs a proof for the site's page, at low priority: it reports to the site, and is told by it.

Each line of its output is a `Progress`. Its input may tell it to `kill`; when the input ends, the site has stopped or
died: then it ends its workers, drops its databases and exits.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from squinney.mongo.connect import client_for
from squinney.service.proving import lanes
from squinney.service.proving.engine import Engine, ProofLimits, Stopped
from squinney.service.proving.progress import PROGRESS, Progress
from squinney.service.proving.scratch import drop_leftovers
from squinney.service.proving.subjects import Subject, subject_named
from squinney.settings import Settings

NICE = 10
KILL_EVERY_SECONDS = 1.5
MIN_KILLS = 25  # if they were as frequent in the calm stage; a few kills might by chance hit no half transfer
PAUSE_SECONDS = 0.15
MAX_STOPPING_SECONDS = 5.0
BUSY = "another proof is running on this MongoDB: watch that one, or try again in a minute"


def main() -> None:
    """Run the proof of a subject, unless one runs already: its process holds the lock."""
    name, seconds, lock = sys.argv[1:4]
    os.nice(NICE)
    logging.getLogger("squinney").setLevel(logging.ERROR)  # that workers leave transactions open is the purpose
    settings = Settings.from_environment()
    subject = subject_named(name, settings.system_names)
    with Path(lock).open("a") as held:
        try:
            # guard: one proof at a time
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _print(Progress(name, subject.title, [], float(seconds), "failed", message=BUSY))
            return
        _run(subject, settings.uri or "", float(seconds))


def _run(subject: Subject, uri: str, seconds: float) -> None:
    kill_every = min(KILL_EVERY_SECONDS, seconds / MIN_KILLS)
    limits = ProofLimits(seconds=seconds, workers=lanes.WORKERS, kill_every=kill_every, pause_seconds=PAUSE_SECONDS)
    with client_for(uri) as client, suppress(Stopped):
        drop_leftovers(client)
        engine = Engine(client, uri, subject, limits)
        threading.Thread(target=_obey, args=[engine], daemon=True).start()
        engine.run(subject.stages, _print)


def _obey(engine: Engine) -> None:
    for line in sys.stdin:
        if line == "kill\n":
            engine.kill()
    # guard, 2 lines: a proof ends with the site
    engine.stop()
    threading.Timer(MAX_STOPPING_SECONDS, os._exit, [1]).start()  # its workers then see that it is dead


def _print(progress: Progress) -> None:
    with suppress(OSError):  # the site is dead
        sys.stdout.buffer.write(PROGRESS.dump_json(progress) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
