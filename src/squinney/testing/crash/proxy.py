"""A proxy between a client and a MongoDB server that drops one reply and then stops."""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from squinney.mongo.embedded.server import uri_of

HEADER = struct.Struct("<iiii")  # of a message: length, request id, id of the request it replies to, opcode


class Proxy:
    """Forwards messages until the reply to the request `drop_reply_to`: this reply and all later ones are dropped.

    Its socket is in `folder`, which the caller removes: a process that dies cannot remove its own.
    """

    def __init__(self, server: Path, folder: Path) -> None:
        self.drop_reply_to: int | None = None
        self.dead = False
        self._server = str(server)
        self.path = folder / "s.sock"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        """The connection string for the client."""
        return uri_of(self.path)

    def close(self) -> None:
        """Close all connections and remove the socket."""
        self._die()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._server)
                self._open += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                threading.Thread(target=self._send_back, args=(server, client), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while (received := client.recv(65_536)) and not self.dead:
                server.sendall(received)
        _shut(server)

    def _send_back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while not self.dead:
                header = _receive(server, HEADER.size)
                length, _, reply_to, _ = HEADER.unpack(header)
                rest = _receive(server, length - HEADER.size)
                if reply_to == self.drop_reply_to:
                    self._die()
                    return
                client.sendall(header + rest)
        _shut(client)

    def _die(self) -> None:
        self.dead = True
        self.path.unlink(missing_ok=True)
        _shut(self._listener)
        for connection in self._open:
            _shut(connection)


@contextmanager
def proxy_to(server: Path) -> Iterator[Proxy]:
    """Yield a proxy, and remove it with its folder."""
    with socket_folder() as folder:
        proxy = Proxy(server, folder)
        try:
            yield proxy
        finally:
            proxy.close()


@contextmanager
def socket_folder() -> Iterator[Path]:
    """Yield a folder with a short path, and remove it."""
    with tempfile.TemporaryDirectory(prefix="sqp-") as folder:
        yield Path(folder)


def _receive(source: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = source.recv(size - len(received))
        if not part:
            raise EOFError
        received += part
    return bytes(received)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        connection.close()
