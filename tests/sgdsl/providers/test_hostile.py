"""Providers that are sick, or mean harm: runs end, memory stays, and nothing shows the key."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends import http, retrying
from sgdsl.backends.http import _retry_after_s
from tests.patience import PATIENCE_S, await_that
from tests.sgdsl.providers.fake import (
    KEY,
    USAGE,
    Chunks,
    Provider,
    chat,
    chat_events,
    completion,
    refusal,
    sse,
)
from tests.sgdsl.providers.raw import chunk, head, raw_server, reset

pytestmark = pytest.mark.timeout(120)


class Endless(httpx2.AsyncByteStream):
    """`piece`, for ever. `num_pieces` counts them."""

    def __init__(self, piece: bytes, pause_s: float = 0.0, *, before: bytes = b"") -> None:
        self._piece = piece
        self._before = before
        self._pause_s = pause_s
        self.num_pieces = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._before:
            yield self._before
        while True:
            self.num_pieces += 1
            yield self._piece
            await asyncio.sleep(self._pause_s)


@sgl.function
def ask(s: ProgramState, type: Any = None, stop: Any = None) -> None:  # noqa: A002 - as in `gen`
    s += sgl.user("Why?") + sgl.assistant(sgl.gen("x", type=type, stop=stop))


def state_of(
    reply: Any,
    *,
    stream: bool = False,
    url: str = "http://e.test/v1",
    args: Any = None,
    **options: Any,
) -> ProgramState:
    """A run on the provider that answers all with `reply` (None: the one at `url`), at its end."""
    transport = None if reply is None else Provider(reply=lambda _path, _body: reply)
    options = {"max_retries": 0, "timeout_s": 0.3, **options}
    with sgl.OpenAI("m", url, api_key=KEY, transport=transport, **options) as backend:
        state = ask.run(backend=backend, stream=stream, timeout_s=PATIENCE_S, args=args)
        state.error()
    assert state.outcome is not None
    return state


def error_of(reply: Any, **options: Any) -> BaseException:
    error = state_of(reply, **options).error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, sgl.BackendError)
    return error


def streamed(*chunks: bytes | BaseException) -> httpx2.Response:
    return httpx2.Response(200, stream=Chunks(chunks))


# Without an end.


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_without_an_end_is_not_read_to_it(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1 << 20)
    body = Endless(b"x" * 1000)
    error_of(httpx2.Response(status, stream=body), timeout_s=30)
    assert body.num_pieces <= 1100


def test_a_stream_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_STREAM_BYTES", 1 << 20)
    body = Endless(b": " + b"x" * 1000 + b"\n\n")
    error = error_of(httpx2.Response(200, stream=body), stream=True, timeout_s=30)
    assert "a stream of more than" in str(error)
    assert body.num_pieces <= 1100


def test_a_text_beyond_its_max_tokens_is_not_read_to_its_end() -> None:
    events = b"".join(sse(*chat_events("x" * 20_000)[:2], done=False))
    body = Endless(events)
    error = error_of(httpx2.Response(200, stream=body), stream=True, timeout_s=30)
    assert "writes on and on, beyond its max_tokens" in str(error)
    assert body.num_pieces < 20


@pytest.mark.parametrize("stream", [False, True])
def test_who_says_nothing_in_many_words_has_not_answered(*, stream: bool) -> None:
    reply = httpx2.Response(200, stream=Endless(b": x\n\n", 0.01))
    error = error_of(reply, stream=stream)
    assert "no answer within 0.3 s" in str(error)


def test_headers_without_an_end_are_not_read_to_it() -> None:
    sent = 0

    def talk(connection: socket.socket) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while True:
            sent += connection.send(b"x-a: " + b"b" * 1000 + b"\r\n")

    with raw_server(talk) as server:
        error = error_of(None, url=server.url, timeout_s=5)
    assert "could not be asked: RemoteProtocolError" in str(error)
    assert sent < 1 << 24  # what the system buffers included


def test_answers_that_are_none_yet_are_not_waited_for_for_ever() -> None:
    def talk(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with raw_server(talk) as server:
        assert "no answer within 0.3 s" in str(error_of(None, url=server.url))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 500])
def test_an_archive_that_nobody_asked_for_is_not_unpacked(*, stream: bool, status: int) -> None:
    bomb = gzip.compress(gzip.compress(b" " * (1 << 26)))
    headers = {"content-encoding": "gzip, gzip"}

    class Packed(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            assert request.headers["accept-encoding"] == "identity"
            return httpx2.Response(status, headers=headers, stream=Chunks([bomb]))

    with sgl.OpenAI("m", "http://e.test", transport=Packed(), max_retries=0) as backend:
        error = ask.run(backend=backend, stream=stream).error()
    said = "in the encoding 'gzip, gzip', asked for none" if status == 200 else "answered 500"
    assert said in str(error)


# Streams that break.

WHOLE = b"".join(sse(*chat_events("Hé", "llo 🎈"), done=False))


@given(st.integers(0, len(WHOLE)))
@settings(max_examples=60, deadline=None)
def test_a_stream_may_break_anywhere_and_only_a_whole_text_is_one(at: int) -> None:
    state = state_of(streamed(WHOLE[:at], httpx2.ReadError("reset")), stream=True)
    ended = WHOLE.index(b'"finish_reason": "stop"')
    text = "".join(state.text_iter("x")) if state.error() is None else None
    assert text == ("Héllo 🎈" if at > WHOLE.index(b"\n\n", ended) + 1 else None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_is_reset_on_the_wire(*, stream: bool) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(head(b"text/event-stream"))
        for event in sse(*chat_events("Hello")[: 3 if stream else 1], done=False):
            connection.sendall(chunk(event))
        if stream:
            await_that(lambda: shown == ["Hello"])
        reset(connection)

    shown: list[str] = []
    with raw_server(talk) as server, sgl.OpenAI("m", server.url, max_retries=0) as backend:
        state = ask.run(backend=backend, stream=stream)
        if stream:
            shown += state.text_iter("x")
            assert shown == ["Hello"]  # it had its finish_reason
        assert (state.error() is None) == stream


def test_a_whole_text_is_not_kept_waiting_for_the_end_of_its_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "MAX_AFTER_END_S", 0.05)
    body = Endless(b'data: {"choices": []}\n\n', 0.01, before=WHOLE)
    state = state_of(httpx2.Response(200, stream=body), stream=True, timeout_s=60)
    assert state["x"] == "Héllo 🎈"
    assert state.get_meta_info("x")["prompt_tokens"] == 11


def test_what_was_held_back_is_not_written_twice() -> None:
    held = sse(*chat_events("EN")[:2], done=False)  # it may become the stop string
    replies = [streamed(*held, httpx2.ReadError("reset")), sse(*chat_events("ENglish"))]
    provider = Provider(replies)
    with sgl.OpenAI("m", "http://e.test", transport=provider, max_retries=1) as backend:
        state = ask.run(backend=backend, stream=True, args={"stop": "END"})
        assert "".join(state.text_iter("x")) == "ENglish"


@pytest.mark.parametrize("cut", [b"\xc3", b"\xf0\x9f\x8e", b"\xff"])
def test_what_is_no_utf_8_is_no_text(cut: bytes) -> None:
    event = sse(*chat_events("?"))[1].replace(b"?", cut)
    assert "no UTF-8" in str(error_of(streamed(event), stream=True))
    body = json.dumps(chat("?")).encode().replace(b"?", cut)
    assert "what is no JSON" in str(error_of(httpx2.Response(200, content=body)))


def test_a_character_may_be_cut_in_two_and_half_of_one_is_none() -> None:
    halves = [
        json.dumps(event).replace("HALF", half)
        for event, half in zip(
            chat_events("HALF", "HALF")[1:3], (r"\ud83c", r"\udf88"), strict=True
        )
    ]
    data = [f"data: {half}\n\n".encode() for half in halves]
    end = sse(*chat_events()[1:])
    state = state_of(streamed(*data, *end), stream=True)
    assert "".join(state.text_iter("x")) == "🎈"
    assert "half of a character" in str(error_of(streamed(data[0], *end), stream=True))
    body = json.dumps(chat("HALF")).replace("HALF", r"\udf88")
    assert "half of a character" in str(error_of(httpx2.Response(200, content=body.encode())))


# Answers that are none.

TOOLS = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def changed(**message: Any) -> dict[str, Any]:
    body = chat("text")
    body["choices"][0]["message"] |= message
    return body


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (chat(None), ".content is None, no str"),
        (changed(content=None, tool_calls=TOOLS), "the model called tools, and wrote no text"),
        (changed(content="", refusal="no"), "the model refused: no"),
        ({"choices": []}, "there is no .choices[0]"),
        ({"choices": None}, ".choices is None"),
        ({"choices": ["x"]}, "sent 'x' for a choice"),
        (chat("x", finish="error"), "for the reason 'error', which says neither"),
        (chat("x", finish=["stop"]), "which says neither"),  # type: ignore[arg-type]
        (
            chat("x", logprobs={"content": [{"token": "x"}]}),
            "told log-probabilities in another shape",
        ),
        (chat("x", logprobs=[1]), "told log-probabilities in another shape"),
        ({"error": {"message": "overloaded", "code": 503}}, "answered with an error: overloaded"),
        ({"error": "no"}, "answered with an error: no"),
    ],
)
def test_an_answer_that_is_none_is_an_error(reply: Any, said: str) -> None:
    error = error_of(reply)
    assert said in str(error)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([{"choices": []}], "streamed no choice at all"),
        ([{"choices": [{"index": 0, "delta": {}}]}], "streamed no choice at all"),
        ([{"error": {"message": "burnt"}}], "answered with an error: burnt"),
        ([{"choices": [{"index": 0, "delta": {"tool_calls": TOOLS}}]}], "called tools"),
        ([{"choices": [{"index": 0, "delta": {"refusal": "no"}}]}], "refused: no"),
        (chat_events("x", finish="aborted"), "for the reason 'aborted'"),
        (["x"], "which is no object"),
        ([{"choices": {"0": 1}}], ".choices is {'0': 1}, no list"),
        ([{}], "there is no .choices"),
    ],
)
def test_a_stream_that_is_no_answer_is_an_error(events: list[Any], said: str) -> None:
    assert said in str(error_of(streamed(*sse(*events)), stream=True))


def test_choices_that_were_not_asked_for_are_passed_over_in_any_order() -> None:
    whole = chat("mine")
    other = {"index": 1, "message": {"content": "another"}, "finish_reason": "stop"}
    assert state_of({**whole, "choices": [other, *whole["choices"]]})["x"] == "mine"
    events = chat_events("mi", "ne")
    others = [{"choices": [{"index": 1, "delta": {"content": "no"}}]} for _ in events]
    mixed = [each for pair in zip(others, events, strict=True) for each in pair]
    state = state_of(streamed(*sse(*mixed)), stream=True)
    assert "".join(state.text_iter("x")) == "mine"


def test_chunks_that_say_nothing_are_passed_over() -> None:
    first, *rest = chat_events("mi", "ne")
    nothing = [
        {"choices": [], "prompt_filter_results": []},
        {"choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]},
        {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": ""}]},
    ]
    state = state_of(streamed(*sse(*nothing, first, *nothing, *rest)), stream=True)
    assert "".join(state.text_iter("x")) == "mine"


def test_null_content_that_was_cut_is_an_empty_text_that_was_cut() -> None:
    state = state_of(chat(None, finish="length"))
    assert state["x"] == ""
    assert state.outcome is not None and state.outcome.status == "truncated"


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "stop"])
)
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from("ab"), scalars)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all parts of a JSON value."""
    found = [path] if path else []
    entries: Any = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, part in entries:
        found += places(part, (*path, key))
    return found


TOP = [{"token": "x", "logprob": -1.0}]
TOKENS = {"tokens": ["p", "x"], "token_logprobs": [None, -1.0], "text_offset": [0, 1]}


@sgl.function
def write(s: ProgramState) -> None:
    s += "p" + sgl.gen("x", max_tokens=9, return_logprob=True, top_logprobs_num=1)


@sgl.function
def write_plainly(s: ProgramState) -> None:
    s += "p" + sgl.gen("x", max_tokens=9)


@sgl.function
def choose(s: ProgramState) -> None:
    s += "p" + sgl.select("x", ["x", "y"])


def open_ai(**options: Any) -> Any:
    return sgl.OpenAI("m", "http://e.test", max_retries=0, **options)


def open_ai_completions(**options: Any) -> Any:
    return open_ai(is_chat_model=False, **options)


def open_ai_chat(**options: Any) -> Any:
    return open_ai(is_chat_model=True, **options)


def anthropic(**options: Any) -> Any:
    return sgl.Anthropic("m", "http://e.test", max_retries=0, **options)


MESSAGE = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": {}}
CALL = {"content": [{"type": "tool_use", "input": {"value": "x"}}], "stop_reason": "tool_use"}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 1}}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
ECHOED = [{"index": index, "text": "px", "logprobs": TOKENS} for index in range(2)]
CHAT_TOKENS = {"content": [{"token": "x", "logprob": -1.0, "top_logprobs": TOP}]}
RIGHT: dict[str, tuple[Any, Any, Any]] = {
    "chat": (open_ai_chat, write, chat("x", logprobs=CHAT_TOKENS)),
    "completion": (open_ai_completions, write, completion("x", logprobs=TOKENS)),
    "chat stream": (open_ai_chat, write_plainly, chat_events("x", "y")),
    "echo": (open_ai_completions, choose, {"choices": ECHOED, "usage": USAGE}),
    "choice": (open_ai_chat, choose, chat('{"value": "x"}', logprobs=CHAT_TOKENS)),
    "message": (anthropic, write_plainly, MESSAGE),
    "message stream": (anthropic, write_plainly, MESSAGE_EVENTS),
    "call": (anthropic, choose, CALL),
}


@pytest.mark.parametrize("kind", RIGHT)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_whatever_stands_in_an_answer_the_run_ends_and_blames_the_provider(
    kind: str, data: st.DataObject
) -> None:
    make, program, right = RIGHT[kind]
    body = json.loads(json.dumps(right))
    *outer, last = data.draw(st.sampled_from(places(body)))
    part = body
    for key in outer:
        part = part[key]
    part[last] = data.draw(values)
    stream = isinstance(body, list)
    content = b"".join(sse(*body)) if stream else json.dumps(body).encode()
    transport = httpx2.MockTransport(lambda _: httpx2.Response(200, content=content))
    with make(transport=transport) as backend:
        state = program.run(backend=backend, stream=stream, timeout_s=PATIENCE_S)
        error = state.error()
        assert error is None or isinstance(error.__cause__, sgl.BackendError), error.__cause__
        assert error is not None or isinstance(state["x"], str)


# Patience.

ABSURD = ("-1", "nan", "inf", "1e9", "1_0", "soon", "", "9" * 400, "٣")
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("0", 0.0),
        (" 1.5 ", 1.5),
        ("86400", 86400.0),
        ("999999999999999999", 999999999999999999.0),
        *((absurd, None) for absurd in ABSURD),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30.0),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.0),
        ("Tue, 01 Jan 2030 12:00:07 -0000", 7.0),
        ("Wed, 99 Foo 2030 12:00:00 GMT", None),
    ],
)
def test_how_long_to_wait_is_seconds_or_a_date_by_the_senders_clock(
    said: str, seconds: float | None
) -> None:
    headers = {"date": format_datetime(NOW, usegmt=True), "retry-after": said}
    assert _retry_after_s(headers) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_is_more_than_not_understood(after: str, date: str) -> None:
    found = _retry_after_s({"retry-after": after, "date": date})
    assert found is None or found >= 0


def test_429_for_ever_is_given_up_after_the_retries() -> None:
    provider = Provider(reply=lambda _path, _body: refusal(429, "later", **{"retry-after": "0"}))
    with sgl.OpenAI("m", "http://e.test", transport=provider, max_retries=3) as backend:
        error = ask.run(backend=backend).error()
    assert error is not None
    cause = error.__cause__
    assert isinstance(cause, sgl.ProviderError)
    assert (cause.status, cause.retryable, len(provider.asked)) == (429, True, 4)


# The key.


@pytest.mark.parametrize(
    ("reply", "type_"),
    [
        (httpx2.Response(200, json={"error": {"message": f"quota of {KEY}"}}), None),
        (chat(f"not {KEY}"), int),
        (httpx2.Response(200, json={"choices": [KEY]}), None),
        (httpx2.Response(200, json=[KEY]), None),
        (httpx2.Response(200, text=KEY), None),
        (chat("x", finish=KEY), None),
        (chat("x", logprobs=KEY), None),
    ],
)
def test_an_answer_that_has_the_key_is_quoted_without_it(reply: Any, type_: Any) -> None:
    error = error_of(reply, args={"type": type_})
    assert "***" in str(error)
    assert KEY not in f"{error} {error!r} {error.__cause__!r}"


@pytest.mark.parametrize("broken", [f"{KEY}\n", f"{KEY}\r\n", f"{KEY}\0", f"{KEY}ü", f"{KEY} "])
@pytest.mark.parametrize(
    "given_as",
    [
        lambda key: {"api_key": key},
        lambda key: {"api_key": lambda: key},
        lambda key: {"default_headers": {"x-api-key": key}},
    ],
)
def test_a_key_that_no_header_may_have_is_refused_and_not_shown(
    broken: str, given_as: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Such as one that was read from a file, with the end of its line: the client quotes it."""
    caplog.set_level(logging.DEBUG)
    with raw_server(reset) as server, sgl.OpenAI("m", server.url, **given_as(broken)) as backend:
        state = ask.run(backend=backend)
    error = state.error()
    assert "no header may have" in str(error)
    assert server.requests == []
    shown = f"{error} {error!r} {error and error.__cause__!r} {state.explain()}"
    assert KEY not in shown + "".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("stream", [False, True])
def test_nobody_is_followed_and_least_of_all_with_the_key(
    caplog: pytest.LogCaptureFixture, *, status: int, stream: bool
) -> None:
    caplog.set_level(logging.DEBUG)

    def elsewhere(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    with raw_server(elsewhere) as thief:

        def talk(connection: socket.socket) -> None:
            location = f"{thief.url}/{KEY}".encode()
            connection.sendall(
                b"HTTP/1.1 %d No\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % (status, location)
            )

        with raw_server(talk) as server:
            error = error_of(None, url=server.url, stream=stream, timeout_s=5)
            assert KEY.encode() in server.requests[0]
    assert f"answered {status}: it leads somewhere else" in str(error)
    assert thief.requests == []
    sent = [record for record in caplog.records if "location" not in record.getMessage().lower()]
    assert KEY not in f"{error!r} {error.__cause__!r}" + "".join(r.getMessage() for r in sent)


# The thread of a backend.


@pytest.mark.parametrize("die", [SystemExit, KeyboardInterrupt])
def test_when_a_backends_thread_dies_its_runs_fail_and_say_so(
    die: Callable[[], BaseException],
) -> None:
    def fall() -> None:
        raise die()

    provider = Provider(reply=lambda _path, _body: "x", delay_s=600)
    with sgl.OpenAI("m", "http://e.test", transport=provider) as backend:
        states = [ask.run(backend=backend, stream=True) for _ in range(3)]
        await_that(lambda: provider.num_in_flight == 3)
        assert backend._thread.call(fall)
        for state in states:
            error = state.error()
            assert f"its thread has ended ({die.__name__}" in str(error)
        assert "was closed" in str(ask.run(backend=backend).error())
