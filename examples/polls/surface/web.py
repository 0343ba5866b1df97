"""The web page of polls."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse
from starlette.responses import Response

from polls.polls import Polls
from squinney.errors import SquinneyError
from squinney.http.access.permissions import signed_in
from squinney.http.dependencies import service
from squinney.http.pages import redirect, render
from squinney.http.statuses import status_of

router = APIRouter(prefix="/polls")  # only signed-in users may write, unless WRITES_NEED says otherwise

AllPolls = Annotated[Polls, Depends(service("polls", "polls", Polls))]


@router.get("", response_class=HTMLResponse)
def show_polls(request: Request, polls: AllPolls, cursor: str | None = None) -> Response:
    """Show the polls, each with a form to vote."""
    return render(request, "polls/index.html", page=polls.all(cursor=cursor), error=None)


@router.post("/{poll_id}/votes", response_class=HTMLResponse)
def vote(request: Request, polls: AllPolls, poll_id: str, option: Annotated[str, Form()]) -> Response:
    """Vote, and show the polls again."""
    try:
        polls.vote(poll_id, signed_in(request)["_id"], option)
    except SquinneyError as error:
        return render(request, "polls/index.html", status=status_of(error), page=polls.all(), error=error)
    return redirect(request, "/polls", "Thank you for your vote.")
