"""A fault of ours: one line in the log, one in the metrics, and an answer with the id by which both are found."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.service.middleware.observe import quoted

log = logging.getLogger("squinney.failures")


class FailureMiddleware:
    """Turns what nobody foresaw into an answer, inside the layers that count answers and give them their id."""

    def __init__(self, app: ASGIApp, *, answer: Callable[[Request, Exception], Response]) -> None:
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as error:
            if scope["type"] != "http":
                raise
            _tell(scope, error)
            if (
                begun
            ):  # too late for an answer: the server closes the connection, so that nobody takes it for a whole one
                return
            await self._answer(Request(scope), error)(scope, receive, send)


def _tell(scope: Scope, error: Exception) -> None:
    message = f"{scope['method']} {quoted(scope['path'])} failed: {type(error).__name__}"
    route = getattr(scope.get("route"), "path", "unmatched")
    fields = {"method": scope["method"], "path": scope["path"], "route": route, "error": type(error).__name__}
    log.error(message, exc_info=error, extra={"fields": fields})
