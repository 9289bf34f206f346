"""Programs on Anthropic's messages, and on LiteLLM as a proxy and as a package."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from sgdsl import ProgramState, gen, select
from tests.sgdsl.providers.fake import KEY, Body, Provider, chat, chat_events, refusal, sse


class Person(BaseModel):
    name: str
    age: int


@sgl.function
def talk(s: ProgramState, begin: str = "", **options: Any) -> None:
    s += sgl.system("Be brief.") + sgl.user("Who?")
    s += sgl.assistant(begin + gen("answer", **options))


def backend(provider: Provider, **options: Any) -> sgl.Anthropic:
    return sgl.Anthropic("claude", api_key=KEY, transport=provider, max_retries=0, **options)


def message(*blocks: Body, stop: str = "end_turn") -> Body:
    usage = {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": 5}
    return {"id": "msg-1", "content": list(blocks), "stop_reason": stop, "usage": usage}


def text(content: str) -> Body:
    return {"type": "text", "text": content}


def call(**values: Any) -> Body:
    return {"type": "tool_use", "id": "1", "name": "answer", "input": values}


def test_anthropic_gets_system_text_apart_and_messages() -> None:
    provider = Provider([message(text("Ada"))])
    with backend(provider) as claude:
        state = talk.run(backend=claude, args={"stop": ["\n", "END"], "temperature": 0.5})
    path, body = provider.asked[0]
    assert path == "/v1/messages"
    assert body["system"] == "Be brief."
    assert body["messages"] == [{"role": "user", "content": "Who?"}]
    assert body["stop_sequences"] == ["END"], "white space alone is refused there, and cut here"
    assert (body["max_tokens"], body["temperature"]) == (128, 0.5)
    assert provider.headers[0]["x-api-key"] == KEY
    meta = state.get_meta_info("answer")
    assert (meta["prompt_tokens"], meta["cached_tokens"], meta["completion_tokens"]) == (12, 5, 2)


def test_anthropic_goes_on_with_a_message_that_has_begun() -> None:
    provider = Provider([message(text("Ada"), stop="max_tokens")])
    with backend(provider) as claude:
        state = talk.run("Her name: ", backend=claude)
    assert provider.bodies[0]["messages"][-1] == {"role": "assistant", "content": "Her name:"}
    assert state.outcome == sgl.Outcome("truncated")


def test_anthropic_gives_types_through_a_tool() -> None:
    provider = Provider([message(text("Well:"), call(name="Ada", age=36), stop="tool_use")])
    with backend(provider) as claude:
        state = talk.run(backend=claude, args={"type": Person})
    assert state["answer"] == Person(name="Ada", age=36)
    body = provider.bodies[0]
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert body["tools"][0]["input_schema"]["required"] == ["name", "age"]
    assert state.get_meta_info("answer")["constraint"] == "tool"


def test_anthropic_chooses_and_never_pretends_to_have_scored() -> None:
    @sgl.function
    def judge(s: ProgramState) -> None:
        s += sgl.user("Good?") + sgl.assistant(select("verdict", ["good", "bad"]))

    provider = Provider([message(call(value="so-so")), message(call(value="bad"))])
    with backend(provider) as claude:
        state = judge.run(backend=claude)
    assert state["verdict"] == "bad"
    assert state.get_meta_info("verdict")["scored_by"] == "the answer alone"


def test_anthropic_streams() -> None:
    events = [
        {"type": "message_start", "message": message()},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
            for piece in ("A", "da")
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    provider = Provider([sse(*events, done=False)])
    with backend(provider) as claude:
        state = talk.run(backend=claude, stream=True)
        assert "".join(state.text_iter("answer")) == "Ada"
        assert state.get_meta_info("answer")["completion_tokens"] == 9


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refusal(529, "Overloaded"), "answered 529: Overloaded"),
        ({"content": "Ada"}, ".content is 'Ada', no list"),
        ({"content": [{"text": "Ada"}]}, "there is no .content[0].type"),
        (message(text(""), stop="refusal"), "the model refused to answer"),
    ],
)
def test_anthropics_faults_are_errors_of_the_row(reply: Any, said: str) -> None:
    with backend(Provider([reply])) as claude:
        error = talk.run(backend=claude).error()
    assert said in str(error)
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, sgl.BackendError)
    assert KEY not in str(error)


def test_what_anthropic_does_not_have_is_refused() -> None:
    with backend(Provider()) as claude:
        error = talk.run(backend=claude, args={"frequency_penalty": 1.0}).error()
        assert "frequency_penalty=1.0 is not known to this provider" in str(error)
        hot = talk.run(backend=claude, temperature=1.5).error()
        assert "Anthropic takes numbers from 0 to 1" in str(hot)


def test_litellm_as_a_proxy_speaks_openais_formats() -> None:
    provider = Provider([chat('{"name": "Ada", "age": 36}')])
    with sgl.LiteLLM("x/y", "http://proxy.test", api_key=KEY, transport=provider) as proxy:
        state = talk.run(backend=proxy, args={"type": Person})
    assert state["answer"].name == "Ada"
    assert provider.asked[0][0] == "/chat/completions"
    assert "seed" not in provider.bodies[0]


class _Made:
    def __init__(self, value: Body) -> None:
        self._value = value

    def model_dump_json(self) -> str:
        return json.dumps(self._value)


def test_litellm_as_a_package_is_imported_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Body] = []

    async def acompletion(**given: Any) -> Any:
        calls.append(given)
        if given.get("stream"):

            async def chunks() -> AsyncIterator[_Made]:
                for event in chat_events("A", "da"):
                    yield _Made(event)

            return chunks()
        if len(calls) > 1:
            raise RuntimeError(f"no quota for {KEY}")
        return _Made(chat("Ada"))

    package = ModuleType("litellm")
    package.acompletion = acompletion  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "litellm", package)
    with sgl.LiteLLM("x/y", api_key=KEY) as own:
        assert talk.run(backend=own)["answer"] == "Ada"
        error = talk.run(backend=own).error()
        assert "litellm: RuntimeError: no quota for ***" in str(error)
        streamed = talk.run(backend=own, stream=True)
        assert "".join(streamed.text_iter("answer")) == "Ada"
    assert calls[0]["model"] == "x/y"
    assert calls[0]["messages"][0] == {"role": "system", "content": "Be brief."}


def test_without_the_package_litellm_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(sgl.UsageError, match="needs the package litellm, which is not installed"):
        sgl.LiteLLM("x/y")
