"""States that are read while their body goes on."""

from __future__ import annotations

import threading

import pytest

import sgdsl as sgl
from sgdsl import STALL, MockBackend, ProgramState, gen
from sgdsl.chat import PLAIN
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Gen
from sgdsl.machine import Completion, Generate
from sgdsl.run import Run
from sgdsl.streams import Stream
from tests.patience import PATIENCE_S


@sgl.function
def story(s: ProgramState) -> int:
    s += "Once " + gen("a") + "; then " + gen("b") + "."
    return 5


REPLIES = {"a": "upon a time", "b": "they lived"}


def test_the_whole_text_arrives_in_pieces() -> None:
    backend = MockBackend(REPLIES, stepwise=True)
    backend.pause()
    state = story.run(backend=backend, stream=True)
    backend.resume()
    chunks = list(state.text_iter())
    backend.close()
    assert "".join(chunks) == "Once upon a time; then they lived."
    assert state.text() == "".join(chunks)
    assert state.ret_value == 5


def test_one_variable_arrives_in_pieces() -> None:
    backend = MockBackend(REPLIES, stepwise=True)
    state = story.run(backend=backend, stream=True)
    assert "".join(state.text_iter("b")) == "they lived"
    assert "".join(state.text_iter("a")) == "upon a time"
    backend.close()


def test_a_stream_shows_a_gen_before_it_is_finished() -> None:
    backend = MockBackend({"a": "one two three", "b": STALL}, stepwise=True)
    state = story.run(backend=backend, stream=True)
    chunks = state.text_iter()
    seen = ""
    while "one two three; then " not in seen:
        seen += next(chunks)
    backend.die("power cut")
    with pytest.raises(sgl.ProgramError, match="power cut"):
        list(chunks)


def test_reads_from_outside_wait_for_the_body() -> None:
    go = threading.Event()

    @sgl.function
    def slow(s: ProgramState) -> None:
        go.wait(PATIENCE_S)
        s += "a" + gen("x")

    state = slow.run(backend=MockBackend(), stream=True)
    assert state.outcome is None
    go.set()
    assert state["x"] == "mock"
    assert state.text() == "amock"
    assert "x" in state
    assert "y" not in state
    with pytest.raises(sgl.UsageError, match="'y' was read"):
        state["y"]
    with pytest.raises(sgl.UsageError, match="'y' was read"):
        list(state.text_iter("y"))


def test_a_body_that_raises_ends_the_stream_with_its_error() -> None:
    @sgl.function
    def bad(s: ProgramState) -> None:
        s += "a"
        raise KeyError("lost")

    state = bad.run(backend=MockBackend(), stream=True)
    with pytest.raises(sgl.ProgramError, match="lost") as caught:
        list(state.text_iter())
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.source is not None
    with pytest.raises(sgl.ProgramError, match="lost"):
        _ = state.ret_value


def test_a_streamed_state_is_only_read_from_outside() -> None:
    state = story.run(backend=MockBackend(REPLIES), stream=True)
    with pytest.raises(sgl.UsageError, match="this state is streamed"):
        state += "more"
    state.sync()
    with pytest.raises(sgl.UsageError, match="this state is streamed"):
        state += "more"


def test_the_body_itself_may_iterate() -> None:
    @sgl.function
    def body(s: ProgramState) -> list[str]:
        s += "a" + gen("x")
        chunks = list(s.text_iter("x"))
        s += "b"
        return chunks

    backend = MockBackend({"x": "one two"}, stepwise=True)
    state = body.run(backend=backend)
    backend.close()
    assert "".join(state.ret_value) == "one two"
    assert state.text() == "aone twob"


def test_a_finished_state_streams_at_once() -> None:
    state = story.run(backend=MockBackend(REPLIES))
    assert list(state.text_iter()) == ["Once upon a time; then they lived."]
    assert list(state.text_iter("a")) == ["upon a time"]


def test_a_piece_before_the_last_comes_without_the_end_that_came_meanwhile() -> None:
    run = Run(template=PLAIN, defaults=DEFAULT_SAMPLING, seed=1)
    run.extend([Gen(0, ROOT, None, "a")])
    assert isinstance(run.next(ROOT), Generate)
    stream = Stream(run, ROOT, "a", inside=False)
    run.stream(ROOT, "one")
    assert stream.arrived()
    run.complete(ROOT, Completion("one two", {"id": "1"}))
    assert (stream.take(), stream.meta) == ("one", None)
    assert stream.arrived()
    assert (stream.take(), stream.meta) == (" two", {"id": "1"})
