"""`squinney serve`: the API, the web front and the jobs in one process."""

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
from squinney.http.commands import connected, open_systems, print_line, settings_of
from squinney.http.options import Options
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.service import logs
from squinney.service.commands.exit_codes import INTERRUPTED
from squinney.service.jobs import Worker
from squinney.service.processes import Processes
from squinney.service.secret import secret_for
from squinney.settings import Settings
from squinney.system import Assembled

log = logging.getLogger(__name__)

GRACE_SECONDS = 10  # for requests; jobs have the same time after them
MOST_MESSAGE_BYTES = 4_096  # from a WebSocket client; clients mostly listen
MOST_SHUTDOWN_SECONDS = 30.0
SWITCH_SECONDS = 0.0005


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on [HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on [PORT].")] = None,
    demo: Annotated[bool, typer.Option(help="Load the demo data at the first start.")] = True,
) -> None:
    """Serve the web front and the API, and run the jobs."""
    from squinney.service.demo_photos import load_demo_photos  # slow to import, and few commands need it
    from squinney.service.site import create_site

    context.obj.given.update(host=host, port=port)
    settings = settings_of(context)
    logs.set_up(settings.log_format)
    if settings.uri:
        secret_for(settings, None)  # fail before anything is started
    signal.signal(signal.SIGTERM, _interrupt)
    with _listening(settings) as listener, connected(context) as connection:
        chosen = assembly.with_systems(settings.system_packages)
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
            _print_address(listener, systems)
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
    """Treat SIGTERM like Ctrl-C, so that the embedded server is stopped too."""
    raise KeyboardInterrupt


def _listening(settings: Settings) -> socket.socket:
    """Bind the port before anything else is started."""
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


def _print_address(listener: socket.socket, systems: Assembled) -> None:
    listener.listen(2048)  # connections wait from here until the server starts, and are not refused
    host, port = listener.getsockname()[:2]
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if token := systems.services["identity"]["invitations"].first_admin():
        print_line(f"To become the first admin, open {base}/welcome?token={token} (valid once)")
    print_line(f"Squinney is at {base} (press Ctrl-C to stop)")


def _run(site: object, listener: socket.socket, *, end: Callable[[], None]) -> None:
    import uvicorn

    from squinney.service.connections import HeaderLimitProtocol

    # A page's thread releases the interpreter lock about a dozen times, whenever it waits for MongoDB or the network.
    # By default, a thread that renders would then keep the lock for 5 ms each time.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()  # the collector need not scan the loaded modules again
    config = uvicorn.Config(
        site,  # type: ignore[arg-type]
        http=HeaderLimitProtocol,
        log_config=None,  # uvicorn's lines use our format
        log_level="warning",
        proxy_headers=False,  # it would trust all local callers; `ForwardedMiddleware` trusts the configured proxies
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=MOST_MESSAGE_BYTES,
        ws_max_queue=8,
        ws_per_message_deflate=False,  # a small compressed message may expand to a huge one
    )

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            _exit_after(MOST_SHUTDOWN_SECONDS, end)

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


def demo(context: typer.Context) -> None:
    """Load the demo data unless it is already loaded."""
    from squinney.service.demo_photos import load_demo_photos

    with open_systems(context) as systems:
        assembly.load_demo(systems.db, systems.systems)
        load_demo_photos(systems)
        print_line("The demo data is loaded.")
