"""`squinney serve`: the API, the web front and the jobs, in one process or several."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from pymongo.monitoring import CommandListener

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Systems
from squinney.cli.printing import print_line
from squinney.http.appearance import appearance_in
from squinney.http.site_options import SiteOptions
from squinney.mongo.connect import Connection, client_for
from squinney.service.behind.mirror import Behind
from squinney.service.fixed_keys import fixed_keys
from squinney.service.front.try_as import TryAs
from squinney.service.jobs import JobWorker
from squinney.service.links.page_views import PageViews
from squinney.service.observing import logs
from squinney.service.observing.driver import watch_driver
from squinney.service.observing.traces import watch_with_spans
from squinney.service.processes import Processes
from squinney.service.proving.prover import Prover
from squinney.service.secret import secrets_for
from squinney.service.serving.opening import open_to_serve
from squinney.service.serving.own_port import own_port
from squinney.service.serving.running import listening, run
from squinney.service.serving.supervisor import Supervisor, Worker
from squinney.settings import Settings
from squinney.system import Assembled

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger(__name__)

BACKLOG = 2048
Workers = Annotated[int, typer.Option(min=1, max=64, help="How many processes serve the port.")]
Jobs = Annotated[bool, typer.Option("--jobs/--no-jobs", help="Run the background jobs too.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="A further port for health and metrics; the second process has the next one."),
]


def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address to listen on [HOST].")] = None,
    port: Annotated[int | None, typer.Option(help="The port to listen on [PORT].")] = None,
    demo: Annotated[
        bool | None,
        typer.Option(help="Load the demo data at the first start; without the option only into the embedded MongoDB."),
    ] = None,
    workers: Workers = 1,
    jobs: Jobs = True,
    metrics_port: MetricsPort = None,
    systems: Systems = None,
) -> None:
    """Serve the web front and the API, and run the jobs, in one process or several."""
    from squinney.service.commands.demo import load_with_progress  # slow to import, and few commands need it
    from squinney.service.site import create_site

    context.obj.given.update(host=host, port=port)
    settings = settings_of(context)
    logs.set_up(settings.log_format, settings.log_level)
    watch_driver(settings.slow_ms / 1000)
    watch_with_spans()
    if settings.uri:
        secrets_for(settings, None)  # fail before anything is started
    appearance = appearance_in(settings.appearance)
    chosen = assembly.chosen_systems(settings.system_names)
    keys = fixed_keys(settings, has_identity=assembly.system_named("identity", chosen) is not None)
    signal.signal(signal.SIGTERM, _terminate)
    with listening(settings) as listener:
        listener.listen(BACKLOG)  # connections wait from here until a process serves, and are not refused
        worker = Supervisor(workers).start() if workers > 1 else Worker()
        with connected(context) as connection:
            built = open_to_serve(connection, chosen)
            # guard: demo data is loaded into a server of somebody's own only when asked
            if worker.is_first and (connection.embedded is not None if demo is None else demo):
                load_with_progress(built)
            processes = Processes()
            prover = _prover(settings, connection) if worker.of == 1 else None  # its visitors come back to the process
            page_views = _page_views(settings, built)
            create = partial(
                create_site,
                options=_options(settings, connection, keys),
                processes=processes,
                prover=prover,
                appearance=appearance,
                try_as=_try_as(settings, connection, built, listener),
            )
            behind = _behind(connection, built, create)
            site = create(built, page_views=page_views, behind=behind)
            running = JobWorker(connection.db, assembly.jobs(chosen), observe=site.state.metrics.job_run)
            if jobs and worker.is_first:
                running.start()
            stop = prover.close if prover else None
            own = metrics_port + worker.number if metrics_port else metrics_port
            registry = site.state.metrics.registry
            try:
                with own_port(settings.host, own, registry, built, draining=lambda: site.state.draining):
                    # guard: the link for the first admin is printed once
                    if worker.is_first and not worker.is_replacement:
                        _print_address(listener, built)
                    worker.serves()
                    run(site, listener, end=connection.close, stop=stop, drain_seconds=settings.drain_seconds)
            finally:
                if prover:
                    prover.close()
                processes.close()
                running.stop()
                behind.close()
                if page_views:
                    page_views.close()
                built.close()


def _options(settings: Settings, connection: Connection, keys: Sequence[str]) -> SiteOptions:
    folder = connection.embedded.folder if connection.embedded else None
    secret, *earlier = secrets_for(settings, folder)
    return SiteOptions(
        secret=secret,
        earlier_secrets=earlier,
        rate_per_key=settings.rate_per_key,
        rate_per_address=settings.rate_per_address,
        refusals_per_second=settings.refusals_per_second,
        trusted_proxies=settings.trusted_proxies,
        metrics_from=settings.metrics_from,
        log_addresses=settings.log_addresses == "on",
        new_account_hours=settings.new_account_hours,
        sign_up_open=settings.sign_up == "open",
        api_keys=keys,
    )


def _prover(settings: Settings, connection: Connection) -> Prover | None:
    """Return what runs the proofs of the page. On a server that others use too, only the command starts proofs."""
    embedded = connection.embedded
    if embedded is None:
        return None
    packages, seconds = settings.system_names, settings.proof_seconds
    return Prover(connection.client, embedded.uri, embedded.folder, seconds=seconds, packages=packages)


def _try_as(settings: Settings, connection: Connection, built: Assembled, listener: socket.socket) -> TryAs | None:
    if "identity" not in built.services:
        return None
    return TryAs(
        built,
        host=listener.getsockname()[0],
        is_embedded=connection.embedded is not None,
        enabled=settings.try_as == "on",
        trusted_proxies=settings.trusted_proxies,
    )


def _page_views(settings: Settings, built: Assembled) -> PageViews | None:
    if not settings.page_view_days or "analytics" not in built.services:
        return None
    return PageViews(built, keep_days=settings.page_view_days)


def _behind(connection: Connection, built: Assembled, create: Callable[[Assembled], FastAPI]) -> Behind:
    """Return what shows visitors how a page is made: everybody on an embedded server with demo data, else admins."""

    def make(listener: CommandListener) -> tuple[FastAPI, Callable[[], object]]:
        client = client_for(connection.uri, event_listeners=[listener])
        mirrored = assembly.assemble(client[connection.db.name], systems=built.systems)
        site = create(mirrored)
        site.state.page_ads = None  # an ad that is made once more would count as shown

        def close() -> None:
            mirrored.close()
            client.close()

        return site, close

    from squinney.service.town.loading import is_loaded  # slow to import, and few commands need it

    is_demo = connection.embedded is not None and is_loaded(built)
    return Behind(make, connection.db, for_everybody=is_demo)


def _terminate(number: int, frame: object) -> None:
    """End as after Ctrl-C, so that the embedded server is stopped too. For a supervisor this is no failure."""
    raise SystemExit(0)


def _print_address(listener: socket.socket, systems: Assembled) -> None:
    host, port = listener.getsockname()[:2]
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    identity = systems.services.get("identity")
    if identity and (token := identity["invitations"].first_admin()):
        print_line(f"To become the first admin, open {base}/welcome?token={token} (valid once)")
    print_line(f"Squinney is at {base} (press Ctrl-C to stop)")
