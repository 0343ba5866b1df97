"""The admin pages: jobs, keys, people and problems."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney import assembly
from squinney.clock import utcnow
from squinney.errors import Forbidden, Invalid, SquinneyError
from squinney.http.dependencies import assembled, service
from squinney.http.pages import redirect, render
from squinney.http.permissions import signed_in
from squinney.http.threads import JOBS
from squinney.identity import ROLES, Keys, People
from squinney.service import doctor
from squinney.service.jobs import Worker, statuses
from squinney.system import Assembled

router = APIRouter(prefix="/admin")

Systems = Annotated[Assembled, Depends(assembled)]
PeopleDep = Annotated[People, Depends(service("identity", "people", People))]
KeysDep = Annotated[Keys, Depends(service("identity", "keys", Keys))]
Text = Annotated[str, Form(max_length=1_000)]
LEVELS = ("read", "write")


@router.get("", response_class=HTMLResponse)
def show_overview(request: Request, systems: Systems) -> Response:
    """Show links to the admin pages, and how many jobs are late or failing."""
    states = [job.state for job in statuses(systems.db, assembly.jobs(systems.systems))]
    return render(request, "admin/index.html", jobs=len(states), troubled=sum(s in ("late", "failing") for s in states))


@router.get("/jobs", response_class=HTMLResponse)
def show_jobs(request: Request, systems: Systems) -> Response:
    """List every job with its last run."""
    return render(request, "admin/jobs.html", jobs=statuses(systems.db, assembly.jobs(systems.systems)))


@router.post("/jobs/{name}")
@JOBS
def run_job(request: Request, systems: Systems, name: str) -> Response:
    """Run a job now, unless a worker is running it."""
    worker = Worker(systems.db, assembly.jobs(systems.systems))
    worker.register_jobs()
    outcome = worker.run(name, even_if_not_due=True)
    message, kind = f"{name}: {outcome or 'is already running'}.", "bad" if outcome == "failed" else "good"
    return redirect(request, "/admin/jobs", message, kind)


@router.get("/keys", response_class=HTMLResponse)
def show_keys(request: Request, keys: KeysDep, cursor: str | None = None) -> Response:
    """List the API keys, with a form for a new one."""
    return _keys_page(request, keys, cursor=cursor)


def _keys_page(request: Request, keys: Keys, *, cursor: str | None = None, **values: Any) -> Response:
    names = [system.name for system in request.app.state.assembled.systems]
    scopes = [f"{name}:{level}" for name in ["*", *names] for level in LEVELS]
    shown = {"error": None, "shown": None, "page": keys.all(cursor=cursor), "scopes": scopes, "typed": {}, **values}
    return render(request, "admin/keys.html", now=utcnow(), **shown)


@router.post("/keys", response_class=HTMLResponse)
def create_key(request: Request, keys: KeysDep, name: Text, scopes: Annotated[list[str], Form()] = []) -> Response:  # noqa: B006
    """Create a key and show it once."""
    try:
        _, shown = keys.create(name, scopes, created_by=signed_in(request)["_id"])
    except Invalid as error:
        typed = {"name": name, "scopes": scopes}
        return _keys_page(request, keys, error=error, typed=typed)
    return _keys_page(request, keys, shown=shown)


@router.post("/keys/{key_id}/revoke")
def revoke_key(request: Request, keys: KeysDep, key_id: str) -> Response:
    """Revoke a key."""
    return redirect(request, "/admin/keys", f"The key {keys.revoke(key_id)['name']} is revoked.")


@router.get("/people", response_class=HTMLResponse)
def show_people(request: Request, people: PeopleDep, cursor: str | None = None) -> Response:
    """List all people with their roles."""
    return render(request, "admin/people.html", page=people.all(cursor=cursor), roles=ROLES[1:])


@router.post("/people/{person_id}")
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
    return render(request, "admin/problems.html", findings=findings)


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
