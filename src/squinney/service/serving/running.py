"""The listening socket, and the server on it, from its start until it has drained."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from squinney.cli.exit_codes import INTERRUPTED
from squinney.errors import Invalid
from squinney.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

GRACE_SECONDS = 10  # for requests; jobs have the same time after them
MAX_MESSAGE_BYTES = 4_096  # from a WebSocket client; clients mostly listen
MAX_SHUTDOWN_SECONDS = 30.0
SWITCH_SECONDS = 0.0005


def listening(settings: Settings) -> socket.socket:
    """Bind the port before anything else is started.

    Raises: `Invalid` if it is taken.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; otherwise responses would wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise Invalid(
            f"cannot listen on {where} ({error.strerror}); choose another port with PORT=", field="port"
        ) from None
    return listener


def run(
    site: FastAPI,
    listener: socket.socket,
    *,
    end: Callable[[], None],
    stop: Callable[[], None] | None,
    drain_seconds: float = 0,
) -> None:
    """Serve until a signal; `stop` ends what would keep connections open, `end` what must not survive the process.

    After SIGTERM `/readyz` fails for `drain_seconds` while requests are still answered; then the port is closed.
    """
    import uvicorn

    from squinney.service.connections import HeaderLimitProtocol

    # A page's thread releases the interpreter lock about a dozen times, whenever it waits for MongoDB or the network.
    # By default, a thread that renders would then keep the lock for 5 ms each time.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # the collector need not scan the loaded modules again
    config = uvicorn.Config(
        site,
        http=HeaderLimitProtocol,
        log_config=None,  # uvicorn's lines use our format
        log_level="warning",
        proxy_headers=False,  # it would trust all local callers; `ForwardedMiddleware` trusts the configured proxies
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_max_queue=8,
        ws_per_message_deflate=False,  # a small compressed message may expand to a huge one
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            # guard: a process that is to end is first no longer ready
            if sig == signal.SIGTERM and drain_seconds and not site.state.draining:
                site.state.draining = True
                timer = threading.Timer(drain_seconds, self._end, (sig,))
                timer.daemon = True
                timer.start()
                return
            self._end(sig, frame)

        def _end(self, sig: int, frame: FrameType | None = None) -> None:
            super().handle_exit(sig, frame)
            if stop:  # visitors who watch a proof would keep their connections
                threading.Thread(target=stop, daemon=True).start()
            _exit_after(MAX_SHUTDOWN_SECONDS, end)

    Server(config).run(sockets=[listener])


def _exit_after(seconds: float, end: Callable[[], None]) -> None:
    """Exit the process after a delay even if threads still compute, which nothing can stop. Like a crash, this is safe.

    A second call does not extend the delay of the first.
    """

    def end_now() -> None:
        log.error("requests or jobs did not end within %s s; exiting without waiting for them", seconds)
        with suppress(Exception):
            end()
        os._exit(INTERRUPTED)

    timer = threading.Timer(seconds, end_now)
    timer.daemon = True
    timer.start()
