"""Reasoning told apart from the answer: whole, as it arrives, and without its end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, UsageError, function, gen, separate_reasoning
from sgdsl.chat import CHATML
from sgdsl.reasoning import MODEL_TYPES, Tags, split

QWEN, R1 = MODEL_TYPES["qwen3"], MODEL_TYPES["deepseek-r1"]


@pytest.mark.parametrize(
    ("tags", "text", "reasoning", "answer"),
    [
        (QWEN, "<think>\nHm.\n</think>\n\nYes. \n", "Hm.", "Yes."),
        (QWEN, "\n <think>Hm.</think>", "Hm.", ""),
        (QWEN, " Yes. ", "", " Yes. "),
        (QWEN, "Yes. <think>Hm.</think>", "", "Yes. <think>Hm.</think>"),
        (QWEN, "<think>Hm, and", "Hm, and", ""),
        (QWEN, "<think>Hm.</thi", "Hm.</thi", ""),
        (QWEN, "<thin", "", "<thin"),
        (QWEN, "", "", ""),
        (R1, "Hm.\n</think>\n\nYes.", "Hm.", "Yes."),
        (R1, "<think>Hm.</think>Yes.</think>", "Hm.", "Yes.</think>"),
        (R1, "Hm, and", "Hm, and", ""),
        (MODEL_TYPES["kimi"], "◁think▷Hm.◁/think▷Yes.", "Hm.", "Yes."),
        (MODEL_TYPES["mistral"], "[THINK]Hm.[/THINK]Yes.", "Hm.", "Yes."),
    ],
)
def test_a_text_is_split_at_its_tags(tags: Tags, text: str, reasoning: str, answer: str) -> None:
    parts = split(tags, text, final=True)
    assert (parts.reasoning, parts.answer) == (reasoning, answer)
    assert parts.answer.strip() == text[parts.rest_at :].strip()


PIECES = st.sampled_from(["<think>", "</think>", "<", "think", ">", "</", "a", " ", "\n", "<th"])


@given(st.lists(PIECES, max_size=9).map("".join), st.sampled_from([QWEN, R1]))
@settings(max_examples=500)
def test_what_is_shown_early_is_a_beginning_of_what_it_comes_to(text: str, tags: Tags) -> None:
    whole = split(tags, text, final=True)
    shown = [split(tags, text[:size], final=False) for size in range(len(text) + 1)]
    for earlier, later in zip(shown, [*shown[1:], whole], strict=True):
        assert later.reasoning.startswith(earlier.reasoning)
        assert later.answer.startswith(earlier.answer)


@function
def ask(s: ProgramState, model_type: str) -> None:
    s.user("Is it?")
    s += sgl.assistant(
        separate_reasoning("Well, " + gen("first") + "; " + gen("second", 9), model_type)
    )
    s += sgl.user(s.ref("first") + "/" + s.ref("second_reasoning_content"))


REPLIES = {"first": "<think>\nHm hm.\n</think>\n\nYes.", "second": "No."}


def test_variables_and_messages_have_the_parts_and_the_text_has_both() -> None:
    state = ask.run("Qwen3", backend=MockBackend(REPLIES, chat_template=CHATML))
    assert (state["first"], state["first_reasoning_content"]) == ("Yes.", "Hm hm.")
    assert (state["second"], state["second_reasoning_content"]) == ("No.", "")
    assert "Well, <think>\nHm hm.\n</think>\n\nYes.; No.<|im_end|>" in state.text()
    assert [message["content"] for message in state.messages()] == [
        "Is it?",
        "Well, Yes.; No.",
        "Yes./",
    ]
    assert state.get_meta_info("first")["completion_tokens"] == 5
    assert "first_reasoning_content" in state


def test_a_graph_break_reads_either_part_and_forks_gather_both() -> None:
    @function
    def body(s: ProgramState) -> list[Any]:
        s += separate_reasoning(gen("a"), "deepseek-r1")
        read = [s["a_reasoning_content"], s["a"]]
        forks = s.fork(2)
        forks += separate_reasoning(gen("b"), "deepseek-r1")
        forks.join()
        return [*read, s["b"], s["b_reasoning_content"]]

    replies: dict[str, Any] = {"a": "x</think>y", "b": ["1</think>2", "3"]}
    value = body.run(backend=MockBackend(replies)).ret_value
    assert value == ["x", "y", ["2", ""], ["1", "3"]]


@pytest.mark.parametrize(
    ("name", "text"), [("a", "It is so."), ("a_reasoning_content", "It may be </ so.")]
)
def test_each_part_is_streamed_by_itself(name: str, text: str) -> None:
    @function
    def body(s: ProgramState) -> None:
        s += separate_reasoning(gen("a"), "qwen3")

    reply = " <think> It may be </ so. </think> It is so. "
    backend = MockBackend({"a": reply}, stepwise=True)
    state = body.run(backend=backend, stream=True)
    chunks = list(state.text_iter(name))
    assert "".join(chunks) == text == state[name]
    assert "".join(state.text_iter()) == reply
    whole = body.run(backend=MockBackend({"a": reply}, stepwise=True), stream=True)
    assert "".join(whole.text_iter()) == reply
    backend.close()


def test_a_trace_knows_both_names() -> None:
    @function
    def body(s: ProgramState) -> None:
        s += separate_reasoning(gen("a", 8), "qwen3")
        s += s["a_reasoning_content"] + s["a"]

    assert str(body.trace()).splitlines()[1:] == [
        "  %0 gen a reasoning=<think>...</think> max_tokens=8",
        "  %1 text '{a_reasoning_content}{a}'",
    ]


WRONG: dict[str, tuple[Any, str]] = {
    "no type": (lambda: separate_reasoning(gen("a")), "model_type=None is not allowed; it is one"),
    "another type": (lambda: separate_reasoning(gen("a"), "gpt"), "model_type='gpt' is not"),
    "no gen": (lambda: separate_reasoning(None, "qwen3"), "there is no gen; give it gen(...)"),
    "text": (lambda: separate_reasoning(sgl.user("a"), "qwen3"), "there is no gen"),
    "no name": (lambda: separate_reasoning(gen(), "qwen3"), "has no variable for its reasoning"),
    "a type": (lambda: separate_reasoning(gen("a", type=int), "qwen3"), "'a' is constrained"),
    "a select": (lambda: separate_reasoning(sgl.select("a", ["x"]), "qwen3"), "'a' is constrained"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_told_apart_is_refused(kind: str) -> None:
    call, reason = WRONG[kind]
    with pytest.raises(UsageError) as caught:
        call()
    assert reason in str(caught.value)
