"""A model's own chat template as role prefixes and suffixes.

Owns the reading of a tokenizer's Jinja template: it is rendered (by transformers, sandboxed) over
conversations of recognisable contents, and what stands around these is the template.
"""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateError

from sgdsl.chat import PLAIN, ROLES, ChatTemplate

SYSTEM, USER, ASSISTANT, SECOND = "\x02sys\x03", "\x02usr\x03", "\x02asst\x03", "\x02two\x03"

# What a template may raise that is not made for the conversation, or not well made at all. The
# template is a program: its faults are those of the Python that it calls.
_UNREADABLE = (
    TemplateError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


def chat_template_of(backend: Any) -> ChatTemplate:
    """The template of a transformers tokenizer.

    One that refuses a system message, or does not put it in a place of its own, is read without:
    the text of a system message then stands as it is before the message that follows it. Without a
    template, or with one that cannot be rendered or does more than to put text around each
    message: the plain labels.
    """
    if not backend.chat_template:
        return PLAIN
    for read in (_read, _read_without_system):
        try:
            return read(backend)
        except _UNREADABLE:
            continue
    return PLAIN


def _render(backend: Any, *messages: tuple[str, str]) -> str:
    conversation = [{"role": role, "content": content} for role, content in messages]
    text: str = backend.apply_chat_template(conversation, tokenize=False)
    # A BOS that the tokenizer puts before every text is not the template's to add once more.
    adds_bos = backend.bos_token_id in backend("")["input_ids"]
    return text.removeprefix(backend.bos_token) if adds_bos else text


def _read(backend: Any) -> ChatTemplate:
    system, user, assistant = (("system", SYSTEM), ("user", USER), ("assistant", ASSISTANT))
    system_prefix, system_suffix = _render(backend, system).split(SYSTEM)
    _, user_suffix = _render(backend, system, user).split(USER)
    whole = _render(backend, system, user, assistant)
    between = whole[whole.index(SYSTEM) + len(SYSTEM) : whole.index(USER)]
    user_prefix = between.removeprefix(system_suffix)
    between = whole[whole.index(USER) + len(USER) : whole.index(ASSISTANT)]
    assistant_prefix = between.removeprefix(user_suffix)
    assistant_suffix = whole.split(ASSISTANT)[1]
    opening = _render(backend, user).split(USER)[0].removesuffix(user_prefix)
    prompt = opening.removeprefix(system_prefix).removesuffix(system_suffix) if opening else None
    return ChatTemplate(
        name=getattr(backend, "name_or_path", "") or "model",
        prefixes=dict(zip(ROLES, (system_prefix, user_prefix, assistant_prefix), strict=True)),
        suffixes=dict(zip(ROLES, (system_suffix, user_suffix, assistant_suffix), strict=True)),
        default_system_prompt=prompt,
    )


def _read_without_system(backend: Any) -> ChatTemplate:
    user, assistant, second = (("user", USER), ("assistant", ASSISTANT), ("user", SECOND))
    first_prefix, user_suffix = _render(backend, user).split(USER)
    before, assistant_suffix = _render(backend, user, assistant).split(ASSISTANT)
    assistant_prefix = before.split(USER)[1].removeprefix(user_suffix)
    _, after = _render(backend, user, assistant, second).split(ASSISTANT)
    # Read off the second turn: the first may open with a BOS that belongs to no message.
    user_prefix = after.split(SECOND)[0].removeprefix(assistant_suffix)
    opening = first_prefix.removesuffix(user_prefix)
    # The machine puts an opening where a conversation without a system message begins.
    return ChatTemplate(
        name=getattr(backend, "name_or_path", "") or "model",
        prefixes=dict(zip(ROLES, (opening, user_prefix, assistant_prefix), strict=True)),
        suffixes=dict(zip(ROLES, ("", user_suffix, assistant_suffix), strict=True)),
        default_system_prompt="" if opening else None,
    )
