"""Health checks: `/healthz` and `/readyz`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from squinney.assembly import jobs as jobs_of_all
from squinney.errors import Unavailable
from squinney.http.dependencies import assembled
from squinney.http.threads import PROBES
from squinney.mongo.deadlines import operation
from squinney.service.jobs import statuses
from squinney.system import Assembled

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answer from the event loop, even while all threads are waiting."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "MongoDB is unreachable, or the process is about to end"}})
@PROBES
def readyz(request: Request, systems: Annotated[Assembled, Depends(assembled)]) -> JSONResponse:
    """Report whether the process is to get requests, and the state of each job."""
    state, status = readiness(systems, draining=getattr(request.app.state, "draining", False))
    return JSONResponse(state, status_code=status)


def readiness(systems: Assembled, *, draining: bool) -> tuple[dict[str, Any], int]:
    """Return what `/readyz` reports, and its status: whether MongoDB accepts writes and the process goes on."""
    try:
        with operation(2, reads_only=True):
            writable = systems.db.client.admin.command("hello").get("isWritablePrimary", False)
            jobs = {job.name: job.state for job in statuses(systems.db, jobs_of_all(systems.systems))}
    except Unavailable:
        writable, jobs = False, {}
    status = "draining" if draining else "ready" if writable else "MongoDB is unreachable"
    return {"status": status, "jobs": jobs}, 200 if status == "ready" else 503
