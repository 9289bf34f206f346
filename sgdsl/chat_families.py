"""Chat templates by name: those of the common model families, and those that users register.

Owns the registry and the facts about the families. A local model brings a template of its own,
which is read from its tokenizer; these are for completion APIs, for models without one, and for
programs that name theirs. No template has a BOS token: tokenizers put it before a text themselves.
"""

from __future__ import annotations

from sgdsl.chat import CHATML, PLAIN, ROLES, Around, ChatTemplate, Turn
from sgdsl.errors import UsageError

_registry: dict[str, ChatTemplate] = {}


def register_chat_template(template: ChatTemplate) -> None:
    """Make `template` known to `get_chat_template` by its name; one of the same name gives way.

    Raises `UsageError` for what is no `ChatTemplate`.
    """
    given: object = template
    if not isinstance(given, ChatTemplate):
        raise UsageError(
            f"register_chat_template({given!r}): a template is a ChatTemplate(name=..., "
            "role_prefix_and_suffix=...)"
        )
    _registry[template.name] = template


def get_chat_template(name: str) -> ChatTemplate:
    """The template of that name. Raises `UsageError` when there is none."""
    given: object = name
    if not isinstance(given, str) or given not in _registry:
        raise UsageError(
            f"get_chat_template({given!r}): no such template, there are "
            f"{', '.join(sorted(_registry))}; register it with register_chat_template"
        )
    return _registry[given]


def _same_for_all(name: str, prefix: str, suffix: str, *, stop: str) -> ChatTemplate:
    """A template whose roles stand in its marks by their own names."""
    return ChatTemplate(
        name=name,
        prefixes={role: prefix.format(role) for role in ROLES},
        suffixes=dict.fromkeys(ROLES, suffix),
        stop=(stop,),
    )


def _renamed(template: ChatTemplate, name: str, prompt: str | None = None) -> ChatTemplate:
    return ChatTemplate(
        name=name,
        prefixes=template.prefixes,
        suffixes=template.suffixes,
        stop=template.stop,
        default_system_prompt=prompt,
    )


_VICUNA_PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions."
)

_LLAMA_2_USER = Around("[INST] ", " [/INST]", trim="both")
_LLAMA_2 = ChatTemplate(
    name="llama-2-chat",
    turns={
        # The system message is a part of the first user's.
        Turn(False, None, "system"): Around("[INST] <<SYS>>\n", "\n<</SYS>>\n\n"),
        Turn(True, "system", "user"): Around("", " [/INST]", trim="right"),
        Turn(False, None, "user"): _LLAMA_2_USER,
        **{Turn(has, "assistant", "user"): _LLAMA_2_USER for has in (False, True)},
        **{
            Turn(has, "user", "assistant"): Around("", " </s><s>", literal=" ", trim="both")
            for has in (False, True)
        },
    },
    stop=("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
)

for _template in (
    PLAIN,
    _renamed(PLAIN, "default"),
    CHATML,
    _renamed(CHATML, "qwen", "You are a helpful assistant."),
    _renamed(
        CHATML,
        "qwen2.5",
        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
    ),
    _renamed(CHATML, "qwen3"),
    _LLAMA_2,
    _same_for_all(
        "llama-3-instruct",
        "<|start_header_id|>{}<|end_header_id|>\n\n",
        "<|eot_id|>",
        stop="<|eot_id|>",
    ),
    _same_for_all("llama-4", "<|header_start|>{}<|header_end|>\n\n", "<|eot|>", stop="<|eot|>"),
    _same_for_all("phi-3", "<|{}|>\n", "<|end|>\n", stop="<|end|>"),
    _same_for_all("phi-4", "<|im_start|>{}<|im_sep|>", "<|im_end|>", stop="<|im_end|>"),
    _same_for_all("zephyr", "<|{}|>\n", "</s>\n", stop="</s>"),
    ChatTemplate(
        name="mistral",
        role_prefix_and_suffix={
            "system": ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
            "user": ("[INST]", "[/INST]"),
            "assistant": ("", "</s>"),
        },
        stop_str=("</s>",),
    ),
    ChatTemplate(
        name="gemma-it",
        role_prefix_and_suffix={
            "system": ("", ""),  # the family has none: its text stands before the first user's
            "user": ("<start_of_turn>user\n", "<end_of_turn>\n"),
            "assistant": ("<start_of_turn>model\n", "<end_of_turn>\n"),
        },
        stop_str=("<end_of_turn>",),
    ),
    ChatTemplate(
        name="deepseek-v3",
        role_prefix_and_suffix={
            "system": ("", ""),
            "user": ("<｜User｜>", ""),
            "assistant": ("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
        },
        stop_str=("<｜end▁of▁sentence｜>",),
    ),
    ChatTemplate(
        name="command-r",
        role_prefix_and_suffix={
            role: (f"<|START_OF_TURN_TOKEN|><|{token}_TOKEN|>", "<|END_OF_TURN_TOKEN|>")
            for role, token in zip(ROLES, ("SYSTEM", "USER", "CHATBOT"), strict=True)
        },
        stop_str=("<|END_OF_TURN_TOKEN|>",),
    ),
    ChatTemplate(
        name="vicuna_v1.1",
        default_system_prompt=_VICUNA_PROMPT,
        role_prefix_and_suffix={
            "system": ("", " "),
            "user": ("USER: ", " "),
            "assistant": ("ASSISTANT:", "</s>"),
        },
    ),
    ChatTemplate(
        name="claude",
        role_prefix_and_suffix={
            "system": ("", ""),
            "user": ("\n\nHuman: ", ""),
            "assistant": ("\n\nAssistant:", ""),
        },
        stop_str=("\n\nHuman:",),
    ),
):
    register_chat_template(_template)
for _alias, _name in {"llama-3": "llama-3-instruct", "gemma": "gemma-it"}.items():
    _registry[_alias] = _registry[_name]
_registry["vicuna"] = _registry["vicuna_v1.1"]
