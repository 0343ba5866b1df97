"""The page of goals: everybody sees what visits have reached, editors define it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from squinney.analytics.reports.funnels import MAX_STEP_LENGTH
from squinney.analytics.reports.goals import MAX_GOAL_PAGES, MAX_NAME_LENGTH, Goals
from squinney.analytics.surface.visibility import is_editor
from squinney.analytics.surface.web_reports import Chosen, Read
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render

router = APIRouter(prefix="/analytics/goals", route_class=PageRoute)
# guard: goals are defined by editors only
editing = APIRouter(prefix="/analytics/goals", route_class=PageRoute, dependencies=[needs("editor")])

GoalsDep = Annotated[Goals, Depends(service("analytics", "goals", Goals))]
Name = Annotated[str, Form(max_length=MAX_NAME_LENGTH)]
Pages = Annotated[str, Form(max_length=MAX_GOAL_PAGES * (MAX_STEP_LENGTH + 2))]


@router.get("", response_class=HTMLResponse)
def show_goals(request: Request, reports: Read, chosen: Chosen) -> Response:
    """Show how many visits have reached each goal."""
    conversions = reports.conversions(chosen.site, chosen.days, chosen.filters)
    rows = [(goal, conversions.rate(goal) * 100) for goal in conversions.goals]
    return render(
        request,
        "analytics/goals.html",
        chosen=chosen,
        conversions=conversions,
        rows=rows,
        is_editor=is_editor(request),
    )


@editing.post("")
def define_goal(request: Request, goals: GoalsDep, chosen: Chosen, name: Name, pages: Pages) -> Response:
    """Define a goal by the form, which has a page on each line."""
    goals.define(chosen.site, name.strip(), [line.strip() for line in pages.splitlines() if line.strip()])
    return redirect(request, f"/analytics/goals?{chosen.query()}", "The goal is defined.")


@editing.post("/remove")
def remove_goal(request: Request, goals: GoalsDep, chosen: Chosen, name: Name) -> Response:
    """Remove a goal."""
    goals.undefine(chosen.site, name)
    return redirect(request, f"/analytics/goals?{chosen.query()}", "The goal is removed.")
