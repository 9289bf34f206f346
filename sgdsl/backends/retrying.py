"""Questions to a provider, asked again where that may help.

Owns the retries, and the end of a stream of answers. How one request goes is `http`'s business,
what is asked and answered that of a wire.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from sgdsl.backends import http
from sgdsl.backends.http import Http
from sgdsl.backends.policy import MAX_RETRY_AFTER_S, Backoff
from sgdsl.errors import ProviderError

BACKOFF = Backoff()
MAX_AFTER_END_S = 5.0
"""How long a stream may take to end behind the end of its text; counts of tokens stand there."""


class Listener(Protocol):
    """Who hears one attempt at a stream. `passed_on`: somebody has seen of it, so that it cannot be
    taken back. `complete`: the text has ended; what may still come can do without.
    """

    @property
    def passed_on(self) -> bool: ...

    @property
    def complete(self) -> bool: ...

    def take(self, event: dict[str, Any]) -> None: ...


L = TypeVar("L", bound=Listener)
T = TypeVar("T")


class Caller(Protocol):
    """What sends a body to a path and gives the answer."""

    label: str

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]: ...

    async def stream(self, path: str, body: Mapping[str, Any], listen: Callable[[], L]) -> L:
        """The listener that has heard all of it; `listen` makes one for each attempt."""
        ...

    async def close(self) -> None: ...


class Retrying:
    """A caller over HTTP. `max_retries`: of what failed for a while."""

    def __init__(self, connection: Http, *, max_retries: int, backoff: Backoff = BACKOFF) -> None:
        self._http = connection
        self._max_retries = max_retries
        self._backoff = backoff
        self.label = connection.label

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            answer = await self._http.ask("POST", path, body)
            self._http.raise_error_in(answer)
            return answer

        return await self._with_retries(once)

    async def stream(self, path: str, body: Mapping[str, Any], listen: Callable[[], L]) -> L:
        """Until the last event (`[DONE]`, or Anthropic's `message_stop`). Once something was passed
        on, a failure is final. Raises `ProviderError` for a stream that stops before its text has
        ended, too.
        """
        listener = listen()

        async def once() -> L:
            nonlocal listener
            listener = listen()
            try:
                await self._listen(path, body, listener)
            except ProviderError:
                if not listener.complete:
                    raise
            return listener

        return await self._with_retries(once, may_retry=lambda: not listener.passed_on)

    async def _listen(self, path: str, body: Mapping[str, Any], listener: Listener) -> None:
        try:
            async with (
                asyncio.timeout(self._http.timeout_s) as limit,
                self._http.events(path, body, max_bytes=http.MAX_STREAM_BYTES) as events,
            ):
                ends_s: float | None = None
                async for data in events:
                    if data == "[DONE]":
                        return
                    event = self._http.object_in(data)
                    self._http.raise_error_in(event, retryable=True)
                    listener.take(event)
                    if event.get("type") == "message_stop":
                        return
                    now_s = asyncio.get_running_loop().time()
                    if listener.complete and ends_s is None:
                        ends_s = now_s + MAX_AFTER_END_S
                    limit.reschedule(now_s + self._http.timeout_s if ends_s is None else ends_s)
        except TimeoutError as error:
            self._http.give_up(error)
        raise self._http.fault("sent a stream that stopped before its end", retryable=True)

    async def close(self) -> None:
        await self._http.close()

    async def _with_retries(
        self,
        once: Callable[[], Awaitable[T]],
        *,
        may_retry: Callable[[], bool] = lambda: True,
    ) -> T:
        for attempt in range(self._max_retries + 1):
            try:
                return await once()
            except ProviderError as error:
                asked_s = error.retry_after_s
                if (
                    not error.retryable
                    or attempt == self._max_retries
                    or not may_retry()
                    or (asked_s or 0.0) > MAX_RETRY_AFTER_S
                ):
                    raise
                delay_s = self._backoff.delay_s(attempt, random.random(), at_least_s=asked_s)
            await asyncio.sleep(delay_s)
        raise AssertionError("the last attempt returns or raises")
