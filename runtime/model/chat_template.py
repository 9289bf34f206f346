"""A model's own chat template.

Owns the way from a tokenizer's Jinja template to the frontend's `ChatTemplate`, and what it means
that there is none or that it cannot be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.model.template_probes import Probe
from runtime.model.template_reading import NotAroundError, read_template
from runtime.model.template_rendering import Rendered, TemplateFaultError, render
from sgdsl.chat import PLAIN, ChatTemplate

WAY_OUT = (
    "load the model with chat_template=sgl.get_chat_template(...) or another ChatTemplate, or "
    "write the text without roles"
)


def chat_template_of(backend: Any) -> ChatTemplate:
    """The template of a transformers tokenizer; without one, the plain labels.

    One that cannot be read refuses every role, with the reason: a model loads whatever its template
    is, and programs without roles run.
    """
    if not backend.chat_template:
        return PLAIN
    name = getattr(backend, "name_or_path", "") or "model"
    try:
        source = backend.get_chat_template()
    except ValueError as error:
        return _refusing(name, str(error).split(". ", maxsplit=1)[0])
    variables = tuple(sorted((k, str(v)) for k, v in backend.special_tokens_map.items()))
    # A BOS that the tokenizer puts before every text is not the template's to add once more.
    bos = backend.bos_token
    leading = bos if bos and backend.bos_token_id in backend("")["input_ids"] else ""

    def rendered(conversations: Sequence[Probe]) -> list[Rendered]:
        return [
            Rendered(each.text.removeprefix(leading), each.error)
            for each in render(source, variables, tuple(conversations))
        ]

    try:
        return read_template(name, rendered)
    except (TemplateFaultError, NotAroundError) as error:
        return _refusing(name, str(error))


def _refusing(name: str, reason: str) -> ChatTemplate:
    return ChatTemplate(
        name=name, refusal=f"the chat template of {name!r} cannot be used: {reason}; {WAY_OUT}"
    )
