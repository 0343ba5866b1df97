"""What a connection may cost before there is a request: the time and the size of its headers."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
MOST_HEADER_BYTES = 64 * 1024


class CarefulProtocol(HttpToolsProtocol):
    """Closes a connection whose headers come too slowly or never end; the server itself would wait and keep them."""

    header_seconds = HEADER_SECONDS
    _patience: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _in_headers = True

    def connection_made(self, transport: Any) -> None:
        """Somebody came: they have so long to say what they want."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Bytes of headers are counted; those of bodies are another's to count."""
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if not self._in_headers or self.transport.is_closing():
            return
        if self._header_bytes > MOST_HEADER_BYTES:
            self.send_400_response("The headers are too large.")
        elif self._patience is None:
            self._wait()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._in_headers = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """From here on the application decides how long to wait."""
        self._in_headers = False
        self._header_bytes = 0
        self._wait_no_more()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._patience = self.loop.call_later(self.header_seconds, self._give_up)

    def _wait_no_more(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing():
            self.transport.close()
