"""The admin pages: jobs, keys, people and problems."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney import assembly
from squinney.clock import utcnow
from squinney.errors import Forbidden, Invalid, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import SAFE_METHODS, needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import assembled, service
from squinney.http.pages import redirect, render
from squinney.http.threads import JOBS
from squinney.identity import ROLES, Keys, People
from squinney.patterns.queue import Queue
from squinney.service import doctor
from squinney.service.jobs import JobWorker, statuses
from squinney.service.observing.metrics import Metrics
from squinney.service.proving import pages as proving_pages
from squinney.social.queries import QUEUE as POSTS
from squinney.system import Assembled

MAY_BE_TRIED = ("/admin/jobs/", "/admin/problems/")


async def _changes_by_real_admins(request: Request) -> None:
    """Refuse that somebody who only tries the site makes keys, people or settings.

    Raises: `Forbidden`.
    """
    person = visitor_of(request).person
    # guard: an admin who is only tried makes no keys, people or settings
    if person and person.get("tried") and not _may_be_tried(request):
        raise Forbidden("somebody who only tries the site makes no keys, people or settings")


def _may_be_tried(request: Request) -> bool:
    return request.method in SAFE_METHODS or request.url.path.startswith(MAY_BE_TRIED)


FOR_ADMINS = [needs("admin"), Depends(_changes_by_real_admins)]
router = APIRouter(prefix="/admin", route_class=PageRoute, dependencies=FOR_ADMINS)
keys_router = APIRouter(prefix="/admin", route_class=PageRoute, dependencies=FOR_ADMINS)
people_router = APIRouter(prefix="/admin", route_class=PageRoute, dependencies=FOR_ADMINS)

Systems = Annotated[Assembled, Depends(assembled)]
PeopleDep = Annotated[People, Depends(service("identity", "people", People))]
KeysDep = Annotated[Keys, Depends(service("identity", "keys", Keys))]
Text = Annotated[str, Form(max_length=1_000)]
LEVELS = ("read", "write")


def routers_for(app: FastAPI) -> list[APIRouter]:
    """Return the pages that this site needs: keys and people belong to the system `identity`."""
    app.state.admin_pages = ["jobs", "problems"]
    routers = [router]
    if "identity" in app.state.assembled.services:
        routers.append(keys_router)
        app.state.admin_pages.insert(1, "keys")
        if app.state.visitors.has_accounts:
            routers.append(people_router)
            app.state.admin_pages.insert(2, "people")
    return routers


@router.get("", response_class=HTMLResponse)
def show_overview(request: Request, systems: Systems) -> Response:
    """Show the state of the site at a glance: its jobs, its queue, its slowest routes and the last proof."""
    jobs = statuses(systems.db, assembly.jobs(systems.systems))
    metrics: Metrics = request.app.state.metrics
    return render(
        request,
        "admin/index.html",
        jobs=jobs,
        troubled=[job for job in jobs if job.state in ("late", "failing")],
        queue=Queue(systems.db, POSTS).counts() if "social" in systems.services else None,
        slowest=metrics.slowest(),
        **proving_pages.proof_for(request),
    )


@router.get("/jobs", response_class=HTMLResponse)
def show_jobs(request: Request, systems: Systems) -> Response:
    """List every job with its last run."""
    return render(request, "admin/jobs.html", jobs=statuses(systems.db, assembly.jobs(systems.systems)))


@router.post("/jobs/{name}")
# guard: a job that an admin runs has no time limit
@JOBS
def run_job(request: Request, systems: Systems, name: str) -> Response:
    """Run a job now, unless a worker is running it."""
    worker = JobWorker(systems.db, assembly.jobs(systems.systems))
    worker.register_jobs()
    outcome = worker.run(name, even_if_not_due=True)
    message, kind = f"{name}: {outcome or 'is already running'}.", "bad" if outcome == "failed" else "good"
    return redirect(request, "/admin/jobs", message, kind)


@keys_router.get("/keys", response_class=HTMLResponse)
def show_keys(request: Request, keys: KeysDep, cursor: str | None = None) -> Response:
    """List the API keys, with a form for a new one."""
    return _keys_page(request, keys, cursor=cursor)


def _keys_page(request: Request, keys: Keys, *, cursor: str | None = None, **values: Any) -> Response:
    names = [system.name for system in request.app.state.assembled.systems]
    scopes = [f"{name}:{level}" for name in ["*", *names] for level in LEVELS]
    shown = {"error": None, "shown": None, "page": keys.all(cursor=cursor), "scopes": scopes, "typed": {}, **values}
    return render(request, "admin/keys.html", now=utcnow(), **shown)


@keys_router.post("/keys", response_class=HTMLResponse)
def create_key(request: Request, keys: KeysDep, name: Text, scopes: Annotated[list[str], Form()] = []) -> Response:  # noqa: B006
    """Create a key and show it once."""
    try:
        _, shown = keys.create(name, scopes, created_by=signed_in(request)["_id"])
    except Invalid as error:
        typed = {"name": name, "scopes": scopes}
        return _keys_page(request, keys, error=error, typed=typed)
    return _keys_page(request, keys, shown=shown)


@keys_router.post("/keys/{key_id}/revoke")
def revoke_key(request: Request, keys: KeysDep, key_id: str) -> Response:
    """Revoke a key."""
    return redirect(request, "/admin/keys", f"The key {keys.revoke(key_id)['name']} is revoked.")


@people_router.get("/people", response_class=HTMLResponse)
def show_people(request: Request, people: PeopleDep, cursor: str | None = None) -> Response:
    """List all people with their roles."""
    return render(request, "admin/people.html", page=people.all(cursor=cursor), roles=ROLES[1:])


@people_router.post("/people/{person_id}")
def change_person(request: Request, people: PeopleDep, person_id: str, role: Text = "", enabled: Text = "") -> Response:
    """Change a person's role, or enable or disable the person."""
    if signed_in(request)["_id"] == person_id:
        raise Forbidden("you cannot change your own role: ask another admin")
    person = people.set_role(person_id, role) if role else people.get(person_id)
    if enabled in ("yes", "no"):
        person = people.enable(person_id) if enabled == "yes" else people.disable(person_id)
    state = "is disabled" if person.get("disabled_at") else f"can sign in as {person['role']}"
    return redirect(request, "/admin/people", f"{person['name']} {state}.")


@router.get("/problems", response_class=HTMLResponse)
def show_problems(request: Request, systems: Systems) -> Response:
    """Show what `squinney doctor` finds in ten seconds."""
    findings = list(doctor.examine(systems.db, systems=systems.systems))
    wrong = sum(finding.level == "problem" for finding in findings)
    return render(request, "admin/problems.html", findings=findings, wrong=wrong)


@router.post("/problems/repair")
@JOBS
def repair_problems(request: Request, systems: Systems) -> Response:
    """Repair every problem that does not need a decision."""
    try:
        done = doctor.repair(systems.db, systems=systems.systems)
    except SquinneyError as error:
        return redirect(request, "/admin/problems", error.message, "bad")
    summary = ", ".join(f"{name}: {count}" for name, count in done.items()) or "nothing needed repair"
    return redirect(request, "/admin/problems", f"Repaired: {summary}.")
