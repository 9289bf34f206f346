"""A provider that is a socket: it says any bytes, and hangs up as it likes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Talk = Callable[[socket.socket], None]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n%b\r\n"


class RawServer:
    """Reads a request, then lets `talk` say what it likes. `requests` are the bytes that came."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(10)
            self.requests.append(_read(connection))
            self._talk(connection)

    def close(self) -> None:
        self._socket.close()


def _read(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


@contextmanager
def raw_server(talk: Talk) -> Iterator[RawServer]:
    server = RawServer(talk)
    try:
        yield server
    finally:
        server.close()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def head(kind: bytes = b"application/json", more: bytes = b"") -> bytes:
    return HEAD % (kind, more)


def reset(connection: socket.socket) -> None:
    """Hang up as a machine does that has lost its memory."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
