"""The HTTP route of identity."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from squinney.http.error_responses import responses
from squinney.http.response_models import model_of
from squinney.http.routes import OneThreadRoute
from squinney.identity.documents import ApiKey

router = APIRouter(prefix="/api/identity", tags=["identity"], route_class=OneThreadRoute)
KeyModel = model_of(ApiKey, without=["created_by", "revoked_at", "used_at"])


@router.get("/key", response_model=KeyModel, responses=responses())
async def show_key(request: Request) -> Any:
    """Return the API key of this request."""
    return request.state.key
