"""Runs that start from a conversation: `messages=[...]`."""

from __future__ import annotations

from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, UsageError, function, gen
from sgdsl.chat import CHATML

TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "1 + "}, {"type": "text", "text": "1?"}]},
    {"role": "assistant", "content": "2.", "refusal": None, "tool_calls": []},
]
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "2."},
]


@function
def ask(s: ProgramState, question: str) -> str:
    s.user(question)
    with s.assistant():
        s += gen("answer")
    return s.text()


def test_a_run_goes_on_from_the_conversation() -> None:
    @function
    def by_hand(s: ProgramState, question: str) -> str:
        s += sgl.system("Be brief.") + sgl.user("1 + 1?") + sgl.assistant("2.")
        return str(ask(s, question))

    backend = MockBackend(default="4.", chat_template=CHATML)
    state = ask.run("2 + 2?", backend=backend, messages=TALK)
    assert state.text() == by_hand.run("2 + 2?", backend=backend).text() == state.ret_value
    assert state.messages() == [
        *SAID,
        {"role": "user", "content": "2 + 2?"},
        {"role": "assistant", "content": "4."},
    ]


def test_the_body_sees_the_conversation() -> None:
    @function
    def body(s: ProgramState) -> list[dict[str, str]]:
        return s.messages()

    assert body.run(backend=MockBackend(), messages=TALK).ret_value == SAID
    assert body.run(backend=MockBackend(), messages=[]).ret_value == []


@pytest.mark.parametrize("messages", [TALK, tuple(TALK)])
def test_a_streamed_run_starts_from_it_too(messages: Any) -> None:
    backend = MockBackend(stepwise=True, chat_template=CHATML)
    state = ask.run("Hm?", backend=backend, messages=messages, stream=True)
    assert "".join(state.text_iter()) == CHATML.get_prompt(SAID) + (
        "<|im_start|>user\nHm?<|im_end|>\n<|im_start|>assistant\nmock<|im_end|>\n"
    )
    backend.close()


def test_a_default_system_prompt_gives_way_to_the_conversation_s() -> None:
    backend = MockBackend(chat_template=sgl.get_chat_template("qwen"))
    alone = ask.run("Hm?", backend=backend, messages=SAID[1:])
    assert alone.messages()[0] == {"role": "system", "content": "You are a helpful assistant."}
    given = ask.run("Hm?", backend=backend, messages=SAID)
    assert [message["role"] for message in given.messages()].count("system") == 1


def test_a_batch_starts_from_one_conversation_or_from_one_a_row() -> None:
    backend = MockBackend()
    one = ask.run_batch([("a",), ("b",)], backend=backend, messages=TALK)
    assert [state.messages()[:3] for state in one] == [SAID, SAID]
    each = [[{"role": "user", "content": "x"}], []]
    two = ask.run_batch([("a",), ("b",)], backend=backend, messages=each)
    assert [len(state.messages()) for state in two] == [3, 2]
    lazily = ask.run_batch(
        (row for row in [("a",), ("b",), ("c",)]),
        backend=backend,
        messages=each,
        generator_style=True,
    )
    statuses = [state.error() for state in lazily]
    assert statuses[:2] == [None, None]
    assert "row 2: messages has only 2 conversations" in str(statuses[2])


def test_a_program_s_own_argument_of_that_name_stays_its_own() -> None:
    @function
    def own(s: ProgramState, messages: list[str]) -> int:
        return len(messages)

    assert own.run(messages=["a", "b"], backend=MockBackend()).ret_value == 2
    assert str(own.trace(messages=["a"])) == "graph own(messages)"


def test_a_trace_begins_with_the_conversation() -> None:
    assert str(ask_only.trace(messages=SAID[1:2])).splitlines()[:4] == [
        "graph ask_only()",
        "  %0 role user {",
        "  %1 text '1 + 1?'",
        "  %2 role } user",
    ]


@function
def ask_only(s: ProgramState) -> None:
    s += gen("answer")


WRONG: dict[str, tuple[Any, str]] = {
    "text": ("Hi", "messages='Hi' is not allowed; messages is a list of dicts"),
    "a dict": (SAID[0], "is not allowed; messages is a list of dicts"),
    "a number": (
        [3],
        "messages[0]=3 is not allowed; a message is a dict with a role and a content",
    ),
    "no content": ([{"role": "user"}], "a message is a dict with a role and a content"),
    "another role": (
        [*SAID, {"role": "tool", "content": "4"}],
        "messages[3]: role 'tool' is not allowed; it is one of system, user, assistant",
    ),
    "a list as role": ([{"role": ["user"], "content": ""}], "role ['user'] is not allowed"),
    "no text": ([{"role": "user", "content": None}], "content=None is not allowed; content is a"),
    "an image": (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        "no backend takes images, audio or files yet",
    ),
    "a part without text": ([{"role": "user", "content": [{"type": "text"}]}], "the part {'type'"),
    "a call": (
        [{"role": "assistant", "content": "", "tool_calls": [{"id": 1}]}],
        "['tool_calls'] would be lost",
    ),
    "a surrogate": ([{"role": "user", "content": "\ud800"}], "a lone surrogate is no text"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_conversation_is_refused_in_one_sentence(kind: str) -> None:
    messages, reason = WRONG[kind]
    backend = MockBackend()
    for call in (
        lambda: ask.run("Hm?", backend=backend, messages=messages),
        lambda: ask.run_batch([("Hm?",)], backend=backend, messages=messages),
        lambda: ask_only.trace(messages=messages),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_list_of_conversations_has_one_for_each_row() -> None:
    with pytest.raises(UsageError, match="messages has 1 conversations for 2 rows"):
        ask.run_batch([("a",), ("b",)], backend=MockBackend(), messages=[SAID])
