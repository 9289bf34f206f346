"""JSON over HTTP: one request, and what can go wrong with it.

Owns the client, the bounds of what is read, and the translation of every failure into a
`ProviderError`. Knows nothing of what is asked, and asks once.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

import httpx2

from sgdsl.backends.secret import Secret
from sgdsl.backends.sse import EventError, EventReader
from sgdsl.errors import ProviderError
from sgdsl.graph import shorten
from sgdsl.protocol import to_bytes

Headers = Callable[[str | None], Mapping[str, str]]
"""The headers that go with a key."""

_HEADER = re.compile(r"([!-~]([ -~\t]*[!-~])?)?")
"""What the value of a header may be (RFC 9110, section 5.5), without what is obsolete in it."""

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

MAX_BODY_BYTES = 64 << 20
MAX_STREAM_BYTES = 512 << 20
MAX_REFUSAL_BYTES = 64 << 10
"""An answer, a stream of answers, and what is read of a refusal: what has no end must not fill the
memory. A stream takes some hundred bytes a token.
"""


def no_headers(_: str | None) -> Mapping[str, str]:
    return {}


class Http:
    """`base_url` without a slash at its end. `label`: what it is called in errors; its host by
    default. `hint`: said of one that cannot be reached. `query` is sent with every request.

    Answers are asked for as they are: an archive of a few bytes may unpack to any number.
    """

    def __init__(
        self,
        base_url: str,
        secret: Secret,
        *,
        headers: Headers = no_headers,
        query: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        verify: bool | str = True,
        label: str | None = None,
        hint: str = "",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._headers = headers
        self._hint = hint
        self.timeout_s = timeout_s
        self._connect_timeout_s = min(connect_timeout_s, timeout_s)
        self._client = httpx2.AsyncClient(
            params=dict(query or {}),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64),
            transport=transport,
            verify=self._base_url.startswith("https") and verify,  # it takes 0.2 s to load them
        )
        self.label = label or httpx2.URL(self._base_url).host or "the provider"

    def __repr__(self) -> str:
        return f"<Http {self.label}>"

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON object that is answered; in `timeout_s`, however slowly it trickles in."""
        try:
            async with asyncio.timeout(self.timeout_s), self._sent(method, path, body) as response:
                return self.object_in(await self._read(response))
        except TimeoutError as error:
            self.give_up(error)

    @asynccontextmanager
    async def events(
        self,
        path: str,
        body: Any,
        *,
        silence_s: float | None = None,
        max_bytes: int | None = None,
    ) -> AsyncIterator[AsyncIterator[str]]:
        """The data of the events that answer it. `silence_s`: who sends nothing for so long is gone
        (by default `timeout_s`); a comment is something. `max_bytes`: of all of them together.
        """
        async with self._sent("POST", path, body, silence_s=silence_s) as response:
            yield self._events(response, max_bytes)

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: Any, *, silence_s: float | None = None
    ) -> AsyncIterator[httpx2.Response]:
        key = await self._secret.reveal()
        headers = {"accept-encoding": "identity", **self._headers(key)}
        self._check(headers)
        content = None
        if body is not None:
            content = to_bytes(body)
            headers["content-type"] = "application/json"
        request = self._client.build_request(
            method,
            self._base_url + path,
            content=content,
            headers=headers,
            timeout=httpx2.Timeout(silence_s or self.timeout_s, connect=self._connect_timeout_s),
        )
        try:
            response = await self._client.send(request, stream=True)
            try:
                encoding = response.headers.get("content-encoding", "identity").lower()
                is_plain = encoding in ("", "identity")
                if response.status_code >= 300:
                    said = await self._beginning(response) if is_plain else b""
                    raise self._refused(response, said)
                if not is_plain:
                    raise self.fault(f"answered in the encoding {encoding!r}, asked for none")
                yield response
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            if silence_s is None:
                self.give_up(error)
            raise self.fault(f"was silent for {silence_s:g} s", retryable=True) from None
        except httpx2.HTTPError as error:
            reason = str(error) or "the connection broke"
            raise self.fault(
                f"could not be asked: {type(error).__name__}: {reason}{self._hint}", retryable=True
            ) from None

    def _check(self, headers: Mapping[str, str]) -> None:
        """Refuse what cannot be sent. Whoever else does that shows it, and it may be a key."""
        for name, value in headers.items():
            if not _HEADER.fullmatch(value):
                raise self.fault(
                    f"could not be asked: the header {name!r}, which may hold the key, has white "
                    "space around it or a character that no header may have, such as the line "
                    "break at the end of a file; take it away"
                )

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                raise self.fault(f"answered more than {MAX_BODY_BYTES} bytes")
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

    async def _events(self, response: httpx2.Response, max_bytes: int | None) -> AsyncIterator[str]:
        reader, num_bytes = EventReader(), 0
        try:
            async for chunk in response.aiter_bytes():
                num_bytes += len(chunk)
                if max_bytes is not None and num_bytes > max_bytes:
                    raise EventError(f"a stream of more than {max_bytes} bytes")
                for data in reader.feed(chunk):
                    yield data
        except EventError as error:
            raise self.fault(f"sent {error}") from None

    # What went wrong.

    def fault(
        self,
        said: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> ProviderError:
        """What is `said` of the provider, without the key."""
        return ProviderError(
            self._secret.scrub(f"{self.label} {said}"),
            status=status,
            retryable=retryable,
            retry_after_s=retry_after_s,
        )

    def give_up(self, error: Exception) -> NoReturn:
        """Raise that no answer came in time: nothing, or something again and again."""
        raise self.fault(
            f"could not be asked: {type(error).__name__}: no answer within {self.timeout_s:g} s"
            f"{self._hint}",
            retryable=True,
        ) from None

    def _refused(self, response: httpx2.Response, content: bytes) -> ProviderError:
        status = response.status_code
        text = content.decode("utf-8", errors="replace")
        said = _message_in(text) or response.reason_phrase or "no reason was given"
        if 300 <= status < 400:
            said = "it leads somewhere else, where nothing is sent: give the right URL"
        return self.fault(
            f"answered {status}: {shorten(said, 500)}",
            status=status,
            retryable=status in RETRYABLE,
            retry_after_s=_retry_after_s(response.headers),
        )

    def raise_error_in(self, answer: dict[str, Any], *, retryable: bool = False) -> None:
        """Raise the error that an answer is, under a status that says that all is well."""
        if not (error := answer.get("error")):
            return
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else None
        said = _message_in(json.dumps(answer)) or str(error)
        raise self.fault(
            f"answered with an error: {shorten(said, 500)}",
            status=status,
            retryable=retryable or status in RETRYABLE,
        )

    def object_in(self, content: bytes | str) -> dict[str, Any]:
        """The JSON object that was answered."""
        try:
            value = json.loads(content.decode() if isinstance(content, bytes) else content)
        except (ValueError, RecursionError):
            shown = content.decode(errors="replace") if isinstance(content, bytes) else content
            raise self.fault(
                f"answered what is no JSON: {shorten(repr(shown), 120)}", retryable=True
            ) from None
        if not isinstance(value, dict):
            raise self.fault(f"answered {shorten(repr(value), 120)}, which is no object")
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


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """RFC 9110, section 10.2.3: seconds, or a date, which counts from the sender's own: its clock
    may be another than ours, and ours may be set while we wait.
    """
    said = headers.get("retry-after", "")
    if re.fullmatch(r"\s*\d{1,18}(\.\d{1,18})?\s*", said, re.ASCII):
        return float(said)
    then = _date(said)
    if then is None:
        return None
    sent = _date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (then - sent).total_seconds())


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date
