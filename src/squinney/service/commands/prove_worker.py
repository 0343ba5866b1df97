"""A worker of `squinney prove`, which works until it is killed."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import cast

from squinney.assembly import system_named, with_systems
from squinney.mongo.connect import client_for
from squinney.settings import Settings
from squinney.transactions import Mode


def main() -> None:
    """Run the system's `work` with the given mode and seed until the parent process ends."""
    name, mode, seed, parent = sys.argv[1:5]
    settings = Settings.from_environment()
    system = system_named(name, with_systems(settings.system_packages))
    if system is None or system.proof is None or settings.uri is None:
        raise SystemExit(2)
    threading.Thread(target=_end_with_parent, args=[int(parent)], daemon=True).start()
    with client_for(settings.uri) as client:
        system.proof.work(client[settings.database], cast(Mode, mode), int(seed))


def _end_with_parent(parent: int) -> None:
    """Exit when the parent is gone: it may be killed too, even before this process runs."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
