"""Health checks and metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from squinney.assembly import jobs as jobs_of_all
from squinney.errors import Unavailable
from squinney.http.dependencies import assembled
from squinney.http.threads import PROBES
from squinney.mongo.connect import operation
from squinney.service.jobs import statuses
from squinney.system import Assembled

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answer from the event loop, even while all threads are waiting."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "MongoDB is unreachable"}})
@PROBES
def readyz(systems: Annotated[Assembled, Depends(assembled)]) -> JSONResponse:
    """Report whether MongoDB accepts writes, and the state of each job."""
    try:
        with operation(2, reads_only=True):
            writable = systems.db.client.admin.command("hello").get("isWritablePrimary", False)
            jobs = {job.name: job.state for job in statuses(systems.db, jobs_of_all(systems.systems))}
    except Unavailable:
        writable, jobs = False, {}
    state = {"status": "ready" if writable else "MongoDB is unreachable", "jobs": jobs}
    return JSONResponse(state, status_code=200 if writable else 503)


@router.get("/metrics", response_class=PlainTextResponse)
@PROBES
def metrics(request: Request) -> Response:
    """Return metrics in the format of Prometheus."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
