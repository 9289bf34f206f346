"""Work that would hold up the engine's thread: it is done beside it, and the result comes back.

Owns one thread, which is there from the first such work on. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Beside(Protocol):
    """`then` is given what `work` returns or raises, between two steps of the engine."""

    def __call__(
        self, work: Callable[[], Result], then: Callable[[Callable[[], Result]], None]
    ) -> None: ...


def at_once(work: Callable[[], Result], then: Callable[[Callable[[], Result]], None]) -> None:
    """Where there is no other thread."""
    then(work)


class Aside:
    """A `Beside`. `send` has a command called between two steps, or never, after the end."""

    def __init__(self, send: Callable[[Callable[[], None]], object]) -> None:
        self._send = send
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False
        self._lock = Lock()

    def __call__(
        self, work: Callable[[], Result], then: Callable[[Callable[[], Result]], None]
    ) -> None:
        with self._lock:
            if self._closed:
                return  # so is the engine: it ends the run
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, "sgdsl-aside")
            future = self._threads.submit(work)
        future.add_done_callback(partial(self._done, then))

    def _done(self, then: Callable[[Callable[[], Any]], None], future: Future[Any]) -> None:
        if not future.cancelled():
            self._send(partial(then, future.result))

    def close(self) -> None:
        """What is under way is waited for, what has not begun is dropped."""
        with self._lock:
            self._closed = True
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        self._send = _nowhere  # so that nothing refers to a closed engine


def _nowhere(_: Callable[[], None]) -> None: ...
