"""The page that plays one schedule of two transfers, command by command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from starlette.responses import Response

from squinney.errors import SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.pages import render
from squinney.pictures.sequence import sequence
from squinney.service.proving.schedules.player import PlayedSchedule, SchedulePlayer

router = APIRouter(include_in_schema=False, route_class=PageRoute)

FIRST = "a b3 a2"
KNOWN = {
    FIRST: "both read before one writes",
    "a2 a! b": "killed between two writes",
    "a2 b a!": "one reads what the other leaves half done",
    "a a? b": "the reply to a write is lost",
    "a3 b": "one after the other",
}


@dataclass(frozen=True)
class DocumentView:
    """A document after a step; `was` is what it was before the step, if that changed it."""

    name: str
    now: str
    was: str | None


@router.get("/prove/schedule", response_class=HTMLResponse)
def show_schedule(
    request: Request,
    schedule: Annotated[str, Query(max_length=80)] = FIRST,
    step: Annotated[int, Query(ge=0, le=500)] = 0,
) -> Response:
    """Show a schedule of two transfers up to one of its steps; 0 means the last one."""
    player: SchedulePlayer | None = request.app.state.schedules
    if player is None:
        return render(request, "proving/schedule.html", known=KNOWN, schedule=schedule, played=None)
    try:
        played = player.play(schedule)
    except SquinneyError as error:
        return render(request, "proving/schedule.html", known=KNOWN, schedule=schedule, played=None, error=error)
    return render(request, "proving/schedule.html", known=KNOWN, schedule=schedule, **_shown(played, step))


def _shown(played: PlayedSchedule, step: int) -> dict[str, Any]:
    recording = played.recording
    messages = recording.messages
    step = min(step or len(messages), len(messages))
    picture = sequence(
        recording.actors,
        messages,
        title=f"Schedule {recording.schedule}, {step} of {len(messages)} steps",
        shown=step,
        wrong=recording.first_wrong,
    )
    states = [recording.before, *(message.documents for message in messages)]
    return {
        "played": played,
        "recording": recording,
        "step": step,
        "steps": len(messages),
        "picture": Markup(picture),  # noqa: S704 - the pictures escape their texts
        "documents": _documents(states[step], states[step - 1] if step else states[step]),
    }


def _documents(now: Mapping[str, str], before: Mapping[str, str]) -> Sequence[DocumentView]:
    return [DocumentView(name, now.get(name, "deleted"), _was(name, now, before)) for name in sorted({*now, *before})]


def _was(name: str, now: Mapping[str, str], before: Mapping[str, str]) -> str | None:
    return before.get(name, "nothing") if now.get(name) != before.get(name) else None
