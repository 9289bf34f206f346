"""Providers that answer without an end, or with the key: runs end, and nothing shows it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends import http
from tests.patience import PATIENCE_S
from tests.sgdsl.providers.fake import KEY, Provider, chat

pytestmark = pytest.mark.timeout(60)


class Endless(httpx2.AsyncByteStream):
    """`piece`, for ever. `num_pieces` counts them."""

    def __init__(self, piece: bytes, pause_s: float = 0.0) -> None:
        self._piece = piece
        self._pause_s = pause_s
        self.num_pieces = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.num_pieces += 1
            yield self._piece
            await asyncio.sleep(self._pause_s)


@sgl.function
def ask(s: ProgramState, type: Any = None) -> None:  # noqa: A002 - as in `gen`
    s += sgl.user("Why?") + sgl.assistant(sgl.gen("x", type=type))


def error_of(reply: Any, *, stream: bool = False, **options: Any) -> BaseException:
    provider = Provider(reply=lambda _path, _body: reply)
    with sgl.OpenAI(
        "m", "http://e.test/v1", api_key=KEY, transport=provider, max_retries=0, timeout_s=0.3
    ) as backend:
        state = ask.run(backend=backend, stream=stream, timeout_s=PATIENCE_S, args=options or None)
        error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert error.__cause__ is not None
    return error


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_without_an_end_is_not_read_to_it(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1 << 20)
    body = Endless(b"x" * 1000)
    error_of(httpx2.Response(status, stream=body))
    assert body.num_pieces <= 1100


def test_a_stream_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_STREAM_BYTES", 1 << 20)
    body = Endless(b": " + b"x" * 1000 + b"\n\n")
    error = error_of(httpx2.Response(200, stream=body), stream=True)
    assert "a stream of more than" in str(error)
    assert body.num_pieces <= 1100


@pytest.mark.parametrize("stream", [False, True])
def test_who_says_nothing_in_many_words_has_not_answered(*, stream: bool) -> None:
    reply = httpx2.Response(200, stream=Endless(b": x\n\n", 0.01))
    error = error_of(reply, stream=stream)
    assert "no answer within 0.3 s" in str(error)


@pytest.mark.parametrize(
    ("reply", "type_"),
    [
        (httpx2.Response(200, json={"error": {"message": f"quota of {KEY}"}}), None),
        (chat(f"not {KEY}"), int),
        (httpx2.Response(200, json={"choices": [KEY]}), None),
    ],
)
def test_an_answer_that_has_the_key_is_quoted_without_it(reply: Any, type_: Any) -> None:
    error = error_of(reply, type=type_)
    assert "***" in str(error)
    assert KEY not in f"{error} {error!r} {error.__cause__!r}"
