"""Health checks and metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import Response

from squinney.assembly import jobs as jobs_of_all
from squinney.errors import Forbidden, Unavailable
from squinney.http.dependencies import assembled, client_address
from squinney.http.threads import PROBES
from squinney.mongo.deadlines import operation
from squinney.patterns.addresses import is_within
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


@router.get("/metrics", response_class=PlainTextResponse, responses={403: {"description": "not for this address"}})
@PROBES
def metrics(request: Request) -> Response:
    """Return metrics in the format of Prometheus, to the addresses of `SQUINNEY_METRICS_FROM`."""
    if not hasattr(request.app.state, "metrics"):  # an application that has only our routes counts nothing
        raise HTTPException(404)
    allowed = request.app.state.options.metrics_from
    # guard: metrics are for those allowed
    if allowed is not None and not is_within(client_address(request.scope), allowed):
        raise Forbidden("metrics are for the addresses of SQUINNEY_METRICS_FROM")
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
