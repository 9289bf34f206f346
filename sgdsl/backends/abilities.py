"""What an endpoint has that speaks OpenAI's formats: which parts of them, and what beyond.

Owns the names that this is given by. What comes of it in a request is `openai_wire`'s business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sgdsl.arguments import refuse
from sgdsl.backends.api_arguments import Extensions, Given

_SERVERS = (
    *("top_k", "min_p", "min_tokens", "stop_token_ids", "ignore_eos"),
    *("continue_final_message", "response_format"),
)
PRESETS: dict[str, dict[str, str]] = {
    "sgdsl": {
        **{name: name for name in _SERVERS},
        "regex": "regex",
        "grammar": "ebnf",
    },
    "sglang": {**{name: name for name in _SERVERS}, "regex": "regex"},
    "vllm": {
        **{name: name for name in _SERVERS},
        "regex": "structured_outputs.regex",
        "choice": "structured_outputs.choice",
    },
}
"""Servers whose fields are known."""

EXTENSIONS = frozenset([*_SERVERS, "regex", "grammar", "choice"])


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an endpoint has.

    `chat`: True and False ask one endpoint for everything; None asks chat for what has roles and
    completions for plain text. `extensions`: names of ours to the provider's fields, with dots
    into objects. `json_mode`: what `response_format` it takes.
    """

    chat: bool | None = None
    json_mode: str | None = "json_schema"
    extensions: Mapping[str, str] = field(default_factory=dict)
    max_tokens_field: str = "max_tokens"
    seeds: bool = True
    logprobs: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


def abilities_from(given: Given, chat: bool | None, max_tokens_field: str) -> Abilities:
    """Those that the arguments of `ChatArguments` tell of."""
    json_mode = given["json_mode"]
    if json_mode not in ("json_schema", "json_object", None):
        refuse("OpenAI", "json_mode", json_mode, '"json_schema", "json_object" or None')
    return Abilities(
        chat=chat,
        json_mode=json_mode,
        extensions=_extensions_from(given["extensions"]),
        max_tokens_field=max_tokens_field,
        seeds=given["seeds"],
        logprobs=given["logprobs"],
        extra=dict(given["extra"] or {}),
    )


def _extensions_from(given: Extensions) -> dict[str, str]:
    """Names of ours to the provider's fields."""
    if isinstance(given, str):
        if given not in PRESETS:
            refuse("OpenAI", "extensions", given, f"one of {', '.join(PRESETS)}, or names")
        return dict(PRESETS[given])
    named = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    unknown = named.keys() - EXTENSIONS
    if unknown:
        refuse("OpenAI", "extensions", sorted(unknown), f"made of {', '.join(sorted(EXTENSIONS))}")
    return named
