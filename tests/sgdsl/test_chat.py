"""Chat templates: what may be given, the families, and that a run writes what a template says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import ChatTemplate, MockBackend, ProgramState, UsageError, function, gen
from sgdsl.chat import CHATML, PLAIN, ROLES, Around, Turn

FAMILIES = [
    "chatml",
    "claude",
    "command-r",
    "deepseek-v3",
    "default",
    "gemma-it",
    "llama-2-chat",
    "llama-3-instruct",
    "llama-4",
    "mistral",
    "phi-3",
    "phi-4",
    "plain",
    "qwen",
    "qwen2.5",
    "qwen3",
    "vicuna_v1.1",
    "zephyr",
]
HELLO = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
]


def test_the_arguments_of_sglang_make_the_same_template_as_ours() -> None:
    theirs = ChatTemplate(
        name="mine",
        default_system_prompt="Be good.",
        role_prefix_and_suffix={
            "system": ("<s>", "</s>"),
            "user": ("<u>", "</u>"),
            "assistant": ("<a>", "</a>"),
        },
        stop_str=("</a>",),
        image_token="<image>",
    )
    ours = ChatTemplate(
        "mine",
        prefixes={"system": "<s>", "user": "<u>", "assistant": "<a>"},
        suffixes={"system": "</s>", "user": "</u>", "assistant": "</a>"},
        stop="</a>",
        default_system_prompt="Be good.",
    )
    assert theirs == ours
    assert theirs.role_prefix_and_suffix["user"] == ("<u>", "</u>")
    assert theirs.stop_str == ours.stop == ("</a>",)
    assert ChatTemplate("mine", "Be good.", theirs.role_prefix_and_suffix, ["</a>"]) == ours
    assert theirs.get_prefix_and_suffix("user", []) == ("<u>", "</u>")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no name": ({"name": ""}, "name='' is not allowed; name is a non-empty str"),
    "a number": ({"name": "x", "prefixes": {"user": 3}}, "prefixes={'user': 3} is not allowed"),
    "a half pair": (
        {"name": "x", "role_prefix_and_suffix": {"user": ("<u>",)}},
        "role_prefix_and_suffix is a dict from a role to the pair of its prefix and suffix",
    ),
    "twice the same": (
        {"name": "x", "role_prefix_and_suffix": {}, "prefixes": {}},
        "role_prefix_and_suffix and prefixes or suffixes cannot be given together",
    ),
    "two stops": ({"name": "x", "stop": "a", "stop_str": "a"}, "stop and stop_str are the same"),
    "an empty stop": ({"name": "x", "stop": [""]}, "stop=[''] is not allowed"),
    "a prompt": ({"name": "x", "default_system_prompt": 1}, "default_system_prompt=1 is not"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_argument_is_refused_by_name(kind: str) -> None:
    arguments, message = WRONG[kind]
    with pytest.raises(UsageError) as caught:
        ChatTemplate(**arguments)
    assert str(caught.value).startswith("ChatTemplate: ")
    assert message in str(caught.value)


def test_a_template_is_registered_by_its_name_and_the_last_one_stays() -> None:
    first = ChatTemplate("of a test", prefixes={"user": "1"})
    second = ChatTemplate("of a test", prefixes={"user": "2"})
    for template in (first, second):
        sgl.register_chat_template(template)
        assert sgl.get_chat_template("of a test") is template


def test_what_is_not_registered_is_refused_with_what_is() -> None:
    with pytest.raises(UsageError, match=r"get_chat_template\('lama'\): no such.*llama-3-instruct"):
        sgl.get_chat_template("lama")
    wrong: Any = "chatml"
    with pytest.raises(UsageError, match="a template is a ChatTemplate"):
        sgl.register_chat_template(wrong)
    with pytest.raises(UsageError, match="no such template"):
        sgl.get_chat_template(wrong and None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_a_template_for_whole_conversations(name: str) -> None:
    template = sgl.get_chat_template(name)
    text = template.get_prompt(HELLO, generate=True)
    places = [text.index(message["content"]) for message in HELLO]
    assert places == sorted(places)
    assert template.name == name


def test_the_families_write_what_their_makers_document() -> None:
    def prompt(name: str, start: int = 0) -> str:
        return sgl.get_chat_template(name).get_prompt(HELLO[start:], generate=True)

    assert prompt("llama-3") == (
        "<|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert prompt("llama-2-chat") == (
        "[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]"
    )
    assert prompt("mistral") == (
        "[SYSTEM_PROMPT]Be kind.[/SYSTEM_PROMPT][INST]Hi[/INST]Hello</s>[INST]Bye[/INST]"
    )
    assert prompt("gemma", 1) == (
        "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n"
    )
    assert prompt("qwen", 3) == (
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt("vicuna", 3).endswith("user's questions. USER: Bye ASSISTANT:")


# What a run writes is what the template says.

TRIMMING = ChatTemplate(
    "trims",
    turns={
        **{
            Turn(has, previous, role): Around(f"<{role}>", "</>", literal="=", cue="?", trim=trim)
            for has in (False, True)
            for previous in (None, *ROLES)
            for role, trim in zip(ROLES, ("", "both", "right"), strict=True)
        },
        Turn(False, None, "user"): Around("<first>", "</>", trim="left"),
    },
)
TEXTS = st.text("a \n", max_size=3)


@function
def spoken(s: ProgramState, parts: list[tuple[str, list[str]]]) -> None:
    for role, texts in parts:
        with getattr(s, role)():
            for text in texts:
                s += text


@given(
    st.lists(st.tuples(st.sampled_from(ROLES), st.lists(TEXTS, max_size=3)), max_size=4),
    st.sampled_from([TRIMMING, CHATML, PLAIN]),
)
@settings(max_examples=150, deadline=None)
def test_a_run_writes_the_prompt_that_the_template_gives(
    parts: list[tuple[str, list[str]]], template: ChatTemplate
) -> None:
    messages = [{"role": role, "content": "".join(texts)} for role, texts in parts]
    state = spoken.run(parts, backend=MockBackend(chat_template=template))
    assert state.text() == template.get_prompt(messages)
    stripped = [message["content"].strip() for message in state.messages()]
    assert stripped == [message["content"].strip() for message in messages]


def test_white_space_goes_only_at_the_edges_of_a_message() -> None:
    @function
    def body(s: ProgramState) -> None:
        s.user("first")
        with s.user():
            s += " a "
            assert s.text().endswith("<user>=a")
            with s.var_scope("inner"):
                s += " b \n"
        with s.assistant():
            s += "So: "
            s += gen("x")
            s += " \n"
            s += s.ref("x")
            s += "\n\n"

    state = body.run(backend=MockBackend({"x": " y "}, chat_template=TRIMMING))
    assert state["inner"] == " b \n"
    assert state.text() == "<first>first</><user>=a  b</><assistant>=So:  y  \n y</>"
    assert state.messages()[-1]["content"] == "So:  y  \n y"


def test_forks_in_an_open_role_begin_its_content_each_in_its_way() -> None:
    @function
    def body(s: ProgramState) -> None:
        s.user("first")
        with s.assistant():
            forks = s.fork(2)
            forks += [gen("x"), " lit"]
            forks.join("concate_and_append")
            s += " more"

    state = body.run(backend=MockBackend({"x": "gen"}, chat_template=TRIMMING))
    assert state.text() == "<first>first</><assistant>?gen= lit more</>"
    assert state.messages()[-1]["content"] == "gen lit more"


def test_a_turn_without_a_place_is_refused_where_it_is_written() -> None:
    turns = {
        Turn(False, None, "user"): Around("<u>"),
        Turn(False, "user", "user"): Around(refusal="no two"),
    }
    backend = MockBackend(chat_template=ChatTemplate("strict", turns=turns))
    state = spoken.run([("user", ["a"]), ("user", ["b"])], backend=backend)
    error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, UsageError)
    assert str(error.__cause__) == "no two"
    assert error.source is not None and "test_chat.py" in error.source
    state = spoken.run([("assistant", ["a"])], backend=backend)
    assert "'strict' has no place for a message of 'assistant' first" in str(state.error())
    refusing = ChatTemplate("broken", refusal="it is broken")
    state = spoken.run([("user", [])], backend=MockBackend(chat_template=refusing))
    assert "it is broken" in str(state.error())
