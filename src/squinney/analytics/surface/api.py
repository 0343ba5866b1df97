"""The HTTP API of analytics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from squinney.analytics import EventLog, Hits, Point, Recorded, Rollups
from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.documents import Import, Reject
from squinney.analytics.events.log import Failure
from squinney.analytics.hits.documents import MAX_PAGE_LENGTH
from squinney.analytics.hits.increments import MAX_HITS
from squinney.analytics.rollups.documents import Bucket
from squinney.analytics.rules import MAX_SITE_LENGTH, MAX_TEXT_LENGTH
from squinney.analytics.surface import api_goals, api_reports
from squinney.errors import LimitReached
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, service
from squinney.http.error_responses import responses
from squinney.http.response_models import list_of, model_of, page_of, signed_page
from squinney.http.routes import OneThreadRoute
from squinney.mongo.deadlines import operation
from squinney.transactions import Busy, KeyReused

router = APIRouter(prefix="/api/analytics", tags=["analytics"], route_class=OneThreadRoute)

Log = Annotated[EventLog, Depends(service("analytics", "events", EventLog))]
Counters = Annotated[Hits, Depends(service("analytics", "hits", Hits))]
Rolled = Annotated[Rollups, Depends(service("analytics", "rollups", Rollups))]

Start = Annotated[AwareDatetime, Query(examples=["2026-11-01T00:00:00Z"])]
End = Annotated[AwareDatetime, Query(description="Excluded", examples=["2026-12-01T00:00:00Z"])]
Site = Annotated[str, Query(max_length=MAX_SITE_LENGTH)]
PageName = Annotated[str, Query(max_length=MAX_PAGE_LENGTH)]
Zone = Annotated[str, Query(max_length=100, examples=["Europe/Berlin"])]
Unit = Literal["minute", "hour", "day", "week", "month"]


class NewEvent(BaseModel):
    """An event to record, with up to fifty custom fields."""

    model_config = ConfigDict(extra="allow")
    time: AwareDatetime
    host: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    user: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    method: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    path: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    query: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    status: int | None = Field(None, ge=0, le=999)
    bytes: int | None = Field(None, ge=0, le=2**63 - 1)
    referer: str | None = Field(None, max_length=MAX_TEXT_LENGTH)
    user_agent: str | None = Field(None, max_length=MAX_TEXT_LENGTH)


class NewEvents(BaseModel):
    """Events to record."""

    model_config = ConfigDict(extra="forbid")
    events: list[NewEvent] = Field(min_length=1, max_length=1_000)


class EventPage(BaseModel):
    """A page of events, oldest first; `next` is the `start` of the next page."""

    items: list[dict[str, Any]]
    next: AwareDatetime | None


class NewHit(BaseModel):
    """Views of a page to count."""

    model_config = ConfigDict(extra="forbid")
    site: str = Field(max_length=MAX_SITE_LENGTH, examples=["example.org"])
    page: str = Field(max_length=MAX_PAGE_LENGTH, examples=["/"])
    at: AwareDatetime
    count: int = Field(1, ge=1, le=MAX_HITS)


class NewHits(BaseModel):
    """Hits to count."""

    model_config = ConfigDict(extra="forbid")
    hits: list[NewHit] = Field(min_length=1, max_length=1_000)


class Counted(BaseModel):
    """The number of counted hits."""

    hits: int


class TopPage(BaseModel):
    """A page and its hits."""

    page: str
    hits: int


class DayAndPath(BaseModel):
    """The number of requests for a path on a day."""

    day: datetime
    path: str
    count: int


_INTERNAL = ["head_length", "head_hash", "offset", "blank", "hits_offset", "unterminated", "chain", "tail", "packed"]
RecordedModel = model_of(Recorded, failures=(list_of(model_of(Failure, without=["document"])), ...))
ImportModel = model_of(Import, without=_INTERNAL)
RejectModel = model_of(Reject, without=["source"])


router.include_router(api_reports.router)
router.include_router(api_goals.router)


@router.post("/events", status_code=201, response_model=RecordedModel, responses=responses(KeyReused, Busy))
def record_events(log: Log, body: NewEvents, key: IdempotencyKey) -> Any:
    """Record events, and report every event that could not be stored."""
    events = [event.model_dump(exclude_none=True) for event in body.events]
    with operation():  # shorter than the method's own deadline of a minute, which is meant for 10,000 events
        return log.record_many(events, key=key)


@router.get("/events", response_model=EventPage, responses=responses())
def read_events(
    log: Log,
    start: Start,
    end: End,
    path: Annotated[str | None, Query(max_length=MAX_TEXT_LENGTH)] = None,
    host: Annotated[str | None, Query(max_length=MAX_TEXT_LENGTH)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Any:
    """Return the events of a time range, optionally of one path or host, oldest first."""
    page = log.page(start, end, path=path, host=host, limit=limit)
    return {"items": page.items, "next": page.next}


@router.get("/events/by-day-and-path", response_model=page_of(DayAndPath), responses=responses())
def count_events(
    log: Log,
    sign: SignCursor,
    start: Start,
    end: End,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Any:
    """Return the number of requests per day (UTC) and path; paths with the same first 512 characters are one."""
    page = log.count_by_day_and_path(start, end, cursor=cursor, limit=limit)
    return signed_page(page, sign)


@router.get("/events/by-status", response_model=dict[int, int], responses=responses())
def count_statuses(log: Log, start: Start, end: End) -> Any:
    """Return the number of events per status."""
    return log.count_by_status(start, end)


@router.post("/hits", status_code=201, response_model=Counted, responses=responses(KeyReused, Busy, LimitReached))
def record_hits(hits: Counters, body: NewHits, key: IdempotencyKey) -> Any:
    """Count hits of pages."""
    given = [(hit.site, hit.page, hit.at, hit.count) for hit in body.hits]
    with operation():  # as for events
        return {"hits": hits.record_many(given, key=key)}


@router.get("/series", response_model=list_of(model_of(Point)), responses=responses())
def read_series(
    hits: Counters,
    start: Start,
    end: End,
    site: Site = "",
    page: PageName = "/",
    by: Unit = "day",
    time_zone: Zone = "UTC",
) -> Any:
    """Return the hits of a page per unit of time, zeros included."""
    return hits.series(site, page, start, end, by, time_zone=time_zone)


@router.get("/series.csv", response_class=Response, responses=responses())
def download_series(
    hits: Counters,
    start: Start,
    end: End,
    site: Site = "",
    page: PageName = "/",
    by: Unit = "day",
    time_zone: Zone = "UTC",
) -> Response:
    """Download the hits of a page per unit of time as CSV."""
    return series_as_csv(hits.series(site, page, start, end, by, time_zone=time_zone), by)


def series_as_csv(points: Sequence[Point], by: str) -> Response:
    """Return a series of hits as a CSV download; its values never need quotes."""
    lines = ["at,hits", *(f"{point.at.isoformat()},{point.hits}" for point in points)]
    headers = {"Content-Disposition": f'attachment; filename="hits-by-{by}.csv"'}
    return Response("\r\n".join(lines) + "\r\n", media_type="text/csv", headers=headers)


@router.get("/top", response_model=list[TopPage], responses=responses())
def read_top(
    hits: Counters, start: Start, end: End, site: Site = "", limit: Annotated[int, Query(ge=1, le=1_000)] = 10
) -> Any:
    """Return the pages with the most hits between two whole hours."""
    return hits.top_pages(site, start, end, limit=limit)


@router.get("/rollups/{level}", response_model=list_of(model_of(Bucket)), responses=responses())
def read_rollup(
    rollups: Rolled,
    level: Annotated[str, Path(examples=["daily"])],
    key: Annotated[str, Query(max_length=MAX_TEXT_LENGTH, description="The path", examples=["/"])],
    start: Start,
    end: End,
    time_zone: Annotated[str | None, Query(max_length=100)] = None,
) -> Any:
    """Return a path's buckets: the number of requests, and their bytes."""
    return rollups.read(level, key, start, end, time_zone=time_zone)  # type: ignore[arg-type]


@router.get("/imports", response_model=page_of(ImportModel), responses=responses())
def read_imports(log: Log, sign: SignCursor, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Return the imported sources, the last updated first."""
    return signed_page(log.imports(cursor=cursor, limit=limit), sign)


@router.get("/imports/{source}/rejects", response_model=page_of(RejectModel), responses=responses(UnknownSource))
def read_rejects(log: Log, sign: SignCursor, source: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """Return the lines of a source that could not be stored as events, and the reasons."""
    return signed_page(log.rejects(source, cursor=cursor, limit=limit), sign)
