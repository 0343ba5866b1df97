"""`mount`: the API and the pages of some systems under a path of an application of somebody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from squinney import assembly
from squinney.errors import Invalid
from squinney.http.access.visitor_lookup import Authenticate, HostVisitors, NoVisitors, Visitors
from squinney.http.appearance import Appearance, appearance_in
from squinney.http.rooted import Rooted
from squinney.http.site_options import SiteOptions
from squinney.mongo import schema
from squinney.mongo.pinned import require_database
from squinney.mongo.schema import Db
from squinney.service.fixed_keys import require_length
from squinney.service.jobs import JobWorker
from squinney.service.secret import MIN_LENGTH
from squinney.service.site import create_site
from squinney.system import Assembled, Part, System, system_of

NOT_STARTED = "Squinney is mounted here but not started: run the application's lifespan (a TestClient: in a `with`)."


def mount(
    app: Starlette,
    path: str,
    systems: Sequence[Part],
    *,
    db: Db,
    secret: str,
    authenticate: Authenticate | None = None,
    sign_in: str = "",
    api_keys: Sequence[str] = (),
    appearance: str | Path | None = None,
    run_jobs: bool = True,
) -> None:
    """Mount the API and the pages of some systems at a path of a FastAPI or Starlette application.

    `authenticate(connection)` tells who sends a request: None, or a mapping with `id`, `name` and `role` (`member`,
    `editor` or `admin`). It may be `async`. Without it nobody is signed in, and only public pages answer. `sign_in` is
    your page to sign in on; it gets `?next=`. Programs call the API with one of `api_keys`, or with the keys of the
    system `identity`, if that is one of the systems. All processes of the application must have the same `secret`.

    Nothing is connected or created here. When the application starts, missing collections are created and the jobs
    start in threads, unless `run_jobs` is false; both end with the application.

    Raises: `Invalid`. At the start of the application: `NotOurs` for collections that somebody else made.
    """
    require_database(db)
    chosen = [system_of(part) for part in systems]
    assembly.require_no_conflict(chosen)
    if len(secret) < MIN_LENGTH:
        raise Invalid(f"secret: must have at least {MIN_LENGTH} characters", field="secret")
    require_length(api_keys, "api_keys")
    if not path.startswith("/") or path.endswith("/"):
        raise Invalid("path: must begin with / and not end with /, such as /back", field="path")
    look = appearance_in(Path(appearance) if appearance else None)
    options = SiteOptions(secret=secret.encode(), api_keys=tuple(api_keys))
    visitors = HostVisitors(authenticate, sign_in) if authenticate else NoVisitors()
    mounted = _Mounted(db, chosen, options, visitors, look, run_jobs)
    app.mount(path, mounted)
    app.router.lifespan_context = _both(app.router.lifespan_context, mounted)


class _Mounted:
    """The site, which is built when the application starts."""

    def __init__(
        self,
        db: Db,
        systems: Sequence[System],
        options: SiteOptions,
        visitors: Visitors,
        appearance: Appearance,
        run_jobs: bool,
    ) -> None:
        self._db = db
        self._systems = systems
        self._create = partial(create_site, options=options, visitors=visitors, appearance=appearance)
        self._run_jobs = run_jobs
        self._site: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # guard: a site that is not started answers nothing else
        if self._site is None:
            await PlainTextResponse(NOT_STARTED, 503)(scope, receive, send)
            return
        await self._site(scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Create what is missing, and serve until the block ends."""
        built = await run_in_threadpool(self._prepared)
        site = self._create(built)
        jobs = JobWorker(self._db, assembly.jobs(self._systems), observe=site.state.metrics.job_run)
        if self._run_jobs:
            jobs.start()
        try:
            async with site.router.lifespan_context(site):
                self._site = Rooted(site)
                yield
        finally:
            self._site = None
            await run_in_threadpool(jobs.stop)
            await run_in_threadpool(built.close)

    def _prepared(self) -> Assembled:
        schema.create_missing(self._db, assembly.collections(self._systems))
        return assembly.assemble(self._db, systems=self._systems)


def _both(outer: Any, mounted: _Mounted) -> Any:
    """Return a lifespan that runs the application's own inside that of the site."""

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with mounted.running(), outer(app) as state:
            yield state

    return lifespan
