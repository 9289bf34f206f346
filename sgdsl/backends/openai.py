"""`OpenAI`: any endpoint that speaks OpenAI's chat completions or completions.

Owns the public arguments and what they default to. The formats are `openai_wire`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import httpx2

from sgdsl.arguments import refuse
from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.http import Http, Secret
from sgdsl.backends.openai_wire import Abilities, OpenAIWire
from sgdsl.chat import PLAIN, ChatTemplate
from sgdsl.errors import UsageError

OPENAI_URL = "https://api.openai.com/v1"
COMPLETION_MODELS = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
"""All that OpenAI itself still offers through completions."""

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

Extensions = Mapping[str, str] | Iterable[str] | str
JsonMode = Literal["json_schema", "json_object"] | None


class OpenAI(ApiBackend):
    """Runs programs on the model `model_name` of an endpoint.

    `base_url`: with its `/v1`; None is OpenAI's own, or OPENAI_BASE_URL. `api_key`: None takes
    OPENAI_API_KEY, but only together with `base_url=None`: no other endpoint is told OpenAI's key.

    `is_chat_model`: True asks chat completions, False completions; None asks chat for programs with
    roles, and for plain text completions if the endpoint has them (OpenAI's own chat models do
    not), else a chat with all text as the user's message.

    `json_mode`: the `response_format` that the endpoint takes, None for none. `extensions`: what it
    has beyond OpenAI's fields: "vllm", "sglang" or "sgdsl", or names of ours to its fields, such as
    {"regex": "guided_regex"}. `extra`: fields that go into every request as they are.

    `timeout_s`: for an answer, or the next event of a stream. `max_retries`: of requests that
    failed for a while; `constraint_retries`: of answers that do not satisfy their gen's constraint.
    `transport`: of httpx2, for tests.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        is_chat_model: bool | None = None,
        chat_template: ChatTemplate = PLAIN,
        json_mode: JsonMode = "json_schema",
        extensions: Extensions = (),
        extra: Mapping[str, Any] | None = None,
        seeds: bool = True,
        logprobs: bool = True,
        max_in_flight: int = 64,
        max_retries: int = 2,
        constraint_retries: int = 2,
        timeout_s: float = 600.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        check_model("OpenAI", model_name)
        check_json_mode(json_mode)
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        is_openai = url.rstrip("/") == OPENAI_URL
        if api_key is None and base_url is None:
            api_key = os.environ.get("OPENAI_API_KEY")
        if is_openai and is_chat_model is None:
            is_chat_model = not model_name.startswith(COMPLETION_MODELS)
        secret = Secret(api_key)
        http = Http(
            check_url("OpenAI", url),
            secret,
            headers=bearer,
            timeout_s=timeout_s,
            max_retries=max_retries,
            transport=transport,
        )
        abilities = Abilities(
            chat=is_chat_model,
            json_mode=json_mode,
            extensions=extensions_from(extensions),
            max_tokens_field="max_completion_tokens" if is_openai else "max_tokens",
            seeds=seeds,
            logprobs=logprobs,
            extra=dict(extra or {}),
        )
        super().__init__(
            OpenAIWire(http, model_name, abilities),
            label=f"OpenAI {model_name} at {http.label}",
            secret=secret,
            chat_template=chat_template,
            max_in_flight=max_in_flight,
            constraint_retries=constraint_retries,
        )


def bearer(key: str | None) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def check_model(where: str, model: object) -> None:
    if not isinstance(model, str) or not model:
        refuse(where, "model_name", model, "the name of a model, a non-empty str")


def check_url(where: str, url: str) -> str:
    """Refuse what no request can be sent to, and keys in a URL, where they would be shown."""
    parsed = httpx2.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        refuse(where, "base_url", url, "a URL such as http://127.0.0.1:8000/v1")
    if parsed.userinfo:
        raise UsageError(
            f"{where}: base_url has a user or a password in it; give the key as api_key="
        )
    return url


def check_json_mode(json_mode: object) -> None:
    if json_mode not in ("json_schema", "json_object", None):
        refuse("OpenAI", "json_mode", json_mode, '"json_schema", "json_object" or None')


def extensions_from(given: Extensions) -> dict[str, str]:
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
