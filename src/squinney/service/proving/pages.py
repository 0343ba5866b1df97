"""The pages of the proof: its two lanes on the home page, and `/prove`."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from squinney.errors import TooManyRequests
from squinney.http.access.callers import PageRoute
from squinney.http.dependencies import client_address
from squinney.http.pages import redirect, render, return_path
from squinney.service.proving.prover import Prover
from squinney.service.proving.subjects import SYSTEM_STAGES, TRANSFER, TRANSFERS
from squinney.service.proving.views import ProofView, shown

router = APIRouter(include_in_schema=False, route_class=PageRoute)

EVERY_SECONDS = 0.5
MAX_STREAMS = 200
MAX_STREAMS_PER_ADDRESS = 20
PARTS = {"home": "proving/lanes.html", "prove": "proving/running.html"}


def prover_of(request: Request) -> Prover | None:
    """Return what runs the proofs; None if this site's MongoDB is not the embedded one."""
    prover: Prover | None = request.app.state.prover
    return prover


def proof_for(request: Request) -> dict[str, Any]:
    """Return what templates need to show the proof."""
    prover = prover_of(request)
    return {"proof": _view(prover), "can_prove": prover is not None and prover.seconds > 0}


def _view(prover: Prover | None) -> ProofView:
    progress = prover.progress if prover else None
    is_transfer = progress is None or progress.subject == TRANSFER
    stages = TRANSFERS.stages if is_transfer else SYSTEM_STAGES
    return shown(progress, stages, prover.seconds if prover else 60)


@router.get("/prove", response_class=HTMLResponse)
def show_proof(request: Request) -> Response:
    """Show the running proof or the last one, and let the visitor start one."""
    provable = [system for system in request.app.state.assembled.systems if system.proof]
    return render(request, "proving/prove.html", provable=provable, **proof_for(request))


@router.post("/prove")
def start_proof(request: Request, subject: Annotated[str, Form(max_length=40)] = TRANSFER) -> Response:
    """Start a proof, unless one runs: then the visitor watches that one."""
    prover = prover_of(request)
    if prover is None or not prover.seconds:
        return redirect(request, "/prove", "this site starts no proofs; use the command", "bad")
    is_started = prover.start(subject)
    note = "" if is_started else "a proof is already running: watch this one"
    return redirect(request, _page(request), note)


@router.post("/prove/kill")
def kill_workers(request: Request) -> Response:
    """Kill one worker of each lane now."""
    prover = prover_of(request)
    if prover is None or not prover.kill():
        return redirect(request, _page(request), "no proof is running", "bad")
    return redirect(request, _page(request))


def _page(request: Request) -> str:
    return "/" if return_path(request) == "/" else "/prove"


@router.get("/prove/events")
async def watch_proof(
    request: Request, view: Annotated[str, Query(pattern="^(home|prove)$")] = "prove"
) -> StreamingResponse:
    """Stream the proof as server-sent events, until it is over: each is the HTML of the part of a page that changes."""
    streams: Counter[str] = request.app.state.proof_streams
    address = client_address(request.scope)
    # guard: one visitor cannot hold all streams
    if streams.total() >= MAX_STREAMS or streams[address] >= MAX_STREAMS_PER_ADDRESS:
        raise TooManyRequests("too many visitors are watching; reload the page to see how far the proof is")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, view, streams, address), headers=headers, media_type="text/event-stream")


async def _events(request: Request, view: str, streams: Counter[str], address: str) -> AsyncIterator[str]:
    streams[address] += 1
    seen = -1
    try:
        while not getattr(request.state, "head", False):
            prover = prover_of(request)
            changes = prover.changes if prover else 0
            if changes != seen:
                seen = changes
                part = await run_in_threadpool(_rendered, request.app, view, changes)
                yield f"data: {json.dumps(part)}\n\n"
            if prover is None or not prover.is_running:
                yield "event: over\ndata: {}\n\n"
                return
            await asyncio.sleep(EVERY_SECONDS)
    finally:
        streams[address] -= 1
        if not streams[address]:
            del streams[address]


def _rendered(app: Any, view: str, changes: int) -> dict[str, str]:
    """Render the part of a page once for all visitors who watch it."""
    known = app.state.proof_parts
    if known.get(view, (None,))[0] != changes:
        proof = _view(app.state.prover)
        html = app.state.pages.get_template(PARTS[view]).render(proof=proof)
        known[view] = (changes, {"html": html, "state": "running" if proof.is_running else "over"})
    part: dict[str, str] = known[view][1]
    return part
