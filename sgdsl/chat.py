"""Chat templates as role prefixes and suffixes.

Owns the shape that the machine needs: what text opens and closes a message of a role. Where such a
template comes from (a registry, a tokenizer's Jinja template) is somebody else's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """`prefixes` and `suffixes` map a role to the text around its messages; special tokens in that
    text are special (in everybody else's text they are plain). `stop` is added to every `gen`
    inside a role. `default_system_prompt` is inserted when a conversation does not open with
    `system`.
    """

    name: str
    prefixes: Mapping[str, str] = field(default_factory=dict)
    suffixes: Mapping[str, str] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    default_system_prompt: str | None = None


PLAIN = ChatTemplate(
    name="plain",
    prefixes={"system": "SYSTEM:", "user": "USER:", "assistant": "ASSISTANT:"},
    suffixes={"system": "\n", "user": "\n", "assistant": "\n"},
)
"""For models without a chat template: readable role labels."""

CHATML = ChatTemplate(
    name="chatml",
    prefixes={role: f"<|im_start|>{role}\n" for role in ROLES},
    suffixes=dict.fromkeys(ROLES, "<|im_end|>\n"),
    stop=("<|im_end|>",),
)
