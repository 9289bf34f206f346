"""Jinja templates of every temper, read as prefixes and suffixes or given up for the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from runtime.model.chat_template import chat_template_of
from sgdsl.chat import PLAIN, ChatTemplate

# Gemma's, which has no system role and wants user and assistant in turns.
GEMMA = (
    "{{ bos_token }}"
    "{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/...') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"
)
# One that puts the system message into the user's, as Mistral's do.
FOLDING = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set system, rest = '', messages %}{% endif %}"
    "{% for message in rest %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'] + '</s>' }}{% endif %}{% endfor %}"
)
UNREADABLE = {
    "a syntax error": "{% for %}",
    "refuses everything": "{{ raise_exception('no') }}",
    "an undefined call": "{{ nonsense() }}",
    "an operator amiss": "{{ messages + 1 }}",
    "no end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "division by zero": "{{ 1 / 0 }}",
    "no contents": "hello",
}


@pytest.fixture
def backend(tiny_llama_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_llama_path)


def read(backend: Any, template: str) -> ChatTemplate:
    backend.chat_template = template
    return chat_template_of(backend)


def written(template: ChatTemplate, *messages: tuple[str, str]) -> str:
    """What the machine makes of a conversation."""
    prompt = template.default_system_prompt
    opening = [("system", prompt)] if prompt is not None and messages[0][0] != "system" else []
    return "".join(
        template.prefixes[role] + text + template.suffixes[role]
        for role, text in [*opening, *messages]
    )


@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_template_that_cannot_be_read_gives_way_to_the_labels(backend: Any, kind: str) -> None:
    assert read(backend, UNREADABLE[kind]) is PLAIN


@pytest.mark.parametrize("source", [GEMMA, FOLDING], ids=["refuses", "folds"])
def test_a_template_without_a_system_role_is_read_for_the_others(backend: Any, source: str) -> None:
    template = read(backend, source)
    conversation = [("user", "Hi"), ("assistant", "Hello"), ("user", "Bye"), ("assistant", "!")]
    messages = [{"role": role, "content": text} for role, text in conversation]
    assert written(template, *conversation) == backend.apply_chat_template(messages, tokenize=False)


def test_a_system_message_stands_as_it_is_where_the_template_has_none(backend: Any) -> None:
    template = read(backend, GEMMA)
    assert written(template, ("system", "Be brief."), ("user", "Hi")) == (
        "<|im_start|>Be brief.<start_of_turn>user\nHi<end_of_turn>\n"
    )
    folding = read(backend, FOLDING)
    assert folding.default_system_prompt is None
    assert written(folding, ("system", "Be brief."), ("user", "Hi")) == "Be brief.[INST] Hi [/INST]"


def test_a_bos_that_the_tokenizer_puts_itself_is_not_read_twice(backend: Any) -> None:
    class AddsBos:
        """The tokenizer, with a BOS before every text."""

        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [backend.bos_token_id, *backend(text)["input_ids"]]}

    backend.chat_template = GEMMA
    template = chat_template_of(AddsBos())
    assert template.prefixes["system"] == ""
    assert template.default_system_prompt is None
