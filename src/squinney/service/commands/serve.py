"""`squinney serve`: everything in one process."""

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
from typing import Annotated

import typer

from squinney import assembly
from squinney.errors import Invalid
from squinney.http.commands import connected, ready, say, settings_of
from squinney.http.options import Options
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.service import logs
from squinney.service.commands.exit_codes import INTERRUPTED
from squinney.service.commands.systems import systems_of
from squinney.service.jobs import Worker
from squinney.service.processes import Processes
from squinney.service.secret import secret_for
from squinney.settings import Settings
from squinney.system import Assembled

log = logging.getLogger(__name__)

GRACE_SECONDS = 10  # for requests, and as many again for jobs
MOST_MESSAGE_BYTES = 4_096  # that a WebSocket may send us: they are there to listen
MOST_SHUTDOWN_SECONDS = 30.0
SWITCH_SECONDS = 0.0005


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on [HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on [PORT].")] = None,
    demo: Annotated[bool, typer.Option(help="Load the demo data the first time.")] = True,
) -> None:
    """Serve the web front and the API, and run the jobs."""
    from squinney.service.demo_photos import load_demo_photos  # the web framework is slow to load, and few need it
    from squinney.service.site import create_site

    context.obj.given.update(host=host, port=port)
    settings = settings_of(context)
    logs.set_up(settings.log_format)
    if settings.uri:
        secret_for(settings, None)  # refuse before anything is started
    signal.signal(signal.SIGTERM, _interrupt)
    with _listening(settings) as listener, connected(context) as connection:
        chosen = systems_of(context)
        schema.apply(connection.db, assembly.collections(chosen))
        if demo:
            assembly.load_demo(connection.db, chosen)
        systems = assembly.assemble(connection.db, mode=settings.transaction_mode, systems=chosen)
        if demo:
            load_demo_photos(systems)
        processes = Processes()
        site = create_site(systems, options=_options(settings, connection), processes=processes)
        jobs = Worker(connection.db, assembly.jobs(chosen), observe=site.state.metrics.job_run)
        jobs.start()
        try:
            _say_where(listener, systems)
            _run(site, listener, end=connection.close)
        finally:
            processes.close()
            jobs.stop()
            systems.close()


def _options(settings: Settings, connection: Connection) -> Options:
    folder = connection.embedded.folder if connection.embedded else None
    return Options(
        secret=secret_for(settings, folder),
        rate_per_key=settings.rate_per_key,
        rate_per_address=settings.rate_per_address,
        refusals_per_second=settings.refusals_per_second,
        trusted_proxies=settings.trusted_proxies,
        sign_up_open=settings.sign_up == "open",
    )


def _interrupt(number: int, frame: object) -> None:
    """End as by Ctrl-C, so that whoever stops us this way leaves no server behind either."""
    raise KeyboardInterrupt


def _listening(settings: Settings) -> socket.socket:
    """Take the port before anything else is started."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; answers would wait 40 ms for it.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise Invalid(f"cannot listen on {where} ({error.strerror}); choose another with PORT=", field="port") from None
    return listener


def _say_where(listener: socket.socket, systems: Assembled) -> None:
    listener.listen(2048)  # whoever comes between this line and the server's start waits, and is not refused
    host, port = listener.getsockname()[:2]
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if token := systems.services["identity"]["invitations"].first_admin():
        say(f"Become its admin, once, at {base}/welcome?token={token}")
    say(f"Squinney is at {base} (Ctrl-C stops it)")


def _run(site: object, listener: socket.socket, *, end: Callable[[], None]) -> None:
    import uvicorn

    from squinney.service.connections import CarefulProtocol

    # Each time a page's thread or the event loop waits for MongoDB or a line it gives the interpreter away. Who renders
    # beside it would keep it for 5 ms by default, and a page waits a dozen times.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: the collector need not look at it again and again
    config = uvicorn.Config(
        site,  # type: ignore[arg-type]
        http=CarefulProtocol,
        log_config=None,  # its lines are ours too: one format for all
        log_level="warning",
        proxy_headers=False,  # it would believe whoever is on this machine; `Forwarded` believes whom we are told to
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=MOST_MESSAGE_BYTES,
        ws_max_queue=8,
        ws_per_message_deflate=False,  # a small message may unpack to a huge one
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            _end_by(MOST_SHUTDOWN_SECONDS, end)

    Server(config).run(sockets=[listener])


def _end_by(seconds: float, end: Callable[[], None]) -> None:
    """Whatever still computes then cannot be stopped: the process ends without it, as by a crash, which harms nothing.

    A second call is late: the first one's clock runs.
    """

    def end_now() -> None:
        log.error("requests or jobs did not end within %s s; ending without them", seconds)
        with suppress(Exception):
            end()
        os._exit(INTERRUPTED)

    timer = threading.Timer(seconds, end_now)
    timer.daemon = True
    timer.start()


def demo(context: typer.Context) -> None:
    """Load the demo data, once."""
    from squinney.service.demo_photos import load_demo_photos

    with ready(context) as systems:
        assembly.load_demo(systems.db, systems.systems)
        load_demo_photos(systems)
        say("The demo data is there.")
