"""JSON over HTTP to a provider: one request, its retries, and what can go wrong.

Owns the client, the key (which stands in the headers and nowhere else) and the translation of
every failure into a `ProviderError`. Knows nothing of what is asked.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

import httpx2

from sgdsl.backends.policy import Backoff
from sgdsl.backends.sse import EventReader, EventTooLongError
from sgdsl.errors import ProviderError
from sgdsl.graph import shorten

BACKOFF = Backoff()
RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
MAX_RETRY_AFTER_S = 60.0
"""Who is told to wait longer gives up, and says so."""

MAX_BODY_BYTES = 64 << 20
MAX_STREAM_BYTES = 512 << 20
MAX_REFUSAL_BYTES = 64 << 10
"""An answer, a stream of answers, and what is read of a refusal: what has no end must not fill the
memory. A stream takes some hundred bytes a token.
"""


class Secret:
    """A key that shows itself to nobody who does not ask for it by name."""

    __slots__ = ("_text",)

    def __init__(self, text: str | None) -> None:
        self._text = text

    def reveal(self) -> str | None:
        return self._text

    def scrub(self, text: str) -> str:
        """`text` without the key, wherever a provider may have repeated it."""
        return text.replace(self._text, "***") if self._text else text

    def scrub_error(self, error: BaseException) -> None:
        """The same for an error's message: also that of one which quotes an answer."""
        if self._text and self._text in str(error):
            error.args = tuple(
                self.scrub(each) if isinstance(each, str) else each for each in error.args
            )

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret(None)"


class Http:
    """`base_url` without a slash at its end. `headers(key)` makes the headers of a request."""

    def __init__(
        self,
        base_url: str,
        secret: Secret,
        *,
        headers: Callable[[str | None], Mapping[str, str]],
        timeout_s: float = 600.0,
        max_retries: int = 2,
        backoff: Backoff = BACKOFF,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._headers = headers
        self._max_retries = max_retries
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(timeout_s, connect=min(10.0, timeout_s)),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            transport=transport,
            verify=self._base_url.startswith("https"),  # certificates take 0.2 s to load
        )
        self.label = httpx2.URL(self._base_url).host or "the provider"

    def __repr__(self) -> str:
        return f"<Http {self.label}>"

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that the provider answers."""

        async def once() -> dict[str, Any]:
            async with asyncio.timeout(self._timeout_s), self._sent(path, body) as response:
                content = await self._read(response)
            return self._object(content.decode("utf-8", errors="replace"))

        answer: dict[str, Any] = await self._with_retries(once)
        return answer

    async def stream(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[dict[str, Any]], bool]
    ) -> None:
        """Tell `on_event` every event until the last (`[DONE]`, or Anthropic's `message_stop`). It
        returns whether it has passed something on: from then on a failure is final, since what was
        streamed cannot be taken back.

        Raises `ProviderError` for a stream that stops without its end, too.
        """
        passed_on = False

        async def once() -> None:
            nonlocal passed_on
            async with (
                asyncio.timeout(self._timeout_s) as limit,
                self._sent(path, body) as response,
            ):
                async for data in self._events(response):
                    limit.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
                    if data == "[DONE]":
                        return
                    event = self._object(data)
                    self._raise_event_error(event)
                    passed_on |= on_event(event)
                    if event.get("type") == "message_stop":
                        return
            raise ProviderError(f"{self.label}: the stream stopped before its end", retryable=True)

        await self._with_retries(once, may_retry=lambda: not passed_on)

    async def close(self) -> None:
        await self._client.aclose()

    async def _with_retries(
        self, once: Callable[[], Any], *, may_retry: Callable[[], bool] = lambda: True
    ) -> Any:
        for attempt in range(self._max_retries + 1):
            try:
                try:
                    return await once()
                except TimeoutError as error:  # it said something again and again, and no answer
                    reason = f"no answer within {self._timeout_s:g} s"
                    raise self._unreached(error, reason) from None
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

    @asynccontextmanager
    async def _sent(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[httpx2.Response]:
        request = self._client.build_request(
            "POST",
            self._base_url + path,
            content=json.dumps(body, ensure_ascii=False, allow_nan=False).encode(),
            headers={
                "content-type": "application/json",
                **self._headers(self._secret.reveal()),
            },
        )
        try:
            response = await self._client.send(request, stream=True)
            try:
                if response.status_code >= 300:
                    raise self._refused(response, await self._beginning(response))
                yield response
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            raise self._unreached(error, f"no answer within {self._timeout_s:g} s") from None
        except httpx2.HTTPError as error:
            raise self._unreached(error, str(error) or "the connection broke") from None

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                raise ProviderError(f"{self.label} answered more than {MAX_BODY_BYTES} bytes")
        return bytes(content)

    @staticmethod
    async def _beginning(response: httpx2.Response) -> bytes:
        """Enough of a refusal to tell why; it may have no end."""
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk[:MAX_REFUSAL_BYTES]
            if len(content) >= MAX_REFUSAL_BYTES:
                break
        return bytes(content)

    async def _events(self, response: httpx2.Response) -> AsyncIterator[str]:
        reader, num_bytes = EventReader(), 0
        try:
            async for chunk in response.aiter_bytes():
                num_bytes += len(chunk)
                if num_bytes > MAX_STREAM_BYTES:
                    raise EventTooLongError(f"a stream of more than {MAX_STREAM_BYTES} bytes")
                for data in reader.feed(chunk):
                    yield data
        except EventTooLongError as error:
            raise ProviderError(f"{self.label}: {error}") from None

    def _refused(self, response: httpx2.Response, content: bytes) -> ProviderError:
        status = response.status_code
        text = content.decode("utf-8", errors="replace")
        said = _message_in(text) or response.reason_phrase or "no reason was given"
        retry_after_s = _retry_after_s(response.headers.get("retry-after"))
        return ProviderError(
            self._secret.scrub(f"{self.label} answered {status}: {shorten(said, 500)}"),
            status=status,
            retryable=status in RETRYABLE,
            retry_after_s=retry_after_s,
        )

    def _unreached(self, error: Exception, reason: str) -> ProviderError:
        message = f"{self.label}: {type(error).__name__}: {reason}"
        return ProviderError(self._secret.scrub(message), retryable=True)

    def _raise_event_error(self, event: dict[str, Any]) -> None:
        error = event.get("error")
        if error:
            said = _message_in(json.dumps(event)) or str(error)
            raise ProviderError(
                self._secret.scrub(
                    f"{self.label} failed in the middle of a stream: {shorten(said, 500)}"
                ),
                retryable=True,
            )

    def _object(self, text: str) -> dict[str, Any]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            shown = self._secret.scrub(shorten(repr(text), 120))
            raise ProviderError(
                f"{self.label} answered what is no JSON: {shown}", retryable=True
            ) from None
        if not isinstance(value, dict):
            shown = self._secret.scrub(shorten(repr(value), 120))
            raise ProviderError(f"{self.label} answered {shown}, which is no object")
        return value


def _message_in(text: str) -> str | None:
    """What an error's body says; each provider puts it somewhere else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return shorten(text.strip(), 500) or None
    for _ in range(3):
        if isinstance(value, str):
            return value
        if not isinstance(value, dict):
            break
        value = value.get("error") or value.get("message") or value.get("detail")
    return shorten(text, 500)


def _retry_after_s(header: str | None) -> float | None:
    """RFC 9110, section 10.2.3: seconds or a date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except ValueError:
        return None
