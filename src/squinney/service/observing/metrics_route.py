"""The route `/metrics`, which Prometheus reads."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.responses import Response

from squinney.errors import Forbidden
from squinney.http.dependencies import client_address
from squinney.http.threads import PROBES
from squinney.patterns.addresses import is_within

router = APIRouter(tags=["health"])


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
