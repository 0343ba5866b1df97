"""A service one of whose requests computes for ever, for the test of its end."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any, cast

from anyio import to_thread

from squinney.service.commands import serve
from squinney.service.serving import running

begun = threading.Event()


def compute() -> None:
    """Without end, and deaf to every wish to stop."""
    begun.set()
    while True:
        pass


async def site(scope: Any, receive: Any, send: Any) -> None:
    """The application."""
    if scope["type"] == "lifespan":
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})
    elif scope["path"] == "/compute":
        await to_thread.run_sync(compute)
    else:
        await send({"type": "http.response.start", "status": 200 if begun.is_set() else 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    """Serve until told to stop."""
    signal.signal(signal.SIGTERM, serve._terminate)
    running.GRACE_SECONDS, running.MAX_SHUTDOWN_SECONDS = 1, 2.0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        running.run(cast(Any, site), listener, end=lambda: print("closed", flush=True), stop=None)


if __name__ == "__main__":
    main()
