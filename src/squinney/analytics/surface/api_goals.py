"""The HTTP routes of goals: what visits should come to, and how many do."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from squinney.analytics.reports.documents import Goal
from squinney.analytics.reports.filters import Filters
from squinney.analytics.reports.goals import MAX_GOAL_PAGES, Conversions, Goals
from squinney.analytics.surface.api_reports import FilterBy, First, Last, Named, Read, Robots, Site
from squinney.analytics.surface.report_choice import parsed_filters
from squinney.errors import LimitReached, NotFound
from squinney.http.dependencies import service
from squinney.http.error_responses import responses
from squinney.http.routes import OneThreadRoute

router = APIRouter(prefix="/goals", route_class=OneThreadRoute)

GoalsDep = Annotated[Goals, Depends(service("analytics", "goals", Goals))]


class PagesOfGoal(BaseModel):
    """The pages of a goal; a `*` at the end of one stands for any rest of the path."""

    model_config = ConfigDict(extra="forbid")
    pages: list[str] = Field(min_length=1, max_length=MAX_GOAL_PAGES, examples=[["/shop/orders/*"]])


class GoalOfSite(BaseModel):
    """A goal of a site."""

    site: str
    name: str
    pages: list[str]


class ReachedGoal(BaseModel):
    """A goal, the visits that have reached it, and their part of all visits, from 0 to 1."""

    name: str
    pages: list[str]
    visits: int
    visitors: int
    rate: float


class ConversionsOfSite(BaseModel):
    """All visits, and those that have reached each goal."""

    visits: int
    visitors: int
    goals: list[ReachedGoal]


def conversions_as_json(conversions: Conversions) -> dict[str, Any]:
    """Return what has reached the goals, as the API and the command show it."""
    goals = [{**vars(goal), "rate": conversions.rate(goal)} for goal in conversions.goals]
    return {"visits": conversions.visits, "visitors": conversions.visitors, "goals": goals}


def goal_as_json(goal: Goal) -> dict[str, Any]:
    """Return a goal as the API and the command show it."""
    return {**goal["_id"], "pages": goal["pages"]}


@router.get("", response_model=ConversionsOfSite, responses=responses())
def read_goals(
    reports: Read,
    site: Site = "",
    range: Named = "7d",
    first: First = None,
    last: Last = None,
    robots: Robots = "out",
    by: FilterBy = [],  # noqa: B006
) -> Any:
    """Return how many visits have reached each goal of a site."""
    days = reports.days(site, range, first, last)
    return conversions_as_json(reports.conversions(site, days, Filters.of(parsed_filters(by), robots=robots)))


@router.put("/{name:path}", response_model=GoalOfSite, responses=responses(LimitReached))
def define_goal(goals: GoalsDep, name: str, body: PagesOfGoal, site: Site = "") -> Any:
    """Define a goal of a site, or replace it."""
    return goal_as_json(goals.define(site, name, body.pages))


@router.delete("/{name:path}", status_code=204, responses=responses(NotFound))
def remove_goal(goals: GoalsDep, name: str, site: Site = "") -> None:
    """Remove a goal of a site."""
    goals.undefine(site, name)
