"""Is the process alive, and can it work?"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse

from squinney.api.dependencies import assembled
from squinney.assembly import Assembled
from squinney.errors import Unavailable
from squinney.mongo.connect import operation

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "MongoDB is away"}})
def readyz(systems: Annotated[Assembled, Depends(assembled)]) -> JSONResponse:
    """MongoDB answers and takes writes."""
    try:
        with operation(2, reads_only=True):
            writable = systems.db.client.admin.command("hello").get("isWritablePrimary", False)
    except Unavailable:
        writable = False
    status = "ready" if writable else "MongoDB is away"
    return JSONResponse({"status": status}, status_code=200 if writable else 503)
