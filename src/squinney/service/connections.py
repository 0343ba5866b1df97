"""Limits on the time and the size of request headers."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
MAX_HEADER_BYTES = 64 * 1024


class HeaderLimitProtocol(HttpToolsProtocol):
    """Closes a connection whose headers arrive too slowly or are too large; uvicorn itself has no such limits."""

    header_seconds = HEADER_SECONDS
    _header_timer: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of headers; `BodyLimitMiddleware` counts those of bodies."""
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if not self._in_headers or self.transport.is_closing():
            return
        if self._header_bytes > MAX_HEADER_BYTES:
            self.send_400_response(f"The headers are larger than {MAX_HEADER_BYTES} bytes.")
        elif self._header_timer is None:
            self._start_timer()

    def on_message_begin(self) -> None:
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the time limit; from here on the application's limits apply."""
        self._in_headers = False
        self._header_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_out(self) -> None:
        self._header_timer = None
        if not self.transport.is_closing():
            self.transport.close()
