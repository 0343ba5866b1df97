"""Who is calling."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from squinney.http.problems import responses
from squinney.http.routes import OneThreadRoute

router = APIRouter(prefix="/api/identity", tags=["identity"], route_class=OneThreadRoute)


class KeyModel(BaseModel):
    """An API key, without its secret."""

    id: str = Field(examples=["01k9x3v0k2f8m4q7r5t6w8y9za"])
    name: str = Field(examples=["shop"])
    scopes: list[str] = Field(examples=[["commerce:write", "identity:read"]])
    created_at: datetime
    expires_at: datetime | None = None


@router.get("/key", response_model=KeyModel, responses=responses())
async def show_key(request: Request) -> Any:
    """The API key that this request came with."""
    key = request.state.key
    return {"id": key["_id"], **key}
