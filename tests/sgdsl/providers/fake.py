"""A provider behind an API that exists in memory only: its answers are scripts, its faults too.

Owns the shapes of OpenAI's and Anthropic's answers as these tests need them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpx2

KEY = "sk-very-secret-0123456789"

Body = dict[str, Any]
Reply = httpx2.Response | BaseException | Body | str | list[bytes]


class Chunks(httpx2.AsyncByteStream):
    """A body that arrives in these pieces; an exception among them breaks the connection."""

    def __init__(self, chunks: Iterable[bytes | BaseException]) -> None:
        self._chunks = list(chunks)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            if isinstance(chunk, BaseException):
                raise chunk
            yield chunk
            await asyncio.sleep(0)


class Provider(httpx2.AsyncBaseTransport):
    """Answers by `reply(path, body)`, or with `replies` in order. `asked` keeps what was sent."""

    def __init__(
        self,
        replies: Iterable[Any] = (),
        *,
        reply: Callable[[str, Body], Any] | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._replies = list(replies)
        self._reply = reply
        self._delay_s = delay_s
        self.asked: list[tuple[str, Body]] = []
        self.headers: list[dict[str, str]] = []
        self.urls: list[httpx2.URL] = []
        self.num_in_flight = self.most_in_flight = 0

    @property
    def bodies(self) -> list[Body]:
        return [body for _, body in self.asked]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(await request.aread())
        self.asked.append((request.url.path, body))
        self.headers.append(dict(request.headers))
        self.urls.append(request.url)
        self.num_in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.num_in_flight)
        try:
            await asyncio.sleep(self._delay_s)
            made = self._reply(request.url.path, body) if self._reply else self._replies.pop(0)
        finally:
            self.num_in_flight -= 1
        if isinstance(made, BaseException):
            raise made
        if isinstance(made, httpx2.Response):
            return made
        if isinstance(made, list):
            return httpx2.Response(
                200, headers={"content-type": "text/event-stream"}, stream=Chunks(made)
            )
        if isinstance(made, str):
            is_chat = request.url.path.endswith("/chat/completions")
            made = chat(made) if is_chat else completion(made)
        return httpx2.Response(200, json=made)


def chat(content: str | None, *, finish: str = "stop", logprobs: Any = None) -> Body:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": finish,
        "logprobs": logprobs,
    }
    return {"id": "chat-1", "object": "chat.completion", "choices": [choice], "usage": USAGE}


def completion(text: str, *, finish: str = "stop", logprobs: Any = None) -> Body:
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": USAGE}


USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def refusal(status: int, message: str, **headers: str) -> httpx2.Response:
    error = {"error": {"message": message, "type": "some_error", "code": None}}
    return httpx2.Response(status, json=error, headers=headers)


def sse(*events: Any, done: bool = True) -> list[bytes]:
    """The events of a stream, each in a chunk of its own."""
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events]
    return [*lines, b"data: [DONE]\n\n"] if done else lines


def chat_events(*pieces: str, finish: str = "stop") -> list[Body]:
    role = [{"choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}]
    deltas = [
        {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
        for piece in pieces
    ]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    usage = {"choices": [], "usage": USAGE}
    return [*role, *deltas, end, usage]
