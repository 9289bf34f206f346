"""Programs that are read while they are written, as people bring them from SGLang's frontend: only
the import is changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl


@pytest.fixture(scope="module")
def tiny(tiny_llama_path: Path) -> Iterator[sgl.Runtime]:
    with sgl.Runtime(tiny_llama_path, kv_bytes=1 << 23) as backend:
        yield backend


@pytest.fixture(params=["mock", "runtime"])
def backend(request: pytest.FixtureRequest, tiny: sgl.Runtime) -> Iterator[Any]:
    if request.param == "runtime":
        sgl.set_default_backend(tiny)
        yield tiny
    else:
        mock = sgl.MockBackend(default="one two three", stepwise=True)
        sgl.set_default_backend(mock)
        yield mock
        mock.close()
    sgl.set_default_backend(None)


@sgl.function
def multi_turn(s: Any, question_1: str, question_2: str) -> None:
    s += sgl.system("You are a helpful assistant.")
    s += sgl.user(question_1)
    s += sgl.assistant(sgl.gen("answer_1", max_tokens=12))
    s += sgl.user(question_2)
    s += sgl.assistant(sgl.gen("answer_2", max_tokens=12))


QUESTIONS: dict[str, Any] = {"question_1": "What is a license?", "question_2": "And a copy?"}


def test_the_whole_text_as_it_is_written(backend: Any) -> None:
    state = multi_turn.run(**QUESTIONS, temperature=0.1, stream=True)
    pieces = list(state.text_iter())
    assert "".join(pieces) == state.text()
    assert QUESTIONS["question_2"] in state.text()
    assert [message["role"] for message in state.messages()] == [
        "system", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_one_variable_as_it_is_written(backend: Any) -> None:
    state = multi_turn.run(**QUESTIONS, stream=True)
    assert "".join(state.text_iter(var_name="answer_2")) == state["answer_2"]
    assert "".join(state.text_iter("answer_1")) == state["answer_1"]
    assert state.messages()[2]["content"] == state["answer_1"]


def test_one_variable_asynchronously_with_meta_data(backend: Any) -> None:
    async def read() -> tuple[str, dict[str, Any], str]:
        state = multi_turn.run(**QUESTIONS, stream=True)
        text, metas = "", []
        async for piece, meta in state.text_async_iter("answer_2", return_meta_data=True):
            text += piece
            metas.append(meta)
        assert all(meta["finish_reason"] is None for meta in metas[:-1])
        assert metas[-1] == state.get_meta_info("answer_2")
        return text, metas[-1], state["answer_2"]

    text, meta, value = asyncio.run(read())
    assert text == value
    assert meta["completion_tokens"] > 0
    assert meta["finish_reason"]["type"] in ("stop", "length")


def test_many_readers_at_once(backend: Any) -> None:
    async def read(state: Any) -> str:
        return "".join([piece async for piece in state.text_async_iter()])

    async def serve() -> None:
        states = [multi_turn.run(**QUESTIONS, stream=True) for _ in range(4)]
        texts = await asyncio.gather(*(read(state) for state in states for _ in range(2)))
        assert texts == [state.text() for state in states for _ in range(2)]

    asyncio.run(serve())


def test_a_chat_loop(backend: Any) -> None:
    """One program that asks for the next line while it runs, and one run for each turn."""
    lines = iter(["Hello", "Why?", ""])
    shown: list[str] = []

    @sgl.function
    def chat(s: Any) -> int:
        s += sgl.system("Be kind.")
        turn = 0
        while line := next(lines):
            s += sgl.user(line)
            s += sgl.assistant(sgl.gen(f"answer_{turn}", max_tokens=8))
            shown.append("".join(s.text_iter(f"answer_{turn}")))
            turn += 1
        return turn

    state = chat.run()
    assert state.ret_value == 2
    assert shown == [state["answer_0"], state["answer_1"]]
    assert [m["content"] for m in state.messages()[1::2]] == ["Hello", "Why?"]

    @sgl.function
    def turn(s: Any, line: str) -> None:
        s += sgl.user(line)
        s += sgl.assistant(sgl.gen("answer", max_tokens=8))

    history: list[dict[str, str]] = [{"role": "system", "content": "Be kind."}]
    for line in ("Hello", "Why?"):
        said = turn.run(line, messages=history, stream=True)
        text = "".join(said.text_iter("answer"))
        history = said.messages()
        assert history[-1] == {"role": "assistant", "content": text}
    assert [message["content"] for message in history[:2]] == ["Be kind.", "Hello"]
    assert len(history) == 5
