"""Connections that send no complete request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from squinney.service.connections import MAX_HEADER_BYTES, HeaderLimitProtocol

REQUEST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\n"
Dialogue = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bytes]]


class Impatient(HeaderLimitProtocol):
    """The protocol with a very short time limit for headers."""

    header_seconds = 0.3


async def application(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    config = uvicorn.Config(application, log_level="critical")
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Impatient(config=config, server_state=state, app_state={}), host="127.0.0.1", port=0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    yield reader, writer
    writer.close()
    server.close()


def converse(dialogue: Dialogue) -> bytes:
    async def run() -> bytes:
        async with connected() as (reader, writer):
            return await asyncio.wait_for(dialogue(reader, writer), 10)

    return asyncio.run(run())


def test_a_silent_connection_is_closed() -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        return await reader.read()

    assert converse(silence) == b""


def test_a_connection_with_slow_headers_is_closed() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for byte in REQUEST[:-1]:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.05)
            if reader.at_eof():
                return b"cut off"
        return b"read to the end"

    assert converse(drip) == b"cut off"


def test_endless_headers_are_refused() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (MAX_HEADER_BYTES - 100))
        await asyncio.sleep(0.1)
        writer.write(b"x" * 200)
        return await reader.read()

    assert converse(flood).startswith(b"HTTP/1.1 400")


def test_the_header_timeout_starts_again_with_each_request() -> None:
    async def two_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(REQUEST)
        await asyncio.sleep(2 * Impatient.header_seconds)  # the time limit for bodies is the application's
        writer.write(b"abc")
        response = await reader.readuntil(b"abc")
        writer.write(REQUEST[:20])
        return response[:15] + await reader.read()

    assert converse(two_requests) == b"HTTP/1.1 200 OK"
