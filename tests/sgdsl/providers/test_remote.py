"""The remote backend against a server that answers anything: runs end, and the key stays ours."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx2
import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends.remote import RuntimeEndpoint
from sgdsl.chat import CHATML
from sgdsl.protocol import encode_template
from tests.patience import PATIENCE_S
from tests.sgdsl.providers.fake import KEY


class Events(httpx2.AsyncByteStream):
    """A session begins, something comes, and the heart beats for ever."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'data: {"event": "session", "id": "s", "version": 1}\n\n'
        yield b"data: %b\n\n" % self._data
        while True:
            await asyncio.sleep(0.1)
            yield b": beat\n\n"


class Server(httpx2.AsyncBaseTransport):
    """Says `data` of the first run; RUN in it is the run's id."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            info = {"model_path": "m", "max_in_flight": 8}
            return httpx2.Response(200, json={**info, "chat_template": encode_template(CHATML)})
        run = json.loads(await request.aread())["runs"][0]["run"]
        return httpx2.Response(200, stream=Events(self._data.replace(b"RUN", str(run).encode())))


@sgl.function
def ask(s: ProgramState) -> None:
    s += "Why?" + sgl.gen("answer")


NONSENSE = {
    "branches that are lists": b'{"event": "failed", "run": RUN, "branch": [1], "error": {}}',
    "numbers that are none": b'{"event": "completion", "run": RUN, "branch": 0, "text": "a", '
    b'"meta": {"x": {"$number": null}}}',
    "depth": b"[" * 100_000 + b"]" * 100_000,
    "an end without an answer": b'{"event": "ended", "run": RUN, "status": "ok"}',
    "no text": b"\xff\xfe",
    "half of a character": b'{"event": "text", "run": RUN, "branch": 0, "text": "\xc3"}',
    "no object": b"[]",
    "a kind that is none": b'{"event": 7, "run": RUN}',
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_server_that_sends_nonsense_ends_its_runs(kind: str) -> None:
    with RuntimeEndpoint("http://server.test", transport=Server(NONSENSE[kind])) as remote:
        state = ask.run(backend=remote, timeout_s=PATIENCE_S)
        assert state.outcome is not None
        assert state.outcome.status == "failed"
        assert "server.test" in str(state.outcome.error)


@pytest.mark.parametrize(
    "data",
    [
        '{"event": "failed", "run": RUN, "error": {"type": "BackendError", "message": "KEY"}}',
        '{"event": "KEY", "run": "KEY"}',
        '{"event": "failed", "run": RUN, "branch": "KEY"}',
    ],
)
def test_a_key_that_the_server_repeats_is_not_shown(data: str) -> None:
    server = Server(data.replace("KEY", KEY).encode())
    with RuntimeEndpoint("http://server.test", KEY, transport=server) as remote:
        error = ask.run(backend=remote, timeout_s=PATIENCE_S).error()
        assert isinstance(error, sgl.ProgramError)
        assert "***" in str(error)
        assert KEY not in f"{error} {error!r} {error.__cause__!r}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx2.Response(200, json={}), "is no server of ours: model_path=None"),
        (httpx2.Response(200, json={"model_path": "m"}), "is no server of ours"),
        (httpx2.Response(200, text="<html>"), "answered what is no JSON: '<html>'"),
        (httpx2.Response(200, headers={"content-encoding": "gzip"}), "in the encoding 'gzip'"),
        (httpx2.Response(302, headers={"location": "http://evil.test"}), "answered 302"),
        (
            httpx2.Response(401, json={"error": {"message": f"no {KEY}"}}),
            r"answered 401: no \*\*\*",
        ),
        (httpx2.ConnectError("refused"), "is `sgdsl serve` running there"),
    ],
)
def test_what_is_no_server_of_ours_is_refused_and_leaves_no_thread(answer: Any, said: str) -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        if isinstance(answer, Exception):
            raise answer
        assert request.url.host == "server.test"
        return cast("httpx2.Response", answer)

    before = threading.active_count()
    with pytest.raises(sgl.ProviderError, match=said):
        RuntimeEndpoint("http://server.test", KEY, transport=httpx2.MockTransport(handle))
    assert threading.active_count() == before


def test_when_its_thread_dies_its_runs_fail_and_say_so() -> None:
    def fall() -> None:
        raise SystemExit

    silent = Server(b'{"event": "text", "run": RUN, "branch": 0, "text": "Be"}')
    with RuntimeEndpoint("http://server.test", transport=silent) as remote:
        state = ask.run(backend=remote, stream=True)
        assert next(state.text_iter("answer")) == "Be"
        assert remote._thread.call(fall)
        assert "its thread has ended (SystemExit" in str(state.error())
        with pytest.raises(sgl.BackendError, match="was closed"):
            remote.server_info()


def test_a_token_count_that_is_none_is_not_counted() -> None:
    done = b'{"event": "completion", "run": RUN, "branch": 0, "text": "a", "meta": META}'
    meta = b'{"prompt_tokens": "7", "completion_tokens": 2}'
    server = Server(done.replace(b"META", meta))
    with RuntimeEndpoint("http://server.test", transport=server) as remote:
        assert ask.run(backend=remote, timeout_s=PATIENCE_S)["answer"] == "a"
        assert remote.stats() == sgl.BackendStats(completion_tokens=2)
