"""A server of ours on a free port of this machine, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

import uvicorn

from runtime.server.programs import make_app
from sgdsl.backends.base import Backend


class LiveServer:
    """A context manager; `kill()` closes its connections as the death of its process would."""

    def __init__(self, backend: Backend, **options: Any) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            make_app(backend, model="tiny", **options), log_level="critical", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)
        return self

    def kill(self) -> None:
        self._server.force_exit = True
        self._server.should_exit = True
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None:
                self._server.servers[0].get_loop().call_soon_threadsafe(transport.abort)
        self._thread.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_alive():
            self.kill()
        self._socket.close()
